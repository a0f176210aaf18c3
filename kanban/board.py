"""`Board`: the Python face: every verb and question of cards, the board's own settings, the sweep and the audit.

with Board.open("sqlite:////srv/ledger.db") as board:
    card = board.create("Mend the parser", assignee="builder")
    board.sweep()
    print(board.why(card.task["id"]))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kanban import commands as c
from kanban.batches import Batches
from kanban.hosts import default_cap
from kanban.refusals import Forbidden
from kanban.session import Answer
from kanban.verbs import Verbs
from kanban.worker.carrier import operators_only
from ledger.errors import UnknownTask
from projections import read_models, snapshots
from projections.budgets import lift
from projections.policy import Policy

if TYPE_CHECKING:
    from kanban.redacting import Gone
    from kanban.sweep import Sweeper
    from kanban.tick import Tick
    from projections.replay import Replay
    from projections.tried import Tried


class Board(Verbs, Batches):
    """One board of one store, as an operator, a worker or a dashboard uses it.

    Inside a worker's environment every act is that worker's (RULES §8). Refusals are raised as typed errors; see
    `ledger/errors.py` and `kanban/refusals.py`.
    """

    def pause(self, *, scope: str = "board", name: str = "", drain: bool = False, reason: str | None = None) -> Answer:
        """Claim nothing any more in that scope (`board`, `assignee`, `host`); *drain* also asks live runs to stop."""
        return self.do(c.Pause(scope, name, drain, reason))  # type: ignore[arg-type]  # Pydantic refuses other scopes

    def resume(self, *, scope: str = "board", name: str = "") -> Answer:
        """End the pause of that scope."""
        return self.do(c.Resume(scope, name))  # type: ignore[arg-type]  # Pydantic refuses other scopes

    def set_policy(self, **changes: int | None) -> Answer:
        """Change limits of the policy; says when a raised limit lifts no hold."""
        from kanban.snapshot import liftable

        before = self.settings.policy
        answer = self.do(c.SetPolicy(changes))
        raised = [name for name, value in changes.items() if _is_raised(before, name, value)]
        with self.look() as desk:
            standing = liftable(desk.tx, self.name)
            lifts = [task.id for task in standing if lift(task, desk.settings.policy) is not None]
        if answer.changed and raised and standing and not lifts:
            note = f"raising {', '.join(raised)} lifts no hold: {len(standing)} cards stay at some other limit"
            return Answer(answer.task, answer.changed, answer.position, answer.replayed, (note,))
        return answer

    @cached_property
    def sweeper(self) -> Sweeper:
        """This host's dispatcher of the board; it lives as long as this value, to reap what it starts."""
        from kanban.address import address_for_workers
        from kanban.starting import Shop
        from kanban.sweep import Sweeper

        if self.own is not None:
            raise Forbidden("a worker does not sweep", task=self.own[0], remedy="run ledger sweep as an operator")
        config = self.loaded.config
        if config.worker_database is not None:
            address_for_workers(self.url, config.worker_database)  # refused now, not at each card
        shop = Shop(
            engine=self.engine,
            board=self.name,
            clock=self.clock,
            home=self.home,
            host=self.host,
            url=self.url,
            environ=self.environ,
            log_limit=config.log_limit,
            worker_url=config.worker_database,
        )
        return Sweeper(shop, dict(config.assignees), config.max_running or default_cap())

    def sweep(self, *, dry_run: bool = False, most: int | None = None) -> Tick:
        """One tick: book what ended, stop, renew, lift, and start what may start (RULES §7)."""
        return self.sweeper.tick(dry_run=dry_run, most=most)

    def replay(
        self,
        *,
        task: str | None = None,
        until: int | None = None,
        strict: bool = False,
        chain: bool = True,
        jobs: int | None = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> Replay:
        """Refold the whole log and compare it with what is stored (RULES §9); see `projections.replay.replay`.

        *jobs*: how many processes share the work (none: as many as are worth it here); the answer is the same.
        """
        from projections.replay import replay
        from projections.replay_jobs import jobs_for

        if jobs is None:
            with self.look() as desk:
                jobs = jobs_for(desk.position)
        return replay(
            self.engine, self.name, task=task, until=until, strict=strict, chain=chain, jobs=jobs, progress=progress
        )

    def what_if(self, limits: Mapping[str, int | None], *, task: str | None = None, until: int | None = None) -> Tried:
        """What other *limits* would have made of the log up to *until*: see `projections.whatif.what_if`.

        Raises `InvalidInput` for a limit that cannot be tried, `UnknownTask`.
        """
        from projections.facts import facts_of
        from projections.whatif import what_if

        with self.look() as desk:
            if task is not None and desk.task(task) is None:
                raise UnknownTask(task)
            return what_if(facts_of(desk.tx, self.name, until=until), limits, task=task)

    def redact(self, position: int, *, reason: str | None = None, thoroughly: bool = True) -> Gone:
        """Delete the words of the event at *position* for good; chain and proofs still hold (RULES §10).

        *thoroughly*: the store is written anew, so that no page keeps a trace; that takes as long as a backup.
        Raises `UnknownPosition`, `NoWords`.
        """
        from kanban.redacting import redact_on

        return redact_on(self, position, reason, thoroughly=thoroughly)

    def rebuild(self) -> int:
        """Fold the projections anew beside the old ones and swap them; the position they stand at."""
        operators_only(self.environ, "db rebuild")
        return read_models.rebuild(self.engine, self.name)

    def snapshot(self) -> int:
        """Take every snapshot of the past that is missing; how many they were."""
        operators_only(self.environ, "db snapshot")
        return snapshots.take(self.engine, self.name)


def _is_raised(before: Policy, name: str, value: int | None) -> bool:
    was = getattr(before, name)
    return name.endswith("_limit") and value is not None and was is not None and value > was
