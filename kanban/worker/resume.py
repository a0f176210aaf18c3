"""The turns of a command that can go on: the first, and after a failure that may pass the next, in the same run.

The supervisor starts this file by its path under `-I` in the command's place, in the run's group and workspace and with
its environment. It loads what proves a claim only once a turn failed or a goal is judged, and what changes a card only
to block it. A signal to the group reaches the command at hand too, so none is sent again: the turn is waited for, and
no other begins.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if __name__ == "__main__":  # beside this file, and nowhere else: `-I` leaves even its own folder out
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kanban.folders import LOG, TURN_RESULT, read_file
from kanban.worker.ears import Ears, hearing
from kanban.worker.exits import DONE, FAILED, exit_code, exit_turn
from kanban.worker.result import Status, TurnResult, result_of, result_of_exit

if TYPE_CHECKING:
    from kanban.worker.carrier import Carrier
    from kanban.worker.turns import Ended
    from kanban.worker.verdict import Asked

RESULT: Final = "LEDGER_TURN_RESULT"
"""The variable that names the file in which a command may say how its turn ended: one JSON object for `result_of`."""
LARGEST_RESULT: Final = 64 * 1024
"""Bytes: a larger file says nothing."""
PASSING: Final = "server_error"
"""The reason of a failure that a `retry` pattern speaks for."""
_QUOTA: Final = "rate_limit"
_TOLD: Final = TurnResult(Status.INTERRUPTED, error="told to stop")
_STOPS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_NOT_FOUND, _CANNOT_START = 127, 126
_TAIL: Final = 16 * 1024  # bytes of the log that are searched for the end of a turn
_PATIENCE: Final = 5.0  # seconds until the supervisor must have written what it was told
_PAUSE: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What the runner is to do. *resume* still has its places; *values* fills all of them but the prompt.

    With a *judge* the card has a goal; *closes*: exit 0 closes the card, so the agent need not once that is met.
    """

    command: tuple[str, ...]
    resume: tuple[str, ...]
    retry: tuple[str, ...]
    quota: tuple[str, ...]
    judge: tuple[str, ...] = ()
    closes: bool = False
    values: Mapping[str, str]

    def as_json(self) -> str:
        """The text of the file that `read` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, path: Path) -> Turns:
        """What stands in *path*. Raises OSError, ValueError, TypeError or KeyError where that is not whole."""
        said = json.loads(path.read_bytes())
        lists = {name: tuple(said[name]) for name in ("command", "resume", "retry", "quota", "judge")}
        return cls(**lists, closes=said["closes"], values=said["values"])


class Runner:
    """The turns of one run, whose files lie in *folder*."""

    def __init__(self, turns: Turns, folder: Path, carrier: Carrier, ears: Ears) -> None:
        self.ended = 0
        """The code of the last command, as a shell says it: 128 and the number of a signal that killed it."""
        self._turns, self._folder, self._carrier, self._ears = turns, folder, carrier, ears
        self._count = 1

    def first(self) -> TurnResult:
        """The first turn."""
        return self._turn(self._turns.command)

    def go_on(self, text: str) -> TurnResult:
        """Another turn of the same conversation, on *text*."""
        from kanban.evidence import BEGINS
        from kanban.prompt import fill

        if self._ears.heard:
            return _TOLD
        self._count += 1
        self._note(BEGINS.strip())
        return self._turn(fill(self._turns.resume, {**self._turns.values, "prompt": text}))

    def _turn(self, command: tuple[str, ...]) -> TurnResult:
        if self._ears.heard:
            return _TOLD
        said = self._folder / TURN_RESULT
        with suppress(OSError):  # what cannot be removed is no file, and is not read either
            said.unlink()
        code = _run(command, said)
        self.ended = code if code >= 0 else 128 - code
        return self._judged(result_of_exit(code), _said_in(said))

    def _judged(self, exited: TurnResult, said: TurnResult | None) -> TurnResult:
        """What the turn came to: its own word, but a failed command never succeeded, and a stop is a stop."""
        if said is None or (said.status is Status.OK and exited.status is not Status.OK):
            result = exited if exited.reason is not None else self._by_output(exited)
        else:
            result = said
        if exited.status is Status.INTERRUPTED or (self._ears.heard and result.status is not Status.OK):
            return _TOLD
        if self._turns.judge and result.output is None:
            return replace(result, output=self._output())
        return result

    def _by_output(self, exited: TurnResult) -> TurnResult:
        """What the last lines make of a turn that is known by its code alone; the wall of a quota is the board's."""
        if not (self._turns.retry or self._turns.judge):
            return exited
        from kanban.evidence import closing_lines

        output = self._output()
        lines = closing_lines(output)
        if self.ended in {0, FAILED} and _match(self._turns.quota, lines):
            return TurnResult(Status.FAILED, reason=_QUOTA, error=" ".join(lines))
        if _match(self._turns.retry, lines):
            return TurnResult(Status.FAILED, retryable=True, reason=PASSING, error=" ".join(lines))
        return replace(exited, output=output)

    def _note(self, what: str) -> str:
        """Write a line of ours about this turn, from the first column on, and return it."""
        from kanban.evidence import OURS

        line = f"{OURS}{self._carrier.task}: turn {self._count} {what}"
        sys.stderr.write(f"\n{line}\n")
        sys.stderr.flush()
        return line

    def _output(self) -> str:
        """The end of what the turn wrote. A line of ours after it shows that the supervisor has written it all."""
        from kanban.evidence import own_words

        mark = self._note(f"ended with code {self.ended}")
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            before, found, _ = _tail(self._folder / LOG).rpartition(mark)
            if found:
                return own_words(before).strip()
            time.sleep(_PAUSE)
        return ""


def main(folder: Path) -> NoReturn:
    """Run the turns that are ordered in *folder*, a run's own, and end as the last of them ended."""
    from kanban.folders import TURNS
    from kanban.worker.carrier import carrier_of

    with hearing(*_STOPS) as ears:
        carrier = carrier_of()
        if carrier is None:
            sys.exit(f"{__file__}: this is no worker's environment")
        turns = Turns.read(folder / TURNS)
        runner = Runner(turns, folder, carrier, ears)
        result = runner.first()
        if result.retryable:
            result = _recovered(runner, result, carrier, ears)
        code = exit_code(result, is_worker=True)
        if turns.judge and code == DONE:
            ended = _pursued(runner, turns, result, carrier, ears)
            code, result = ended.code, ended.result
        exit_turn(runner.ended if code == FAILED < runner.ended else code, resets_at=result.resets_at)


def _recovered(runner: Runner, result: TurnResult, carrier: Carrier, ears: Ears) -> TurnResult:
    """*result*, or that of the last turn that followed it. A signal ends a wait, and then the proof decides."""
    from kanban.worker.recovery import recover

    _log_to_stderr()
    return recover(runner.go_on, result, carrier, sleep=ears.wait).result


def _pursued(runner: Runner, turns: Turns, result: TurnResult, carrier: Carrier, ears: Ears) -> Ended:
    """How the run ends where its card has a goal: the judge is asked after each turn that went well."""
    from kanban.prompt import fill
    from kanban.worker.goal import pursue
    from kanban.worker.turns import Ended
    from kanban.worker.verdict import judge_of

    judge = judge_of(fill(turns.judge, turns.values))

    def ask(asked: Asked) -> object:
        _stop_if_told(ears)
        try:
            return judge(asked)
        finally:
            _stop_if_told(ears)

    _log_to_stderr()
    first = Ended(DONE, result)
    finalize = not turns.closes
    return pursue(runner.go_on, first, carrier, ask, environ=os.environ, finalize=finalize, sleep=ears.wait)


def _stop_if_told(ears: Ears) -> None:
    """A goal ends with a signal, whatever its judge makes of that."""
    if ears.heard:
        raise KeyboardInterrupt


def _log_to_stderr() -> None:
    """Stderr is the run's log."""
    import logging

    logging.basicConfig(format="%(message)s")


def _run(command: tuple[str, ...], said: Path) -> int:
    """The code of *command*, minus a signal's number where that killed it; 126 or 127 where nothing ran."""
    try:
        child = subprocess.Popen(command, env={**os.environ, RESULT: str(said)})
    except OSError as refusal:
        sys.stderr.write(f"cannot start {command[0]!a}: {refusal.strerror}\n")
        return _NOT_FOUND if isinstance(refusal, FileNotFoundError) else _CANNOT_START
    except ValueError as refusal:  # what no command line can hold
        sys.stderr.write(f"cannot start {command[0]!a}: {refusal}\n")
        return _CANNOT_START
    return child.wait()


def _said_in(path: Path) -> TurnResult | None:
    """What a command wrote of its turn; none where that is no JSON object, or too large to be one that was meant."""
    data = read_file(path, limit=LARGEST_RESULT + 1)
    if data is None or len(data) > LARGEST_RESULT:
        return None
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return result_of(said) if isinstance(said, dict) else None


def _match(patterns: tuple[str, ...], lines: tuple[str, ...]) -> bool:
    return any(re.search(pattern, line) for pattern in patterns for line in lines)


def _tail(log: Path) -> str:
    try:
        size = log.stat().st_size
    except OSError:
        return ""
    return (read_file(log, limit=_TAIL, offset=max(0, size - _TAIL)) or b"").decode(errors="replace")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
