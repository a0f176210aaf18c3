"""The tiny parent of every spawned command: it waits at the gate, keeps the log and writes the exit record.

Where several hosts share the store it ends its group once the lease of the run has run out (RULES §7.4). Started by
path under `-I -S`, it loads built-in modules and `os` only, to be at its gate in milliseconds: `signal` would load
`enum`. Trailer first, exit record last: whoever sees the exit record finds the log whole (RULES §6).
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
# The interpreter ignores the last two, and exec would keep that.
_RESTORED = (*_STOPS, _signal.SIGPIPE, _signal.SIGXFSZ)
_OPEN = b"g"
_CHUNK = 64 * 1024
_HEAD = 1024 * 1024
_SPARE = 8 * 1024  # what a log gives up on a full disk: a block for the trailer, one for the exit record
_STOPPED, _CANNOT_START, _NOT_FOUND, _BAD_ARGUMENTS, _NO_RECORD = 143, 126, 127, 2, 74
_AS_ASKED = frozenset((75, 78, 129, 130, _STOPPED, *(-stop for stop in _STOPS)))  # what a command that was told may say
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps
_LOOK = 0.5  # seconds between two readings of that clock: a sleep does not count what the machine slept
_PAUSE = 0.05  # seconds between two looks at the group
_WITNESS = 1_000_000  # microseconds for the exit record once the command was killed
_NEVER: "tuple[int, ...]" = (sys.maxsize,) * 3
_THREADS = 14  # in /proc/<pid>/stat, counted from what follows the group
_USAGE = "usage: supervise.py RUN_FOLDER TASK RUN GATE_FD LOG_LIMIT WORKSPACE -- COMMAND [ARGUMENT...]"


class _Order:
    """What the sweep asked for. Raises ValueError, OverflowError or OSError when nothing can be made of it."""

    def __init__(self, argv: list[str]) -> None:
        folder, self.task, run, gate, limit, self.workspace, dashes, *self.command = argv
        self.run, self.gate, self.limit = int(run), int(gate), int(limit)
        if dashes != "--" or not self.command or not self.task.isascii() or min(self.run, self.limit) < 0:
            raise ValueError("no command after --, a negative number or a TASK that is not ASCII")
        os.set_inheritable(self.gate, False)
        self.folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # a descriptor outlives the change of folder


class _Gate:
    """Where the run waits for its claim to be bound. A signal or a gate closed unopened: nothing runs (RULES §7.7).

    Both arrive as bytes in one pipe, a signal's from the C handler itself: the first byte decides, and none can slip
    between a check and a blocking read. What the sweep kept blocked while the interpreter started comes too.
    """

    def __init__(self) -> None:
        self.stops: list[int] = []
        self._heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        _signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        for stop in _STOPS:
            _signal.signal(stop, lambda number, _: self.stops.append(number))
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # ignored by inheritance, it would eat the command's status
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _STOPS)

    def opened(self, gate: int) -> bool:
        """Wait for the gate's one byte, its end or a signal."""
        _thread.start_new_thread(self._watch, (gate,))
        return os.read(self._heard, 1) == _OPEN

    def _watch(self, gate: int) -> None:
        try:
            byte = os.read(gate, 1)
        except OSError:
            byte = b""
        os.write(self._told, byte if byte == _OPEN else b"\0")


class _Log:
    """The run's log: its first MiB, a line on what was dropped, its last `limit` bytes. A failure costs output only.

    Shortened in place: it never lacks its head, nor takes more than 1 MiB + 2 * limit and a chunk.
    """

    def __init__(self, folder: int, limit: int) -> None:
        self._limit, self._dropped, self._marked, self._lost = limit, 0, 0, 0
        try:
            self._end = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600, dir_fd=folder)
            self._any = os.open("log", os.O_RDWR, dir_fd=folder)  # pwrite to the other would append
        except OSError:
            self._end = self._any = -1  # every use is then an OSError, as on a full disk

    def add(self, output: bytes) -> None:
        """Append *output*, or count it as lost."""
        try:
            if self._size() - _HEAD - self._marked > 2 * self._limit:
                self._shorten()
            while output:
                output = output[os.write(self._end, output) :]
        except OSError:
            self._lost += len(output)

    def close(self, trailer: str) -> None:
        """End the log with *trailer*; on a full disk its last output makes room for it."""
        for make_room in (self._shorten, self._give_up_some):
            try:
                make_room()
                lost = f"[... {self._lost} bytes lost: the log could not be written ...]\n" if self._lost else ""
                self._end_with(f"{lost}{trailer}\n".encode())
            except OSError:
                continue
            break

    def _end_with(self, lines: bytes) -> None:
        size = self._size()
        if size and os.pread(self._any, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        while lines:
            lines = lines[os.write(self._end, lines) :]
        os.fsync(self._end)

    def _give_up_some(self) -> None:
        spare = min(self._size(), _SPARE)
        os.ftruncate(self._any, self._size() - spare)
        self._lost += spare

    def _size(self) -> int:
        return os.fstat(self._any).st_size

    def _shorten(self) -> None:
        """Move the last `limit` bytes down to the head, in chunks from below; a failure leaves the end as it was."""
        source = self._size() - self._limit
        dropped = self._dropped + source - _HEAD - self._marked
        line = f"\n[... {dropped} bytes dropped ...]\n".encode()
        target = _HEAD + len(line)
        if source <= target:  # the line would take more room than it makes
            return
        _write_at(self._any, line, _HEAD)
        for done in range(0, self._limit, _CHUNK):
            _write_at(self._any, os.pread(self._any, min(_CHUNK, self._limit - done), source + done), target + done)
        os.ftruncate(self._any, target + self._limit)
        self._dropped, self._marked = dropped, len(line)


class _Command:
    """The command, and a thread, there before it, that waits for its end and then marks the end of its output."""

    def __init__(self) -> None:
        self.output, self._input = os.pipe()
        # A child may hold the pipe open for ever, so its end is not waited for. NUL starts the mark: see _split.
        self.mark = b"\0" + os.urandom(16).hex().encode()
        self.ended = self._pid = 0
        self._burial = _thread.allocate_lock()
        self._started = _thread.allocate_lock()
        self._started.acquire()
        _thread.start_new_thread(self._wait, ())

    def start(self, argv: list[str]) -> None:
        """Start *argv* in this session and group, where the group's signals reach it without being sent again."""
        said = [(os.POSIX_SPAWN_DUP2, self._input, 1), (os.POSIX_SPAWN_DUP2, self._input, 2)]
        files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *said]
        self._pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=files, setsigmask=(), setsigdef=_RESTORED)
        self._started.release()

    def kill(self) -> None:
        """KILL the command, if it was started and lives."""
        with self._burial:
            if self._pid:
                os.kill(self._pid, _signal.SIGKILL)

    def _wait(self) -> None:
        self._started.acquire()
        if hasattr(os, "waitid"):  # the number is its own until it is buried
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with self._burial:
            self.ended = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            self._pid = 0
        while True:
            os.set_blocking(self._input, True)  # a command may have made its output, and so this end, non-blocking
            try:
                os.write(self._input, self.mark)
            except BlockingIOError:
                continue
            break


class _Lease:
    """Until when the run may act where several hosts share the store: `<run>/lease`, rewritten whenever it is renewed.

    No file at the start: nothing is watched; a torn one: nothing runs. Later what was last read whole counts.
    """

    def __init__(self, folder: int) -> None:
        self._folder, self._ends = folder, _NEVER
        self.over = False

    def begins(self) -> bool:
        """Read it for the first time; whether the run may begin."""
        try:
            self._ends = _lease_in(self._folder)
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            self._ends = (0, 0, 0)
        return not self._is_over()

    def watch(self, command: _Command) -> None:
        """End *command* and its group once the lease has run out."""
        if self._ends is not _NEVER:
            _thread.start_new_thread(self._watch, (command,))

    def clear(self) -> None:
        """End what the command left of its group: TERM, grace, KILL. A sweep may be cut off from the store."""
        if self._ends is _NEVER or not _has_company(self.over):
            return
        term, kill, _ = self._ends
        if not self.over:
            kill = _now() + kill - term
            os.killpg(0, _signal.SIGTERM)
        while _now() < kill:
            if not _has_company(True):
                return
            time.sleep(_PAUSE)
        os.killpg(0, _signal.SIGKILL)  # this process too, whose work is done

    def _is_over(self) -> bool:
        """Whether it has run out; where it seems so the file is read again."""
        if _now() >= self._ends[0]:
            try:  # noqa: SIM105 – contextlib takes its time to load
                self._ends = _lease_in(self._folder)
            except (OSError, ValueError):
                pass
        self.over = _now() >= self._ends[0]
        return self.over

    def _watch(self, command: _Command) -> None:
        while not self._is_over():
            _rest(self._ends[0])
        _, kill, last = self._ends
        if _now() < kill:
            os.killpg(0, _signal.SIGTERM)
        while _rest(kill):
            pass
        command.kill()
        last = max(last, _now() + _WITNESS)
        while _rest(last):
            pass
        os.killpg(0, _signal.SIGKILL)  # no disk that hangs keeps the group alive


def _now() -> int:
    """Microseconds since this machine was started, its sleep included."""
    return time.clock_gettime_ns(_SINCE_BOOT) // 1000


def _rest(until: int) -> bool:
    """Sleep for a moment, and no longer than to the instant *until*; whether that lay ahead."""
    left = until - _now()
    if left > 0:
        time.sleep(min(left / 1_000_000, _LOOK))
    return left > 0


def _lease_in(folder: int) -> tuple[int, ...]:
    """When the lease runs out, when KILL follows TERM, and when all is over. Raises ValueError for what is torn."""
    file = os.open("lease", os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    try:
        said = os.read(file, 256)
    finally:
        os.close(file)
    ends = tuple(int(word) for word in said.split()[1:])
    if not said.startswith(b"1 ") or not said.endswith(b"\n") or len(ends) != len(_NEVER) or list(ends) != sorted(ends):
        raise ValueError("no lease of this shape")
    return ends


def _has_company(unknown: bool) -> bool:
    """Whether another process of this group lives; *unknown* where there is no /proc to ask."""
    try:
        others = [name for name in os.listdir("/proc") if name.isdecimal() and name != str(os.getpid())]  # noqa: PTH208
    except OSError:
        return unknown
    return any(map(_is_of_group, others))


def _is_of_group(pid: str) -> bool:
    """Whether *pid* lives in this group. A process of which only the first thread has ended looks like a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            state, _, group, *rest = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return False
    return int(group) == os.getpgrp() and (state not in {b"Z", b"X", b"x"} or int(rest[_THREADS]) > 1)


def _write_at(file: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def _split(data: bytes, mark: bytes) -> tuple[bytes, bytes, bool]:
    """Output; what may be the start of *mark* and waits for the next read; whether *mark* was found."""
    output, found, _ = data.partition(mark)
    start = output.rfind(mark[:1], -len(mark))
    if found or start < 0 or not mark.startswith(output[start:]):
        return output, b"", bool(found)
    return output[:start], output[start:], False


def _pump(command: _Command, log: _Log) -> None:
    held, ended = b"", False
    while not ended:
        output, held, ended = _split(held + os.read(command.output, _CHUNK), command.mark)
        log.add(output)


def _supervise(order: _Order, gate: _Gate, log: _Log, lease: _Lease) -> int:
    """How the run ended: the command's code, or minus the signal that killed it; 126, 127 or 143 when none ran."""
    step = "start a thread"
    try:
        if not gate.opened(order.gate):
            return _STOPPED
        if not lease.begins():
            return _STOPPED
        step = f"enter workspace {order.workspace!a}"
        os.chdir(order.workspace)
        command = _Command()
        lease.watch(command)
        step = f"start {order.command[0]!a}"
        if gate.stops:
            return _STOPPED
        command.start(order.command)
    except (OSError, RuntimeError) as refusal:
        log.add(f"cannot {step}: {refusal.strerror if isinstance(refusal, OSError) else refusal}\n".encode())
        return _NOT_FOUND if isinstance(refusal, FileNotFoundError) and step.startswith("start") else _CANNOT_START
    _pump(command, log)
    return command.ended


def _record(order: _Order, ended: int, at: int) -> bytes:
    """The exit record, one line of JSON: *ended* as _supervise says it, *at* in microseconds UTC."""
    task = "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\u{ord(c):04x}" for c in order.task)
    code, signal = (ended, "null") if ended >= 0 else ("null", -ended)
    end = f'"code":{code},"signal":{signal},"ended_at":{at}'
    return f'{{"schema":1,"task":"{task}","run":{order.run},{end}}}\n'.encode()


def _write_record(folder: int, record: bytes) -> None:
    """Make *record* the first witness (RULES §6), whole or not at all, whatever dies meanwhile."""
    file = os.open("exit.json.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)
    _write_at(file, record, 0)
    os.fsync(file)
    os.rename("exit.json.tmp", "exit.json", src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _bear_witness(order: _Order, log: _Log, ended: int, *, was_told: bool) -> int:
    """End the log, write the exit record, and return the code to exit with.

    A command that was told to end for its lease was interrupted, whatever it made of that: 143, as at the gate.
    """
    said = ""
    if was_told:
        how = f"code {ended}" if ended >= 0 else f"signal {-ended}"
        said = f"[kanban] the lease ran out and nobody renewed it: the run was told to end, and did with {how}\n"
        ended = ended if ended in _AS_ASKED else _STOPPED
    code = ended if ended >= 0 else 128 - ended
    log.close(f"{said}[kanban-worker-exit] rc={code} run={order.run}")
    try:
        _write_record(order.folder, _record(order, ended, time.time_ns() // 1000))
    except OSError as refusal:
        os.write(2, f"supervise: no exit record of {order.task!a} run {order.run}: {refusal.strerror}\n".encode())
        return _NO_RECORD
    return code


def main(argv: list[str]) -> int:
    """Do what *argv* orders; return the command's code, 128 + its signal, 2 (bad arguments) or 74 (no exit record)."""
    gate = _Gate()
    try:
        order = _Order(argv)
    except (ValueError, OverflowError, OSError) as refusal:
        os.write(2, f"supervise: {refusal}; {_USAGE}\n".encode())
        return _BAD_ARGUMENTS
    if os.getpgrp() != os.getpid():
        os.setsid()  # started by hand: the group must be the run's own
    log, lease = _Log(order.folder, order.limit), _Lease(order.folder)
    ended = _supervise(order, gate, log, lease)
    code = _bear_witness(order, log, ended, was_told=lease.over)
    lease.clear()
    return code


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
