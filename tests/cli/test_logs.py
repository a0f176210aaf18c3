"""The log of a run: printed whole, followed while it grows and while it is shortened in place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli import logs
from cli.logs import HEAD, RunLog, Tail, follow_log
from kanban.board import Board
from kanban.worker import supervise


@pytest.fixture
def ran(ledger):
    """A card with one run, and where its log lies."""
    card = ledger.create("a")
    ledger.claim(card)
    return card, ledger.home / "boards" / "default" / "runs" / card / "1" / "log"


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def test_the_last_run_is_the_default(ledger, ran):
    """Card, run, path and text in JSON; the text alone in words."""
    card, path = ran
    written(path, b"gr\xf6\xdfer\n")
    said = ledger.json("log", card)
    assert said == {"schema": 1, "task": card, "run": 1, "path": str(path), "text": "gr\ufffd\ufffder\n"}
    written(path, b"hello\n")
    assert ledger.ok("log", card, "--run", "1").out == "hello\n"


def test_what_is_not_there_is_not_found(ledger, ran):
    """No card, no run yet, no such run, no log on this host: 5, each with a sentence."""
    card, path = ran
    fresh = ledger.create("b")
    for argv, code in (
        (("log", "t_nowhere"), "unknown_task"), (("log", fresh), "not_found"),
        (("log", card, "--run", "2"), "unknown_run"), (("log", card), "not_found"),
    ):  # fmt: skip
        said = ledger(*argv, "--json")
        assert (said.code, said.error["code"]) == (5, code)
    assert str(path) in ledger("log", card).err


def test_follow_ends_with_the_run(ledger, ran, capsys):
    """When the exit record is there, and all of the log is printed."""
    card, path = ran
    written(path, b"first\n")
    looks = []

    def pause(_seconds):
        looks.append(1)
        with path.open("ab") as log:
            log.write(b"second\n")
        (path.parent / "exit.json").write_text("{}")

    with Board.open() as board:
        follow_log(board, RunLog(card, 1, path), pause=pause)
    assert capsys.readouterr().out == "first\nsecond\n"
    assert len(looks) == 1


def test_follow_ends_when_the_board_says_so(ledger):
    """A supervisor that was killed leaves no record."""
    card = ledger.create("a")
    ledger.ok("block", card, "cannot", *ledger.claim(card))
    written(ledger.home / "boards" / "default" / "runs" / card / "1" / "log", b"last words\n")
    assert ledger.ok("log", card, "--follow").out == "last words\n"


def test_follow_without_a_log_is_not_found(ledger):
    """A run by hand that is over and never wrote here."""
    card = ledger.create("a")
    ledger.ok("block", card, "cannot", *ledger.claim(card))
    assert ledger("log", card, "--follow").code == 5


def test_the_head_is_the_supervisors():
    """Two files, one number: the supervisor must not import ours."""
    assert supervise._HEAD == HEAD


@settings(max_examples=20)
@given(data=st.data())
def test_a_log_that_is_shortened_is_printed_once(tmp_path_factory, data):
    """Whatever was dropped before it was read is replaced by one line; nothing comes twice, nothing out of order."""
    folder = tmp_path_factory.mktemp("log")
    descriptor = supervise.os.open(folder, supervise.os.O_RDONLY)
    limit = 50_000
    log, tail = supervise._Log(descriptor, limit), Tail(folder / "log")
    written_lines, read = 0, b""
    for _ in range(data.draw(st.integers(1, 12))):
        for _ in range(data.draw(st.integers(1, 40))):
            chunk = b"".join(b"%09d\n" % (written_lines + step) for step in range(1_000))
            log.add(chunk)
            written_lines += 1_000
        if data.draw(st.booleans()):
            while more := tail.more():
                read += more
    while more := tail.more():
        read += more
    for end in (log._end, log._any, descriptor):
        supervise.os.close(end)
    whole = [line for line in read.split(b"\n") if len(line) == 9 and line.isdigit()]
    assert whole == sorted(set(whole))
    assert whole[-1] == b"%09d" % (written_lines - 1)
    assert whole[0] == b"%09d" % 0
    assert read.count(b"bytes dropped") > 0 or len(whole) == written_lines


def test_a_log_that_is_not_there_yet_is_empty(tmp_path):
    """Its run has not begun to write."""
    assert logs.Tail(tmp_path / "log").more() == b""
