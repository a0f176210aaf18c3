"""What a dispatcher minds where several hosts share the store: whose machine is whose, and what supervisors are told.

On a store of this machine alone all of it comes to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kanban.folders import run_folder
from kanban.lease_file import renew_file, uptime
from kanban.plan import Here, Key, Lease, is_double
from kanban.snapshot import Watch
from kanban.starting import Shop
from kanban.tick import Tick, note_error
from projections.policy import Policy
from projections.run import Run


def started_at(shop: Shop, now: int) -> int | None:
    """When this machine was started, by the clock of the store, which says *now*; none where nobody shares that."""
    return now - uptime() if shop.shared else None


def leases_of(watch: Watch, renewed: Mapping[Key, int]) -> list[tuple[Run, Lease]]:
    """The open runs with their leases; of those that were *renewed* since, as they are now."""
    return [(run, lease._replace(until=renewed.get((run.task, run.run), lease.until))) for _, run, lease in watch.open]


def keep_told(tick: Tick, shop: Shop, held: Iterable[tuple[Run, Lease]], *, shift: int, policy: Policy) -> None:
    """Let each supervisor that lives here know until when its run may act; *held* says it in the store's time.

    *shift* is what this machine's `uptime` is ahead of that. Runs that nobody renewed now are among them: whoever did
    may have been elsewhere, or ended before it could tell. What cannot be told is an error of its card: its supervisor
    ends it when what it knows is over.
    """
    for run, lease in held if shop.shared else ():
        folder = run_folder(shop.home, shop.board, run.task, run.run)
        try:
            renew_file(folder, run, shop.host, lease.until + shift, policy)
        except OSError as fault:
            note_error(tick, run.task, f"its supervisor does not hear that its lease was renewed: {fault}")


def name_doubles(tick: Tick, here: Here, policy: Policy, open_runs: Iterable[tuple[Run, Lease]]) -> None:
    """Tell of another machine that goes by this host's id: they share its cap, and neither judges the other's runs."""
    doubles = [held[0].task for held in open_runs if is_double(here, policy, held)]
    if doubles:
        said = f"another machine goes by the host id {here.host} too, and runs {', '.join(doubles)}"
        told: dict[str, str | None] = {"task": None, "error": f"{said}: set LEDGER_HOST_ID on each"}
        tick.errors += [] if told in tick.errors else [told]
