"""What a worker finds: its folder, its prompt and its environment, and what is left of them (DESIGN §4)."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleets import sh, until

SHOWS = {
    "command": sh(
        'env -0 > "$LEDGER_HOME/env"; pwd > "$LEDGER_HOME/cwd"; readlink /proc/self/fd/* > "$LEDGER_HOME/fds"; exit 0'
    ),
    "on_success": "complete",
}
COMPLETES = {"command": sh("touch made; echo done"), "on_success": "complete"}


def environment(fleet):
    """What the worker printed of its environment."""
    entries = (fleet.home / "env").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


def mode(path):
    """The permission bits of *path*."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def repository(fleet):
    """A git repository with one commit."""
    made = fleet.home / "repository"
    made.mkdir()
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(made), *command], check=True)
    return made


def test_a_scratch_folder_goes_with_its_card(fleet):
    """DESIGN §4: scratch is made private for the card, and removed when it is done."""
    fleet.staff({"w": {"command": sh("touch made; while [ ! -e go ]; do sleep 0.02; done"), "on_success": "complete"}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "made")
    assert mode(fleet.scratch(card)) == 0o700
    (fleet.scratch(card) / "go").touch()
    fleet.finish(card)
    fleet.sweep_until(lambda: not fleet.scratch(card).exists())


def test_what_lies_beside_the_scratch_folders_hinders_nothing(fleet):
    """DESIGN §4: folders of no card, whatever they are called, stay, and are not spoken of."""
    fleet.staff({"w": COMPLETES})
    card = fleet.create()
    fleet.sweep()
    strange = [fleet.scratch(card).parent / os.fsdecode(name) for name in (b"\xff\xfe", b'"]', b"t_none", b"%")]
    for folder in strange:
        folder.mkdir()
    fleet.finish(card)
    ticks = fleet.sweep_until(lambda: not fleet.scratch(card).exists())
    assert [note for tick in ticks for note in tick.notes] == []
    assert all(folder.is_dir() for folder in strange)


def test_a_scratch_folder_stays_while_an_open_child_may_need_it(fleet):
    """DESIGN §4: scratch is removed when no open child needs it any more."""
    fleet.staff({"w": COMPLETES, "dana": {"human": True}})
    parent = fleet.create()
    child = fleet.create(assignee="dana", parents=[parent])
    fleet.finish(parent)
    for _ in range(2):
        fleet.clock.advance(11)
        fleet.sweep()
    assert (fleet.scratch(parent) / "made").exists()
    fleet.board.complete(child)
    fleet.clock.advance(11)
    fleet.sweep()
    assert not fleet.scratch(parent).exists()


def test_a_scratch_folder_is_the_same_for_every_run(fleet):
    """DESIGN §4: the card's own workspace, kept over all its runs."""
    fleet.staff(
        {"w": {"command": sh('[ -e made ] && exec echo "again"; touch made; exit 1'), "on_success": "complete"}}
    )
    card = fleet.create()
    fleet.finish(card)
    assert fleet.events(card)[-1].words["summary"] == "again"


def test_a_folder_of_the_operators_is_never_touched(fleet):
    """DESIGN §4: `dir:PATH` is never removed, nor is what lies in it."""
    folder = fleet.home / "mine"
    folder.mkdir(mode=0o755)
    fleet.staff({"w": COMPLETES})
    card = fleet.create(workspace=f"dir:{folder}")
    fleet.finish(card)
    fleet.clock.advance(11)
    fleet.sweep()
    assert (mode(folder), list(folder.iterdir())) == (0o755, [folder / "made"])


def test_a_worktree_survives_the_runs_and_work_that_is_nowhere_else(fleet, repository):
    """DESIGN §4: one worktree per card over all its runs; removed only when clean and merged or pushed."""
    script = "[ -e made ] && exec git branch --show-current; touch made; exit 1"
    fleet.staff({"w": {"command": sh(script), "on_success": "complete"}})
    card = fleet.create(workspace=f"worktree:{repository}")
    fleet.finish(card)
    worktree = fleet.home / "worktrees" / "default" / card
    assert fleet.events(card)[-1].words["summary"] == f"ledger/{card}"
    fleet.clock.advance(11)
    fleet.sweep()
    assert (worktree / "made").exists()
    (worktree / "made").unlink()
    fleet.clock.advance(11)
    fleet.sweep()
    assert not worktree.exists()


@pytest.mark.parametrize("workspace", ["dir:/no/such/folder", "worktree:/no/such/repository"])
def test_a_workspace_that_cannot_be_made_is_a_spawn_failure(fleet, workspace):
    """§6: the spawn itself failed: the claimer writes record 127; spawn_failed, counted, and what was wrong is said."""
    fleet.staff({"w": COMPLETES})
    card = fleet.create(workspace=workspace)
    tick = fleet.sweep()
    assert tick.claimed == [{"task": card, "run": 1, "pid": None}]
    assert "/no/such" in tick.notes[0]
    fleet.sweep(most=0)
    run = fleet.runs(card)[0]
    assert (run["outcome"], run["code"], run["evidence"]) == ("spawn_failed", 127, "exit_record")
    assert "/no/such" in run["last_words"]
    assert fleet.counters(card) == (1, 0, 1, 0)
    assert fleet.finish(card, "blocked")["hold"]["cause"] == "failure_budget"


def test_the_prompt_holds_what_the_worker_must_know(fleet):
    """DESIGN §4: title, body, summaries of done parents, earlier runs with their last words, comments, the contract."""
    fleet.staff(
        {"ok": COMPLETES | {"command": sh("echo the parser is mended")}, "w": {"command": sh("echo oops; exit 1")}}
    )
    parent = fleet.create("the parser", "ok")
    card = fleet.create("the tests", body="Write them\nall.", parents=[parent])
    fleet.board.comment(card, "Mind the # edge cases.")
    fleet.finish(parent)
    fleet.sweep_until(lambda: len(fleet.runs(card)) == 2)
    first, second = ((fleet.folder(card, run) / "prompt.md").read_text() for run in (1, 2))
    for said in ("# the tests", "Write them\nall.", "the parser", "> the parser is mended", "> Mind the # edge cases."):
        assert said in first
        assert said in second
    for said in ("ledger complete", "ledger block", "75", "78"):
        assert said in first
    assert "oops" not in first
    assert "Run 1 (w): crashed\n> oops" in second


def test_what_a_reviewer_wanted_stands_in_the_next_prompt(fleet):
    """§2, DESIGN §4: the reason of the last `changes` reaches the implementer."""
    fleet.staff({"w": COMPLETES | {"on_success": "review", "reviewer": "dana"}, "dana": {"human": True}})
    card = fleet.create()
    fleet.finish(card, "review")
    fleet.board.changes(card, "name the tests well")
    fleet.sweep_until(lambda: len(fleet.runs(card)) == 2)
    assert "> name the tests well" in (fleet.folder(card, 2) / "prompt.md").read_text()


def test_the_environment_is_the_claim_and_what_the_assignee_names(fleet, monkeypatch):
    """DESIGN §4: exactly the LEDGER_* of the claim, PATH, HOME, LANG, TMPDIR, TERM and the assignee's `env`."""
    for name, value in {"LANG": "C.UTF-8", "TMPDIR": "/tmp", "TERM": "dumb", "SECRET_TOKEN": "hush"}.items():
        monkeypatch.setenv(name, value)
    fleet.staff({"w": SHOWS | {"env": {"KEY": "{env:USER}!", "LEDGER_RUN": "9"}}})
    card = fleet.create()
    fleet.sweep()
    fleet.ended(card)
    run, seen = fleet.folder(card), environment(fleet)
    lock, path = seen.pop("LEDGER_LOCK"), seen.pop("PATH")
    assert seen == {
        "LEDGER_DATABASE_URL": fleet.url,
        "LEDGER_BOARD": "default",
        "LEDGER_TASK": card,
        "LEDGER_RUN": "1",
        "LEDGER_WORKSPACE": str(fleet.scratch(card)),
        "LEDGER_LOG": str(run / "log"),
        "LEDGER_PROMPT": str(run / "prompt.md"),
        "LEDGER_BIN": seen["LEDGER_BIN"],
        "LEDGER_HOME": str(fleet.home),
        "HOME": os.environ["HOME"],
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "TERM": "dumb",
        "KEY": "ada!",
        "PWD": seen["PWD"],  # the shell's own
    }
    assert path == f"{Path(seen['LEDGER_BIN']).parent}:{os.environ['PATH']}"
    assert Path(seen["LEDGER_BIN"]).name == "ledger"
    assert len(lock) >= 32
    assert not any(lock in event.facts_text + (event.words_text or "") for event in fleet.board.events())


def test_a_variable_that_an_assignee_names_and_nobody_set_is_a_spawn_failure(fleet):
    """DESIGN §5: `{env:NAME}` is read when the worker starts; without it nothing runs, and the log says why."""
    fleet.staff({"w": SHOWS | {"env": {"KEY": "{env:NOT_SET_ANYWHERE}"}}})
    card = fleet.create()
    fleet.sweep()
    fleet.sweep(most=0)
    assert fleet.runs(card)[0]["outcome"] == "spawn_failed"
    assert "NOT_SET_ANYWHERE" in fleet.runs(card)[0]["last_words"]


def test_a_worker_starts_in_its_workspace_with_nothing_else_open(fleet):
    """DESIGN §4: it works in its workspace; standard input is /dev/null; it inherits no descriptor of the sweep's."""
    fleet.staff({"w": SHOWS})
    card = fleet.create()
    fleet.sweep()
    fleet.ended(card)
    assert (fleet.home / "cwd").read_text().strip() == str(fleet.scratch(card))
    found = (fleet.home / "fds").read_text().split()
    assert found[0] == "/dev/null"
    assert not any("ledger.db" in name or "sweep.lock" in name for name in found)


def test_the_files_of_a_run_are_its_owners_alone(fleet):
    """DESIGN §4: run folder 0700; log, exit record and prompt 0600."""
    fleet.staff({"w": COMPLETES})
    card = fleet.create()
    fleet.finish(card)
    folder = fleet.folder(card)
    for made in (folder, *folder.parents[:3]):
        assert mode(made) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir()} == {
        "log": 0o600,
        "exit.json": 0o600,
        "prompt.md": 0o600,
    }


def test_a_worker_in_python_has_the_verbs_of_its_run(fleet):
    """DESIGN §2: `Worker.from_environment()`: prompt, workspace, progress, heartbeat and completion."""
    script = (
        "from kanban import Worker; w = Worker.from_environment();"
        "assert 'a card' in w.prompt and str(w.workspace) == __import__('os').getcwd();"
        "w.progress('half way', tokens=12); w.heartbeat(); w.complete('made', result='all of it')"
    )
    fleet.staff({"w": {"command": [sys.executable, "-c", script]}})
    card = fleet.create()
    fleet.finish(card)
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "progressed", "completed"]
    completed = fleet.events(card)[-1]
    assert (completed.actor_kind, completed.actor_name, completed.run) == ("worker", "w", 1)
    assert fleet.runs(card)[0]["usage"]["tokens"] == 12
    until(lambda: not fleet.members(card))


def test_the_tick_that_books_a_clean_exit_as_done_tidies_its_scratch_folder(fleet):
    """§7: the group was seen empty, so nothing has to wait for another tick."""
    fleet.staff({"w": {"command": sh("exit 0"), "on_success": "complete"}})
    card = fleet.create()
    fleet.sweep()
    until(lambda: not fleet.members(card))
    tick = fleet.sweep()

    assert [booked["outcome"] for booked in tick.booked] == ["complete"]
    assert tick.idle
    assert not fleet.scratch(card).exists()
