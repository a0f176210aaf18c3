"""Projections brought after a log that was written past them: by a transcription."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection

from ledger.recorded import Recorded
from projections.read_models import apply


def catch_up(tx: Connection, board: str, recorded: Iterable[Recorded]) -> None:
    """Evolve the stored projections of *board*, which stand right before *recorded*, by these: in their transaction.

    A whole log is folded faster by `rebuild`, but stands behind its events until then.
    """
    for _, events in groupby(recorded, key=attrgetter("task")):
        apply(tx, board, list(events))
