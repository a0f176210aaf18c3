"""What the board's own stream says: identity, policy and pauses, as a pure fold."""

from __future__ import annotations

from typing import NamedTuple

from ledger.recorded import Recorded
from ledger.upcasters import check_readable
from projections.policy import Policy, policy_from


class Pause(NamedTuple):
    """A pause in force: its scope, whether it drains live runs, and the event that set it."""

    scope: str
    name: str
    drain: bool
    position: int
    at: int


class Settings(NamedTuple):
    """The board's own state."""

    board_id: str = ""
    name: str = ""
    version: int = 0
    position: int = 0
    policy: Policy = Policy()
    policy_position: int = 0
    pauses: tuple[Pause, ...] = ()

    def pause_of(self, *, worker: str | None = None, host: str | None = None) -> Pause | None:
        """The first pause that stops a claim for *worker* on *host*: board, then assignee, then host."""
        wanted = (("board", ""), ("assignee", worker), ("host", host))
        found = [pause for key in wanted for pause in self.pauses if (pause.scope, pause.name) == key]
        return found[0] if found else None


NEW_BOARD = Settings()


def evolve_settings(settings: Settings, event: Recorded) -> Settings:
    """What *event* of the board's own stream makes of *settings*. Total: a fact is never refused here.

    Raises `UnknownKind`, `NewerSchema`: an event that this program cannot read is not skipped (RULES §2).
    """
    check_readable(event.kind, event.schema, position=event.position)
    now = settings._replace(version=event.version, position=event.position)
    match event.kind:
        case "board_created":
            return now._replace(board_id=event.facts["board_id"], name=event.facts["name"])
        case "policy_changed":
            return now._replace(policy=policy_from(event.facts), policy_position=event.position)
        case "paused":
            scope = event.facts["scope"]
            pause = Pause(scope["kind"], scope["name"], event.facts["drain"], event.position, event.at)
            return now._replace(pauses=(*_without(settings, scope), pause))
        case "resumed":
            return now._replace(pauses=_without(settings, event.facts["scope"]))
        case _:
            return now


def _without(settings: Settings, scope: dict[str, str]) -> tuple[Pause, ...]:
    key = (scope["kind"], scope["name"])
    return tuple(pause for pause in settings.pauses if (pause.scope, pause.name) != key)
