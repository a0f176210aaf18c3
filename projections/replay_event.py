"""An event of a log as a fold and the rules read it, a million times over; for whoever replays one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from ledger.events import SCHEMAS
from ledger.recorded import Recorded, parsed
from ledger.upcasters import upcast

FOLDED: Final = (
    "position", "task", "version", "kind", "schema", "at", "actor_kind", "run", "outcome", "facts_text", "words_text",
)  # fmt: skip
"""What a fold and the rules read of an event, and Pydantic; all columns stand in the chain."""
_SHORT: Final = 64  # characters


class _Event:
    """An event as a fold and the rules read it, from its row; facts are decoded once, however many ask for them.

    Plain slots: what is asked of a million events twenty times must not be computed.
    """

    __slots__ = (*FOLDED, "_facts")

    def __init__(self, row: tuple[Any, ...]) -> None:
        (self.position, self.task, self.version, self.kind, self.schema, self.at, self.actor_kind, self.run,
         self.outcome, self.facts_text, self.words_text) = row  # fmt: skip
        self._facts: dict[str, Any] | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """As `Recorded.facts`; short texts are mostly the same few, so each is decoded once for all to read."""
        found = self._facts
        if found is None:
            text = self.facts_text
            found = _parsed_once(text) if len(text) <= _SHORT else parsed(text)
            if SCHEMAS.get(self.kind) != self.schema:
                found = upcast(self.kind, self.schema, found, position=self.position)
            self._facts = found
        return found

    words = Recorded.words


class _Decoded:
    """The same, its facts decoded at once, for who gives up at the first fault: most facts are asked for, and twice."""

    __slots__ = (*FOLDED, "facts")

    def __init__(self, row: tuple[Any, ...]) -> None:
        (self.position, self.task, self.version, self.kind, self.schema, self.at, self.actor_kind, self.run,
         self.outcome, self.facts_text, self.words_text) = row  # fmt: skip
        text = self.facts_text
        found = _parsed_once(text) if len(text) <= _SHORT else parsed(text)
        if SCHEMAS.get(self.kind) != self.schema:
            found = upcast(self.kind, self.schema, found, position=self.position)
        self.facts = found

    words = Recorded.words


decoded: Final = cast("Callable[[tuple[Any, ...]], Recorded]", _Decoded)
"""The same as `event_of`; raises at once what that would raise where facts are asked for."""
event_of: Final = cast("Callable[[tuple[Any, ...]], Recorded]", _Event)
"""Of a row of `FOLDED`: all of a `Recorded` that a fold, a judge and Pydantic read."""
_parsed_once: Final = lru_cache(maxsize=4_096)(parsed)
