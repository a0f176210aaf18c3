"""The whole board under a state machine: whatever happens, the log, the tables and the world agree."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from tests.machines.board_machine import BoardMachine

SHRINKS = "LEDGER_MACHINE_SHRINKS" in os.environ
EXAMPLES = int(os.environ.get("LEDGER_MACHINE_EXAMPLES", "50"))


class TestBoard(BoardMachine.TestCase):  # type: ignore[misc, name-defined]
    """Always the same examples; LEDGER_MACHINE_EXAMPLES=2000 tries others, LEDGER_MACHINE_SHRINKS=1 shortens them."""

    settings = settings(
        max_examples=EXAMPLES,
        derandomize="LEDGER_MACHINE_EXAMPLES" not in os.environ,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        database=None,
        phases=(Phase.generate, *([Phase.shrink] if SHRINKS else [])),
    )
