"""A store moved to another database: whole, by one command that can be cut off anywhere, and never two stores of it."""

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import func, select

from kanban import moving
from kanban.backup import backup
from kanban.doctor import examine
from kanban.founding import found as found_store
from kanban.moving import OpenRuns, move
from kanban.restore import RestoreRefused, restore
from kanban.soundness import verify
from ledger import moved
from ledger import standing as standings
from ledger import store as log
from ledger.clock import system_clock
from ledger.database import connected, reading, sqlite_module, writing
from ledger.errors import StoreDamaged, StoreExists, StoreFault, StoreMissing, StoreMoved, StoreMoving
from ledger.moved import move_of
from ledger.schema import words
from ledger.upgrade import differences, mark_of, open_store, upgrade
from projections.carried import differing
from projections.replay import replay
from projections.tables import metadata
from tests import audits, fleets, given, ledgers, served, servers
from tests.fleets import sh
from tests.processes.test_doctor import address
from tests.served import BOARD, asked, opened

END = 11
"""Where the log of `filled` ends."""
LEDGER = Path(sys.executable).parent / "ledger"


@pytest.fixture
def database():
    """The address of an empty database."""
    with servers.shared().lent() as url:
        yield url


@pytest.fixture
def filled(database, fleet):
    """Five cards, one done, one with a comment that was redacted."""
    cards = [fleet.create(f"card {number}") for number in range(5)]
    granted = fleet.board.claim(cards[0])
    fleet.board.complete(cards[0], "did it", run=granted.run, lock=granted.lock)
    fleet.board.comment(cards[1], "secret")
    fleet.board.redact(fleet.board.columns()["position"], thoroughly=False)
    return fleet


def at(fleet, url):
    """The board at another address."""
    board = fleets.Board.open(url, environ=fleet.environ, cwd=fleet.home)
    fleet.boards.append(board)
    return board


def moved_from(fleet, to, **how):
    """Move the fleet's store, with nothing of ours open."""
    fleet._close_boards()
    return move(fleet.url, to, **how)


def usable(url):
    """Whether any command would use what is there."""
    try:
        open_store(url).dispose()
    except StoreFault:
        return False
    return True


def digest(url, board=BOARD):
    """What a replay makes of the log there, which must be without fault."""
    with connected(url) as engine:
        found = replay(engine, board)
    assert found.divergences == ()
    return found.digest


def dying(fleet, patch, target):
    """`db move` in a process that dies by `kill -9` where *patch* says."""
    fleet._close_boards()
    other = fleet.outside(
        "board.close()\nimport kanban.moving as m\ndie = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        f"{patch}\nm.move(*sys.argv[1:])",
        fleet.url,
        target,
    )
    assert other.wait() == -signal.SIGKILL


def sql(file, *statements):
    """Change *file* as an outsider would; the rows that the last of *statements* finds."""
    with closing(sqlite_module().connect(str(file), isolation_level=None)) as forger:
        return [forger.execute(statement).fetchall() for statement in statements][-1]


def run(fleet, *words, **variables):
    """A command line in a process of its own."""
    environ = fleet.environ | variables
    return subprocess.run([LEDGER, *words], env=environ, cwd=fleet.home, capture_output=True, text=True, check=False)


# Whole


def test_everything_is_there_and_the_old_address_says_where(filled, database):
    """The same log, words, projections and operational rows; the new store is used, and the old one is sealed."""
    before = filled.board.replay()
    found = moved_from(filled, database)
    assert (found.changed, found.notes) == (True, ())
    assert (found.heads[BOARD].hash.hex(), found.digests) == (before.hash, {BOARD: before.digest})
    there = at(filled, database)
    assert there.replay().digest == before.digest
    with connected(filled.url) as old, reading(old) as source, reading(there.engine) as target:
        assert differing(source, target) is None
        assert {tx.scalar(select(func.count()).select_from(words)) for tx in (source, target)} == {before.events - 1}
    with pytest.raises(StoreMoved, match="this ledger has moved to postgresql") as refused:
        at(filled, filled.url)
    assert "LEDGER_DATABASE_URL" in refused.value.remedy
    there.create("later")
    assert there.replay().divergences == ()


@pytest.mark.parametrize(
    ("source", "target"), [("file", "server"), ("server", "file"), ("file", "file"), ("server", "server")]
)
def test_a_lived_in_store_is_moved_between_any_two_databases(tmp_path, source, target):
    """Every column of every row, of two boards, whichever database they come from and go to."""
    with ExitStack() as stack:
        old, new = (
            stack.enter_context(servers.shared().lent()) if kind == "server" else f"sqlite:///{tmp_path}/{number}.db"
            for number, kind in enumerate((source, target))
        )
        store = ledgers.founded(old)
        ledgers.new_board(store, "ops", "c" * 32)
        audits.live(store)
        store.sql("DELETE FROM words WHERE position = 21")  # which was redacted
        store.sql("INSERT INTO leases VALUES ('b', 't_a', 2, 7, NULL), ('b', 't_p', 1, 8, 9)")
        store.sql("INSERT INTO held VALUES ('b', 't_a', 'cooldown_until', 5, 6), ('ops', 't_x', 'paused', NULL, 1)")
        store.sql("INSERT INTO sweeps VALUES ('b', 'host', 5, NULL, 0)")
        store.engine.dispose()
        assert set(move(old, new).digests) == {"b", "ops"}
        with connected(old) as here, connected(new) as there, reading(here) as one, reading(there) as other:
            assert differing(one, other) is None
        with connected(new) as there:
            differences(there, metadata)
        assert usable(new)
        assert not usable(old)


def test_a_file_is_made_for_its_owner_alone(filled, tmp_path):
    """It holds every word of the board."""
    moved_from(filled, f"sqlite:///{tmp_path}/new.db")
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == 0o600


def test_a_database_that_is_missing_is_made(filled, database):
    """As by `ledger init`."""
    url = f"{database.partition('?')[0]}_made?{database.partition('?')[2]}"
    moved_from(filled, url)
    assert digest(url)
    asked(database, f"DROP DATABASE {url.partition('?')[0].rpartition('/')[2]} WITH (FORCE)")


def test_the_new_store_is_ready_for_the_planner(filled, database):
    """Without statistics the first commands on a large board would walk it."""
    moved_from(filled, database)
    assert asked(database, "SELECT reltuples FROM pg_class WHERE oid = 'tasks'::regclass") == [(5.0,)]


def test_a_fleet_works_on_where_it_was_moved_to(filled, database):
    """The same home: a worker is started there, is told the new address, and reports to it."""
    filled.staff({"w": {"command": sh('exec "$LEDGER_BIN" complete "worked"')}})
    moved_from(filled, database)
    there = at(filled, database)
    cards = [card["id"] for card in there.columns()["columns"]["ready"]]
    fleets.until(lambda: (there.sweep(), not there.columns()["columns"].get("ready"))[1])
    fleets.until(lambda: there.show(cards[0])["task"]["status"] == "done")
    assert there.replay().divergences == ()


def test_moving_again_is_harmless_and_somewhere_else_is_refused(filled, database, tmp_path):
    """The old store knows where it went, and nothing is made elsewhere."""
    moved_from(filled, database)
    again = move(filled.url, database)
    assert (again.changed, again.heads[BOARD].position) == (False, END)
    for other in (f"sqlite:///{tmp_path}/elsewhere.db", filled.url):
        with pytest.raises((StoreMissing, StoreMoved)):
            move(filled.url, other)
    assert not (tmp_path / "elsewhere.db").exists()
    found_store(f"sqlite:///{tmp_path}/third.db", BOARD, fleets.FOUNDER, system_clock)
    with pytest.raises(StoreMoved):
        move(filled.url, f"sqlite:///{tmp_path}/third.db")


def test_what_another_move_has_left_is_not_opened_by_this_one(filled, database, tmp_path):
    """Two stores on their way to two addresses: each opens its own."""
    other = fleets.new_fleet(fleets.new_template(tmp_path), tmp_path / "other")
    half = f"sqlite:///{tmp_path}/half.db"
    dying(filled, AFTER_THE_SEAL["with the seal committed"], database)
    dying(other, BEFORE_THE_SEAL["with the log there"], half)
    with pytest.raises(StoreMoving):
        move(filled.url, half)
    assert (usable(half), usable(database), usable(other.url)) == (False, False, True)
    assert move(filled.url, database).changed
    other.end()


# Refused


def test_while_a_run_is_open_nothing_is_moved(filled, database):
    """Its worker knows the old address; it is named, and how to end it is said."""
    card = filled.create("at work")
    filled.board.claim(card)
    for dry_run in (True, False):
        with pytest.raises(OpenRuns, match=rf"{card} \(run 1, board default\) is at work") as refused:
            moved_from(filled, database, dry_run=dry_run)
    assert refused.value.remedy.startswith("ledger pause --drain")
    assert usable(filled.url)
    assert asked(database, "SELECT count(*) FROM pg_class WHERE relname = 'boards'") == [(0,)]


def test_a_run_that_opens_while_the_logs_are_copied_keeps_the_store_where_it_is(filled, database, monkeypatch):
    """It is looked at again once nobody else can write."""
    copied = moving._carry_logs

    def meanwhile(way, *rest):
        copied(way, *rest)
        if not filled.board.columns()["columns"].get("running"):
            filled.board.claim(filled.create("at work"))
            filled._close_boards()

    monkeypatch.setattr(moving, "_carry_logs", meanwhile)
    with pytest.raises(OpenRuns):
        moved_from(filled, database)
    assert usable(filled.url)
    assert not usable(database)


@pytest.mark.parametrize("kind", ["file", "server"])
def test_where_something_is_already_nothing_is_moved(filled, database, tmp_path, kind):
    """A ledger, be it empty of cards, and another program's tables stay as they are."""
    url = database if kind == "server" else f"sqlite:///{tmp_path}/other.db"
    with connected(url, create=True) as engine, writing(engine) as tx:
        tx.exec_driver_sql("CREATE TABLE things (name TEXT)")
    for dry_run in (True, False):
        with pytest.raises(StoreExists, match="another program's database already"):
            moved_from(filled, url, dry_run=dry_run)
    with connected(url) as engine, writing(engine) as tx:
        tx.exec_driver_sql("DROP TABLE things")
    found_store(url, BOARD, fleets.FOUNDER, system_clock)
    before = digest(url)
    for dry_run in (True, False):
        with pytest.raises(StoreExists, match="a ledger already"):
            moved_from(filled, url, dry_run=dry_run)
    assert digest(url) == before
    assert usable(filled.url)


def test_a_log_that_is_not_whole_stays_where_it_is(filled, database):
    """The event is named; what was copied until then cannot be used."""
    filled._close_boards()
    filled.spoilt = True
    sql(filled.home / "ledger.db", "DROP TRIGGER events_no_update", "UPDATE events SET at = at + 1 WHERE position = 4")
    with pytest.raises(StoreDamaged, match="board default: position 4: its hash is not that"):
        move(filled.url, database)
    assert usable(filled.url)
    assert not usable(database)


def test_words_that_are_missing_keep_a_log_where_it_is(filled, database):
    """The chain holds without them, the replay of the source tells."""
    filled._close_boards()
    filled.spoilt = True
    sql(filled.home / "ledger.db", "DELETE FROM words WHERE position = 4")
    with pytest.raises(StoreDamaged, match="position 4: its words are gone"):
        move(filled.url, database)
    assert usable(filled.url)


def test_a_projection_that_is_off_is_moved_as_it_is_and_told(filled, database):
    """The log is whole: `ledger db rebuild` mends the rest, there as here."""
    filled._close_boards()
    filled.spoilt = True
    sql(filled.home / "ledger.db", "UPDATE tasks SET failures = 7 WHERE task = (SELECT min(task) FROM tasks)")
    (note,) = move(filled.url, database).notes
    assert "tasks.failures" in note
    there = at(filled, database)
    assert len(there.replay().divergences) == 1
    there.rebuild()
    assert there.replay().divergences == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DELETE FROM sweeps", "a row of sweeps"),
        ("UPDATE tasks SET priority = 9", "its divergences is another one"),
        ("DELETE FROM words WHERE position = 4", "its divergences is another one"),
    ],
)
def test_what_did_not_arrive_as_it_was_is_found_before_the_old_store_is_sealed(
    filled, database, monkeypatch, change, told
):
    """A row that is another one there, or that is missing."""
    filled.sweep()
    carried = moving._carry_beside

    def spoilt(way, source):
        carried(way, source)
        asked(database, change)

    monkeypatch.setattr(moving, "_carry_beside", spoilt)
    with pytest.raises(StoreDamaged, match=f"did not arrive whole: .*{told}"):
        moved_from(filled, database)
    assert usable(filled.url)
    assert not usable(database)


def test_a_dry_run_says_what_would_be_and_makes_nothing(filled, database, tmp_path):
    """Neither a database nor a file; the source is as it was."""
    for url, note in (
        (database, "nothing is there yet"),
        (f"sqlite:///{tmp_path}/new.db", "nothing is there yet: it would be made"),
        (database.replace("?", "_none?"), "nothing is there yet: it would be made"),
    ):
        found = moved_from(filled, url, dry_run=True)
        assert (found.dry_run, found.heads[BOARD].position, found.notes) == (True, END, (note,))
    assert not (tmp_path / "new.db").exists()
    assert asked(database, "SELECT count(*) FROM pg_class WHERE relname = 'boards'") == [(0,)]
    assert usable(filled.url)


# Cut off


BEFORE_THE_SEAL = {
    "with the tables made": "m.moved.begin = die",
    "with the tables marked": "m._carry_logs = die",
    "in the middle of the log": "m._PAGE = 3\nwrite, pages = m.transcribe, []\n"
    "m.transcribe = lambda *a: pages.append(a) or (die() if len(pages) > 2 else write(*a))",
    "with the log there": "copy, times = m._carry_logs, []\n"
    "m._carry_logs = lambda *a: times.append(a) or (die() if len(times) > 1 else copy(*a))",
    "with the seal not committed": "m._carry_beside = die",
    "before the replay": "m._compared = die",
    "after the replay": "m._check_rows = die",
}
AFTER_THE_SEAL = {
    "with the seal committed": "m._opened = die",
    "before the target is opened": "m.moved.end = die",
}


@pytest.mark.parametrize("step", BEFORE_THE_SEAL)
def test_killed_before_the_seal_the_old_store_goes_on_and_the_same_command_too(filled, database, step):
    """`kill -9`: the store is usable where it was and nowhere else; what is written meanwhile comes along."""
    dying(filled, BEFORE_THE_SEAL[step], database)
    assert (usable(filled.url), usable(database)) == (True, False)
    filled.create("meanwhile")
    filled.board.comment(filled.create("and a word"), "secret too")
    filled.board.redact(filled.board.columns()["position"], thoroughly=False)
    before = digest(filled.url)
    found = moved_from(filled, database)
    assert (usable(filled.url), usable(database)) == (False, True)
    assert found.heads[BOARD].position == END + 4
    assert digest(database) == before


@pytest.mark.parametrize("step", AFTER_THE_SEAL)
def test_killed_after_the_seal_no_store_is_usable_until_the_same_command_has_ended(filled, database, step):
    """`kill -9` between the two commits: the old one says where it went, the new one what to run."""
    before = digest(filled.url)
    dying(filled, AFTER_THE_SEAL[step], database)
    with pytest.raises(StoreMoved):
        open_store(filled.url)
    with pytest.raises(StoreMoving):
        open_store(database)
    assert move(filled.url, database, dry_run=True).notes == ("it is sealed: all that is left is to open the target",)
    assert not usable(database)
    assert move(filled.url, database).changed
    assert (usable(filled.url), usable(database)) == (False, True)
    assert digest(database) == before


def test_words_that_were_redacted_between_two_tries_are_not_there_afterwards(filled, database):
    """They were copied before; the redaction is copied after them."""
    secret = filled.create("the-secret-word")
    position = filled.board.columns()["position"]
    dying(filled, BEFORE_THE_SEAL["with the log there"], database)
    assert asked(database, f"SELECT words FROM words WHERE position = {position}")
    filled.board.redact(position, thoroughly=False)
    moved_from(filled, database)
    assert not asked(database, f"SELECT words FROM words WHERE position = {position}")
    assert at(filled, database).show(secret)["task"]["title"] is None


def test_a_store_that_is_being_moved_into_serves_no_command(filled, database, tmp_path):
    """It says that the move has not ended and what to run: opened, founded, copied, restored into, examined."""
    copy = backup(filled.url, BOARD, tmp_path / "copy.db").file
    dying(filled, BEFORE_THE_SEAL["with the log there"], database)
    for act in (
        lambda: at(filled, database),
        lambda: found_store(database, BOARD, fleets.FOUNDER, system_clock),
        lambda: found_store(database, "another", fleets.FOUNDER, system_clock),
        lambda: backup(database, BOARD, tmp_path / "other.db"),
        lambda: move(database, f"sqlite:///{tmp_path}/third.db"),
    ):
        with pytest.raises(StoreMoving, match="a move into it has not ended") as refused:
            act()
        assert refused.value.remedy.startswith(f"ledger db move {filled.url} postgresql")
    with pytest.raises(RestoreRefused, match=r"a move from sqlite:.* has not ended"):
        restore(copy, database, board=BOARD)
    told = {each.check: each for each in examine(address(filled, url=database))}
    assert told["revision"].try_.startswith("ledger db move ")


def test_a_store_that_was_moved_away_serves_no_command(filled, database, tmp_path):
    """No second life: opened, founded, copied, moved into; a restore is refused unless forced."""
    copy = backup(filled.url, BOARD, tmp_path / "copy.db").file
    moved_from(filled, database)
    for act in (
        lambda: at(filled, filled.url),
        lambda: found_store(filled.url, "another", fleets.FOUNDER, system_clock),
        lambda: backup(filled.url, BOARD, tmp_path / "other.db"),
        lambda: verify(filled.home / "ledger.db"),
    ):
        with pytest.raises(StoreMoved, match="this ledger has moved to postgresql"):
            act()
    with pytest.raises(RestoreRefused, match="it has moved to postgresql"):
        restore(copy, filled.url, board=BOARD)
    told = {each.check: each for each in examine(address(filled))}
    assert "this ledger has moved to postgresql" in told["revision"].text
    with pytest.raises(StoreExists, match="a ledger already"):
        move(database, filled.url)


def test_what_another_store_brought_there_is_not_gone_on_with(filled, database, tmp_path, founded):
    """A half move of one ledger is not the beginning of another, nor of what the same one has become since."""
    copy = backup(filled.url, BOARD, tmp_path / "copy.db").file
    filled.create("soon undone")
    dying(filled, BEFORE_THE_SEAL["with the log there"], database)
    other = fleets.new_fleet(fleets.new_template(tmp_path), tmp_path / "other")
    for dry_run in (True, False):
        with pytest.raises(StoreExists, match="up to position 12, is not of this store"):
            move(other.url, database, dry_run=dry_run)
    other.end()
    restore(copy, filled.url, board=BOARD, force=True)
    with pytest.raises(StoreExists, match="is not of this store"):
        moved_from(filled, database)
    filled.create("another way")
    with pytest.raises(StoreExists, match="is not of this store"):
        moved_from(filled, database)
    assert usable(filled.url)


# Others at work


def test_whoever_had_the_old_store_open_cannot_write_to_it_any_more(filled, database):
    """A dispatcher that began before: what it would write would never be read."""
    late, card = filled.another(), filled.create()
    before = digest(filled.url)
    move(filled.url, database)
    for act in (lambda: late.create("late"), late.sweep, late.pause, lambda: late.comment(card, "hm")):
        with pytest.raises(StoreMoved, match="this ledger has moved to postgresql"):
            act()
    assert digest(filled.url) == before


def test_a_dispatcher_in_a_loop_ends_and_says_where_the_store_went(filled, database):
    """Even one that has nothing to do: it would start nothing for ever."""
    filled._close_boards()
    loop = subprocess.Popen(
        [LEDGER, "sweep", "--every", "1s"], env=filled.environ, cwd=filled.home, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "no assignee is configured" in loop.stderr.readline()
    fleets.until(lambda: sql(filled.home / "ledger.db", "SELECT ticked_at FROM sweeps"))
    sql(filled.home / "ledger.db", "UPDATE sweeps SET ticked_at = 0")  # an idle tick writes only now and then
    move(filled.url, database)
    assert loop.wait(timeout=fleets.PATIENCE) == 8
    assert "this ledger has moved to postgresql" in loop.communicate()[1]


def test_a_writer_waits_for_the_move_and_then_writes_nothing(filled, database, monkeypatch):
    """In the last leg nobody else writes, and nothing is lost that was acknowledged."""
    late, said = filled.another(), []
    compared = moving._compared

    def knock():
        try:
            late.create("late")
        except StoreFault as fault:
            said.append(fault)

    writer = threading.Thread(target=knock)

    def meanwhile(*rest):
        writer.start()
        writer.join(0.3)
        assert said == []
        return compared(*rest)

    monkeypatch.setattr(moving, "_compared", meanwhile)
    found = move(filled.url, database)
    writer.join(fleets.PATIENCE)
    assert [type(fault) for fault in said] == [StoreMoved]
    assert found.heads[BOARD].position == END


@pytest.fixture
def away(tmp_path):
    """A store on a server, its log ends at position 3, and the file that it is to be moved to."""
    with served.lent(cards=1) as url:
        yield url, f"sqlite:///{tmp_path}/new.db"


def test_writers_and_founders_on_a_server_wait_for_a_move_away_from_it_and_then_write_nothing(away, monkeypatch):
    """There many may write at once: every board is held, and so is the founding of one more."""
    source, target = away
    said, before, compared = [], digest(source), moving._compared

    def knock(act):
        try:
            act()
        except StoreFault as fault:
            said.append(fault)

    with opened(source) as late:
        acts = (
            lambda: late.create("late"),
            lambda: found_store(source, "another", fleets.FOUNDER, system_clock),
        )
        knocking = [threading.Thread(target=knock, args=(act,)) for act in acts]

        def meanwhile(*rest):
            for each in knocking:
                each.start()
            knocking[0].join(0.5)
            assert said == []
            return compared(*rest)

        monkeypatch.setattr(moving, "_compared", meanwhile)
        found = move(source, target)
        for each in knocking:
            each.join(fleets.PATIENCE)
    assert [type(fault) for fault in said] == [StoreMoved] * 2
    assert (found.heads.keys(), digest(target), digest(source)) == ({BOARD}, before, before)


def test_a_writer_in_the_middle_of_its_transaction_is_waited_for(away, monkeypatch):
    """It holds its board and more rows than that: neither waits for the other for ever. What it commits comes along."""
    source, target = away
    carried = moving._carry_logs

    def meanwhile(way, *rest):
        carried(way, *rest)
        monkeypatch.setattr(moving, "_carry_logs", carried)
        writer.start()
        assert begun.wait(fleets.PATIENCE)

    def write():
        with connected(source) as engine:
            store = ledgers.Ledger(source, engine)
            with writing(engine) as tx:
                standings.standing(tx, BOARD, system_clock, hold=True)
                tx.exec_driver_sql("UPDATE tasks SET priority = priority")
                begun.set()
                time.sleep(0.5)
                draft = given.draft(given.created("in the middle"))
                log.append(tx, BOARD, [draft], expected=0, at=system_clock())
            assert store.head(BOARD).position == 4

    begun, writer = threading.Event(), threading.Thread(target=write)
    monkeypatch.setattr(moving, "_carry_logs", meanwhile)
    found = move(source, target)
    writer.join(fleets.PATIENCE)
    assert found.heads[BOARD].position == 4


def test_a_last_leg_that_takes_long_is_not_cut_off(away, monkeypatch):
    """A server ends transactions that stand still; this one stands still while both sides are replayed."""
    source, target = away
    monkeypatch.setenv("PGOPTIONS", "-c idle_in_transaction_session_timeout=2s")
    compared = moving._compared
    monkeypatch.setattr(moving, "_compared", lambda *rest: (time.sleep(2.5), compared(*rest))[1])
    assert move(source, target).changed


def test_two_at_once_come_to_one_store(filled, database):
    """Whoever is second goes on where the first one is, or finds it done."""
    filled._close_boards()
    command = [LEDGER, "db", "move", filled.url, database, "--json"]
    both = [
        subprocess.Popen(command, env=filled.environ, stdout=subprocess.PIPE, text=True, cwd=filled.home)
        for _ in range(2)
    ]
    said = [json.loads(each.communicate()[0]) for each in both]
    assert [each.get("error") for each in said] == [None] * 2
    assert any(each["changed"] for each in said)
    assert not usable(filled.url)
    open_store(database).dispose()
    assert digest(database)


@pytest.mark.parametrize(
    ("way", "step", "call"),
    [
        ("to a server", "make_tables", 1),  # a file has one writer at a time
        ("to a server", "_carry_logs", 1),
        ("from a server", "_carry_logs", 1),
        ("to a server", "mark_of", 2),
        ("from a server", "mark_of", 2),
    ],
)
def test_a_move_that_another_ends_meanwhile_finds_it_done(request, monkeypatch, way, step, call):
    """Before it makes the tables, before it holds the source, and after it looked at the target that it is to open."""
    if way == "to a server":
        fleet, target = request.getfixturevalue("filled"), request.getfixturevalue("database")
        fleet._close_boards()
        source = fleet.url
    else:
        source, target = request.getfixturevalue("away")
    goes_on, calls, first = getattr(moving, step), [], []

    def meanwhile(*given, **named):
        calls.append(given)
        if len(calls) < call:
            return goes_on(*given, **named)
        monkeypatch.setattr(moving, step, goes_on)
        seen = goes_on(*given) if step == "mark_of" else None
        first.append(move(source, target))
        return seen or goes_on(*given, **named)

    monkeypatch.setattr(moving, step, meanwhile)
    second = move(source, target)
    assert (first[0].changed, second.heads) == (True, first[0].heads)
    assert not usable(source)
    open_store(target).dispose()
    assert digest(target) == digest(source)


def test_a_move_that_ends_while_somebody_looks_is_no_fault(database, monkeypatch):
    """Its mark goes with its table: whoever was about to read that sees a store that is no longer moved into."""
    with connected(database) as engine:
        upgrade(engine)
        with writing(engine) as tx:
            moved.begin(tx, "sqlite:////old.db", "token")

        def ended(tx):
            monkeypatch.undo()
            with writing(engine) as other:
                moved.end(other)
            return SimpleNamespace(has_table=lambda _: True)

        monkeypatch.setattr(moved, "inspect", ended)
        open_store(database).dispose()
        assert mark_of(engine) is None


# The command


def test_the_command_says_what_it_did(filled, database):
    """Where the logs end, and what to do next; passwords are not printed."""
    filled._close_boards()

    secret = database.replace("ledger@", "ledger:hunter2@")
    foreseen = json.loads(run(filled, "db", "move", filled.url, secret, "--dry-run", "--json").stdout)
    assert (foreseen["dry_run"], foreseen["boards"][BOARD]["position"]) == (True, END)
    said = run(filled, "db", "move", filled.url, secret)
    assert (said.returncode, "hunter2" in said.stdout + said.stderr) == (0, False)
    assert f"moved from {filled.url} to postgresql" in said.stdout
    assert "next: LEDGER_DATABASE_URL" in said.stderr
    late = run(filled, "list", "--json")
    assert (late.returncode, json.loads(late.stdout)["error"]["code"]) == (8, "store_moved")
    for command in (("db", "status"), ("db", "upgrade"), ("init",), ("doctor",)):
        assert run(filled, *command).returncode == 8
    assert "hunter2" not in late.stdout
    with connected(filled.url) as engine, reading(engine) as tx:
        assert "hunter2" not in move_of(tx).other


def test_a_worker_does_not_move_the_store(filled, database):
    """RULES §8."""
    card = filled.create("mine")
    granted = filled.board.claim(card)
    filled._close_boards()
    claim = {"LEDGER_TASK": card, "LEDGER_RUN": str(granted.run), "LEDGER_LOCK": granted.lock}
    said = run(filled, "db", "move", filled.url, database, "--json", **claim)
    assert (said.returncode, json.loads(said.stdout)["error"]["code"]) == (4, "forbidden")
