"""The examination that `ledger doctor` makes: machine, files, store, logs, runs and cards, each by checks of their own.

It changes nothing. A check that fails is a finding of its own, and the others go on; a store that cannot be opened is
looked at from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from sqlalchemy import Engine

from kanban import doctor_cards, doctor_machine, doctor_rights, doctor_runs, doctor_server, doctor_store
from kanban.address import Address
from kanban.case import Case
from kanban.findings import Finding, Level, error, short
from ledger.clock import Clock, system_clock
from ledger.database import reading
from ledger.errors import LedgerError
from ledger.standing import instant_of

__all__ = ["Finding", "Level", "examine", "is_broken", "is_unreadable"]

_MOST: Final = 20
"""Findings of one check that are told one by one."""
_Check = Callable[[], Iterable[Finding]]


def examine(at: Address, *, clock: Clock = system_clock) -> list[Finding]:
    """All that can be found out about the store at *at*, and about this machine."""
    case = Case(at, clock())
    skipped = doctor_machine.OF_A_FILE if case.served else ()
    found = _made({check.__name__: partial(check, case) for check in doctor_machine.CHECKS if check not in skipped})
    opened = doctor_store.opened(case)
    found += opened.findings
    if opened.engine is None:
        return found
    try:
        with reading(opened.engine) as tx:
            case = replace(case, now=instant_of(tx, clock))
        checks = _checks(case, readable=not is_unreadable(found))
        return found + _made({check.__name__: partial(check, case, opened.engine) for check in checks})
    finally:
        opened.engine.dispose()


def _checks(case: Case, *, readable: bool) -> list[Callable[[Case, Engine], Iterator[Finding]]]:
    """What is looked at in the store: of another revision only what is the database's own."""
    checks = [*(doctor_server.CHECKS if case.served else doctor_store.OF_THE_FILE)]
    if readable:
        checks += [*doctor_rights.CHECKS] if case.served else []
        checks += [*doctor_store.OF_THE_LOG, *doctor_runs.CHECKS, *doctor_cards.CHECKS]
    return checks


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
