"""A worker in Python: turns that may fail, a result for the board, and an exit code that says how it went.

[assignees.agent]
command = ["python3", "/srv/agents/agent.py", "my-model", "--print"]   # a program that reads a prompt on stdin

Keep it out of the workspaces: Python looks for modules beside the script first, and a workspace is the agent's own.
"""

import subprocess
import sys

from kanban import Worker
from kanban.refusals import LostClaim
from kanban.worker import exit_turn


def turn(text: str) -> dict[str, object]:
    """One turn of the agent: put a call of your own here, the same conversation each time."""
    ran = subprocess.run(sys.argv[1:], input=text, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if ran.returncode == 0:
        return {"completed": True, "final_response": ran.stdout.replace("\0", "")}  # a NUL cannot be stored
    busy = "overloaded" in ran.stderr  # the only failure of this model that another try may mend
    return {
        "failed": True,
        "failure_retryable": busy,
        "failure_reason": "overloaded" if busy else None,
        "error": ran.stderr,
    }


worker = Worker.from_environment()
worker.progress("began")
ended = worker.run(turn)  # tries again while the claim holds, and never without it
print(ended.result.output or ended.result.error)
if ended.code == 0:
    try:
        worker.complete((ended.result.output or "").strip() or "it ended well and said nothing")
    except LostClaim as lost:  # the agent closed its card itself, or somebody took it away: nothing is left to say
        print(lost, file=sys.stderr)
exit_turn(ended.code, resets_at=ended.result.resets_at)
