"""Signals as news: a process that waits for something else hears of them at once and decides itself what they mean."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ROOM = 4096


class Ears:
    """What was heard, oldest first, until it is taken, and a wait that the next signal cuts short."""

    def __init__(self, news: int) -> None:
        self.heard: list[int] = []
        self._news = news

    def wait(self, seconds: float) -> None:
        """Wait so long; no longer than until a signal comes, and not at all where one came since the last wait."""
        if select.select([self._news], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                os.read(self._news, _ROOM)

    def take(self) -> list[int]:
        """All that was heard since the last time."""
        heard, self.heard = self.heard, []
        return heard


@contextmanager
def hearing(*numbers: int) -> Iterator[Ears]:
    """Hear the signals *numbers* instead of what they would do; afterwards they do again what they did before.

    One that this process was started to ignore, as by nohup, stays ignored.
    """
    news, told = os.pipe()
    os.set_blocking(news, False)
    os.set_blocking(told, False)
    ears = Ears(news)
    woken = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    wanted = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda heard, _: ears.heard.append(heard)) for number in wanted}
    try:
        yield ears
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        os.close(news)
        os.close(told)
