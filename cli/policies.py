"""`ledger policy`: the limits of the board, one flag a limit."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from cli.wiring import call_of, number, seconds, usage, verb

app = typer.Typer()

DURATIONS: Final = frozenset(
    {
        "lease", "lease_grace", "launch_grace", "stop_grace", "max_runtime", "progress_timeout", "cooldown",
        "cooldown_cap", "reset_cap",
    }
)  # fmt: skip
MAY_BE_ZERO: Final = frozenset({"lease_grace", "launch_grace", "stop_grace"})
MAY_BE_NONE: Final = frozenset({"attempt_limit", "progress_timeout", "max_running", "max_running_per_assignee"})


def _flag(meaning: str, *, metavar: str = "N") -> Any:
    return typer.Option(metavar=metavar, help=meaning, show_default=False)


_T, _NT, _NN = "DURATION", "DURATION|none", "N|none"


@verb(app)
def policy(
    ctx: typer.Context,
    *,
    failure_limit: Annotated[str | None, _flag("Failures until a card is held.")] = None,
    violation_limit: Annotated[str | None, _flag("Exits without a word in a row until it is held.")] = None,
    attempt_limit: Annotated[str | None, _flag("Failures and such exits together.", metavar=_NN)] = None,
    neutral_limit: Annotated[str | None, _flag("Ends in a row that are nobody's fault.")] = None,
    run_limit: Annotated[str | None, _flag("Runs, however they end.")] = None,
    lease: Annotated[str | None, _flag("How long a run may act without a sign of life.", metavar=_T)] = None,
    lease_grace: Annotated[str | None, _flag("And how much longer until it is lost.", metavar=_T)] = None,
    launch_grace: Annotated[str | None, _flag("How long a worker may take to start.", metavar=_T)] = None,
    stop_grace: Annotated[str | None, _flag("From TERM to KILL.", metavar=_T)] = None,
    max_runtime: Annotated[str | None, _flag("How long a run may take; a card's own wins.", metavar=_T)] = None,
    progress_timeout: Annotated[str | None, _flag("How long without progress.", metavar=_NT)] = None,
    cooldown: Annotated[str | None, _flag("The first wait after a neutral end; it doubles.", metavar=_T)] = None,
    cooldown_cap: Annotated[str | None, _flag("The longest of these waits.", metavar=_T)] = None,
    reset_cap: Annotated[str | None, _flag("The longest wait that a worker may ask for.", metavar=_T)] = None,
    max_running: Annotated[str | None, _flag("Live runs of the board.", metavar=_NN)] = None,
    max_running_per_assignee: Annotated[str | None, _flag("Live runs of each.", metavar=_NN)] = None,
) -> None:
    """Print the limits of the board, or change those that are given."""
    given = {
        "failure_limit": failure_limit,
        "violation_limit": violation_limit,
        "attempt_limit": attempt_limit,
        "neutral_limit": neutral_limit,
        "run_limit": run_limit,
        "lease": lease,
        "lease_grace": lease_grace,
        "launch_grace": launch_grace,
        "stop_grace": stop_grace,
        "max_runtime": max_runtime,
        "progress_timeout": progress_timeout,
        "cooldown": cooldown,
        "cooldown_cap": cooldown_cap,
        "reset_cap": reset_cap,
        "max_running": max_running,
        "max_running_per_assignee": max_running_per_assignee,
    }
    changes = {name: _value(name, text) for name, text in given.items() if text is not None}
    _print(ctx, changes)


def _print(ctx: typer.Context, changes: dict[str, int | None]) -> None:
    from projections.budgets import most_runs

    call = call_of(ctx)
    answer = call.board.set_policy(**changes) if changes else None
    settings = call.board.settings
    notes = () if answer is None else answer.notes
    most = most_runs(settings.policy)
    if call.out.json:
        shown = {"policy": settings.policy._asdict(), "position": settings.policy_position, "most_runs": most}
        call.out.answer({**shown, "changed": answer is not None and answer.changed, "notes": list(notes)})
        return
    call.out.table(
        ("LIMIT", "VALUE"), [(name, _shown(name, value)) for name, value in settings.policy._asdict().items()]
    )
    call.out.line(
        f"\nset at position {settings.policy_position}; a card can use at most {most} runs between two acts of a person"
    )
    call.tell(notes)


def _value(name: str, text: str) -> int | None:
    if text == "none" and name not in MAY_BE_NONE:
        raise usage(f"--{name.replace('_', '-')} cannot be none")
    if name in DURATIONS:
        return seconds(text, allow_zero=name in MAY_BE_ZERO)
    return number(text, f"--{name.replace('_', '-')}")


def _shown(name: str, value: int | None) -> str:
    if value is None:
        return "none"
    return _duration(value) if name in DURATIONS else str(value)


def _duration(total: int) -> str:
    """*total* seconds as `parse_duration` reads them: `1h30m`."""
    parts = [(total // 86_400, "d"), (total % 86_400 // 3_600, "h"), (total % 3_600 // 60, "m"), (total % 60, "s")]
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
