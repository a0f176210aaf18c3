"""The log written out, an event a line: as it stands, or as CloudEvents for other programs.

An export is one way. The log in the store is the only truth: nothing ever reads an export by itself, and what is
imported is appended where it continues a log, or refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Literal

from ledger.recorded import Recorded, canonical, parsed
from projections.shown import event_json

if TYPE_CHECKING:
    from kanban.questions import Questions

Format = Literal["jsonl", "cloudevents"]
SPEC: Final = "1.0"
_ORDERED: Final = 19
"""Digits of the largest position that a store can hold: positions in text, as they are ordered."""


def export(board: Questions, form: Format, *, after: int = 0, until: int | None = None) -> Iterator[dict[str, Any]]:
    """The events of *board* behind position *after*, up to *until*, one JSON object each, in order.

    No transaction is open while one of them is used. It ends where the log ends once all before it is read, so a
    `redacted` never fails to follow the event whose words it took.
    """
    events = board.events(after=after)
    wanted = events if until is None else takewhile(lambda event: event.position <= until, events)
    if form == "jsonl":
        return map(exported, wanted)
    source = f"/kanban-ledger/boards/{board.settings.board_id}"
    return (cloud_event(event, source) for event in wanted)


def exported(event: Recorded) -> dict[str, Any]:
    """An event as `ledger events --jsonl` prints it, from which it can be written again to the byte.

    A stored text that is not as this program writes JSON stands there too, as it is.
    """
    shown = event_json(event)
    for name, text in (("facts", event.facts_text), ("words", event.words_text)):
        if text is not None and canonical(parsed(text)) != text:
            shown[f"{name}_text"] = text
    return shown


def cloud_event(event: Recorded, source: str) -> dict[str, Any]:
    """An event as a CloudEvent in JSON; `source` and `id` name it for ever. There is no way back from it."""
    shown = event_json(event)
    about = {"subject": event.task} if event.task else {}  # an empty one is no CloudEvent
    return {
        "specversion": SPEC,
        "id": str(event.position),
        "source": source,
        "type": f"kanban-ledger.{event.kind}",
        **about,
        "time": shown["at"],
        "sequence": str(event.position).zfill(_ORDERED),
        "datacontenttype": "application/json",
        "data": shown,
    }
