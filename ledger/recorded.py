"""Events on their way in (`Draft`) and as they stand in the log (`Recorded`)."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from ledger.errors import InvalidText
from ledger.events import KINDS, SCHEMAS, Actor, Event, blank_words, columns_of, event_of, words_of
from ledger.upcasters import upcast

canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""A JSON value as facts and words are stored: UTF-8, keys sorted, no spaces. Raises `ValueError` for NaN."""


def parsed(text: str) -> Any:
    """The value of the JSON *text*. Raises `ValueError`.

    Twice as fast as `json`, which is asked only where the text holds what the other refuses: a lone surrogate.
    """
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


class Recorded(NamedTuple):
    """An event of the log: the envelope as columns, facts and words as stored text.

    *words* is none when they were redacted, or not asked for. A fold reads columns, and `facts` by kind, late.
    """

    board: str
    position: int
    task: str
    version: int
    kind: str
    schema: int
    at: int
    actor_kind: str
    actor_name: str
    actor_host: str
    run: int | None
    outcome: str | None
    command_id: str | None
    facts_text: str
    words_digest: bytes
    hash: bytes
    salt: bytes | None = None
    words_text: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The facts in their newest shape. Raises `UnknownKind`, `NewerSchema`."""
        return upcast(self.kind, self.schema, parsed(self.facts_text), position=self.position)

    @property
    def words(self) -> dict[str, Any]:
        """The words; empty when they are redacted or were not read."""
        return {} if self.words_text is None else dict(parsed(self.words_text))

    def event(self) -> Event:
        """The typed event, fully validated; redacted words read as empty. Raises `ValidationError`."""
        fields = {**self.facts, **blank_words(self.kind), **self.words}
        columns = {"run": self.run, "outcome": self.outcome}
        return event_of(self.kind, fields | {name: columns[name] for name in columns_of(self.kind)})


class Draft(NamedTuple):
    """An event about to be appended to the stream of *task*, encoded once, by its own actor."""

    task: str
    kind: str
    run: int | None
    outcome: str | None
    facts_text: str
    words_text: str
    actor: Actor

    @classmethod
    def of(cls, task: str, event: Event, actor: Actor) -> Draft:
        """Encode *event*. Raises `InvalidText` naming the field that holds a NUL or a lone surrogate."""
        fields = event.__pydantic_serializer__.to_python(event, mode="json")  # `model_dump` at half the price
        kind = fields.pop("kind")
        run = fields.pop("run", None)
        outcome = fields.pop("outcome", None)
        words = {name: fields.pop(name) for name in words_of(kind)}
        facts_text, words_text = canonical(fields), canonical(words) if words else "{}"
        _refuse_bad_text(event, facts_text + words_text)
        _refuse_bad_names(task, actor)
        return cls(task, kind, run, outcome, facts_text, words_text, actor)

    def as_if(self, *, board: str = "", position: int, version: int, at: int) -> Recorded:
        """What this draft would be once recorded there: for folding before the append."""
        actor = self.actor
        return Recorded(
            board, position, self.task, version, self.kind, SCHEMAS[self.kind], at, actor.kind, actor.name, actor.host,
            self.run, self.outcome, None, self.facts_text, b"", b"", None, self.words_text,
        )  # fmt: skip


def valid(recorded: Recorded) -> str | None:
    """What is wrong with the shape of *recorded*, or none: every field through Pydantic, a number as a number only."""
    if _valid_as_stored(recorded):
        return None
    columns = {name: getattr(recorded, name) for name in columns_of(recorded.kind)}
    fields = {**recorded.facts, **blank_words(recorded.kind), **recorded.words, **columns}
    try:
        KINDS[recorded.kind].__pydantic_validator__.validate_json(canonical(fields), strict=True)
    except ValidationError as fault:
        first = fault.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return None


def _valid_as_stored(recorded: Recorded) -> bool:
    """Whether the stored texts, joined to one JSON object, are what Pydantic accepts; false says nothing yet.

    Facts are parsed alone as well, so that the halves of a torn object are not taken for two whole ones.
    """
    kind, words = recorded.kind, recorded.words_text
    if words is None or recorded.schema != SCHEMAS[kind] or type(recorded.facts) is not dict:
        return False
    if words[:1] != "{" or words[-1:] != "}":
        return False
    fields = filter(None, (_columns(kind, recorded.run, recorded.outcome), recorded.facts_text[1:-1], words[1:-1]))
    try:
        KINDS[kind].__pydantic_validator__.validate_json(f"{{{','.join(fields)}}}", strict=True)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=4_096)
def _columns(kind: str, run: int | None, outcome: str | None) -> str:
    """Those columns of an event of that *kind* that are fields of it, as JSON without the braces."""
    columns = {"run": run, "outcome": outcome}
    return canonical({name: columns[name] for name in columns_of(kind)})[1:-1]


def check_text(field: str, text: str) -> None:
    """Raise `InvalidText` if *text* holds a NUL or a lone surrogate (RULES §10)."""
    if "\0" in text:
        raise InvalidText(field, "a NUL character")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidText(field, "a lone surrogate")


def _refuse_bad_text(event: Event, stored: str) -> None:
    if "\\u0000" not in stored and "\ufffd" not in stored and stored.isprintable():
        return
    fields = event.model_dump()  # not as JSON: there Pydantic writes U+FFFD for a surrogate in a dictionary's key
    for name, value in fields.items():
        for text in texts_in(value):
            check_text(f"{fields['kind']}.{name}", text)


def _refuse_bad_names(task: str, actor: Actor) -> None:
    if (task + actor.name + actor.host).isprintable():
        return
    for field, text in (("task", task), ("actor.name", actor.name), ("actor.host", actor.host)):
        check_text(field, text)


def texts_in(value: Any) -> list[str]:
    """Every text in a JSON *value*, keys of objects too, however deep it stands."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for pair in value.items() for part in pair for text in texts_in(part)]
        case list() | tuple():
            return [text for part in value for text in texts_in(part)]
        case _:
            return []
