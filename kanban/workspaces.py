"""Where a card's runs work: a scratch folder, a folder of the operator's, or a git worktree of its own (DESIGN §4)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kanban.folders import make_private, scratch_folder, worktree_folder
from ledger.errors import InvalidInput, LedgerError

_GIT_PATIENCE: Final = 600  # seconds; a large repository takes its time
_FORMS: Final = "scratch, dir:PATH or worktree:REPOSITORY"
_UNFINISHED: Final = "initializing"  # why git itself locks a worktree while it makes it


class WorkspaceFault(LedgerError):
    """A workspace cannot be made or taken away; the message names the folder or repository and what is wrong."""


def check_spec(spec: str) -> None:
    """Raise `InvalidInput` unless *spec* is a workspace: `scratch`, `dir:PATH` or `worktree:REPOSITORY`."""
    kind, _, path = spec.partition(":")
    if spec != "scratch" and kind not in {"dir", "worktree"}:
        raise InvalidInput(f"workspace {spec!r} is unknown", remedy=f"say {_FORMS}")
    if spec != "scratch" and (not path.startswith("/") or "\0" in path):
        raise InvalidInput(f"workspace {spec!r}: the path must be absolute", remedy=f"say {kind}:/…")


def prepare(home: Path, board: str, task: str, spec: str) -> Path:
    """The folder where the card's runs work, made if need be; the same for every run. Raises `WorkspaceFault`."""
    check_spec(spec)
    match spec.partition(":"):
        case ["dir", _, path]:
            return _existing(Path(path), task)
        case ["worktree", _, repository]:
            worktree = _Worktree(task, Path(repository), worktree_folder(home, board, task))
            with _locked(home, worktree):
                return _added(worktree)
        case _:
            return _made(scratch_folder(home, board, task), task)


def release(home: Path, board: str, task: str, spec: str) -> bool:
    """Take the card's workspace away if nothing can be lost by it; whether it was. Raises `WorkspaceFault`.

    A folder of the operator's never goes; a worktree only when clean and merged or pushed, its branch with it.
    """
    check_spec(spec)
    match spec.partition(":"):
        case ["dir", _, _]:
            return False
        case ["worktree", _, repository]:
            worktree = _Worktree(task, Path(repository), worktree_folder(home, board, task))
            return os.path.lexists(worktree.path) and _released(home, worktree)
        case _:
            return _removed(scratch_folder(home, board, task), task)


def releasable(home: Path, board: str, task: str, spec: str) -> bool:
    """Whether `release` would take the card's workspace away; nothing is changed. Raises `WorkspaceFault`."""
    check_spec(spec)
    match spec.partition(":"):
        case ["dir", _, _]:
            return False
        case ["worktree", _, repository]:
            worktree = _Worktree(task, Path(repository), worktree_folder(home, board, task))
            return os.path.lexists(worktree.path) and _may_go(worktree)
        case _:
            return os.path.lexists(scratch_folder(home, board, task))


@dataclass(frozen=True, slots=True)
class _Worktree:
    """The one worktree of a card: *path* on *branch*, added to *repository*."""

    task: str
    repository: Path
    path: Path

    @property
    def branch(self) -> str:
        return f"ledger/{self.task}"

    def fault(self, what: str, *, remedy: str | None = None) -> WorkspaceFault:
        return WorkspaceFault(f"worktree of {self.repository}: {what}", task=self.task, remedy=remedy)

    def git(self, *arguments: str, here: bool = False) -> str:
        """What git says in the repository, or in the worktree itself; raises `WorkspaceFault` when it refuses."""
        answer = self.ask(*arguments, here=here)
        if answer.returncode:
            raise self.fault(answer.stderr.strip() or f"git {arguments[0]} ended with {answer.returncode}")
        return answer.stdout.strip()

    def ask(self, *arguments: str, here: bool = False) -> subprocess.CompletedProcess[str]:
        """git's answer, whatever it is."""
        try:
            return _git(self.path if here else self.repository, *arguments)
        except FileNotFoundError as refusal:
            raise self.fault("git is not installed", remedy="install git") from refusal
        except subprocess.TimeoutExpired as refusal:
            raise self.fault(f"git {arguments[0]} took longer than {_GIT_PATIENCE} s") from refusal


def _existing(path: Path, task: str) -> Path:
    if not path.is_dir():
        found = "is no folder" if path.exists() else "is not there"
        raise WorkspaceFault(f"workspace {path} {found}", task=task, remedy=f"mkdir -p {path}")
    return path


def _made(path: Path, task: str) -> Path:
    try:
        return make_private(path)
    except OSError as refusal:
        raise WorkspaceFault(f"workspace {path} cannot be made: {refusal.strerror}", task=task) from refusal


def _removed(path: Path, task: str) -> bool:
    if path.is_symlink():  # put there by the worker; where it leads is not ours
        path.unlink()
        return True
    if not path.exists():
        return False
    try:
        _open_up(path)
        shutil.rmtree(path)
    except OSError as refusal:
        raise WorkspaceFault(f"workspace {path} cannot be removed: {refusal.strerror}", task=task) from refusal
    return True


def _open_up(path: Path) -> None:
    """Some tools leave folders that their owner may not write, such as Go's module cache."""
    _let_in(path)
    for folder, names, _ in os.walk(path):  # from above: what is let in here is listed next
        for inner in (Path(folder, name) for name in names):
            if not inner.is_symlink():
                _let_in(inner)


def _let_in(folder: Path) -> None:
    mode = folder.stat().st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)


def _added(worktree: _Worktree) -> Path:
    _clear_unfinished(worktree)
    if os.path.lexists(worktree.path):
        return _own(worktree)
    if worktree.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
        raise worktree.fault("it has no commit yet", remedy=f"git -C {worktree.repository} commit --allow-empty")
    make_private(worktree.path.parent)
    worktree.git("worktree", "prune")  # forget one whose folder was deleted by hand
    if _tip(worktree):
        worktree.git("worktree", "add", "--quiet", str(worktree.path), worktree.branch)
    else:
        worktree.git("worktree", "add", "--quiet", "--no-track", "-b", worktree.branch, str(worktree.path), "HEAD")
    return worktree.path


def _own(worktree: _Worktree) -> Path:
    """The folder that is there, if it is this repository's worktree."""
    answer = worktree.ask("rev-parse", "--show-toplevel", "--git-common-dir", here=True)
    top, _, common = answer.stdout.strip().partition("\n")
    if answer.returncode or not Path(top).samefile(worktree.path):
        raise worktree.fault(f"{worktree.path} is there and is no worktree", remedy=f"move {worktree.path} away")
    if not _common(worktree).samefile(worktree.path / common):
        raise worktree.fault(f"{worktree.path} belongs to another repository", remedy=f"move {worktree.path} away")
    return worktree.path


def _clear_unfinished(worktree: _Worktree) -> None:
    """Take away what a git that was killed left half made; under the lock no other is at work."""
    for entry in worktree.git("worktree", "list", "--porcelain").split("\n\n"):
        lines = entry.splitlines()
        if f"worktree {worktree.path.resolve()}" in lines and f"locked {_UNFINISHED}" in lines:
            worktree.git("worktree", "remove", "--force", "--force", str(worktree.path))


def _released(home: Path, worktree: _Worktree) -> bool:
    with _locked(home, worktree):
        if not _may_go(worktree):
            return False
        worktree.git("worktree", "remove", str(worktree.path))
        worktree.ask("branch", "-D", worktree.branch)  # refused, and kept, where somebody has it checked out
        return True


def _may_go(worktree: _Worktree) -> bool:
    """Whether nothing that is only in this worktree would be lost with it."""
    _own(worktree)
    return _is_clean(worktree) and all(_is_kept(worktree, tip) for tip in _tips(worktree))


def _is_clean(worktree: _Worktree) -> bool:
    return not worktree.git("status", "--porcelain", "--untracked-files=normal", here=True)


def _tips(worktree: _Worktree) -> set[str]:
    """The commits that would go: the worktree's, which may stand elsewhere by now, and the branch's."""
    return {worktree.git("rev-parse", "HEAD", here=True), _tip(worktree)} - {""}


def _tip(worktree: _Worktree) -> str:
    return worktree.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{worktree.branch}").stdout.strip()


def _is_kept(worktree: _Worktree, tip: str) -> bool:
    """Whether the commit is merged into the repository's HEAD, or pushed."""
    if worktree.ask("merge-base", "--is-ancestor", tip, "HEAD").returncode == 0:
        return True
    return bool(worktree.git("for-each-ref", "--count=1", f"--contains={tip}", "refs/remotes"))


@contextmanager
def _locked(home: Path, worktree: _Worktree) -> Iterator[None]:
    """One at a time for each repository, however its path is spelt."""
    name = hashlib.sha256(os.fsencode(_common(worktree))).hexdigest()[:16]
    path = make_private(home / "locks") / f"worktree-{name}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _common(worktree: _Worktree) -> Path:
    if not worktree.repository.is_dir():
        raise worktree.fault("no such folder")
    return (worktree.repository / worktree.git("rev-parse", "--git-common-dir")).resolve()


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """git with no shell, no question, no input and none of the GIT_* variables that point it elsewhere."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ("git", "-C", str(folder), *arguments),  # noqa: S607 – the operator's PATH decides which git
        env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=_GIT_PATIENCE,
        check=False,
    )
