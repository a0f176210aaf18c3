"""Where the log, or what is stored beside it, differs from what the rules make of it: what a replay reports."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

OF_THE_LOG: Final = frozenset(
    {
        "§2 position", "§2 version", "§2 at", "§2 kind", "§2 schema", "§2 shape", "§9 head", "§10 chain", "§10 words",
    }
)  # fmt: skip
"""The rules of an audit that a log itself breaks; the others compare it with what can be folded anew, or judge it."""


class Divergence(NamedTuple):
    """One difference. *task* and *position* name the event at fault (none: no event is), *rule* the row of RULES."""

    task: str | None
    position: int | None
    rule: str
    stored: Any
    computed: Any
    text: str

    def as_json(self) -> dict[str, Any]:
        """A plain JSON object; bytes as hex."""
        shown = self._asdict()
        for name in ("stored", "computed"):
            value = shown[name]
            shown[name] = value.hex() if isinstance(value, bytes) else value
        return shown


class Wrong(NamedTuple):
    """Why an event was not legal where it stands: the rule, in words, what it says and what the rules make of it."""

    rule: str
    text: str
    stored: Any = None
    computed: Any = None

    def at(self, task: str, position: int) -> Divergence:
        """The divergence of the event at *position* in the stream of *task*."""
        return Divergence(task, position, self.rule, self.stored, self.computed, self.text)
