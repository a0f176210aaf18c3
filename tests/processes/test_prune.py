"""What closed cards left behind goes, once it is old and nothing can be lost by it; nothing else ever does."""

import fcntl
import os
import subprocess
import threading

import pytest

from kanban import Board
from kanban.at_desk import at_desk
from kanban.folders import run_folder, scratch_folder, worktree_folder
from kanban.prune import prune
from kanban.refusals import Forbidden
from kanban.workspaces import prepare
from ledger.errors import InvalidInput
from projections import leases
from tests.fleets import sh, until

DAY = 86_400


def closed(fleet, *, days=40, **fields):
    """A done card with one run's folder, and as many days gone by."""
    card = fleet.create(**fields)
    write(fleet.folder(card) / "log", "x" * 100)
    fleet.board.complete(card)
    fleet.clock.advance(days * DAY)
    return card


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def pruned(fleet, *, days=30, **how):
    return prune(fleet.board, older_than=days * DAY, **how)


def runs_of(fleet, card):
    """Where all runs of the card have their folders."""
    return run_folder(fleet.home, "default", card, 1).parent


def git(folder, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", str(folder), *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit."""
    folder = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(folder))
    write(folder / "readme", "hello")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_run_folders_of_a_closed_card_go_once_it_is_old(fleet):
    """All runs of the card, with their bytes; the log of events stays."""
    card = closed(fleet)
    write(fleet.folder(card, 2) / "log", "y" * 50)
    events = len(fleet.events(card))
    found = pruned(fleet)
    assert (found.removed, found.bytes, found.notes) == ([runs_of(fleet, card)], 150, [])
    assert not runs_of(fleet, card).exists()
    assert len(fleet.events(card)) == events
    assert pruned(fleet).removed == []


def test_an_archived_card_is_closed_too(fleet):
    """Archived undone."""
    card = fleet.create()
    write(fleet.folder(card) / "log", "x")
    fleet.board.archive(card)
    fleet.clock.advance(31 * DAY)
    assert pruned(fleet).removed == [runs_of(fleet, card)]


def test_the_last_event_counts_whatever_it_is(fleet):
    """A comment on a closed card makes it young again."""
    card = closed(fleet)
    fleet.board.comment(card, "look")
    fleet.clock.advance(29 * DAY)
    assert pruned(fleet).removed == []
    fleet.clock.advance(2 * DAY)
    assert pruned(fleet).removed == [runs_of(fleet, card)]


def test_an_open_card_keeps_everything_however_old(fleet):
    """Also one that was reopened."""
    card, again = fleet.create(), closed(fleet)
    write(fleet.folder(card) / "log", "x")
    fleet.board.reopen(again)
    fleet.clock.advance(400 * DAY)
    found = pruned(fleet, days=1)
    assert (found.removed, found.notes) == ([], [])
    assert (fleet.folder(card) / "log").exists()
    assert (fleet.folder(again) / "log").exists()


def test_folders_of_no_card_and_of_other_boards_stay(fleet):
    """What is not named like a card of this board is not ours to remove."""
    fleet.found("ops")
    card = closed(fleet)
    strange = write(fleet.home / "boards/default/runs/notes/1/log", "x")
    file = write(fleet.home / "boards/default/runs/readme", "x")
    other = write(run_folder(fleet.home, "ops", card, 1) / "log", "x")
    assert pruned(fleet).removed == [runs_of(fleet, card)]
    assert all(path.exists() for path in (strange, file, other))


def test_a_left_over_scratch_folder_goes_with_what_its_tools_locked(fleet):
    """Some tools leave folders that their owner may not write."""
    card = closed(fleet)
    scratch = scratch_folder(fleet.home, "default", card)
    write(scratch / "cache" / "module", "z" * 10)
    (scratch / "cache").chmod(0o500)
    found = pruned(fleet)
    assert found.removed == [runs_of(fleet, card), scratch]
    assert found.bytes == 110
    assert not scratch.exists()


def test_a_scratch_folder_stays_while_an_open_child_may_need_it(fleet):
    """The run folders go; the child is told of no log file."""
    card = closed(fleet)
    fleet.create("child", parents=[card])
    scratch = scratch_folder(fleet.home, "default", card)
    write(scratch / "result", "z")
    found = pruned(fleet)
    assert found.removed == [runs_of(fleet, card)]
    assert found.notes == [f"{card}: {scratch} stays: an open child may need it"]
    assert (scratch / "result").exists()


def test_a_folder_of_the_operators_never_goes(fleet, tmp_path):
    """dir:PATH."""
    mine = write(tmp_path / "mine" / "file", "x")
    card = closed(fleet, workspace=f"dir:{mine.parent}")
    assert pruned(fleet).removed == [runs_of(fleet, card)]
    assert mine.exists()


def test_a_clean_and_merged_worktree_goes_with_its_branch(fleet, repository):
    """Nothing is only there."""
    card = closed(fleet, workspace=f"worktree:{repository}")
    path = prepare(fleet.home, "default", card, f"worktree:{repository}")
    foreseen = pruned(fleet, dry_run=True)
    assert path.exists()
    found = pruned(fleet)
    assert found.removed == foreseen.removed == [runs_of(fleet, card), path]
    assert not path.exists()
    assert git(repository, "branch", "--list", "ledger/*") == ""


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("left", ["dirty", "untracked", "unmerged"])
def test_a_worktree_with_something_only_there_stays(fleet, repository, left, dry_run):
    """And it is said, by a dry run too."""
    card = closed(fleet, workspace=f"worktree:{repository}")
    path = prepare(fleet.home, "default", card, f"worktree:{repository}")
    write(path / ("new" if left == "untracked" else "readme"), "mine alone")
    if left == "unmerged":
        git(path, "commit", "--quiet", "-am", "mine")
    found = pruned(fleet, dry_run=dry_run)
    assert found.removed == [runs_of(fleet, card)]
    assert found.notes == [f"{card}: {path} stays: it is not clean, or neither merged nor pushed"]
    assert path.exists()


def test_a_worktree_whose_repository_is_gone_or_not_known_any_more_stays(fleet, repository, tmp_path):
    """Whether it is merged cannot be asked."""
    card = closed(fleet, workspace=f"worktree:{repository}")
    other = closed(fleet, workspace=f"worktree:{repository}")
    for each in (card, other):
        prepare(fleet.home, "default", each, f"worktree:{repository}")
    fleet.board.edit(other, workspace="scratch")
    fleet.clock.advance(40 * DAY)
    repository.rename(tmp_path / "moved")
    found = pruned(fleet)
    assert len(found.removed) == 2
    assert any("no such folder" in note for note in found.notes)
    assert any("the card no longer names its repository" in note for note in found.notes)
    assert all(worktree_folder(fleet.home, "default", each).exists() for each in (card, other))


def test_links_are_not_followed_and_nothing_outside_the_home_goes(fleet, tmp_path):
    """A link in the place of a card's folder, in its folder, and in the place of a whole root."""
    card, linked = closed(fleet), closed(fleet)
    outside = write(tmp_path / "outside" / "file", "x" * 1000)
    (fleet.folder(card) / "link").symlink_to(outside.parent)
    (fleet.folder(card) / "file").symlink_to(outside)
    runs_of(fleet, linked).rename(tmp_path / "elsewhere")
    runs_of(fleet, linked).symlink_to(tmp_path / "elsewhere")
    found = pruned(fleet)
    assert (found.removed, found.bytes) == ([runs_of(fleet, card)], 100)
    assert found.notes == [f"{runs_of(fleet, linked)} is a link: left as it is"]
    assert outside.exists()
    assert (tmp_path / "elsewhere" / "1" / "log").exists()


def test_a_root_that_leads_out_of_the_home_is_left_alone(fleet, tmp_path):
    """Whoever moved it there knows why."""
    card = closed(fleet)
    root = runs_of(fleet, card).parent
    root.rename(tmp_path / "runs")
    root.symlink_to(tmp_path / "runs")
    found = pruned(fleet)
    assert (found.removed, found.notes) == ([], [f"{root} leads out of {fleet.home} by a link: left as it is"])
    assert (tmp_path / "runs" / card).exists()


def test_a_home_behind_a_link_is_a_home(fleet, tmp_path):
    """Its own name may be a link; what counts is what lies in it."""
    card = closed(fleet)
    (tmp_path / "link").symlink_to(fleet.home)
    board = Board.open(
        environ=fleet.environ | {"LEDGER_HOME": str(tmp_path / "link")}, cwd=fleet.home, clock=fleet.clock
    )
    assert [path.name for path in prune(board, older_than=30 * DAY).removed] == [card]
    board.close()


def test_a_card_whose_lease_says_that_processes_may_remain_stays(fleet):
    """Wherever they are: another host's cannot be seen."""
    card = closed(fleet)
    with at_desk(fleet.board.engine, "default", fleet.clock) as desk:
        leases.grant(desk.tx, "default", card, 1, until=0)
    found = pruned(fleet)
    assert found.removed == []
    assert found.notes == [f"{card}: {runs_of(fleet, card)} stays: a process of the card may still be there"]


def test_a_card_with_a_process_that_left_its_group_stays(fleet):
    """The run is long over and forgotten; what it started carries its environment still."""
    fleet.staff({"w": {"command": sh('setsid sleep 300 & echo $! > pid; exec ledger complete "done"')}})
    card = fleet.create()
    fleet.sweep_until(lambda: fleet.card(card)["status"] == "done" and not fleet.members(card))
    fleet.sweep()
    fleet.clock.advance(40 * DAY)
    assert "a process of the card may still be there" in pruned(fleet).notes[0]


def test_a_card_with_a_live_group_stays(fleet, monkeypatch):
    """Although its lease row is lost, and its environment cannot be read."""
    monkeypatch.setitem(prune.__globals__, "carriers", lambda _: ())
    fleet.staff({"w": {"command": sh("exec sleep 300")}})
    card = fleet.create()
    fleet.sweep()
    until(lambda: fleet.workers(card))
    fleet.board.complete(card, run=1, lock=fleet.lock(card))
    with at_desk(fleet.board.engine, "default", fleet.clock) as desk:
        leases.release(desk.tx, "default", card, 1)
    fleet.clock.advance(40 * DAY)
    found = pruned(fleet)
    assert found.removed == []
    assert "a process of the card may still be there" in found.notes[0]


def test_a_dry_run_says_the_same_and_removes_nothing(fleet):
    """Paths, bytes and what stays."""
    card = closed(fleet)
    write(scratch_folder(fleet.home, "default", card) / "file", "z")
    foreseen = pruned(fleet, dry_run=True)
    assert (fleet.folder(card) / "log").exists()
    real = pruned(fleet)
    assert (foreseen.removed, foreseen.bytes, foreseen.notes) == (real.removed, real.bytes, real.notes)
    assert foreseen.as_json() == real.as_json() | {"dry_run": True}


@pytest.mark.parametrize("seconds", [0, -1])
def test_an_age_that_is_none_is_refused(fleet, seconds):
    """It would take what has just been closed."""
    card = closed(fleet)
    with pytest.raises(InvalidInput, match="is no age"):
        prune(fleet.board, older_than=seconds)
    assert runs_of(fleet, card).exists()


def test_a_worker_removes_nothing(fleet):
    """It is for operators."""
    environ = fleet.environ | {"LEDGER_TASK": "t_x", "LEDGER_RUN": "1", "LEDGER_LOCK": "secret"}
    board = Board.open(environ=environ, cwd=fleet.home)
    with pytest.raises(Forbidden):
        prune(board, older_than=DAY)
    board.close()


def test_a_card_is_looked_at_again_once_no_sweep_ticks(fleet):
    """A tick at work is waited for; a card reopened meanwhile keeps its folders."""
    card = closed(fleet)
    fleet.another()
    with (fleet.home / "sweep.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = []
        waiting = threading.Thread(target=lambda: found.append(pruned(fleet)))
        waiting.start()
        waiting.join(0.2)
        assert found == []
        fleet.boards[1].reopen(card)
    waiting.join()
    assert found[0].removed == []
    assert runs_of(fleet, card).exists()


def test_what_cannot_be_removed_is_said_and_the_others_go(fleet, monkeypatch):
    """One card's fault is its own."""
    bad, good = sorted([closed(fleet), closed(fleet)])
    removed = prune.__globals__["_remove"]

    def refuse(path):
        if path.name == bad:
            raise PermissionError(1, "Operation not permitted")
        removed(path)

    monkeypatch.setitem(prune.__globals__, "_remove", refuse)
    found = pruned(fleet)
    assert found.removed == [runs_of(fleet, good)]
    assert "Operation not permitted" in found.notes[0]
