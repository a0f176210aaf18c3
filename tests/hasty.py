"""The turn runner with delays that a test can wait for."""

from pathlib import Path
from typing import Final

_SCRIPT: Final = """\
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from kanban.worker import recovery, resume
recovery.DELAYS = {delays!r}
resume.main(Path(sys.argv[1]))
"""


def runner(path: Path, *delays: float) -> str:
    """Write a program to *path* that is the runner, but waits *delays* seconds; where it lies."""
    path.write_text(_SCRIPT.format(root=str(Path(__file__).resolve().parents[1]), delays=delays))
    return str(path)
