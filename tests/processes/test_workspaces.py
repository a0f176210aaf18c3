"""Where a card's runs work, shown on real folders and a real git (DESIGN §4)."""

import os
import stat
import subprocess
import threading

import pytest

from kanban import workspaces
from kanban.workspaces import WorkspaceFault, check_spec, prepare, release
from ledger.errors import InvalidInput

AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@example.com")


def git(folder, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *AUTHOR, "-C", str(folder), *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder, name):
    (folder / name).write_text(name)
    git(folder, "add", name)
    git(folder, "commit", "--quiet", "-m", name)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit."""
    folder = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(folder))
    commit(folder, "readme")
    return folder


@pytest.fixture
def card(home, repository):
    """The worktree of card t_1."""
    return prepare(home, "b", "t_1", f"worktree:{repository}")


@pytest.mark.parametrize("spec", ["scratch", "dir:/tmp", "worktree:/src/app"])
def test_the_three_workspaces_are_known(spec):
    """DESIGN §4: scratch, dir:PATH, worktree:REPO."""
    check_spec(spec)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "unknown"),
        ("scratch:", "unknown"),
        ("scratch:/tmp", "unknown"),
        ("docker:/x", "unknown"),
        ("/tmp", "unknown"),
        ("dir", "absolute"),
        ("dir:", "absolute"),
        ("dir:here", "absolute"),
        ("dir:~/x", "absolute"),
        ("worktree:../app", "absolute"),
        ("worktree:https://example.com/app", "absolute"),
        ("dir:/a\0b", "absolute"),
    ],
)
def test_any_other_workspace_is_refused_with_its_reason(home, spec, reason):
    """DESIGN §4: a workspace that means nothing is refused when it is asked for, not when it is used."""
    for refuse in (lambda: check_spec(spec), lambda: prepare(home, "b", "t_1", spec)):
        with pytest.raises(InvalidInput, match=reason):
            refuse()
    with pytest.raises(InvalidInput, match=reason):
        release(home, "b", "t_1", spec)


def test_scratch_is_private_and_lasts_until_released(home):
    """DESIGN §4: scratch is one folder a card, over all its runs."""
    folder = prepare(home, "b", "t_1", "scratch")
    (folder / "kept").write_text("from run 1")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert prepare(home, "b", "t_1", "scratch") == folder
    assert (folder / "kept").exists()
    assert release(home, "b", "t_1", "scratch")
    assert not folder.exists()
    assert not release(home, "b", "t_1", "scratch")


def test_scratch_that_cannot_be_made_is_a_fault(home):
    """RULES §7: a fault on one card names what is wrong."""
    home.write_text("a file")
    with pytest.raises(WorkspaceFault, match="cannot be made"):
        prepare(home, "b", "t_1", "scratch")


def test_scratch_opens_up_what_a_tool_locked(home):
    """DESIGN §4: read-only folders, such as Go's module cache, go too; where a link leads is left alone."""
    folder = prepare(home, "b", "t_1", "scratch")
    outside = home / "outside"
    outside.mkdir(mode=0o500)
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    (folder / "link").symlink_to(outside)
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0)
    opened = []
    let_in, workspaces._let_in = workspaces._let_in, lambda path: (opened.append(path.name), let_in(path))
    try:
        assert release(home, "b", "t_1", "scratch")
    finally:
        workspaces._let_in = let_in
    assert opened == ["t_1", "a", "b"]
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500


def test_scratch_that_became_a_link_leaves_its_target(home, tmp_path):
    """DESIGN §4: a worker may put a link where its workspace was; what it leads to is not ours to remove."""
    folder = prepare(home, "b", "t_1", "scratch")
    folder.rmdir()
    folder.symlink_to(tmp_path / "home")
    assert release(home, "b", "t_1", "scratch")
    assert not folder.is_symlink()
    assert home.is_dir()


def test_scratch_that_cannot_be_removed_is_a_fault(home, monkeypatch):
    """RULES §7: never an error swallowed."""

    def refuse(_):
        raise PermissionError(1, "Operation not permitted")

    prepare(home, "b", "t_1", "scratch")
    monkeypatch.setattr(workspaces.shutil, "rmtree", refuse)
    with pytest.raises(WorkspaceFault, match="cannot be removed: Operation not permitted"):
        release(home, "b", "t_1", "scratch")


def test_a_folder_of_the_operators_is_used_and_never_removed(home, tmp_path):
    """DESIGN §4: dir:PATH never."""
    assert prepare(home, "b", "t_1", f"dir:{tmp_path}") == tmp_path
    assert not release(home, "b", "t_1", f"dir:{tmp_path}")
    assert tmp_path.is_dir()


def test_a_folder_that_is_missing_is_a_fault_that_names_it(home, tmp_path):
    """RULES §7: nothing is started in a place that nobody made."""
    with pytest.raises(WorkspaceFault, match=f"{tmp_path}/none is not there") as missing:
        prepare(home, "b", "t_1", f"dir:{tmp_path}/none")
    assert missing.value.task == "t_1"
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceFault, match="is no folder"):
        prepare(home, "b", "t_1", f"dir:{tmp_path}/file")


def test_a_worktree_is_one_a_card_over_all_its_runs(home, repository, card):
    """DESIGN §4: <home>/worktrees/<board>/<task> on branch ledger/<task>."""
    assert card == home / "worktrees" / "b" / "t_1"
    assert git(card, "branch", "--show-current") == "ledger/t_1"
    commit(card, "work")
    (card / "unfinished").write_text("x")
    assert prepare(home, "b", "t_1", f"worktree:{repository}") == card
    assert (card / "unfinished").exists()
    assert (card / "work").exists()
    assert git(repository, "branch", "--show-current") == "main"


def test_a_worktree_whose_folder_was_deleted_comes_back_with_its_branch(home, repository, card):
    """DESIGN §4: what a run committed is not lost with the folder."""
    commit(card, "work")
    workspaces.shutil.rmtree(card)
    assert prepare(home, "b", "t_1", f"worktree:{repository}") == card
    assert (card / "work").exists()


def test_a_worktree_left_half_made_is_made_anew(home, repository, card):
    """RULES §7: a kill between any two steps: git marks a worktree that it has not finished."""
    (repository / ".git" / "worktrees" / "t_1" / "locked").write_text("initializing")
    (card / "readme").unlink()
    assert prepare(home, "b", "t_1", f"worktree:{repository}") == card
    assert (card / "readme").exists()
    assert not (repository / ".git" / "worktrees" / "t_1" / "locked").exists()


def test_worktrees_of_one_repository_are_added_one_at_a_time(home, repository):
    """DESIGN §4: added under a lock per repository: many sweeps at once make each theirs."""
    failed = []

    def add(task):
        try:
            prepare(home, "b", task, f"worktree:{repository}")
        except WorkspaceFault as fault:
            failed.append(fault)

    threads = [threading.Thread(target=add, args=(f"t_{n // 2}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(git(repository, "worktree", "list").splitlines()) == 7


def test_the_lock_is_the_repositorys_however_it_is_named(home, repository, card, tmp_path):
    """DESIGN §4: a lock per repository, not per spelling."""
    (tmp_path / "link").symlink_to(repository)
    prepare(home, "b", "t_2", f"worktree:{tmp_path}/link")
    prepare(home, "b", "t_3", f"worktree:{card}")
    assert len(list((home / "locks").iterdir())) == 1


def test_gits_own_variables_do_not_lead_it_elsewhere(home, repository, monkeypatch, tmp_path):
    """DESIGN §4: a sweep started from a git hook has GIT_DIR set; the card's repository is still its own."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert (prepare(home, "b", "t_1", f"worktree:{repository}") / "readme").exists()


def test_a_repository_without_a_commit_is_a_fault(home, tmp_path):
    """DESIGN §4: a branch needs a commit to start from."""
    git(tmp_path, "init", "--quiet", str(tmp_path / "new"))
    with pytest.raises(WorkspaceFault, match="no commit yet"):
        prepare(home, "b", "t_1", f"worktree:{tmp_path}/new")


@pytest.mark.parametrize(("name", "what"), [("none", "no such folder"), ("plain", "not a git repository")])
def test_a_repository_that_is_none_is_a_fault(home, tmp_path, name, what):
    """RULES §7: the fault names the repository and what is wrong."""
    (tmp_path / "plain").mkdir()
    with pytest.raises(WorkspaceFault, match=what) as fault:
        prepare(home, "b", "t_1", f"worktree:{tmp_path / name}")
    assert str(tmp_path / name) in fault.value.message


def test_without_git_it_says_so(home, repository, monkeypatch, tmp_path):
    """RULES §7: a missing program is named, with the remedy."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkspaceFault, match="git is not installed"):
        prepare(home, "b", "t_1", f"worktree:{repository}")


def test_a_git_that_hangs_is_a_fault(home, repository, monkeypatch, tmp_path):
    """RULES §7: one card's git does not stop the sweep for ever."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(workspaces, "_GIT_PATIENCE", 0.1)
    with pytest.raises(WorkspaceFault, match="took longer"):
        prepare(home, "b", "t_1", f"worktree:{repository}")


def test_something_else_in_its_place_is_a_fault(home, repository):
    """DESIGN §4: what is there and is not ours is neither used nor removed."""
    spec = f"worktree:{repository}"
    there = home / "worktrees" / "b" / "t_1"
    there.mkdir(parents=True)
    for act in (prepare, release):
        with pytest.raises(WorkspaceFault, match="is no worktree"):
            act(home, "b", "t_1", spec)
    assert there.is_dir()


def test_a_worktree_of_another_repository_is_a_fault(home, repository, card, tmp_path):
    """DESIGN §4: a card whose workspace was edited does not work on in the old repository."""
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", str(other))
    commit(other, "readme")
    with pytest.raises(WorkspaceFault, match="another repository"):
        prepare(home, "b", "t_1", f"worktree:{other}")


def test_a_home_inside_a_repository_is_not_that_repositorys_worktree(repository):
    """DESIGN §4: git looks for a repository upwards; a folder below one is not a worktree."""
    (repository / "home" / "worktrees" / "b" / "t_1").mkdir(parents=True)
    with pytest.raises(WorkspaceFault, match="is no worktree"):
        prepare(repository / "home", "b", "t_1", f"worktree:{repository}")


def branches(repository):
    return git(repository, "branch", "--format=%(refname:short)").splitlines()


def test_a_clean_merged_worktree_goes_with_its_branch(home, repository, card):
    """DESIGN §4: removed only when clean and merged or pushed."""
    spec = f"worktree:{repository}"
    commit(card, "work")
    assert not release(home, "b", "t_1", spec)
    git(repository, "merge", "--quiet", "ledger/t_1")
    assert release(home, "b", "t_1", spec)
    assert not card.exists()
    assert branches(repository) == ["main"]
    assert not release(home, "b", "t_1", spec)


def test_a_worktree_without_work_goes(home, repository, card):
    """DESIGN §4: a branch with nothing on it is merged; files that git ignores are no work."""
    (repository / ".git" / "info" / "exclude").write_text("cache\n")
    (card / "cache").write_text("x")
    assert release(home, "b", "t_1", f"worktree:{repository}")
    assert branches(repository) == ["main"]


@pytest.mark.parametrize("upstream", [True, False])
def test_a_pushed_worktree_goes(home, repository, card, tmp_path, upstream):
    """DESIGN §4: what a remote branch contains is not lost."""
    git(tmp_path, "init", "--quiet", "--bare", str(tmp_path / "remote"))
    git(repository, "remote", "add", "origin", str(tmp_path / "remote"))
    commit(card, "work")
    git(card, "push", "--quiet", *(["-u"] if upstream else []), "origin", "ledger/t_1")
    assert release(home, "b", "t_1", f"worktree:{repository}")
    assert branches(repository) == ["main"]
    commit_is_there = git(tmp_path / "remote", "log", "--format=%s", "ledger/t_1")
    assert commit_is_there.splitlines() == ["work", "readme"]


def changed(card):
    (card / "readme").write_text("changed")


def staged(card):
    (card / "readme").write_text("changed")
    git(card, "add", "readme")


def untracked(card):
    (card / "new").write_text("x")


def hidden(card):
    git(card, "config", "status.showUntrackedFiles", "no")
    untracked(card)


def committed(card):
    commit(card, "work")


def detached(card):
    git(card, "checkout", "--quiet", "--detach")
    commit(card, "work")


def moved_on(card):
    commit(card, "work")
    git(card, "checkout", "--quiet", "-b", "elsewhere", "main")


@pytest.mark.parametrize("work", [changed, staged, untracked, hidden, committed, detached, moved_on])
def test_work_is_never_removed(home, repository, card, work):
    """DESIGN §4: uncommitted, untracked, unmerged: whatever only this worktree or its branch holds stays."""
    work(card)
    assert not release(home, "b", "t_1", f"worktree:{repository}")
    assert card.is_dir()
    assert "ledger/t_1" in branches(repository)


def test_a_worktree_that_git_will_not_remove_is_a_fault(home, repository, card):
    """RULES §7: never an error swallowed: a worktree that its user locked stays, and the reason is told."""
    git(repository, "worktree", "lock", "--reason", "mine", str(card))
    with pytest.raises(WorkspaceFault, match="lock"):
        release(home, "b", "t_1", f"worktree:{repository}")
    assert card.is_dir()
