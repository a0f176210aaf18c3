"""A line of an export as the event that it was: every column, and facts and words to the byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from ledger.clock import instant
from ledger.errors import InvalidInput, InvalidText
from ledger.events import columns_of
from ledger.recorded import Recorded, canonical, check_text, parsed, texts_in, valid
from ledger.upcasters import check_readable
from ledger.values import Actor, Frozen

_HEX: Final = Field(pattern="^([0-9a-f]{64})$", description="32 bytes in hex")
_Number = Annotated[int, Field(ge=1, le=2**62)]
_Small = Annotated[int, Field(ge=1, le=2**31 - 1)]
_NUL: Final = "\\u0000"


class BadLine(InvalidInput):
    """A line that is no event, or not the one that was exported. What stands before its page was imported."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}", remedy="mend that line, or export anew, and import it again")
        self.line = line


class Numbered(NamedTuple):
    """An event, and the line it stands in."""

    line: int
    event: Recorded


class _Line(Frozen):
    """What `ledger export` prints of an event. Keys that later versions add are passed over: the hash covers all."""

    model_config = ConfigDict(strict=True, extra="ignore")

    board: str
    position: _Number
    task: str
    version: _Small
    kind: str
    schema_: Annotated[_Small, Field(alias="schema")]
    at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]
    actor: Actor
    run: _Small | None
    outcome: str | None
    command_id: str | None
    facts: dict[str, Any]
    words: dict[str, Any] | None
    salt: Annotated[str, _HEX] | None
    words_digest: Annotated[str, _HEX]
    hash: Annotated[str, _HEX]
    facts_text: str | None = None
    words_text: str | None = None


def numbered(lines: Iterable[bytes]) -> Iterator[Numbered]:
    """The events of *lines*, blank ones passed over. Raises `BadLine`, `UnknownKind`, `NewerSchema`."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield Numbered(number, read(number, line))


def read(number: int, line: bytes) -> Recorded:
    """The event in the *line* of that *number*: its shape is that of its kind, and no store has to refuse its texts."""
    try:
        event = _recorded(_Line.model_validate_json(line))
        _check_texts(event)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        raise BadLine(number, ": ".join((*map(str, first["loc"]), first["msg"]))) from None
    except (ValueError, RecursionError, InvalidText) as fault:
        raise BadLine(number, str(fault)) from None
    check_readable(event.kind, event.schema, position=event.position)
    wrong = _misplaced(event) or valid(event)
    if wrong is not None:
        raise BadLine(number, f"{event.kind}: {wrong}")
    return event


def _recorded(line: _Line) -> Recorded:
    if (line.words is None) is not (line.salt is None):
        raise ValueError("words and salt are kept together, or redacted together")
    facts = _text(line.facts, line.facts_text)
    words = None if line.words is None else _text(line.words, line.words_text)
    return Recorded(
        line.board, line.position, line.task, line.version, line.kind, line.schema_,
        instant(datetime.fromisoformat(line.at)), line.actor.kind, line.actor.name, line.actor.host, line.run,
        line.outcome, line.command_id, facts, bytes.fromhex(line.words_digest), bytes.fromhex(line.hash),
        None if line.salt is None else bytes.fromhex(line.salt), words,
    )  # fmt: skip


def _text(values: dict[str, Any], stored: str | None) -> str:
    """*values* as they were stored: as this program writes JSON, or as the text beside them says."""
    if stored is None:
        return canonical(values)
    if parsed(stored) != values:
        raise ValueError("the text beside facts or words does not say the same")
    return stored


def _check_texts(event: Recorded) -> None:
    """No NUL, however it is written; a lone surrogate has been refused as no JSON."""
    for field, text in zip(event._fields, event, strict=True):
        if type(text) is str and not text.isprintable():
            check_text(field, text)
    for field, text in (("facts", event.facts_text), ("words", event.words_text or "")):
        if _NUL in text:
            for said in texts_in(parsed(text)):
                check_text(field, said)


def _misplaced(event: Recorded) -> str | None:
    """That a column holds what its kind does not have."""
    filled = {name for name in ("run", "outcome") if getattr(event, name) is not None}
    stray = filled - columns_of(event.kind)
    return f"it has no {', '.join(sorted(stray))}" if stray else None
