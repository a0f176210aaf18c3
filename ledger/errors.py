"""Everything that can be wrong, as one tree, split by what the caller can do about it.

LedgerError
├── Refusal                     a rule says no: change the wish (kanban/refusals.py holds the rules' own)
├── Unreadable                  an event of the log cannot be read by this program: upgrade it
│   ├── UnknownKind
│   └── NewerSchema
├── InvalidInput                the request itself is wrong: correct it
│   └── InvalidText
├── NotFound                    the thing is not there: look again
│   ├── UnknownBoard
│   ├── UnknownTask
│   ├── UnknownRun
│   └── UnknownPosition
├── WrongExpectedVersion        somebody else was first: read again
└── StoreFault                  the store itself: call a person
    ├── StoreMissing
    ├── StoreExists
    ├── StoreOutdated
    ├── StoreTooNew
    ├── StoreMoving
    ├── StoreMoved
    ├── StoreDamaged
    ├── StoreReplaced
    ├── StoreBusy
    ├── StoreDenied
    ├── StoreUnreachable
    ├── StoreFull
    └── StoreUnsupported
"""

from __future__ import annotations

import re


class LedgerError(Exception):
    """The root. `code` is the class name in snake_case, `task` the card concerned, `remedy` what to run next."""

    def __init__(self, message: str, *, task: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.task = task
        self.remedy = remedy

    @property
    def code(self) -> str:
        """The class name in snake_case: what scripts compare."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


class Refusal(LedgerError):
    """A rule of the board says no (RULES §8)."""


class InvalidInput(LedgerError):
    """The request cannot mean anything: a value is out of range or malformed."""


class InvalidText(InvalidInput):
    """A text holds a NUL or a lone surrogate, which not every store can keep (RULES §10)."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"{field}: {what} cannot be stored", remedy="remove that character and try again")
        self.field = field


class Unreadable(LedgerError):
    """An event that this program cannot read stops the fold of its task; it is never skipped (RULES §2)."""


class UnknownKind(Unreadable):
    """The log holds a kind of event that this program does not know."""

    def __init__(self, kind: str, position: int) -> None:
        super().__init__(
            f"position {position}: unknown event kind {kind!r}", remedy="upgrade kanban-ledger: the log is newer"
        )
        self.kind = kind
        self.position = position


class NewerSchema(Unreadable):
    """The log holds an event in a newer shape than this program knows."""

    def __init__(self, kind: str, schema: int, position: int, known: int) -> None:
        super().__init__(
            f"position {position}: {kind} has schema {schema}, this program knows up to {known}",
            remedy="upgrade kanban-ledger: the log is newer",
        )
        self.kind = kind
        self.schema = schema
        self.position = position


class NotFound(LedgerError):
    """What was named is not there."""


class UnknownBoard(NotFound):
    """The store holds no board of that name."""

    def __init__(self, board: str) -> None:
        super().__init__(f"no board {board!r} in this store", remedy=f"ledger init --board {board}")
        self.board = board


class UnknownTask(NotFound):
    """The board holds no card of that id."""

    def __init__(self, task: str) -> None:
        super().__init__(f"no card {task!r} on this board", task=task, remedy="ledger list")


class UnknownRun(NotFound):
    """The card has no run of that number."""

    def __init__(self, task: str, run: int) -> None:
        super().__init__(f"{task} has no run {run}", task=task, remedy=f"ledger runs {task}")
        self.run = run


class UnknownPosition(NotFound):
    """The board's log has no event at that position."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no event stands at position {position}", remedy="ledger events")
        self.position = position


class WrongExpectedVersion(LedgerError):
    """Another writer appended to the stream first: read again and decide again."""

    def __init__(self, task: str, *, expected: int | None, actual: int | None) -> None:
        known = f"is at version {actual}, expected {expected}"
        super().__init__(
            f"{task or 'the board'} {'has moved on: another writer was first' if actual is None else known}",
            task=task or None,
            remedy="read again and repeat the command",
        )
        self.expected = expected
        self.actual = actual


class StoreFault(LedgerError):
    """The store is missing, damaged, of another version, or cannot be written."""


class StoreMissing(StoreFault):
    """Nothing is at that address; only `ledger init` creates a store."""

    def __init__(self, url: str, found: str = "nothing is there") -> None:
        super().__init__(f"no ledger at {url}: {found}", remedy="ledger init")


class StoreExists(StoreFault):
    """Something that is no ledger, or another board's ledger, is at that address already."""


class StoreOutdated(StoreFault):
    """The store's tables are older than this program."""

    def __init__(self, url: str, found: str, wanted: str) -> None:
        said = f"{url} is at revision {found}, this program needs {wanted}"
        super().__init__(said, remedy="copy the store, then ledger db upgrade")


class StoreTooNew(StoreFault):
    """The store's tables are newer than this program: it changes nothing."""

    def __init__(self, url: str, found: str, wanted: str) -> None:
        super().__init__(f"{url} is at revision {found}, this program knows {wanted}", remedy="upgrade kanban-ledger")


class StoreMoving(StoreFault):
    """Another store is being moved to that address: it can be used once that has ended."""

    def __init__(self, url: str, source: str) -> None:
        super().__init__(
            f"{url} cannot be used yet: a move into it has not ended", remedy=f"ledger db move {source} {url}"
        )
        self.source = source


class StoreMoved(StoreFault):
    """The store was moved away from here, and is sealed: two stores of one board would be two histories."""

    def __init__(self, target: str) -> None:
        super().__init__(
            f"this ledger has moved to {target}",
            remedy="name that address: LEDGER_DATABASE_URL, or database in ledger.toml",
        )
        self.target = target


class StoreDamaged(StoreFault):
    """The database says that its file is not what it wrote."""


class StoreReplaced(StoreFault):
    """Another file stands where the store was opened: what is written to the old one would be lost."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} was replaced while it was open", remedy="start this command again")


class StoreBusy(StoreFault):
    """Another writer held the store longer than the busy timeout."""


class StoreDenied(StoreFault):
    """The database server does not let this role in, or do that."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"the database server refuses: {said}", remedy="see user, password and the roles in docs/scaling.md"
        )


class StoreUnreachable(StoreFault):
    """The database server did not answer, or broke off in the middle: what was not acknowledged may have been done."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"the database server cannot be reached: {said}", remedy="see that the server runs, then retry"
        )


class StoreFull(StoreFault):
    """The disk is full or the store cannot be written; nothing was changed."""


class StoreUnsupported(StoreFault):
    """No engine of this program speaks that address."""
