"""What many of these tests tell: a worker that ends so, a fleet that goes on for hours, the arithmetic that remains."""

from __future__ import annotations

from typing import Any

from kanban.plan import Seen
from kanban.processes import Presence
from tests.rules.world import WorldView, ended

ALIVE = Seen(Presence.ALIVE, (4242,))
"""The worker's process is seen, under its own identity."""


def die(world: WorldView, code: int | None = None, task: str = "t_a", **seen: Any) -> str | None:
    """A tick finds the card's open run ended with *code*; its outcome."""
    run = world.card(task).run
    assert run is not None, f"{task} has no run"
    world.settle({(task, run): ended(code, **seen)})
    found = world.run(task, run)
    assert found is not None
    return found.outcome


def go(world: WorldView, code: int | None = None, task: str = "t_a", **seen: Any) -> str | None:
    """One attempt, as soon as it may begin, that ends with *code*; its outcome."""
    card = world.card(task)
    world.now = max(world.now, card.not_before or 0, card.scheduled or 0)
    world.claim(task)
    return die(world, code, task, **seen)


def night(world: WorldView, code: int | None = None, *, ticks: int = 60, step: float = 4_000, **seen: Any) -> int:
    """Tick again and again; every run ends with *code*. How many runs that were."""
    started = 0
    for _ in range(ticks):
        _, admission = world.tick()
        for start in admission.starts:
            started += 1
            die(world, code, start.task.id, **seen)
        world.later(step)
    return started


def counters(world: WorldView, task: str = "t_a") -> tuple[int, int, int, int]:
    """Failures, streak, spent and neutral of the card."""
    card = world.card(task)
    return card.failures, card.streak, card.spent, card.neutral


def hold(world: WorldView, task: str = "t_a") -> tuple[str, bool] | None:
    """Cause and stickiness of the card's hold."""
    held = world.card(task).hold
    return None if held is None else (held.cause, held.sticky)
