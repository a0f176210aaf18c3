"""`ledger import hermes`: a board of the reference system as cards of ours. It is copied, and never written to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kanban.findings import counted, listed
from kanban.foreign.tables import Tables, number, opened
from kanban.importing.origin import Done, Held, Origin, Remark, Skipped, Source, plain, text, told
from ledger.clock import SECOND, rfc3339
from ledger.recorded import parsed

_CARRIED: Final = frozenset({"id", "title", "body", "result", "claim_lock"})
_LOCKS: Final = frozenset({"claim_lock", "task_id"})
_REASONS: Final = frozenset({"blocked", "gave_up", "block_loop_detected"})
_OPEN: Final = frozenset({"triage", "todo", "ready", "running"})
_LAST: Final = 253_402_300_799  # the end of the year 9999
Row = dict[str, Any]


def read_hermes(path: Path) -> Source:
    """The board in the file at *path*, of any version.

    Raises `ForeignMissing`, `ForeignDamaged`, `ForeignBusy`, `NoForeignBoard`.
    """
    with opened(path) as tables:
        board = _Board(tables)
        rows = tables.every("tasks")
        cards = tuple(board.card(row) for row in rows if text(row["id"]))
        nameless = (Skipped("", "it has no id"),) * (len(rows) - len(cards))
        return Source("hermes", str(path), cards, nameless, tuple(board.notes()))


class _Board:
    """What its other tables say of each card."""

    def __init__(self, tables: Tables) -> None:
        self._runs = _by_card(tables.every("task_runs"))
        self._comments = _by_card(tables.every("task_comments"))
        self._files = _by_card(tables.every("task_attachments"))
        self._live = tables.live
        self._parents: dict[str, list[str]] = defaultdict(list)
        for parent, child in sorted(tables.links):
            self._parents[child].append(parent)
        self._reasons = {
            event.task: event.text("reason") or event.text("error") or None
            for event in tables.events()
            if event.kind in _REASONS
        }
        self._elsewhere: list[str] = []

    def card(self, row: Row) -> Origin:
        """The card of one row."""
        card = text(row["id"]) or ""
        status = text(row["status"]) or ""
        return Origin(
            id=card,
            title=text(row.get("title")) or "",
            created_at=_time(row.get("created_at")),
            body=text(row.get("body")),
            assignee=text(row.get("assignee")),
            priority=number(row.get("priority")) or 0,
            parents=tuple(self._parents.get(card, ())),
            tenant=text(row.get("tenant")),
            max_retries=_limit(row.get("max_retries")),
            max_runtime=_limit(row.get("max_runtime_seconds")),
            workspace=self._workspace(card, row),
            goal_max_turns=(number(row.get("goal_max_turns")) or 0) if row.get("goal_mode") else None,
            triage=status == "triage",
            end=self._end(card, row, status),
            archived=status == "archived",
            released=status == "running",
            remarks=tuple(map(_remark, self._comments.get(card, ()))),
            said=self._said(card, row),
        )

    def notes(self) -> Iterable[str]:
        """What somebody who brings it in has to know."""
        if self._live:
            yield "somebody was at work on that board: what it wrote after it was copied is not here"
        if self._elsewhere:
            cards = f"{counted(len(self._elsewhere), 'card')} worked in another place there"
            yield f"{cards}, and have a scratch folder here, see ledger edit --workspace: {listed(self._elsewhere)}"
        if self._files:
            yield f"attachments stay where they are: their places are told on {counted(len(self._files), 'card')}"

    def _end(self, card: str, row: Row, status: str) -> Done | Held | None:
        match status:
            case "done":
                return self._done(card, row)
            case "archived":
                return None if row.get("completed_at") is None else self._done(card, row)
            case "blocked":
                reason = self._reasons.get(card) or text(row.get("last_failure_error"))
                return Held(reason, text(row.get("block_kind")))
            case _ if status in _OPEN:
                return None
            case _:
                return Held(f"its status in hermes is {status or 'missing'}", status or None)

    def _done(self, card: str, row: Row) -> Done:
        last = next((run for run in reversed(self._runs.get(card, [])) if run.get("outcome") == "completed"), {})
        return Done(text(last.get("summary")), text(row.get("result")), _json(last.get("metadata")))

    def _workspace(self, card: str, row: Row) -> str:
        kind, path = text(row.get("workspace_kind")) or "scratch", text(row.get("workspace_path")) or ""
        if kind == "dir" and path.startswith("/"):
            return f"dir:{path}"
        if kind != "scratch":
            self._elsewhere.append(card)
        return "scratch"

    def _said(self, card: str, row: Row) -> dict[str, Any]:
        said = told(row, but=_CARRIED)
        for name, rows in (("runs", self._runs), ("attachments", self._files)):
            if card in rows:
                said[name] = [told(each, but=_LOCKS) for each in rows[card]]
        return said


def _by_card(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[text(row.get("task_id")) or ""].append(row)
    return dict(found)


def _remark(row: Row) -> Remark:
    return Remark(text(row.get("author")), _time(row.get("created_at")), text(row.get("body")) or "")


def _time(value: Any) -> str | None:
    """Seconds since 1970, as they stand there, in words; none where that is no such time."""
    at = number(value)
    return rfc3339(at * SECOND) if at is not None and 0 <= at <= _LAST else None


def _limit(value: Any) -> int | None:
    found = number(value)
    return found if found is not None and found > 0 else None


def _json(value: Any) -> Any:
    found = text(value)
    if found is None:
        return None
    try:
        return plain(parsed(found))
    except (ValueError, RecursionError):
        return found
