"""What is looked at of rights on a server: whether this role can write, and whether that of workers can only append."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlalchemy import Connection, Engine

from kanban.case import Case
from kanban.findings import Finding, error, info, listed, ok, warning
from kanban.roles import NEVER, OPERATORS, WORKERS, Role, having, lacking, role_of
from kanban.soundness import heads_of
from ledger.database import connected, masked, reading
from ledger.errors import StoreFault

_HOW: Final = "see the roles in docs/scaling.md"


def rights(_case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether this role may write what commands write."""
    with reading(engine) as tx:
        role = role_of(tx)
        missing = [] if role is None else lacking(tx, role.name, OPERATORS)
    name = "this role" if role is None else f"the role {role.name}"
    if missing:
        text = f"{name} may not do all that operators do: it lacks {listed(missing)}"
        yield warning("rights", text, "connect as the owner of the tables, or grant it that")
    else:
        yield ok("rights", f"{name} may do all that operators do")


def workers(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether workers have a role of their own, which can append and nothing else."""
    url = case.at.loaded.config.worker_database
    if url is None:
        text = "workers are given the operators' own address, so they may do whatever operators may"
        yield info("workers", text, f"ledger db grant ROLE, and worker_database in ledger.toml; {_HOW}")
        return
    with reading(engine) as tx:
        known = heads_of(tx)
    try:
        with connected(url) as theirs, reading(theirs) as tx:
            if {name: end.board_id for name, end in heads_of(tx).items()} != {n: e.board_id for n, e in known.items()}:
                yield error("workers", f"worker_database, {masked(url)}, is another store", "mend worker_database")
                return
            yield from _of_role(tx, role_of(tx))
    except StoreFault as fault:
        yield error("workers", f"worker_database, {masked(url)}: {fault.message}", fault.remedy)


def _of_role(tx: Connection, role: Role | None) -> Iterator[Finding]:
    assert role is not None, "whoever asks has a role"
    name, again = f"the workers' role {role.name}", f"ledger db grant {role.name}"
    missing, too_much = lacking(tx, role.name, WORKERS), having(tx, role.name, NEVER)
    if role.superuser or role.owner:
        what = "is a superuser" if role.superuser else "owns the tables"
        yield warning("workers", f"{name} {what}, so it may change what is in the log", f"another role; {_HOW}")
    elif too_much:
        yield warning("workers", f"{name} may do what no worker needs: {listed(too_much)}", again)
    elif role.makes:
        mend = f"REVOKE CREATE ON SCHEMA public FROM PUBLIC, and FROM {role.name}"
        yield warning("workers", f"{name} may make tables and functions beside the ledger's", mend)
    if missing:
        yield error("workers", f"{name} lacks {listed(missing)}, so verbs of workers fail", again)
    elif not (role.superuser or role.owner or too_much or role.makes):
        yield ok("workers", f"{name} may append, and cannot change what is in the log")


CHECKS: Final[tuple[Callable[[Case, Engine], Iterator[Finding]], ...]] = (rights, workers)
