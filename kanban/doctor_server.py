"""What is looked at on a PostgreSQL server: what it is, what it risks, who is connected, what time it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlalchemy import Engine, text

from kanban.case import Case
from kanban.findings import Finding, counted, error, info, ok, warning
from ledger.clock import SECOND, rfc3339, system_clock
from ledger.database import reading
from ledger.sessions import Session, others
from ledger.standing import instant_of

OLDEST: Final = 140000
"""The first server version that this program is for."""
FEW: Final = 10
"""Connections left, below which it is said."""
IDLE: Final = 10 * SECOND
"""How long a transaction may stand still."""
_RISKY: Final = ("fsync", "full_page_writes", "synchronous_commit")


def server(_case: Case, engine: Engine) -> Iterator[Finding]:
    """Which server it is, and whether it takes writes."""
    with reading(engine) as tx:
        number, version, encoding, standby, read_only = tx.execute(text(_SERVER)).one()
    yield of_version(int(number), f"PostgreSQL {version}, {encoding}")
    if standby:
        yield error("server", "it is a standby, which takes no writes", "name the primary's address")
    elif read_only == "on":
        mend = "ALTER ROLE or ALTER DATABASE … SET default_transaction_read_only = off"
        yield error("server", "every transaction is read-only here, so nothing can be written", mend)


def of_version(number: int, known: str) -> Finding:
    """Whether the server is one that this program is for."""
    if number < OLDEST:
        return error("server", f"{known}: this program needs {OLDEST // 10_000} or newer", "upgrade the server")
    return ok("server", known)


def durability(_case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether what was acknowledged outlives a power cut."""
    with reading(engine) as tx:
        off = [name for name in _RISKY if tx.exec_driver_sql(f"SHOW {name}").scalar() == "off"]
    for name in off:
        lost = "the last commits" if name == "synchronous_commit" else "the whole store"
        mend = f"ALTER SYSTEM SET {name} = on; then SELECT pg_reload_conf()"
        yield warning("durability", f"{name} is off: a power cut can lose {lost}", mend)
    if not off:
        yield ok("durability", f"{', '.join(_RISKY)} are on")


def connections(_case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether the server has room for more clients."""
    with reading(engine) as tx:
        most, used = tx.execute(text(_CONNECTIONS)).one()
    yield of_connections(most, used)


def of_connections(most: int, used: int) -> Finding:
    """Whether there is room for more than the *used* of at most *most* connections."""
    known = f"{used} of {most} connections are in use"
    if most - used < FEW:
        return warning(
            "connections", f"{known}: soon commands will be refused", "raise max_connections, or use a pooler"
        )
    return ok("connections", known)


def transactions(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether somebody stands still in the middle of a transaction."""
    with reading(engine) as tx:
        idle = [each for each in others(tx) if each.idle_since is not None and case.now - each.idle_since >= IDLE]
    yield from [_idle(case, each) for each in idle] or [ok("transactions", "nobody stands still in the middle of one")]


def _idle(case: Case, session: Session) -> Finding:
    since = session.idle_since or case.now
    still = f"{session} has stood still in a transaction for {counted((case.now - since) // SECOND, 'second')}"
    end = f"SELECT pg_terminate_backend({session.pid})"
    if session.holds:
        text = f"{still} (since {rfc3339(since)}) and may hold a board: its writers wait, and give up"
        return warning("transactions", text, end)
    text = f"{still} (since {rfc3339(since)}): no writer waits for it, but the server cannot clean up what came later"
    return info("transactions", text, end)


def skew(_case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether this host's clock agrees with the server's."""
    with reading(engine) as tx:
        before = system_clock()
        there = instant_of(tx, system_clock)
        after = system_clock()
    yield of_skew((before + after) // 2 - there, (after - before) // 2)


def of_skew(ahead: int, doubt: int) -> Finding:
    """*ahead*: how far this host's clock is before the server's, in microseconds, give or take *doubt*."""
    if abs(ahead) <= SECOND + doubt:
        return ok("skew", "this host's clock and the server's are about the same")
    side = "ahead of" if ahead > 0 else "behind"
    known = f"this host's clock is {abs(ahead) / SECOND:.1f} s {side} the server's"
    return warning(
        "skew", f"{known}: nothing is decided by it, but times that are given or shown here are off", "timedatectl"
    )


_SERVER: Final = """
SELECT current_setting('server_version_num'), current_setting('server_version'), current_setting('server_encoding'),
    pg_is_in_recovery(), current_setting('default_transaction_read_only')
"""
_CONNECTIONS: Final = """
SELECT CAST(current_setting('max_connections') AS int) - CAST(current_setting('superuser_reserved_connections') AS int),
    (SELECT CAST(sum(numbackends) AS int) FROM pg_stat_database)
"""
CHECKS: Final[tuple[Callable[[Case, Engine], Iterator[Finding]], ...]] = (
    server, durability, connections, transactions, skew,
)  # fmt: skip
