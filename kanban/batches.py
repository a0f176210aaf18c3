"""Many acts in one transaction: what a pool of workers, or an importer, pays once instead of each time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from kanban.at_desk import at_desk
from kanban.desk import Desk
from kanban.session import Session
from ledger.errors import InvalidInput, NotFound, Refusal
from ledger.store import by_command

_NO = (Refusal, NotFound, InvalidInput)


class Done(NamedTuple):
    """What one of many acts came to: its card, whether anything changed, the log's end, and what refused it, if so."""

    task: str
    changed: bool
    position: int
    refusal: Exception | None


class Batches(Session):
    """A board that takes many commands at once."""

    def do_many(self, commands: Sequence[Any]) -> list[Done]:
        """Decide and append each of *commands* (of `kanban.commands`), in order, all in one transaction.

        One that is refused leaves nothing and does not stop the others; a fault of the store leaves nothing of any.
        """
        own = [self.own_command_id() for _ in commands]
        cards = list(dict.fromkeys(filter(None, map(_card_of, commands))))
        tries = count()

        def once() -> list[Done]:
            known = next(tries) > 0
            with at_desk(self.engine, self.name, self.clock, tasks=cards) as desk:
                if len(cards) == 1:
                    desk.know_one(*cards)
                else:
                    desk.know_all(cards)
                return [self._done(desk, each, own_id, known=known) for each, own_id in zip(commands, own, strict=True)]

        return self.retried(once)

    def _done(self, desk: Desk, command: Any, command_id: str | None, *, known: bool) -> Done:
        earlier = by_command(desk.tx, self.name, command_id) if known and command_id else None
        if earlier is not None:
            return Done(earlier.task, changed=True, position=earlier.position, refusal=None)
        task = _card_of(command)
        try:
            decision = self._decided(desk, command)
        except _NO as refusal:
            return Done(task, changed=False, position=desk.position, refusal=refusal)
        recorded = desk.write(decision, command_id=command_id)
        return Done(decision.replayed or task, bool(recorded), desk.position, decision.refusal)


def _card_of(command: Any) -> str:
    return str(getattr(command, "task", ""))
