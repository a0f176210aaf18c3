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
│   └── UnknownRun
├── WrongExpectedVersion        somebody else was first: read again
└── StoreFault                  the store itself: call a person
    ├── StoreMissing
    ├── StoreExists
    ├── StoreOutdated
    ├── StoreTooNew
    ├── StoreDamaged
    ├── StoreReplaced
    ├── StoreBusy
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


class WrongExpectedVersion(LedgerError):
    """Another writer appended to the stream first: read again and decide again."""

    def __init__(self, task: str, *, expected: int, actual: int) -> None:
        super().__init__(
            f"{task or 'the board'} is at version {actual}, expected {expected}",
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
        super().__init__(
            f"{url} is at revision {found}, this program needs {wanted}", remedy="copy the file, then ledger db upgrade"
        )


class StoreTooNew(StoreFault):
    """The store's tables are newer than this program: it changes nothing."""

    def __init__(self, url: str, found: str, wanted: str) -> None:
        super().__init__(f"{url} is at revision {found}, this program knows {wanted}", remedy="upgrade kanban-ledger")


class StoreDamaged(StoreFault):
    """The database says that its file is not what it wrote."""


class StoreReplaced(StoreFault):
    """Another file stands where the store was opened: what is written to the old one would be lost."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} was replaced while it was open", remedy="start this command again")


class StoreBusy(StoreFault):
    """Another writer held the store longer than the busy timeout."""


class StoreFull(StoreFault):
    """The disk is full or the store cannot be written; nothing was changed."""


class StoreUnsupported(StoreFault):
    """No engine of this program speaks that address."""
