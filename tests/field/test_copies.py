"""Copies of the truth: there is one log; what was written out never overwrites it, and makes it again if it is lost."""

from __future__ import annotations

import pytest

EXPORT = "board.jsonl"


@pytest.fixture
def exported(ledger, fleet):
    """Writes the board's export into a file, as a cron job does; answers its path."""

    def write():
        path = fleet.home / EXPORT
        path.write_text(ledger.ok("export").out)
        return path

    return write


def test_an_import_before_an_export_loses_no_fresh_change(ledger, fleet, exported):
    """B66: an older export is passed over: nothing is taken back, and a repeat is harmless."""
    card = fleet.create("old")
    old = exported()
    fresh = fleet.create("fresh")
    ledger.ok("edit", card, "--title", "newer")
    for _ in range(2):
        assert ledger.json("import", "jsonl", str(old))["added"] == 0
    assert {task["id"]: task["title"] for task in ledger.json("list")["tasks"]} == {card: "newer", fresh: "fresh"}


def test_a_lost_store_is_made_again_from_its_export(ledger, fleet, exported, monkeypatch):
    """B66: all cards are there again, by one command, and no board of that name has to be founded first."""
    for number in range(66):
        fleet.create(f"card {number}")
    path = exported()
    monkeypatch.setenv("LEDGER_HOME", str(fleet.home / "new"))
    monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)
    assert ledger.json("import", "jsonl", str(path))["divergences"] == []
    assert len(ledger.json("list", "--limit", "1000")["tasks"]) == 66
    assert ledger.ok("export").out == path.read_text()


def test_an_empty_board_never_takes_the_place_of_an_export(ledger, fleet, exported, monkeypatch):
    """B66: a helper that died and an init made another board; ids, not names, tell them apart."""
    fleet.create()
    path = exported()
    monkeypatch.setenv("LEDGER_HOME", str(fleet.home / "new"))
    monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)
    ledger.ok("init")
    said = ledger("import", "jsonl", str(path), "--json")
    assert (said.code, said.error["code"]) == (8, "store_exists")
    assert ledger.position() == 2


def test_nothing_reads_an_export_by_itself(ledger, fleet, exported):
    """B66: the file may be edited or removed; the board is what its log says."""
    card = fleet.create("mine")
    path = exported()
    path.write_text(path.read_text().replace("mine", "theirs"))
    assert ledger.json("show", card)["task"]["title"] == "mine"
    said = ledger("import", "jsonl", str(path), "--json")
    assert (said.code, said.error["code"]) == (2, "bad_line")
    path.unlink()
    assert ledger.json("show", card)["task"]["title"] == "mine"


def test_two_copies_that_went_on_never_overwrite_each_other(ledger, fleet, exported, monkeypatch):
    """B66: the position at which they part is named, and each keeps what it has."""
    card = fleet.create()
    path = exported()
    monkeypatch.setenv("LEDGER_HOME", str(fleet.home / "new"))
    here = ledger.url
    monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)
    ledger.ok("import", "jsonl", str(path))
    ledger.ok("comment", card, "over there")
    path.write_text(ledger.ok("export").out)
    monkeypatch.setenv("LEDGER_HOME", str(fleet.home))
    monkeypatch.setenv("LEDGER_DATABASE_URL", here)
    fleet.board.comment(card, "over here")
    said = ledger("import", "jsonl", str(path), "--json")
    assert (said.code, said.error["code"]) == (3, "other_history")
    assert "part at position 4" in said.error["message"]
    assert [comment["body"] for comment in ledger.json("show", card)["comments"]] == ["over here"]


def test_an_export_says_that_it_is_one_way(ledger, fleet):
    """B66: where nothing leads back, it is said, too."""
    assert "One way" in ledger.ok("export", "--help").out
    assert "one way" in ledger.ok("export", "--format", "cloudevents").err
