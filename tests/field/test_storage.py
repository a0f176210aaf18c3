"""The store: whole under many writers, never replaced in silence, never repaired by itself, and small (RULES §10)."""

import json
import multiprocessing
import os
import shutil
import signal

import pytest
from sqlalchemy import text

from kanban import Board
from ledger.database import reading, writing
from ledger.errors import (
    StoreDamaged,
    StoreFault,
    StoreFull,
    StoreMissing,
    StoreReplaced,
    UnknownBoard,
)
from ledger.upgrade import open_store
from tests.field.outsiders import PAGE, overwrite, raw
from tests.fleets import new_fleet, sh, until


def files(home):
    """The files in *home* by name, with their bytes; but for the locks."""
    return {p.name: p.read_bytes() for p in home.iterdir() if p.is_file() and p.suffix not in {".gate", ".lock"}}


def folded(fleet):
    """The store as one file, closed."""
    fleet.board.close()
    fleet.boards.clear()
    raw(fleet, "PRAGMA wal_checkpoint(TRUNCATE)")
    fleet.spoilt = False
    return fleet.home / "ledger.db"


def write_cards(home, name, go_on):
    """What a writer in a process of its own does, until it is killed or done."""
    with Board.open(environ={"LEDGER_HOME": str(home), "USER": name}, cwd=home) as board:
        for number in range(go_on):
            board.create(f"{name} {number}")


def test_many_processes_write_one_store_and_one_of_them_is_killed(fleet):
    """B04: three real writers, one killed by `kill -9` in the middle: pages whole, no hole, chain and rows in order."""
    spawn = multiprocessing.get_context("fork")
    writers = [spawn.Process(target=write_cards, args=(fleet.home, name, n)) for name, n in
               (("one", 40), ("two", 40), ("doomed", 100_000))]  # fmt: skip
    for writer in writers:
        writer.start()
    until(lambda: sum(1 for _ in fleet.board.events()) > 60)
    os.kill(writers[2].pid, signal.SIGKILL)
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, -signal.SIGKILL]
    assert raw(fleet, "PRAGMA integrity_check") == [("ok",)]
    fleet.spoilt = False
    titles = {card["title"] for card in fleet.board.tasks(limit=None)["tasks"]}
    assert {f"{name} {number}" for name in ("one", "two") for number in range(40)} <= titles
    assert fleet.board.replay().divergences == ()


def test_no_command_moves_or_recreates_the_live_file(ledger, fleet):
    """B04: one inode from the first command to the last: init again, writes, sweeps, rebuild, upgrade, audit."""
    path = fleet.home / "ledger.db"
    born = path.stat().st_ino
    for argv in (("init",), ("create", "x"), ("sweep",), ("db", "rebuild"), ("db", "upgrade"), ("replay",)):
        ledger.ok(*argv)
        assert path.stat().st_ino == born, argv
    assert raw(fleet, "PRAGMA journal_mode") == [("wal",)]
    fleet.spoilt = False


def test_a_write_that_cannot_be_committed_changes_nothing(fleet):
    """B04: a full disk is a clean error, by name; the log stands where it stood, and goes on when there is room."""
    fleet.create()
    before = fleet.board.stats()["position"]
    with reading(fleet.board.engine) as tx:
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar()
        tx.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull):
        fleet.board.create("too much", body="x" * 500_000)
    assert fleet.board.stats()["position"] == before
    with reading(fleet.board.engine) as tx:
        tx.exec_driver_sql("PRAGMA max_page_count = 4294967294")
    assert fleet.board.create("room again").position == before + 1


@pytest.mark.parametrize("what", ["all", "each"])
def test_a_damaged_store_is_said_and_left_alone(ledger, fleet, what):
    """B05: ticks on broken pages: exit 8 or an honest tick; no worker on damage, no copy, no repair, no growth."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    for number in range(30):
        fleet.create(f"card {number}", body="x" * 900, assignee="w" if number == 0 else "nobody")
    path = folded(fleet)
    sound, fleet.spoilt = path.read_bytes(), True
    count = len(sound) // PAGE
    for pages in [range(1, count)] if what == "all" else [[page] for page in range(1, count)]:
        path.write_bytes(sound)
        overwrite(path, pages)
        broken, names = path.read_bytes(), set(files(fleet.home))
        codes = [ledger("sweep").code for _ in range(4 if what == "all" else 1)]
        assert set(codes) <= {0, 1, 8}
        until(lambda: not fleet.left())  # all have written how they ended, and none does so over the next one
        if set(codes) == {8}:
            records = [json.loads(path.read_text()) for path in fleet.home.glob("boards/*/runs/*/*/exit.json")]
            assert all(record["code"] == 143 for record in records), "no worker ran, and no card is charged"
            assert what == "each" or path.read_bytes() == broken, "nothing is repaired"
        assert set(files(fleet.home)) - names <= {"ledger.db-wal", "ledger.db-shm"}
        for left in ("ledger.db-wal", "ledger.db-shm"):
            (fleet.home / left).unlink(missing_ok=True)
        shutil.rmtree(fleet.home / "boards", ignore_errors=True)
    if what == "all":
        assert codes == [8] * 4
        said = ledger("list", "--json")
        assert (said.code, said.error["code"]) == (8, "store_damaged")
        assert "restore" in said.error["try"]


def test_damage_that_a_start_meets_is_not_the_cards(fleet, monkeypatch):
    """B05: the store breaks between claim and start: the tick ends as its fault; no gate opens, nothing is charged."""
    fleet.staff({"w": {"command": sh('touch "$LEDGER_HOME/ran"')}})
    cards = [fleet.create(), fleet.create()]

    def broken(*_):
        raise StoreDamaged("the store is damaged: database disk image is malformed")

    monkeypatch.setattr("kanban.starting.prompt_card", broken)
    with pytest.raises(StoreDamaged):
        fleet.board.sweep()
    monkeypatch.undo()
    fleet.clock.advance(31)
    fleet.sweep(most=0)
    for card in cards:
        assert [run["outcome"] for run in fleet.runs(card)] == ["interrupted"]
        assert fleet.counters(card)[:3] == (0, 0, 0)
    assert not (fleet.home / "ran").exists()


def test_another_store_goes_on_beside_a_damaged_one(founded, fleet, tmp_path):
    """B05: damage is one store's: a fleet on another works as ever."""
    fleet.create()
    path = folded(fleet)
    overwrite(path, range(1, len(path.read_bytes()) // PAGE))
    fleet.spoilt = True
    beside = new_fleet(founded, tmp_path / "beside")
    try:
        with pytest.raises(StoreDamaged):
            fleet.board.sweep()
        assert beside.create()
        beside.sweep()
        beside.audit()
    finally:
        beside.end()


def test_a_store_that_is_not_there_is_not_made(ledger, fleet):
    """B06: no command but `init` makes one; gone, empty or another's, it is an error with exit 8, and stays so."""
    fleet.create()
    path = folded(fleet)
    for spoil in (path.unlink, path.touch, lambda: path.write_bytes(b"no database at all")):
        spoil()
        before = files(fleet.home)
        for argv in (("list",), ("create", "x"), ("sweep",), ("board",), ("replay",), ("db", "rebuild"), ("stats",)):
            assert ledger(*argv).code == 8, argv
            assert files(fleet.home) == before, argv


def test_a_store_that_is_taken_away_is_not_written_on_in_the_dark(fleet):
    """B06: a long-running sweep whose file is removed or replaced says so, and makes no empty one in its place."""
    fleet.create()
    for path in fleet.home.glob("ledger.db*"):
        path.unlink()
    for _ in range(3):
        with pytest.raises(StoreMissing):
            fleet.board.create("into the void")
        with pytest.raises(StoreMissing):
            fleet.board.sweep()
        fleet.board.engine.dispose()
    assert not (fleet.home / "ledger.db").exists()
    fleet.spoilt = True


def test_a_store_that_is_replaced_is_noticed(founded, fleet):
    """B04: renamed over, as a restore does: an old connection writes nothing more, a new one reads the new file."""
    fleet.create()
    old = fleet.board
    shutil.copyfile(founded, fleet.home / "new.db")
    for beside in ("ledger.db-wal", "ledger.db-shm"):
        (fleet.home / beside).unlink(missing_ok=True)
    (fleet.home / "new.db").replace(fleet.home / "ledger.db")
    with pytest.raises(StoreReplaced):
        old.create("into the void")
    with pytest.raises(StoreReplaced):
        old.tasks()
    assert fleet.another().tasks()["tasks"] == []
    fleet.boards.remove(old)
    old.close()


def test_a_board_is_known_by_more_than_its_name(ledger, fleet):
    """B06: a name that is not there is refused, with exit 5; an id that is another's shows in the chain."""
    with pytest.raises(UnknownBoard):
        fleet.another("elsewhere")
    assert ledger("list", "--board", "elsewhere").code == 5
    assert fleet.board.settings.board_id
    fleet.create()
    raw(fleet, "DROP TRIGGER boards_head_grows", "UPDATE boards SET board_id = 'somebody elses'")
    assert fleet.board.replay().divergences != ()
    assert ledger("replay").code == 7


@pytest.mark.parametrize("version", ["0000", "9999"])
def test_a_store_of_another_version_is_refused_whole(ledger, fleet, version):
    """B45: older or newer: exit 8 by name, not a byte changed, whoever opens it and however often."""
    fleet.create()
    path = folded(fleet)
    raw(fleet, f"UPDATE alembic_version SET version_num = '{version}'")
    raw(fleet, "PRAGMA wal_checkpoint(TRUNCATE)")
    before = files(fleet.home)
    for argv in (("list",), ("sweep",), ("create", "x"), ("db", "rebuild")):
        said = ledger(*argv, "--json")
        assert said.code == 8
        assert said.error["code"] in {"store_outdated", "store_too_new"}
        assert version in said.error["message"]
    assert files(fleet.home)["ledger.db"] == before["ledger.db"]
    with pytest.raises(StoreFault):
        open_store(f"sqlite:///{path}")


def found_and_write(home, name):
    """`ledger init` and a card, in a process of its own."""
    from kanban.founding import found
    from ledger.clock import system_clock
    from tests.fleets import FOUNDER

    found(f"sqlite:///{home}/ledger.db", "default", FOUNDER, system_clock)
    write_cards(home, name, 1)


def test_eight_processes_that_start_at_once_make_one_store(tmp_path):
    """B45: one migration, one board, and all of them work."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    fork = multiprocessing.get_context("fork")
    starters = [fork.Process(target=found_and_write, args=(home, f"p{number}")) for number in range(8)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    assert [starter.exitcode for starter in starters] == [0] * 8
    with Board.open(environ={"LEDGER_HOME": str(home), "USER": "ada"}, cwd=home) as board:
        kinds = [event.kind for event in board.events()]
        assert kinds.count("board_created") == 1
        assert (kinds.count("created"), board.replay().divergences) == (8, ())


SPOILS = {
    "status": "UPDATE tasks SET outcome = 'ok' WHERE task = :task",
    "counter": "UPDATE tasks SET failures = failures + 7 WHERE task = :task",
    "hold": "UPDATE tasks SET hold_cause = NULL, hold_sticky = NULL WHERE task = :task",
    "run": "UPDATE runs SET ended_by = NULL, outcome = NULL WHERE task = :task",
    "row": "DELETE FROM tasks WHERE task = :task",
    "link": "DELETE FROM links WHERE child = :task",
    "policy": "UPDATE settings SET policy = replace(policy, '50', '51')",
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_projection_that_drifts_is_found_and_folded_again(ledger, fleet, spoil):
    """B64: each stored row is compared with the refold: card, stored, computed; exit 7; a rebuild mends all of it."""
    parent = fleet.create()
    fleet.board.complete(parent)
    card = fleet.create(assignee=None, parents=[parent], max_retries=1)
    fleet.board.claim(card)
    fleet.clock.advance(961)
    fleet.sweep()
    fleet.board.block(card, "wait")
    fleet.board.set_policy(run_limit=50, failure_limit=3)
    before = fleet.board.show(card)["task"]
    fleet.spoilt = True
    with writing(fleet.board.engine) as tx:
        tx.execute(text(SPOILS[spoil]), {"task": card} if ":task" in SPOILS[spoil] else {})
    found = fleet.board.replay().divergences
    assert found
    assert any(each.stored != each.computed for each in found)
    said = ledger("replay", "--json")
    assert (said.code, bool(said.json["divergences"])) == (7, True)
    fleet.board.rebuild()
    assert fleet.board.replay().divergences == ()
    assert fleet.board.show(card)["task"] == before


def test_an_edit_of_the_log_itself_is_named(fleet):
    """B64: whoever takes the triggers away and rewrites an event breaks the chain at exactly that position."""
    for number in range(5):
        fleet.create(f"card {number}")
    raw(fleet, "DROP TRIGGER events_no_update", "UPDATE events SET actor_name = 'mallory' WHERE position = 4")
    assert min(each.position for each in fleet.board.replay().divergences) == 4
    fleet.board.rebuild()
    assert fleet.board.replay().divergences != (), "a rebuild repairs projections, never the log"
