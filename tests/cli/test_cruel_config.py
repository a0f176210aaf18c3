"""Settings files that are none: one line that names file and line, at once, whatever lies there and whoever asks."""

from __future__ import annotations

import os

import pytest

from tests.cli.test_cruel_disk import as_nobody, in_child, told
from tests.engines import once
from tests.fleets import at_once

pytestmark = once

FAULTS = {
    "board": 1, "board =": 1, "= 1": 1, "board = yes": 1, "board = 'a\n": 1, "\nboard = 'a'\nboard = 'b'\n": 3,
    "[assignees\n": 1, "[assignees.x]\ncommand = ['true']\n[assignees.x]\ncommand = ['true']\n": 3,
    "[[assignees]]\n": None, "assignees = 1": 1, "assignees = []": 1, "[assignees]\nx = 1": 2, "[assignees.x]\n": 1,
    "[assignees.x]\ncommand = []": 2, "[assignees.x]\ncommand = 'true'": 2, "[assignees.x]\n\ncommand = ['a', 1]": 3,
    '[assignees.x]\ncommand = ["a\\u0000b"]': 2, "[assignees.x]\ncommand = ['true']\nenv = {A = 1}": 3,
    "[assignees.x]\ncommand = ['true']\nenv = {'A=B' = 'c'}": 3, "[assignees.x]\ncommand = ['true']\nquota = ['(']": 3,
    "[assignees.x]\ncommand = ['true']\nhuman = true": 1, "[assignees.x]\nhuman = 1": 2,
    "[assignees.'a b']\nhuman = true": 1,
    "[assignees.x]\ncommand = ['true']\nmax_running = 0": 3, "[assignees.x]\ncommand = ['true']\nmax_runing = 1": 3,
    "max_running = 1e5": 1, "max_running = nan": 1, "max_running = 9223372036854775808": 1, "max_running = -1": 1,
    "max_running = " + "9" * 5_000: 1, "max_running = true": 1, "max_running = 1979-05-27": 1, "log_limit = '1 PiB'": 1,
    "# fine\n\n\nboard = ''": 4, "board = '''\n\n'''": 1, "a.b.c = 1": 1, "x = {a = 1, a = 2}": 1, "x = [1, 2": 1,
    "\x00": 1,
    "board = 'a\x1b[2J'\nnope = 1": 1, "\N{BYTE ORDER MARK}\nnope = 1": 2, "nope = '\u2028'": 1,
    'board = "\\ud800"': 1, "<<<<<<< HEAD": 1, "{}": 1, "board: a": 1, "x = '''" + "y\n" * 3_000: None,
    "x=" + "[" * 50_000: None, "x." * 2_000 + "y=1": None, "\r": None, "board = 'a'\rnope = 1": 1,
}  # fmt: skip
"""A text that is no settings file → the line that is to blame, where there is one."""


@pytest.mark.parametrize("text", FAULTS, ids=lambda text: repr(text[-40:]))
def test_a_fault_is_one_line_with_file_and_line(ledger, text):
    """2 for every command; nothing of the file reaches the terminal as it stands."""
    path = ledger.home / "ledger.toml"
    path.write_text(text, newline="")
    for argv in (("list",), ("sweep",)):
        said = ledger(*argv)
        assert (said.code, said.out) == (2, ""), said
        first, *rest = said.err.splitlines()
        place = f"error: {path}:" if FAULTS[text] is None else f"error: {path}:{FAULTS[text]}: "
        assert first.startswith(place), said
        assert [line[:5] for line in rest] in ([], ["try: "]), said
        assert said.err.replace("\n", "").isprintable(), said
    assert ledger("config", "show", "--json").error["code"] == "config_fault"


def folder(path):
    path.mkdir()


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


def silent(path):
    path.symlink_to("/dev/null")


def ring(path):
    path.symlink_to(path)


def huge(path):
    with path.open("wb") as file:
        file.write(b"# a\n" * 1_000)
        file.truncate(100 * 2**20)


def huge_text(path):
    path.write_text("# a comment, and a long one\n" * 50_000)


def binary(path):
    path.write_bytes(b"\x7fELF\x00\xff" * 1_000)


def utf16(path):
    path.write_text("board = 'a'", encoding="utf-16")


SHAPES = (folder, pipe, endless, silent, ring, huge, huge_text, binary, utf16)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("way", ["home", "flag", "variable"])
def test_what_is_no_file_of_settings_is_refused_at_once(ledger, monkeypatch, tmp_path, shape, way):
    """2 and its name: it is not waited for, and not read to an end that it has not."""
    path = ledger.home / "ledger.toml" if way == "home" else tmp_path / "other.toml"
    path.unlink(missing_ok=True)
    shape(path)
    if way == "variable":
        monkeypatch.setenv("LEDGER_CONFIG", str(path))
    with at_once():
        said = ledger("list", *(["--config", str(path)] if way == "flag" else []), "--json")
    assert (said.code, said.error["code"]) == (2, "config_fault"), said
    assert str(path) in said.error["message"]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_file_of_the_working_folder_is_read_or_skipped_at_once(ledger, shape):
    """It may be anybody's: 0 and a note that it was not read, or 2 and its name."""
    ledger.home.joinpath("ledger.toml").unlink()
    shape(ledger.home.parent / "here" / "ledger.toml")
    with at_once():
        said = ledger("list")
    assert said.code in {0, 2}, said
    assert "ledger.toml" in said.err, said
    assert "internal" not in said.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_settings_that_may_not_be_read_are_named(ledger, tmp_path):
    """2, as another user; never as if there were none."""
    path = tmp_path / "other.toml"
    path.write_text("board = 'a'")
    path.chmod(0o600)
    for parent in (tmp_path, *list(tmp_path.parents)[:-2]):
        parent.chmod(parent.stat().st_mode | 0o055)
    said = in_child(["list", "--config", str(path), "--json"], lambda: os.chdir("/"), as_nobody)
    assert said.code == 2, said
    assert str(path) in said.error["message"]


@pytest.mark.parametrize("shape", [folder, pipe, ring, endless])
def test_a_home_that_is_none_is_named(bare, shape):
    """1, 2 or 8 in one line, for every command that needs one."""
    shape(bare.home)
    for argv in (("init",), ("list",), ("create", "a"), ("sweep",), ("config", "show"), ("db", "status")):
        said = bare(*argv, "--json")
        if (shape, argv[0], said.code) in {(folder, "init", 0), (folder, "config", 0)} or said.code == 2:
            break
        if argv[0] != "config":
            told(said)
