"""What is wrong with a file that was to be audited or imported: it names what was found there, and what to run next."""

from __future__ import annotations

from pathlib import Path

from ledger.errors import StoreFault


class ForeignMissing(StoreFault):
    """No file can be read at that path."""

    def __init__(
        self, path: Path, found: str, remedy: str = "name the board's own file, often ~/.hermes/kanban.db"
    ) -> None:
        super().__init__(f"{path}: {found}", remedy=remedy)


class ForeignDamaged(StoreFault):
    """The file is no SQLite database, or SQLite cannot read all of it."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path}: {found}", remedy="take a backup of that board, or have it repaired first")


class ForeignBusy(StoreFault):
    """The file was written to at every try to copy it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was written to at every try to copy it", remedy="run the command again")


class NoForeignBoard(StoreFault):
    """A database, but no board of that system: its tables are named."""

    def __init__(self, path: Path, found: str, remedy: str = "name the file that holds the table of cards") -> None:
        super().__init__(f"{path} is no such board: {found}", remedy=remedy)
