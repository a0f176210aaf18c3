"""A worker in Python: turns that may fail, a result for the board, and an exit code that says how it went.

[assignees.agent]
command = ["python3", "/srv/agents/agent.py", "my-model", "--print"]   # a program that reads a prompt on stdin

Keep it out of the workspaces: Python looks for modules beside the script first, and a workspace is the agent's own.
"""

import subprocess
import sys

from kanban import Worker
from kanban.worker import exit_turn


def turn(text: str) -> dict[str, object]:
    """One turn of the agent: put a call of your own here, the same conversation each time."""
    ran = subprocess.run(sys.argv[1:], input=text, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return {"completed": True, "final_response": ran.stdout}
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
    worker.complete(ended.result.output)
exit_turn(ended.code, resets_at=ended.result.resets_at)
