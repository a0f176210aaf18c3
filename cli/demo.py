"""`ledger demo`: the main job in half a minute, on a throw-away home with real worker processes."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from cli.errors import DIVERGENCE
from cli.wiring import call_of, verb

if TYPE_CHECKING:
    from kanban import Board
    from kanban.tick import Tick

app = typer.Typer()
PAUSE: Final = 0.2
LIMIT: Final = 60.0
"""Seconds after which the demo gives up waiting: it takes about fifteen."""

WORKERS: Final = {
    "builder": 'sleep 0.3; ledger complete "built: $LEDGER_TASK"',
    "forgetful": 'echo "all done, I think"; [ "$LEDGER_RUN" -eq 1 ] || ledger complete "this time with a word"',
    "silent": 'echo "looks good to me"; exit 0',
    "crasher": 'echo "ImportError: no module named flux" >&2; exit 1',
    "throttled": '[ "$LEDGER_RUN" -gt 1 ] || exit 75; ledger complete "the quota came back"',
    "keyless": 'echo "401: invalid API key" >&2; exit 78',
    "victim": '[ "$LEDGER_RUN" -gt 1 ] || kill -9 $$; ledger complete "survived the second time"',
    "sleeper": '[ "$LEDGER_RUN" -gt 1 ] || sleep 60; ledger complete "quicker this time"',
    "author": 'ledger review "please look" --reviewer critic',
    "critic": 'ledger complete "approved"',
    "litterer": 'sleep 60 & sleep 60 & ledger review "left two children behind" --reviewer critic',
}
"""assignee → what its worker does, as a line of shell."""

POLICY: Final = {"stop_grace": 1, "cooldown": 2, "max_running_per_assignee": 2}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A card of the demo."""

    title: str
    assignee: str
    priority: int = 0
    parents: tuple[str, ...] = ()
    max_runtime: int | None = None


CARDS: Final = (
    Wanted("Draw the schema", "builder", 5),
    Wanted("Write the parser", "builder", parents=("Draw the schema",)),
    Wanted("Write the tests", "builder", parents=("Draw the schema",)),
    Wanted("Ship it", "author", 9, ("Write the parser", "Write the tests")),
    Wanted("Exit 0 without a word, once", "forgetful"),
    Wanted("Exit 0 without a word, always", "silent"),
    Wanted("Exit 1, always", "crasher", 2),
    Wanted("Meet a quota wall: exit 75", "throttled"),
    Wanted("Lack a key: exit 78", "keyless"),
    Wanted("Use what the key unlocks", "builder", parents=("Lack a key: exit 78",)),
    Wanted("Die by kill -9", "victim"),
    Wanted("Run over time", "sleeper", max_runtime=3),
    Wanted("Leave children behind", "litterer"),
    Wanted("Choose a name", "dana"),
)
STUCK: Final = ("Exit 0 without a word, always", "Use what the key unlocks")


@verb(app)
def demo(ctx: typer.Context) -> None:
    """Watch a throw-away board live for half a minute: real workers, two stuck cards, and the audit's verdict."""
    out = call_of(ctx).out
    quiet = out.json or out.quiet
    shown = run_demo(watch=sys.stdout.isatty() and not quiet, say=(lambda _: None) if quiet else out.line)
    if out.json:
        out.answer(shown)
    if shown["replay"]["divergences"]:
        raise typer.Exit(DIVERGENCE)


def run_demo(*, watch: bool, say: Any) -> dict[str, Any]:
    """Found a board in a fresh home, sweep it until it is idle, ask why two cards are stuck, and audit the log.

    *watch* redraws the board in place; *say* prints a line for people. Returns what `ledger demo --json` prints.
    """
    home = Path(tempfile.mkdtemp(prefix="ledger-demo-"))
    with _found(home) as board:
        ids = _create(board)
        say(f"{len(ids)} cards on a board in {home}; policy: {', '.join(f'{k} {v}' for k, v in POLICY.items())}")
        screen = Screen(board, watch=watch, say=say)
        for tick in _until_idle(board):
            screen.show(tick)
        screen.settle()
        for title in STUCK:
            _explain(board, ids[title], title, say)
        verdict = board.replay().as_json()
        tasks = board.tasks(limit=None)["tasks"]
    _farewell(home, verdict, say)
    return {"home": str(home), "tasks": tasks, "replay": verdict}


class Screen:
    """The board, moving: redrawn in place on a terminal, else one line for each thing that happened."""

    def __init__(self, board: Board, *, watch: bool, say: Any) -> None:
        self._board = board
        self._watch = watch
        self._say = say
        self._height = 0
        self._titles = {task["id"]: task["title"] for task in board.tasks(limit=None)["tasks"]}

    def show(self, tick: Tick) -> None:
        """Show what *tick* did."""
        if self._watch:
            self._redraw()
            return
        for line in _happened(tick, self._titles):
            self._say(line)

    def settle(self) -> None:
        """Leave the last picture standing."""
        if self._watch:
            self._redraw()
        else:
            self._say("\n".join(_drawn(self._board)))

    def _redraw(self) -> None:
        lines = _drawn(self._board)
        if self._height:
            sys.stdout.write(f"\x1b[{self._height}F\x1b[J")
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        self._height = len(lines)


def _found(home: Path) -> Board:
    from kanban import Board
    from kanban.founding import found
    from ledger.clock import system_clock
    from ledger.events import Actor

    url = f"sqlite:///{home}/ledger.db"
    (home / "ledger.toml").write_text(_configuration(), encoding="utf-8")
    found(url, "default", Actor(kind="operator", name="demo", host="demo"), system_clock)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
    board = Board.open(url, "default", actor="demo", environ={**kept, "LEDGER_HOME": str(home)}, cwd=home)
    board.set_policy(**POLICY)
    return board


def _configuration() -> str:
    tables = [f"[assignees.{name}]\ncommand = ['sh', '-c', '''{script}''']\n" for name, script in WORKERS.items()]
    return "\n".join(["max_running = 4\n", *tables, "[assignees.dana]\nhuman = true\n"])


def _create(board: Board) -> dict[str, str]:
    ids: dict[str, str] = {}
    for card in CARDS:
        answer = board.create(
            card.title,
            assignee=card.assignee,
            priority=card.priority,
            parents=[ids[parent] for parent in card.parents],
            max_runtime=card.max_runtime,
        )
        ids[card.title] = answer.task["id"]
    return ids


def _until_idle(board: Board) -> Iterator[Tick]:
    """Ticks until nothing is left to do, cooldowns included; or until `LIMIT` seconds have passed."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        tick = board.sweep()
        yield tick
        if tick.idle and tick.next_at is None:
            return
        time.sleep(PAUSE)


def _happened(tick: Tick, titles: dict[str, str]) -> Iterator[str]:
    for booked in tick.booked:
        blocked = " → blocked" if booked["events"][-1] == "blocked" or booked["outcome"] == "config" else ""
        yield f"  booked   {titles[booked['task']]} · run {booked['run']}: {booked['outcome']}{blocked}"
    for stopped in tick.stopped:
        what = stopped.get("cause") or f"signal {stopped['signal']}"
        yield f"  stopped  {titles[stopped['task']]} · run {stopped['run']}: {what}"
    for claimed in tick.claimed:
        yield f"  started  {titles[claimed['task']]} · run {claimed['run']} (pid {claimed['pid']})"


def _drawn(board: Board) -> list[str]:
    lines = [""]
    for status, tasks in board.columns()["columns"].items():
        lines += [f"{status}"] if tasks else []
        lines += [f"  {task['title']:<32} {task['assignee'] or '':<10} {_counters(task)}".rstrip() for task in tasks]
    return lines


def _counters(task: dict[str, Any]) -> str:
    shown = [f"{name} {task[name]}" for name in ("failures", "streak", "neutral") if task[name]]
    hold = task["hold"]
    return "  ".join([*shown, f"[{hold['cause']}]" if hold else ""]).strip()


def _explain(board: Board, task: str, title: str, say: Any) -> None:
    answer = board.why(task)
    say(f"\n$ ledger why {task}      # {title}\n{task} is {answer['status']}:")
    for ground in answer["because"]:
        positions = f" (positions {', '.join(map(str, ground['positions']))})" if ground["positions"] else ""
        say(f"  - {ground['text']}  [RULES {ground['rule']}]{positions}")
    say(f"  try: {answer['try']}")


def _farewell(home: Path, verdict: dict[str, Any], say: Any) -> None:
    bad = verdict["divergences"]
    found = f"{len(bad)} DIVERGENCES" if bad else "no divergence"
    counted = f"{verdict['events']} events, {verdict['tasks']} cards"
    say(f"\n$ ledger replay\n{counted}: {found}; digest {verdict['digest'][:16]}…")
    say(f"\nlook around:  LEDGER_HOME={home} ledger board\nremove it:    rm -r {home}")
