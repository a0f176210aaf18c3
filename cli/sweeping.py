"""The loop around a tick: when the next one comes, what is said about each, and how signals end it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from cli.errors import ERROR, OK, PAUSED
from cli.output import Out, clean, local, print_error, zoned
from cli.wiring import Call

if TYPE_CHECKING:
    from kanban.sweep import Sweeper
    from kanban.tick import Tick

POLL: Final = 0.5
"""Seconds between two ticks of --until-idle alone."""
_BY_SIGNAL: Final = 128


@dataclass(slots=True)
class Loop:
    """Ticks of one board: one, one every so often, or until it is idle."""

    call: Call
    dry_run: bool = False
    every: int | None = None
    until_idle: bool = False
    most: int | None = None

    def run(self, *, fail_if_locked: bool = False) -> int:
        """Tick, say what happened, wait, and again. Answers the exit code."""
        board, out, code = self.call.board, self.call.out, OK
        sweeper = board.sweeper  # refused at once inside a worker
        _name_files(self.call)
        self.call.tell(_untold(self.call))
        with _signals() as stop:
            while True:
                tick = self._tick(sweeper)
                say(out, tick)
                code = ERROR if tick.errors else code
                if tick.skipped is not None and fail_if_locked:
                    return PAUSED
                if self._is_last(tick) or stop.within(POLL if self.every is None else self.every):
                    break
            if stop.signum is not None:
                return _BY_SIGNAL + stop.signum
        if self.until_idle and tick.next_at is not None and not out.json:
            out.note(f"next: something can be claimed at {local(tick.next_at)} {zoned('').strip()}")
        return code

    def _tick(self, sweeper: Sweeper) -> Tick:
        """One tick. In a loop a store that is busy or away is a fault of that tick, and the next one tries again."""
        from kanban.tick import Tick
        from ledger.clock import system_clock
        from ledger.errors import StoreBusy, StoreUnreachable

        try:
            return sweeper.tick(dry_run=self.dry_run, most=self.most)
        except (StoreBusy, StoreUnreachable) as fault:
            if self.every is None and not self.until_idle:
                raise
            why = "store busy" if isinstance(fault, StoreBusy) else "store unreachable"
            return Tick(system_clock(), skipped=why, errors=[{"task": None, "error": str(fault)}])

    def _is_last(self, tick: Tick) -> bool:
        return tick.idle if self.until_idle else self.every is None


def say(out: Out, tick: Tick) -> None:
    """One JSON object a line, or a line for each thing that happened; nothing for an idle tick."""
    if out.json:
        out.answer(tick.as_json())
        return
    for line in _lines(tick, held=out.verbose or tick.dry_run, renewed=out.verbose):
        out.done(line)
    for fault in tick.errors:
        print_error(clean(f"{fault['task'] or 'the board'}: {fault['error']}"))


def _lines(tick: Tick, *, held: bool, renewed: bool) -> Iterator[str]:
    would = "would be " if tick.dry_run else ""
    if tick.skipped is not None:
        yield f"skipped: {tick.skipped}"
    for each in tick.booked:
        yield f"{each['task']} run {each['run']}: {would}booked as {each['outcome']}{_more(each)}"
    for each in tick.stopped:
        yield f"{each['task']} run {each['run']}: {would}{_stop(each)}"
    for each in tick.lifted:
        yield f"{each['task']}: its hold {would or 'is '}lifted ({each['cause']})"
    for each in tick.claimed:
        yield f"{each['task']} run {each['run']}: {would}{_start(each, tick)}"
    for each in tick.renewed if renewed else ():
        yield f"{each['task']} run {each['run']}: lease {would}renewed"
    for reason, cards in tick.held.items() if held else ():
        yield f"held, {reason}: {', '.join(cards)}"
    for note in tick.notes:
        yield clean(note)


def _more(booked: dict[str, Any]) -> str:
    """Beside the outcome: who bore witness, and what followed in the same append."""
    follows = [kind for kind in booked["events"][1:] if kind != booked["outcome"]]
    witness = f" ({booked['evidence']})" if booked["evidence"] != "none" else ""
    return witness + "".join(f", then {kind}" for kind in follows)


def _start(claimed: dict[str, Any], tick: Tick) -> str:
    if tick.dry_run:
        return "started"
    return "claimed, but not started" if claimed["pid"] is None else f"started, pid {claimed['pid']}"


def _stop(stopped: dict[str, Any]) -> str:
    if "cause" in stopped:
        return f"asked to stop ({stopped['cause']})"
    return f"sent {signal.Signals(stopped['signal']).name}"


def _name_files(call: Call) -> None:
    files = call.address.loaded.assignee_files
    names = ", ".join(call.address.loaded.config.assignees)
    if files:
        call.out.note(f"assignees {names}: from {', '.join(map(str, files))}")
    else:
        call.out.note("no assignee is configured: nothing will be started (ledger config show says which files count)")


def _untold(call: Call) -> tuple[str, ...]:
    """That spans are wanted and will not be told, where that is so."""
    from kanban.tracing import hindrance

    said = hindrance(call.environ)
    return () if said is None else (said,)


class _Stop:
    """Whether a signal asked for the end, and a wait that it cuts short."""

    def __init__(self, heard: int) -> None:
        self.signum: int | None = None
        self._heard = heard

    def within(self, seconds: float) -> bool:
        """Wait so long; at once where a signal came or comes."""
        if self.signum is None:
            select.select([self._heard], [], [], seconds)
        return self.signum is not None


@contextmanager
def _signals() -> Iterator[_Stop]:
    """INT and TERM end the loop after the tick at hand; the second of them ends the process as usual."""
    heard, told = os.pipe()
    stop = _Stop(heard)
    before: dict[int, Any] = {}

    def note(signum: int, _frame: FrameType | None) -> None:
        stop.signum = signum
        os.write(told, b"!")
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    set_handler: Callable[[int, Any], Any] = signal.signal
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = set_handler(number, note)
        yield stop
    finally:
        restore()
        os.close(heard)
        os.close(told)
