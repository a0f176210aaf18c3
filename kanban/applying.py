"""Doing the steps of a plan inside the board's lock: all in one savepoint, and each in its own where one of them fails.

One card that is broken never stops the others. As nearly every tick meets none, all are tried together first: then
fifty deaths take the statements of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kanban.booking import decide_step
from kanban.commands import View
from kanban.desk import Desk
from kanban.plan import AskStop, Book, Forget, Key, Lift, Renew, Signal, Step
from kanban.tick import Tick, note_error, report
from ledger.clock import rfc3339
from ledger.errors import StoreFault
from ledger.events import Actor
from ledger.recorded import Draft
from projections import leases

_T = TypeVar("_T")
Told = Signal | Renew
"""A step of which processes must be told once it is committed."""
_Decided = Book | AskStop | Lift
_MANY: Final = 4
"""Steps whose cards are read at once: fewer cost less one by one."""


class Booker(NamedTuple):
    """Who does the steps: *actor*, and the *observer* that its events name."""

    actor: Actor
    observer: str

    def apply(self, tick: Tick, desk: Desk, steps: Sequence[Step]) -> list[Told]:
        """Do *steps*, in order. One that fails is told in *tick*, and leaves nothing; the others are done."""
        done = self._together(tick, desk, steps) if steps else []
        return self._one_by_one(tick, desk, steps) if done is None else done

    def foretell(self, tick: Tick, view: View, step: Step) -> list[Draft]:
        """What *step* would come to, told in *tick*."""
        match step:
            case Book() | AskStop() | Lift():
                decision = decide_step(view, step, self.actor, self.observer)
                report(tick, step, decision.drafts, decision.notes)
                return list(decision.drafts)
            case Signal(run, signum):
                tick.stopped.append({"task": run.task, "run": run.run, "signal": int(signum)})
            case Renew():
                _tell_renewed(tick, step)
            case Forget():
                pass
        return []

    def _together(self, tick: Tick, desk: Desk, steps: Sequence[Step]) -> list[Told] | None:
        """Do all *steps* in one savepoint; none, and nothing is done or told, where one of them fails."""
        told, done = Tick(tick.at), list[Told]()
        try:
            with desk.part():
                if len(steps) >= _MANY:
                    desk.know_all(card_of(step) for step in steps if isinstance(step, _Decided))
                for step in steps:
                    done += self.do(told, desk, step)
        except StoreFault:
            raise
        except Exception:  # noqa: BLE001 – each says itself what is wrong with it, once it is done alone
            return None
        tick.take(told)
        return done

    def _one_by_one(self, tick: Tick, desk: Desk, steps: Sequence[Step]) -> list[Told]:
        """Do each of *steps* in a savepoint of its own."""
        done: list[Told] = []
        failed: set[str] = set()
        for step in steps:
            if isinstance(step, Signal) and card_of(step) in failed:
                continue  # no signal without the `stop_requested` that could not be written
            left = guarded(tick, desk, card_of(step), partial(self.do, tick, desk, step))
            failed |= {card_of(step)} if left is None else set()
            done += left or []
        return done

    def do(self, tick: Tick, desk: Desk, step: Step) -> list[Told]:
        """Do *step*; itself, if processes must be told of it once all is committed."""
        match step:
            case Book() | AskStop() | Lift():
                decision = decide_step(desk, step, self.actor, self.observer)
                recorded = desk.write(decision)
                if isinstance(step, Book) and not any(event.kind == "exited" for event in recorded):
                    # its processes were seen gone: an end by `on_success` keeps no lease either
                    desk.release(step.run.task, step.run.run)
                report(tick, step, recorded, decision.notes)
            case Signal():
                return [step]
            case Renew(run, until):
                leases.renew(desk.rows, desk.board, run.task, run.run, until=until)
                _tell_renewed(tick, step)
                return [step]
            case Forget(run):
                desk.release(run.task, run.run)
        return []


def guarded(tick: Tick, desk: Desk, task: str, work: Callable[[], _T]) -> _T | None:
    """Do *work* in a savepoint of its own: a fault on one card is reported, and the others go on."""
    try:
        with desk.part():
            return work()
    except StoreFault:
        raise
    except Exception as fault:  # noqa: BLE001 – whatever it is, it is this card's, and the exit code says so
        note_error(tick, task, f"{type(fault).__name__}: {fault}")
        return None


def card_of(step: Step) -> str:
    """The card that *step* is about."""
    return step.task if isinstance(step, Lift) else step.run.task


def renewed(done: Iterable[Told]) -> dict[Key, int]:
    """Until when the leases run that were renewed."""
    return {(step.run.task, step.run.run): step.until for step in done if isinstance(step, Renew)}


def _tell_renewed(tick: Tick, step: Renew) -> None:
    tick.renewed.append({"task": step.run.task, "run": step.run.run, "lease_until": rfc3339(step.until)})
