"""hermes' side: boards of the same kinds of cards, and the verbs of its kanban, each timed in this process.

Boards are written straight into its tables, twenty events and two runs a card: by its verbs 50,000 would take hours.
"""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any

from peer_asked import serve, spent  # first: it chooses the SQLite library

from hermes_cli import kanban_db as kb  # isort: skip
from hermes_cli.kanban import _task_to_dict  # isort: skip

NOW = int(time.time())
KINDS = ["created", "promoted", "claimed", "spawned", *["heartbeat"] * 8, "crashed", "claimed", "spawned"]
KINDS += ["heartbeat"] * 4 + ["completed"]
LAST = {"blocked": "blocked", "done": "completed"}
ALIVE = kb._pid_alive  # noqa: SLF001 – what is stubbed where the row says so


class Asked:
    """The verbs; one board is open at a time."""

    def build(self, path: str, kinds: dict[str, int], pids: list[int]) -> list[str]:
        """A board of *kinds*, open afterwards; its running cards have one child each, and *pids* in turn."""
        os.environ["HERMES_KANBAN_DB"] = path
        self.db = kb.connect()
        self.db.execute("PRAGMA synchronous=OFF")
        self.db.execute("BEGIN")
        cards = {status: [f"t_{status[:2]}{number:06x}" for number in range(many)] for status, many in kinds.items()}
        order = [(status, card) for status, named in cards.items() for card in named]
        random.Random(7).shuffle(order)
        for number, (status, card) in enumerate(order):
            self._card(number, card, status, pids[number % len(pids)] if pids else os.getpid())
        blocked, done = cards["blocked"], cards["done"]
        links = list(zip(cards["running"], cards["todo"], strict=False))
        for place, child in enumerate(cards["todo"]):  # as `mixed` of the ledger's boards
            parents = [blocked[0], blocked[place % len(blocked)], *([done[place % len(done)]] if done else [])]
            links += [(parent, child) for parent in parents]
        self.db.executemany("INSERT OR IGNORE INTO task_links VALUES (?, ?)", links)
        self.db.execute("COMMIT")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.db.close()
        os.sync()
        self.db = kb.connect()
        self.running = len(cards["running"])
        return cards["running"]

    def _card(self, number: int, card: str, status: str, pid: int) -> None:
        runs = (2 * number + 1, 2 * number + 2)
        claim = {"claim_lock": kb._claimer_id(), "claim_expires": NOW + 86_400, "worker_pid": pid}  # noqa: SLF001
        run: dict[str, Any] = {"status": "done", "ended_at": NOW - 70, "outcome": "completed", "summary": "did it"}
        task: dict[str, Any] = {"completed_at": NOW - 70 if status == "done" else None}
        if status == "running":
            run = {"status": "running", **claim}
            task = {"last_heartbeat_at": NOW, "current_run_id": runs[1], **claim}
        self._row("task_runs", id=runs[0], task_id=card, profile="default", status="crashed", started_at=NOW - 90_000,
                  ended_at=NOW - 89_000, outcome="crashed", error="pid 1 not alive")  # fmt: skip
        self._row("task_runs", id=runs[1], task_id=card, profile="default", started_at=NOW - 80, **run)
        self._row("tasks", id=card, title=f"Mend parser number {number}", body="some body text " * 5,
                  assignee="default", status=status, priority=number % 5, created_by="bench",
                  created_at=NOW - 100_000 + number // 10, started_at=NOW - 80, workspace_kind="scratch",
                  **task)  # fmt: skip
        kinds = [*KINDS[:-1], LAST.get(status, "heartbeat")]
        payload = json.dumps({"note": "x" * 20, "pid": 1234})
        self.db.executemany(
            "INSERT INTO task_events(task_id, run_id, kind, payload, created_at) VALUES (?, ?, ?, ?, ?)",
            [(card, runs[place > 12], kind, payload, NOW - 90_000 + place) for place, kind in enumerate(kinds)],  # noqa: PLR2004
        )

    def _row(self, table: str, **fields: Any) -> None:
        names, marks = ", ".join(fields), ", ".join("?" * len(fields))
        self.db.execute(f"INSERT INTO {table}({names}) VALUES ({marks})", tuple(fields.values()))

    def create(self, count: int) -> list[str]:
        """New cards."""
        return [kb.create_task(self.db, title=f"new {number}", assignee="default") for number in range(count)]

    def claim(self, item: str) -> tuple[float, float]:
        """One card."""
        return spent(lambda: kb.claim_task(self.db, item))

    def heartbeat(self, item: str) -> tuple[float, float]:
        """Of its worker."""
        return spent(lambda: kb.heartbeat_worker(self.db, item))

    def complete(self, item: str) -> tuple[float, float]:
        """By its worker."""
        return spent(lambda: kb.complete_task(self.db, item, result="ok", summary="did it"))

    def idle(self, ticks: int, *, stubbed: bool) -> float:
        """Processor seconds a tick that finds every slot taken; *stubbed*: all workers live, without a look."""
        kb._pid_alive = (lambda _pid: True) if stubbed else ALIVE  # noqa: SLF001
        seconds = spent(lambda: [self._tick() for _ in range(ticks)])[1] / ticks
        kb._pid_alive = ALIVE  # noqa: SLF001
        return seconds

    def _tick(self) -> None:
        found = kb.dispatch_once(self.db, spawn_fn=lambda _task, _where: os.getpid(), max_spawn=self.running)
        assert not found.spawned, found
        assert not found.crashed, found

    def dead(self, pids: list[int]) -> tuple[float, float]:
        """Booking the deaths of as many workers, just claimed: `detect_crashed_workers`."""
        for card, pid in zip(self.create(len(pids)), pids, strict=True):
            kb.claim_task(self.db, card)
            kb._set_worker_pid(self.db, card, pid)  # noqa: SLF001
        found: list[str] = []
        figures = spent(lambda: found.extend(kb.detect_crashed_workers(self.db)))
        assert len(found) == len(pids), found
        return figures

    def listed(self, cards: int) -> float:
        """Processor seconds for the list of all cards."""
        found: list[Any] = []
        busy = spent(lambda: found.extend(kb.list_tasks(self.db)))[1]
        assert len(found) == cards, len(found)
        return busy

    def listed_json(self, cards: int) -> float:
        """The same as the values that its `list --json` prints."""
        found: list[Any] = []
        busy = spent(lambda: found.extend(map(_task_to_dict, kb.list_tasks(self.db))))[1]
        assert len(found) == cards, len(found)
        return busy


if __name__ == "__main__":
    asked = Asked()
    serve(
        {
            name: getattr(asked, name)
            for name in dir(asked)
            if not name.startswith("_") and callable(getattr(asked, name))
        }
    )
