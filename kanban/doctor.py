"""The examination that `ledger doctor` makes: machine, files, store, logs, runs and cards, each by checks of their own.

It changes nothing. A check that fails is a finding of its own, and the others go on; a store that cannot be opened is
looked at from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from kanban import doctor_cards, doctor_machine, doctor_runs, doctor_store
from kanban.address import Address
from kanban.case import Case
from kanban.findings import Finding, Level, error, short
from ledger.clock import Clock, system_clock
from ledger.errors import LedgerError

__all__ = ["Finding", "Level", "examine", "is_broken", "is_unreadable"]

_MOST: Final = 20
"""Findings of one check that are told one by one."""
_Check = Callable[[], Iterable[Finding]]


def examine(at: Address, *, clock: Clock = system_clock) -> list[Finding]:
    """All that can be found out about the store at *at*, and about this machine."""
    case = Case(at, clock())
    found = _made({check.__name__: partial(check, case) for check in doctor_machine.CHECKS})
    opened = doctor_store.opened(case)
    found += opened.findings
    if opened.engine is None:
        return found
    try:
        checks = [*doctor_store.OF_THE_FILE]
        if not is_unreadable(found):
            checks += [*doctor_store.OF_THE_LOG, *doctor_runs.CHECKS, *doctor_cards.CHECKS]
        return found + _made({check.__name__: partial(check, case, opened.engine) for check in checks})
    finally:
        opened.engine.dispose()


def is_broken(findings: Iterable[Finding]) -> bool:
    """Whether anything is broken now."""
    return any(found.level is Level.ERROR for found in findings)


def is_unreadable(findings: Iterable[Finding]) -> bool:
    """Whether this program cannot read the store at all."""
    return any(found.level is Level.ERROR and found.check in {"store", "revision"} for found in findings)


def _made(checks: dict[str, _Check]) -> list[Finding]:
    return [finding for name, check in checks.items() for finding in short(_guarded(name, check), most=_MOST)]


def _guarded(name: str, check: _Check) -> Iterator[Finding]:
    """What *check* finds; what stops it is found too, and the other checks go on."""
    try:
        yield from check()
    except LedgerError as fault:
        yield error(name, f"this could not be looked at: {fault.message}", fault.remedy)
    except Exception as fault:  # noqa: BLE001 – whatever it is, it is this check's
        yield error(name, f"this could not be looked at: {type(fault).__name__}: {fault}", "ledger replay")
