"""A fleet under everything at once, for `LEDGER_SOAK` seconds (10; `make soak` gives more)."""

import os
import random
import time
from collections import Counter
from contextlib import suppress

from ledger.errors import Refusal
from tests.fleets import sh

SECONDS = float(os.environ.get("LEDGER_SOAK", "10"))
LOOP = """
while True:
    tick = board.sweep()
    assert not tick.errors, tick.errors
    time.sleep(0.1)
"""
STAFF = {
    "builder": {"command": sh("sleep 0.1; exit 0"), "on_success": "complete"},
    "author": {"command": sh("exit 0"), "on_success": "review", "reviewer": "builder"},
    "silent": {"command": sh("exit 0")},
    "crasher": {"command": sh("exit 1")},
    "throttled": {"command": sh("exit 75")},
    "victim": {"command": sh("kill -9 $$")},
    "litterer": {"command": sh("sleep 3 & exit 0"), "on_success": "complete"},
    "sleeper": {"command": sh("sleep 2"), "on_success": "complete"},
}


def test_soak_nothing_is_lost_and_nothing_runs_twice(fleet):
    """§7, §9: killed sweeps, impatient operators and all kinds of workers leave a log that the audit finds whole."""
    chance = random.Random(os.environ.get("LEDGER_SOAK_SEED", "7"))
    fleet.staff(STAFF, max_running=6)
    fleet.board.set_policy(stop_grace=1, cooldown=1, launch_grace=1, run_limit=8)
    cards = [fleet.create(str(n), chance.choice(list(STAFF)), priority=n % 3) for n in range(12)]
    loops = [fleet.outside(LOOP) for _ in range(2)]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        _one_act(fleet, chance, cards, loops)
        time.sleep(0.05)
    for loop in loops:
        loop.kill()
    fleet.sweep_until(lambda: fleet.board.stats()["live"] == 0 and not fleet.board.settings.pauses)

    events = list(fleet.board.events())
    opened = Counter((event.task, event.run) for event in events if event.kind == "claimed")
    assert fleet.board.replay(strict=True).divergences == ()
    assert set(opened.values()) == {1}
    assert all(run["outcome"] for card in cards for run in fleet.runs(card))


def _one_act(fleet, chance, cards, loops):
    card = chance.choice(cards)
    acts = [
        lambda: cards.append(fleet.create("more", chance.choice(list(STAFF)))),
        lambda: cards.append(fleet.create("child", "builder", parents=[card])),
        lambda: fleet.board.stop(card),
        lambda: fleet.board.unblock(card),
        lambda: fleet.board.assign(card, chance.choice(list(STAFF)), force=True),
        lambda: fleet.board.complete(card, "by hand", force=True),
        lambda: fleet.board.reopen(card),
        lambda: fleet.board.archive(card, children="cascade", force=True),
        lambda: (fleet.board.pause(drain=True), time.sleep(0.2), fleet.board.resume()),
        lambda: _killed(fleet, chance, loops),
    ]
    with suppress(Refusal):  # a rule that says no is an answer
        chance.choice(acts)()


def _killed(fleet, chance, loops):
    victim = chance.randrange(len(loops))
    loops[victim].kill()
    loops[victim].wait()
    loops[victim] = fleet.outside(LOOP)
