"""What one tick of the sweep saw and did: the object that `ledger sweep --json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kanban.laps import Laps
from kanban.plan import AskStop, Book, Lift
from ledger.clock import rfc3339
from ledger.recorded import Draft, Recorded


@dataclass(slots=True)
class Tick:
    """What one tick saw and did; a dry run: what a real one would do.

    *live* counts the open runs after it, *present* the runs, open or ended, whose processes it saw.
    """

    at: int
    dry_run: bool = False
    skipped: str | None = None
    booked: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[dict[str, Any]] = field(default_factory=list)
    renewed: list[dict[str, Any]] = field(default_factory=list)
    lifted: list[dict[str, Any]] = field(default_factory=list)
    claimed: list[dict[str, Any]] = field(default_factory=list)
    held: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: list[dict[str, str | None]] = field(default_factory=list)
    live: int = 0
    present: int = 0
    position: int = 0
    next_at: int | None = None
    laps: Laps = field(default_factory=Laps, repr=False, compare=False)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to wait for: nothing was claimed, no run is live, no ended run's processes remain."""
        return self.skipped is None and not self.claimed and self.live == 0 and self.present == 0

    def take(self, told: Tick) -> None:
        """Tell also what *told* tells of the steps of its tick."""
        for name in ("booked", "stopped", "renewed", "lifted", "notes"):
            getattr(self, name).extend(getattr(told, name))

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger sweep --json` prints for this tick."""
        shown: dict[str, Any] = {"tick": rfc3339(self.at), "dry_run": self.dry_run}
        if self.skipped is not None:
            return {**shown, "skipped": self.skipped, "errors": self.errors}
        names = ("booked", "stopped", "renewed", "lifted", "claimed", "held", "notes", "errors", "live", "position")
        shown.update((name, getattr(self, name)) for name in names)
        shown["next_at"] = None if self.next_at is None else rfc3339(self.next_at)
        return shown


def report(tick: Tick, step: Book | AskStop | Lift, events: Sequence[Draft | Recorded], notes: Iterable[str]) -> None:
    """Tell what *step* came to: *events*, which may say another outcome than was planned."""
    if not events:
        return
    tick.notes += notes
    match step:
        case Book(run, outcome, seen):
            tick.booked.append(
                {
                    "task": run.task,
                    "run": run.run,
                    "outcome": str(events[0].outcome if events[0].kind == "exited" else outcome),
                    "evidence": seen.evidence.witness,
                    "events": [event.kind for event in events],
                }
            )
        case AskStop(run, cause):
            tick.stopped.append({"task": run.task, "run": run.run, "cause": cause})
        case Lift(task, cause):
            tick.lifted.append({"task": task, "cause": cause})


def note_error(tick: Tick, task: str, error: str) -> None:
    """Tell of a fault on one card, once however often the tick meets it."""
    told: dict[str, str | None] = {"task": task, "error": error}
    if told not in tick.errors:
        tick.errors.append(told)
