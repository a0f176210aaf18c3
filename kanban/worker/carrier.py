"""The carrier: which claim a process speaks for, all of it or nothing, and the only reading of it (RULES §8)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kanban.refusals import Forbidden

if TYPE_CHECKING:
    from kanban.commands import Credential

VARIABLES: Final = MappingProxyType(
    {
        "database": "LEDGER_DATABASE_URL",
        "board": "LEDGER_BOARD",
        "task": "LEDGER_TASK",
        "run": "LEDGER_RUN",
        "lock": "LEDGER_LOCK",
    }
)
"""The coordinates of a carrier, and the variable that holds each in a worker's environment."""
_LONGEST_RUN: Final = 9  # digits


@dataclass(frozen=True, slots=True)
class Carrier:
    """The authority of one attempt. Made by `carrier_of`; neither the lock nor the address is shown."""

    database: str = field(repr=False)
    board: str
    task: str
    run: int
    lock: str = field(repr=False)

    def as_mapping(self) -> dict[str, Any]:
        """Its coordinates, fit for JSON and for `carrier_of(**…)`. The lock is among them."""
        return asdict(self)

    def as_environment(self) -> dict[str, str]:
        """The variables that make a process this claim's worker."""
        return {VARIABLES[name]: str(value) for name, value in asdict(self).items()}


def carrier_of(
    environ: Mapping[str, str] = os.environ,
    *,
    database: str | None = None,
    board: str | None = None,
    task: str | None = None,
    run: int | str | None = None,
    lock: str | None = None,
) -> Carrier | None:
    """The claim that is passed; where nothing at all is passed, the one that *environ* carries. None: not a worker.

    A blank card means "not a worker", and no variable fills in for it or for what else was not passed.
    Raises `Forbidden` for a part of a claim: it proves nothing.
    """
    passed = {"database": database, "board": board, "task": task, "run": run, "lock": lock}
    explicit = any(value is not None for value in passed.values())
    said = _trimmed(passed) if explicit else _carried(environ)
    if not said["task"]:
        return None
    task_id, number, token = _claim(said)
    if not said["database"] or not said["board"]:
        raise _half(task_id, "database", "board")
    return Carrier(said["database"], said["board"], task_id, number, token)


def is_worker(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the environment of a worker, be its claim whole or not."""
    return bool(_carried(environ)["task"])


def own_run(environ: Mapping[str, str]) -> int | None:
    """The number of the run that *environ* carries; none where it carries none."""
    run = _carried(environ)["run"]
    return int(run) if _is_run(run) else None


def own_claim(environ: Mapping[str, str]) -> tuple[str, Credential] | None:
    """(card, lock) of the worker whose environment this is, for verbs that know their board; none outside of one.

    Raises `Forbidden` where the card is named but run or lock are missing: half a claim proves nothing.
    """
    said = _carried(environ)
    if not said["task"]:
        return None
    from kanban.commands import Credential
    from ledger.recorded import check_text

    check_text(VARIABLES["task"], said["task"])
    task, run, lock = _claim(said)
    return task, Credential(lock, run)


def operators_only(environ: Mapping[str, str], verb: str) -> None:
    """Raise `Forbidden` inside a worker's environment: *verb* is for operators."""
    own = own_claim(environ)
    if own is not None:
        raise Forbidden(f"{verb} is not a worker's", task=own[0], remedy="ask an operator")


def _carried(environ: Mapping[str, str]) -> dict[str, str]:
    return _trimmed({name: environ.get(variable) for name, variable in VARIABLES.items()})


def _trimmed(said: Mapping[str, str | int | None]) -> dict[str, str]:
    """The one place where coordinates are trimmed; what is missing is blank."""
    return {name: "" if value is None else str(value).strip() for name, value in said.items()}


def _claim(said: Mapping[str, str]) -> tuple[str, int, str]:
    run, lock = said["run"], said["lock"]
    if not _is_run(run) or not lock:
        raise _half(said["task"], "run", "lock")
    return said["task"], int(run), lock


def _is_run(text: str) -> bool:
    return text.isdecimal() and len(text) <= _LONGEST_RUN


def _half(task: str, *names: str) -> Forbidden:
    missing = " or ".join(VARIABLES[name] for name in names)
    return Forbidden(
        f"this is the environment of a worker of {task}, but {missing} is missing or no such thing",
        task=task,
        remedy=f"unset {VARIABLES['task']} to act as an operator",
    )
