"""What a peer's process is made of: the same SQLite library as the ledger's, and verbs asked for by lines of JSON.

Runs in the peer's own environment, so it imports nothing of the ledger.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import pysqlite3.dbapi2

if pysqlite3.dbapi2.sqlite_version_info > __import__("sqlite3").sqlite_version_info:
    sys.modules["sqlite3"] = sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2  # before the peer is imported


def serve(verbs: dict[str, Callable[..., Any]]) -> None:
    """Answer lines until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        how = json.loads(line)
        print(json.dumps(verbs[how.pop("verb")](**how)), file=answers, flush=True)


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall and of the processor."""
    busy, begun = process_time(), perf_counter()
    work()
    return perf_counter() - begun, process_time() - busy
