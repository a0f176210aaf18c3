"""Checkpoints: what a log and its folds came to at one position, to be kept where no forger is (RULES §10).

The chain alone cannot show that a tail was cut off, or that all of it was forged and chained anew: an older checkpoint
can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, ValidationError
from sqlalchemy import Engine

from ledger.database import reading
from ledger.errors import InvalidInput, StoreFault
from ledger.standing import head
from ledger.values import Frozen
from projections.divergence import OF_THE_LOG, Divergence
from projections.folding import FOLD_VERSION
from projections.replay import replay

_HASH: Final = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 in hex")


class BadCheckpoint(InvalidInput):
    """What was given as a checkpoint is none."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line} is no checkpoint: {what}", remedy="ledger checkpoint writes one, in one line")
        self.line = line


class OtherCheckpoint(InvalidInput):
    """The checkpoint is of another board, or its folds are not this program's."""


class Unsound(StoreFault):
    """The log is forged or damaged: a checkpoint of it would vouch for that."""

    def __init__(self, first: Divergence) -> None:
        super().__init__(
            f"no checkpoint of a log that is broken at position {first.position}: {first.text} (RULES {first.rule})",
            remedy="ledger verify",
        )
        self.position = first.position


class Checkpoint(NamedTuple):
    """Where a board's log stood: the hash of its last event then, and the digest that *fold* (a version) made of it."""

    board: str
    board_id: str
    position: int
    hash: str
    fold: int
    digest: str

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger checkpoint` prints, and that `parsed` reads."""
        return self._asdict()


class _Line(Frozen):
    """A checkpoint as it was printed."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    board: str
    board_id: str
    position: Annotated[int, Field(ge=1)]
    hash: Annotated[str, _HASH]
    fold: Annotated[int, Field(ge=1)]
    digest: Annotated[str, _HASH]


def checkpoint(engine: Engine, board: str, *, progress: Callable[[int, int], None] | None = None) -> Checkpoint:
    """The checkpoint of *board* as it stands: the whole log is folded and its chain recomputed.

    Raises `UnknownBoard`, and `Unsound` where the log itself is broken.
    """
    found = replay(engine, board, progress=progress)
    broken = [each for each in found.divergences if each.rule in OF_THE_LOG]
    if broken:
        raise Unsound(broken[0])
    with reading(engine) as tx:
        board_id = head(tx, board).board_id
    return Checkpoint(board, board_id, found.position, found.hash, FOLD_VERSION, found.digest)


def checkpoints(text: str) -> tuple[Checkpoint, ...]:
    """The checkpoints in *text*, one a line, by position. Raises `BadCheckpoint`, also where there is none."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise BadCheckpoint(1, "nothing is there")
    return tuple(sorted((_read(number, line) for number, line in lines), key=lambda each: each.position))


def check_board(given: Iterable[Checkpoint], board: str, board_id: str) -> None:
    """Raise `OtherCheckpoint` unless all of *given* are of that board."""
    for each in given:
        if (each.board, each.board_id) != (board, board_id):
            raise OtherCheckpoint(
                f"the checkpoint at position {each.position} is of board {each.board}, id {each.board_id}; "
                f"this is board {board}, id {board_id}",
                remedy="name the board and the store it was made of; if they are these, the board was replaced",
            )


def check_fold(given: Checkpoint) -> None:
    """Raise `OtherCheckpoint` if this program folds otherwise than the one that made it."""
    if given.fold != FOLD_VERSION:
        raise OtherCheckpoint(
            f"the checkpoint at position {given.position} was folded by version {given.fold}, "
            f"this program folds by version {FOLD_VERSION}: their digests cannot be compared",
            remedy="ledger verify --since FILE --no-fold compares the log alone; then make a new ledger checkpoint",
        )


def _read(number: int, line: str) -> Checkpoint:
    try:
        said = _Line.model_validate_json(line)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        raise BadCheckpoint(number, f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")) from None
    return Checkpoint(said.board, said.board_id, said.position, said.hash, said.fold, said.digest)
