"""eventsourcing's side: aggregates with as many events as the ledger's cards, read by `repository.get`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from peer_asked import serve, spent  # first: it chooses the SQLite library

from eventsourcing.application import Application  # isort: skip
from eventsourcing.domain import Aggregate, event  # isort: skip


class Task(Aggregate):
    """A card with the counters of the ledger's."""

    @event("Created")
    def __init__(self, title: str, priority: int) -> None:
        self.title, self.priority = title, priority
        self.status, self.failures, self.streak, self.beats = "ready", 0, 0, 0

    @event("Claimed")
    def claim(self, run: int, worker: str) -> None:
        """A run opens."""
        self.status, self.run, self.worker = "running", run, worker

    @event("Progressed")
    def progress(self, run: int, note: str) -> None:
        """A word from the worker."""
        self.run, self.note = run, note
        self.beats += 1

    @event("Completed")
    def complete(self, run: int, summary: str) -> None:
        """Done."""
        self.status, self.run, self.summary = "done", run, summary
        self.failures = self.streak = 0


class Tasks(Application[UUID]):
    """The application, on a SQLite file."""


class Asked:
    """The verbs."""

    def build(self, path: str, cards: int, length: int) -> None:
        """*cards* aggregates of *length* events."""
        self.tasks = Tasks(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": path})
        self.ids: list[Any] = []
        for number in range(cards):
            task = Task(f"Mend parser number {number}", 1)
            task.claim(run=1, worker="builder")
            for _ in range(length - 3):
                task.progress(run=1, note="half of the tests are green")
            task.complete(run=1, summary="did it and wrote tests")
            self.tasks.save(task)
            self.ids.append(task.id)
        assert self.tasks.repository.get(self.ids[0]).version == length

    def get(self) -> float:
        """Processor seconds an aggregate."""
        return spent(lambda: [self.tasks.repository.get(each) for each in self.ids])[1] / len(self.ids)


if __name__ == "__main__":
    asked = Asked()
    serve({"build": asked.build, "get": asked.get})
