"""The tiny parent of a warm agent: it lives as long as its owner, and ends the agent's whole group when that is gone.

Started by path under `-I -S`. An owner that dies, however it dies, closes its end of the leash; nothing else could end
an agent in the middle of a turn then.
"""

import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

_STOPS = (_signal.SIGHUP, _signal.SIGTERM, _signal.SIGINT)
_RESTORED = (*_STOPS, _signal.SIGPIPE, _signal.SIGXFSZ)
_GRACE = 5.0  # seconds from TERM to KILL
_PAUSE = 0.02
_CANNOT_START, _NOT_FOUND = 126, 127


def _hold(leash: int, group: int) -> None:
    """Wait until nobody holds the other end any more, then end the group."""
    os.read(leash, 1)
    _end(group)


def _end(group: int) -> None:
    """TERM to the group, and KILL to what is left of it after the grace."""
    deadline = time.monotonic() + _GRACE
    number = int(_signal.SIGTERM)
    try:
        while True:
            os.killpg(group, number)
            number = 0 if time.monotonic() < deadline else _signal.SIGKILL
            time.sleep(_PAUSE)
    except ProcessLookupError:
        return


def main(leash: int, tied: int, command: list[str]) -> int:
    """Run *command* in a group of its own until it ends or *leash* does; its code, 128 and its signal, 126 or 127.

    *tied* stays open, here alone, until the group is gone.
    """
    os.set_inheritable(tied, False)
    for stop in _STOPS:  # only the leash ends it
        _signal.signal(stop, _signal.SIG_IGN)
    try:
        pid = os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigmask=(), setsigdef=_RESTORED)
    except OSError as refusal:
        os.write(2, f"cannot start {command[0]!a}: {refusal.strerror}\n".encode())
        return _NOT_FOUND if isinstance(refusal, FileNotFoundError) else _CANNOT_START
    for standard in (0, 1):  # the agent's alone now: its end must be seen
        os.close(standard)
    _thread.start_new_thread(_hold, (leash, pid))
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    _end(pid)
    return ended if ended >= 0 else 128 - ended


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]))
