"""Commands that look, and every dry run, change nothing: not the log, not a byte or a row of the store."""

import pytest

from kanban.board import Board

READS = (
    ("list",), ("list", "--status", "ready", "--sort", "updated"), ("show", "CARD"), ("board",), ("why", "CARD"),
    ("list", "--at", "2"), ("show", "CARD", "--at", "3"), ("stats", "--at", "1"), ("replay", "--at", "2"),
    ("diff", "1"),
    ("why", "CARD", "held"), ("why", "CARD", "failures"), ("runs", "CARD"), ("stats",), ("events",), ("events", "CARD"),
    ("events", "--jsonl"), ("log", "CARD"), ("policy",), ("replay",), ("replay", "--strict"), ("config", "show"),
    ("db", "status"), ("db", "upgrade", "--dry-run"), ("sweep", "--dry-run"),
    ("archive", "CARD", "--cascade", "--dry-run"),
    ("unblock", "--all", "--cause", "operator", "--dry-run"), ("show", "t_nowhere"), ("create", " "), ("init",),
    ("edit", "CARD", "--priority", "0"), ("assign", "CARD", "builder"), ("--help",), ("list", "--help"), ("--version",),
)  # fmt: skip
"""The last ones write nothing since what they wish is true already, or wrong."""


@pytest.fixture(scope="module")
def built(founded, tmp_path_factory):
    """A home whose board has a run, a hold, links and a schedule on it; and one of its cards."""
    cards = []

    def build(home):
        (home / "ledger.toml").write_text("[assignees.dana]\nhuman = true\n[assignees.builder]\ncommand = ['true']\n")
        with Board.open(cwd=home) as board:
            cards.append(board.create("a", assignee="builder").task["id"])
            child = board.create("b", blocked="x", parents=cards).task["id"]
            board.claim(board.create("c").task["id"])
            board.schedule(board.create("d").task["id"], 2**52)
            board.comment(child, "hello")

    return founded.then("built", build, tmp_path_factory.mktemp("built") / "home"), cards[0]


@pytest.fixture
def standing(lend, built):
    """A copy of it."""
    home, card = built
    return lend(home), card


@pytest.mark.parametrize("argv", READS)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_nothing_changes(standing, argv, form):
    """Board position, and the file's bytes or the server's rows, are the same before and after."""
    ledger, card = standing
    position, before = ledger.position(), ledger.bytes()
    ledger(*(card if word == "CARD" else word for word in argv), *form)
    assert ledger.position() == position
    assert ledger.bytes() == before
