"""Verbs for every known repair, so that nobody touches a row; and what `why` and `doctor` tell to run (RULES §8)."""

import re
import stat

import pytest

from kanban.address import address_of
from kanban.backup import backup
from kanban.doctor import examine
from kanban.prune import prune
from kanban.restore import restore
from ledger.database import sqlite_module
from ledger.errors import LedgerError
from tests.field.outsiders import overwrite
from tests.fleets import new_template, sh


def stuck(ledger, fleet, how):
    """A card that stands still, for the reason that *how* names."""
    card = ledger.create(
        "x", *(("--triage",) if how == "triage" else ()), *(("--blocked", "y") if how == "born" else ())
    )
    match how:
        case "block":
            ledger.ok("block", card, "wait")
        case "done":
            ledger.ok("complete", card)
        case "archived":
            ledger.ok("archive", card)
        case "running":
            ledger.ok("claim", card)
        case "dead parent":
            parent = ledger.create("p")
            ledger.ok("link", card, parent)
            ledger.ok("complete", parent, "--outcome", "fail")
        case "open parent":
            ledger.ok("link", card, ledger.create("p"))
        case "cooldown" | "lost":
            for _ in range(2 if how == "cooldown" else 1):
                fleet.board.claim(card)
                fleet.clock.advance(961)
                fleet.sweep()
        case "budget":
            fleet.staff({"w": {"command": sh("exit 3")}})
            ledger.ok("assign", card, "w")
            fleet.finish(card, "blocked")
    return card


@pytest.mark.parametrize(
    "how",
    ["triage", "born", "block", "done", "archived", "running", "dead parent", "open parent", "cooldown", "lost",
     "budget", "ready"],
)  # fmt: skip
def test_every_standstill_names_a_verb_that_works(ledger, fleet, how):
    """B68: nobody has to touch a row: what `why` tells to run is a command of ours, it is accepted, and is an event."""
    card = stuck(ledger, fleet, how)
    told = ledger.json("why", card)["try"]
    assert told.startswith("ledger "), told
    for part in re.split(", then |, or |, (?=ledger)", told):
        filled = part.removeprefix("ledger ").replace("…", "because").replace("ANOTHER", "other").replace("NAME", "w")
        argv = ["7" if word == "N" else word for word in filled.split()]
        if argv[0] == "log":
            continue  # it follows a run for as long as that lasts
        said = ledger(*argv)
        assert said.code == 0, (part, said)
        if ledger.json("show", card)["task"]["status"] not in {"blocked", "done", "archived", "running"}:
            break
    assert fleet.board.replay().divergences == ()


def test_every_repair_is_an_event_with_its_actor_and_reason(ledger, fleet):
    """B68: release, accept, hand over, reopen, cancel: each stands in the log, by ada, and replays."""
    card = ledger.create("x")
    got = ledger.json("claim", card)
    fleet.clock.advance(961)
    fleet.sweep()
    assert ledger("complete", card, "late", "--run", "1", "--lock", got["lock"]).code == 3
    ledger.ok("accept", card, "1")
    ledger.ok("reopen", card, "--reason", "not quite")
    ledger.ok("block", card, "wait")
    ledger.ok("unblock", card, "--reason", "go on")
    ledger.ok("assign", card, "w")
    ledger.ok("archive", card)
    told = [(e.kind, e.actor_name) for e in fleet.events(card) if e.actor_kind == "operator"]
    kinds = ("completed", "reopened", "blocked", "unblocked", "assigned", "archived")
    assert [pair for pair in told if pair[0] in kinds] == [(kind, "ada") for kind in kinds]
    assert [e.words["reason"] for e in fleet.events(card) if e.kind in {"reopened", "unblocked"}] == [
        "not quite",
        "go on",
    ]


def test_a_doctor_names_the_command_that_mends(ledger, fleet):
    """B68: every finding that is no `ok` says what to run, and looking changes nothing."""
    parent = ledger.create("p")
    child = ledger.create("c", "--parent", parent)
    ledger.ok("complete", parent, "--outcome", "fail")
    ledger.create("typo", "--assignee", "bulder")
    fleet.spoilt = True
    position = fleet.board.stats()["position"]
    at = address_of(None, None, actor=None, config=None, environ=fleet.environ, cwd=fleet.home)
    found = [each for each in examine(at) if str(each.level) != "ok"]
    assert {each.check for each in found} >= {"waits", "assignees"}
    assert all(each.try_ for each in found)
    assert any(child in each.text for each in found)
    assert fleet.board.stats()["position"] == position


def test_a_copy_is_checked_before_it_replaces_anything(ledger, fleet, tmp_path):
    """B68: backup, then restore: a broken copy is refused and the store stays; a sound one keeps settings and modes."""
    card = ledger.create("kept")
    copy = tmp_path / "copy.db"
    backup(fleet.url, "default", copy)
    broken = tmp_path / "broken.db"
    broken.write_bytes(copy.read_bytes())
    overwrite(broken, range(3, 8))
    ledger.create("after the copy")
    for force in (False, True):
        with pytest.raises(LedgerError):
            restore(broken, fleet.url, board="default", force=force)
    assert len(ledger.json("list")["tasks"]) == 2
    with pytest.raises(LedgerError):
        restore(copy, fleet.url, board="default")
    fleet.board.close()
    fleet.boards.clear()
    made = restore(copy, fleet.url, board="default", force=True)
    assert made.kept.exists()
    assert [task["id"] for task in ledger.json("list")["tasks"]] == [card]
    assert stat.S_IMODE((fleet.home / "ledger.db").stat().st_mode) == 0o600
    assert ledger.create("writes again")
    with sqlite_module().connect(fleet.home / "ledger.db") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    assert fleet.board.replay().divergences == ()


def test_looking_after_a_store_frees_nobody(fleet):
    """B09: a doctor's visit, a dry run of prune and a backup are reads: the card stays blocked, the log as it was."""
    card = fleet.create(assignee=None, blocked="for a person")
    position = fleet.board.stats()["position"]
    examine(address_of(None, None, actor=None, config=None, environ=fleet.environ, cwd=fleet.home))
    prune(fleet.board, older_than=1, dry_run=True)
    backup(fleet.url, "default", fleet.home / "copy.db")
    assert (fleet.board.stats()["position"], fleet.card(card)["status"]) == (position, "blocked")


def test_a_copy_of_another_board_is_no_copy(fleet, tmp_path):
    """B06: a copy with another board id never takes the store's place, forced or not."""
    fleet.create()
    other = tmp_path / "other"
    other.mkdir()
    copy = new_template(other)
    fleet.board.close()
    fleet.boards.clear()
    for force in (False, True):
        with pytest.raises(LedgerError):
            restore(copy, fleet.url, board="default", force=force)
    assert len(fleet.board.tasks()["tasks"]) == 1
