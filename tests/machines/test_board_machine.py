"""The whole board under a state machine: whatever happens, the log, the tables and the world agree."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from tests.machines.board_machine import BoardMachine
from tests.machines.served_machine import ServedMachine

SHRINKS = "LEDGER_MACHINE_SHRINKS" in os.environ
EXAMPLES = "LEDGER_MACHINE_EXAMPLES"


def steps(examples: int) -> settings:
    """Always the same *examples*; LEDGER_MACHINE_EXAMPLES=2000 tries others, LEDGER_MACHINE_SHRINKS=1 shortens them."""
    return settings(
        max_examples=int(os.environ.get(EXAMPLES, examples)),
        derandomize=EXAMPLES not in os.environ,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        database=None,
        phases=(Phase.generate, *([Phase.shrink] if SHRINKS else [])),
    )


class TestBoard(BoardMachine.TestCase):  # type: ignore[misc, name-defined]
    """In a file."""

    settings = steps(50)


class TestServedBoard(ServedMachine.TestCase):  # type: ignore[misc, name-defined]
    """On a server, where each step takes longer."""

    settings = steps(12)
