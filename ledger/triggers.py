"""The triggers that keep a log append-only: which of them a store should have, and what is wrong with those it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, text

ON_SQLITE: Final = frozenset(
    {
        "events_no_update", "events_no_delete", "events_no_replace", "words_no_update", "words_no_replace",
        "boards_head_grows", "boards_no_delete", "boards_no_replace",
    }
)  # fmt: skip
ON_POSTGRES: Final = frozenset(
    {
        "events_no_update", "events_no_delete", "events_no_truncate", "words_no_update", "words_no_truncate",
        "boards_head_grows", "boards_no_delete", "boards_no_truncate",
    }
)  # fmt: skip
"""Their names, as the revisions make them; keys refuse there what `no_replace` refuses elsewhere."""


def faults_of_triggers(tx: Connection) -> Iterator[str]:
    """What keeps the database from refusing that the log is changed; in words, by trigger."""
    if tx.dialect.name == "sqlite":
        found = set(tx.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars())
        yield from (f"the trigger {name} is missing" for name in sorted(ON_SQLITE - found))
        return
    enabled = {name: (state, refuses) for name, state, refuses in tx.execute(text(_FOUND))}
    for name in sorted(ON_POSTGRES):
        match enabled.get(name):
            case None:
                yield f"the trigger {name} is missing"
            case ("D" | "R", _):
                yield f"the trigger {name} is disabled"
            case (_, False):
                yield f"the trigger {name} refuses nothing: its function was replaced"
            case _:
                pass


_FOUND: Final = """
SELECT tgname, tgenabled, prosrc LIKE '%RAISE EXCEPTION%' AND proname LIKE 'ledger%'
FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
WHERE tgrelid IN (to_regclass('events'), to_regclass('words'), to_regclass('boards')) AND NOT tgisinternal
"""
