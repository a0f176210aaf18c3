"""How libpq reads an address, and what it says of a server that does not let us in, or that broke off, in our words."""

from __future__ import annotations

import re
from typing import Final

from ledger.errors import StoreBusy, StoreDenied, StoreFault, StoreMissing, StoreUnreachable, StoreUnsupported

_NO_ROOM: Final = "too many clients|remaining connection slots|too many connections"
_NOT_LET_IN: Final = (
    "authentication failed|no password supplied|pg_hba.conf|not permitted to log in|permission denied for database|"
    'role "[^"]*" does not exist'
)
_NO_DATABASE: Final = 'database "[^"]*" does not exist'


_PLAIN: Final = re.compile(r"[^:/?@]*://([^/?@]*@)?[^?@]*(\?[^@]*)?", re.DOTALL)
_HALF_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def is_torn(url: str) -> bool:
    """Whether an `@`, `/`, `?` or `%` in it is not escaped, so that a part of its password may stand anywhere."""
    return not _PLAIN.fullmatch(url) or _HALF_ESCAPE.search(url) is not None


def torn(shown: str) -> StoreUnsupported:
    """The fault of an address that is torn: to be raised."""
    said = f"{shown!r} is no database address: in a name or a password an @, /, ? or % is not escaped"
    return StoreUnsupported(said, remedy="write them %40, %2F, %3F and %25")


def of_connection(fault: Exception) -> StoreFault:
    """What *fault*, which ended a connection or kept it from being made, says of the store."""
    said = " ".join(str(fault).split())
    if re.search(_NO_DATABASE, said):
        return StoreMissing("that address", said)
    if re.search(_NO_ROOM, said):
        return StoreBusy(f"the server has no connection left: {said}", remedy="run the command again")
    return (StoreDenied if re.search(_NOT_LET_IN, said) else StoreUnreachable)(said)
