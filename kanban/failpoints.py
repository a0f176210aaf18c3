"""Points at which a process can be made to die, to prove that dying there loses nothing.

`LEDGER_FAILPOINT` names one when the process starts; reaching it is `kill -9`. Without it a point costs a comparison.
"""

from __future__ import annotations

import os
import signal
from typing import Final

_NAMED: Final = os.environ.get("LEDGER_FAILPOINT")
POINTS: Final = (
    "before-observe",
    "after-observe",
    "before-apply-commit",
    "after-claim-commit",
    "after-first-signal",
    "after-signal",
    "before-launch",
    "after-launch",
    "before-bind-commit",
    "after-bind-commit",
    "after-first-gate",
    "before-tidy",
    "after-first-tidy",
    "before-verb-commit",
    "after-verb-commit",
)


def reach(point: str) -> None:
    """Die here, if this is the point that was named."""
    if point == _NAMED:
        os.kill(os.getpid(), signal.SIGKILL)
