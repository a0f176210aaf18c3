"""What every test shares: properties have no deadline, since a busy machine is no fault of the program."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
