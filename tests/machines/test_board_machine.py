"""The whole board under a state machine: whatever happens in whatever order, the log, the tables and the world agree."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from tests.machines.board_machine import BoardMachine

SHRINKS = "LEDGER_MACHINE_SHRINKS" in os.environ
EXAMPLES = int(os.environ.get("LEDGER_MACHINE_EXAMPLES", "25"))


class TestBoard(BoardMachine.TestCase):  # type: ignore[misc, name-defined]
    """Run more with LEDGER_MACHINE_EXAMPLES=2000."""

    settings = settings(
        max_examples=EXAMPLES,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=(Phase.reuse, Phase.generate, *([Phase.shrink] if SHRINKS else [])),
    )
