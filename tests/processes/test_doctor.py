"""Every check of `ledger doctor`, made to find something and to find nothing."""

import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from kanban import doctor_machine, doctor_runs, doctor_store
from kanban.address import address_of
from kanban.at_desk import at_desk
from kanban.commands import Decision
from kanban.doctor import examine, is_broken, is_unreadable
from kanban.doctor_cards import rings
from kanban.doctor_machine import of_mounts, of_packages, of_space, of_sqlite
from kanban.findings import Level, info, short
from ledger.clock import SECOND
from ledger.database import sqlite_module
from ledger.events import Linked
from ledger.recorded import Draft
from tests import given
from tests.fleets import sh, until

STORE = Path("/srv/ledger/ledger.db")
OK, INFO, WARNING, ERROR = Level


@pytest.fixture
def healthy(fleet):
    """A fleet with an assignee, a card that was swept lately, and no fault."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}})
    (fleet.home / "ledger.toml").chmod(0o600)
    fleet.home.chmod(0o700)
    fleet.create()
    fleet.sweep()
    return fleet


def address(fleet, **how):
    environ = fleet.environ | how.pop("environ", {})
    return address_of(how.get("url"), how.get("name"), actor=None, config=how.get("config"), environ=environ,
                      cwd=fleet.home)  # fmt: skip


def examined(fleet, **how):
    """All findings."""
    return examine(address(fleet, **how), clock=fleet.clock)


def found(fleet, check, **how):
    """What one check found."""
    return [finding for finding in examined(fleet, **how) if finding.check == check]


def one(fleet, check, **how):
    """The one thing that a check found."""
    (finding,) = found(fleet, check, **how)
    return finding


def assert_ok(fleet, check):
    """The check has something to say, and nothing is wrong."""
    assert {finding.level for finding in found(fleet, check)} == {OK}


def sql(fleet, *statements):
    """Change the store as an outsider would."""
    fleet.spoilt = True
    fleet._close_boards()
    with closing(sqlite_module().connect(str(fleet.home / "ledger.db"), isolation_level=None)) as forger:
        for statement in statements:
            forger.execute(statement)


def test_a_healthy_store_has_no_fault(healthy):
    """Every check speaks, and nothing is worse than ok."""
    findings = examined(healthy)
    assert [finding for finding in findings if finding.level is not OK] == []
    assert not is_broken(findings)
    assert {finding.check for finding in findings} == {
        "sqlite", "packages", "host", "file_system", "disk", "permissions", "store", "revision", "journal", "pages",
        "wal", "boards", "chain", "append_only", "clock", "runs", "processes", "leases", "folders", "waits",
        "assignees", "placement", "sweeps",
    }  # fmt: skip


def test_an_examination_changes_nothing(healthy):
    """No event, no row, no file."""
    healthy.workers(healthy.board.columns()["columns"]["running"][0]["id"])
    healthy._close_boards()
    before = sorted(path.name for path in healthy.home.rglob("*"))
    head = healthy.board.replay().digest
    healthy._close_boards()
    examined(healthy)
    assert sorted(path.name for path in healthy.home.rglob("*")) == before
    assert healthy.board.replay().digest == head


def test_whatever_is_wrong_says_what_mends_it(fleet):
    """Every warning and error names a command."""
    card = fleet.create(assignee=None)
    fleet.create(assignee="nobody")
    fleet.create(parents=[card])
    fleet.board.archive(card, children="keep")
    (fleet.home / "ledger.db").chmod(0o644)
    findings = examined(fleet)
    assert len([finding for finding in findings if finding.level in {WARNING, ERROR}]) >= 3
    assert all(finding.try_ for finding in findings if finding.level in {WARNING, ERROR})


# Machine and files


@pytest.mark.parametrize(
    ("version", "wheel", "level"),
    [((3, 51, 3), True, OK), ((3, 53, 4), False, OK), ((3, 51, 2), True, ERROR), ((3, 40, 1), False, WARNING)],
)
def test_a_sqlite_with_the_fault_of_the_write_ahead_log_is_named(version, wheel, level):
    """An error where a wheel would mend it; else only a newer Python does."""
    finding = of_sqlite("sqlite3", version, wheel=wheel)
    assert finding.level is level
    assert finding.text.startswith(f"SQLite {'.'.join(map(str, version))} by sqlite3")
    assert ("pysqlite3" in (finding.try_ or "")) == (level is ERROR)


def test_the_library_that_is_in_use_is_the_one_examined(fleet):
    """The newer of the two."""
    module = sqlite_module()
    assert one(fleet, "sqlite").text.startswith(f"SQLite {module.sqlite_version} by {module.__name__.split('.')[0]}")


@pytest.mark.parametrize(
    ("mounts", "level"),
    [
        ("/dev/sda / ext4 rw 0 0\n", OK),
        ("/dev/sda / ext4 rw 0 0\nhost:/x /srv nfs4 rw 0 0\n", ERROR),
        ("/dev/sda / ext4 rw 0 0\n//host/x /srv/ledger cifs rw 0 0\n", ERROR),
        ("/dev/sda / ext4 rw 0 0\nshare /srv 9p rw 0 0\n", ERROR),
        ("/dev/sda / ext4 rw 0 0\nuser@host: /srv/ledger fuse.sshfs rw 0 0\n", ERROR),
        ("/dev/sda / ext4 rw 0 0\nx /srv fuse.something rw 0 0\n", WARNING),
        ("host:/ / nfs rw 0 0\n/dev/sda /srv ext4 rw 0 0\n", OK),
        ("/dev/sda / ext4 rw 0 0\nhost:/x /srv nfs rw 0 0\n/dev/sdb /srv xfs rw 0 0\n", OK),
        ("/dev/sda / ext4 rw 0 0\nhost:/x /srv/led nfs rw 0 0\n", OK),
        ("", OK),
    ],
)
def test_a_store_on_a_file_system_of_several_machines_is_an_error(mounts, level):
    """The nearest mount point counts, and the later of two at one place."""
    assert of_mounts(STORE, mounts).level is level


def test_a_mount_point_with_a_space_is_read_as_it_is_meant():
    """/proc writes it as \\040."""
    mounts = "/dev/sda / ext4 rw 0 0\nhost:/x /srv/my\\040data nfs rw 0 0\n"
    assert of_mounts(Path("/srv/my data/ledger.db"), mounts).level is ERROR


def test_a_system_without_a_table_of_mounts_says_so(healthy, monkeypatch):
    """Not ok: it is not known."""
    monkeypatch.setattr(doctor_machine, "MOUNTS", Path("/proc/none"))
    assert one(healthy, "file_system").level is INFO


@pytest.mark.parametrize(
    ("name", "mode", "level"),
    [
        ("ledger.db", 0o644, WARNING),
        ("ledger.db", 0o660, ERROR),
        ("ledger.db-wal", 0o640, WARNING),
        ("ledger.db-shm", 0o606, ERROR),
        ("ledger.db.gate", 0o644, WARNING),
        ("", 0o755, WARNING),
        ("", 0o777, ERROR),
        ("ledger.toml", 0o666, ERROR),
        ("ledger.toml", 0o660, ERROR),
    ],
)
def test_files_that_others_can_read_or_write_are_named(healthy, name, mode, level):
    """Reading is a warning, writing an error; each with its chmod."""
    healthy.board.columns()
    path = healthy.home / name
    path.chmod(mode)
    finding = one(healthy, "permissions")
    path.chmod(0o700 if path.is_dir() else 0o600)
    assert finding.level is level
    assert str(path) in finding.text
    assert finding.try_.startswith("chmod ")
    assert_ok(healthy, "permissions")


def test_settings_that_others_can_read_are_no_fault(healthy):
    """Secrets are read from the environment: `{env:NAME}`."""
    (healthy.home / "ledger.toml").chmod(0o644)
    assert_ok(healthy, "permissions")


def test_a_package_that_another_distribution_brings_too_is_an_error():
    """cli is a common name."""
    (clean,) = of_packages({"cli": ["kanban-ledger"], "ledger": ["kanban_ledger"], "other": ["x"]})
    (claimed,) = of_packages({"cli": ["kanban-ledger", "acme-cli"], "ledger": ["kanban-ledger"]})
    assert (clean.level, claimed.level) == (OK, ERROR)
    assert "cli is brought by acme-cli too" in claimed.text


@pytest.mark.parametrize(("free", "level"), [(2**40, OK), (2**30 - 1, WARNING), (2**26 - 1, ERROR), (0, ERROR)])
def test_a_full_disk_is_foreseen(free, level):
    """Less than 1 GiB is little, less than 64 MiB too little."""
    assert of_space(Path("/srv"), free).level is level


# Store


@pytest.mark.parametrize(
    ("content", "text", "mend"),
    [
        (None, "nothing is there", "ledger init"),
        (b"", "the file is empty", "ledger init"),
        (b"rubbish" * 1000, "not a database", "ledger restore FILE"),
    ],
)
def test_a_store_that_cannot_be_read_is_an_error_and_the_machine_is_examined_all_the_same(fleet, content, text, mend):
    """Nothing is made where nothing is."""
    store = fleet.home / "ledger.db"
    store.unlink()
    if content is not None:
        store.write_bytes(content)
    findings = examined(fleet)
    (finding,) = [each for each in findings if each.check == "store"]
    assert (finding.level, text in finding.text, mend in finding.try_) == (ERROR, True, True)
    assert is_unreadable(findings)
    assert {"sqlite", "disk", "permissions"} <= {each.check for each in findings}
    assert store.exists() == (content is not None)


def test_another_programs_database_is_no_ledger(fleet):
    """Said as such."""
    (fleet.home / "ledger.db").unlink()
    with closing(sqlite3.connect(fleet.home / "ledger.db")) as other:
        other.execute("CREATE TABLE things (name TEXT)")
    assert "without a ledger in it" in one(fleet, "store").text


@pytest.mark.parametrize(("revision", "mend"), [("9999", "upgrade kanban-ledger"), ("0000", "ledger db upgrade")])
def test_a_store_of_another_revision_is_examined_as_a_file_only(healthy, revision, mend):
    """What its tables mean is not known to this program."""
    sql(healthy, f"UPDATE alembic_version SET version_num = '{revision}'")
    findings = examined(healthy)
    (finding,) = [each for each in findings if each.check == "revision"]
    assert finding.level is ERROR
    assert mend in finding.try_
    assert is_unreadable(findings)
    assert {"pages", "journal"} <= {each.check for each in findings}
    assert "runs" not in {each.check for each in findings}


def test_a_store_without_a_write_ahead_log_is_a_warning(healthy):
    """Until the next write."""
    sql(healthy, "PRAGMA journal_mode=DELETE")
    assert one(healthy, "journal").level is WARNING
    healthy.sweep()
    healthy.create()
    assert_ok(healthy, "journal")


def test_a_damaged_page_is_an_error_and_the_other_checks_go_on(healthy, monkeypatch):
    """SQLite's quick check says what."""
    monkeypatch.setattr(doctor_store, "faults_of_file", lambda *_, **__: ["Tree 3 page 3: btreeInitPage error"])
    assert one(healthy, "pages").try_ == "stop all writers, then ledger restore FILE"
    assert_ok(healthy, "runs")


def test_the_quick_check_finds_a_page_that_is_none(healthy):
    """For real: the root of an index in the middle of the file."""
    sql(healthy, "PRAGMA wal_checkpoint(TRUNCATE)")
    store = healthy.home / "ledger.db"
    with closing(sqlite3.connect(store)) as reader:
        root, size = (
            reader.execute("SELECT rootpage FROM sqlite_master WHERE name = 'tasks_key'").fetchone()[0],
            reader.execute("PRAGMA page_size").fetchone()[0],
        )
    with store.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * 64)
    assert one(healthy, "pages").level is ERROR


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(healthy, monkeypatch):
    """Whatever it meets."""

    def broken(*_):
        raise ZeroDivisionError("no reason")
        yield

    broken.__name__ = "runs"
    monkeypatch.setattr(doctor_runs, "CHECKS", (broken, *doctor_runs.CHECKS[1:]))
    findings = examined(healthy)
    (finding,) = [each for each in findings if each.check == "runs"]
    assert (finding.level, finding.text) == (ERROR, "this could not be looked at: ZeroDivisionError: no reason")
    assert not is_unreadable(findings)
    assert "leases" in {each.check for each in findings}


def test_a_large_write_ahead_log_names_who_may_pin_it(healthy, monkeypatch):
    """By pid and name; without anybody, reading the board folds it in."""
    monkeypatch.setattr(doctor_store, "LARGE_LOG", 10)
    healthy.create()
    alone = one(healthy, "wal")
    assert (alone.level, "nobody who can be seen" in alone.text) == (WARNING, True)
    other = healthy.outside("board.columns(); print('open', flush=True); sys.stdin.readline()")
    other.stdout.readline()
    held = one(healthy, "wal")
    assert f"{other.pid} (" in held.text
    assert held.try_ == f"end process {other.pid}"


def test_a_board_that_is_not_there_is_an_error(healthy):
    """The boards that are there are named."""
    finding = found(healthy, "boards", name="nosuch")[0]
    assert finding.level is ERROR
    assert "there is default" in finding.text
    assert finding.try_ == "ledger init --board nosuch"


def test_a_board_with_another_id_than_it_was_given_is_an_error(healthy):
    """A board's row that was swapped."""
    sql(healthy, "DROP TRIGGER boards_head_grows", f"UPDATE boards SET board_id = '{'f' * 32}'")
    assert "has not the id that board_created gave it" in one(healthy, "boards").text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("UPDATE events SET at = at + 1 WHERE position = 3", "position 3: its hash is not that of its columns"),
        ("UPDATE events SET position = 9 WHERE position = 5", "position 9 follows 4"),
        ("UPDATE words SET words = '{}' WHERE position = 3", "position 3: its words are not those that were hashed"),
        ("UPDATE boards SET head_position = 9", "the head says position 9, the last event is at 5"),
        ("UPDATE boards SET head_hash = zeroblob(32)", "or it is another one"),
        ("UPDATE boards SET head_at = head_at - 1", "or it is another one"),
    ],
)
def test_a_tail_that_is_not_chained_is_an_error(healthy, change, text):
    """The head, positions, words and hashes of the last events."""
    assert_ok(healthy, "chain")
    triggers = ("events_no_update", "words_no_update", "boards_head_grows")
    sql(healthy, *(f"DROP TRIGGER {name}" for name in triggers), change)
    finding = one(healthy, "chain")
    assert (finding.level, finding.try_) == (ERROR, "ledger replay")
    assert text in finding.text


def test_a_log_that_could_be_changed_is_an_error(healthy):
    """Somebody took away what refuses it, and put nothing else right."""
    assert_ok(healthy, "append_only")
    sql(healthy, "DROP TRIGGER events_no_delete")
    finding = one(healthy, "append_only")
    assert (finding.level, finding.try_) == (ERROR, "ledger replay, then ledger backup FILE and ledger restore FILE")
    assert finding.text.startswith("the trigger events_no_delete is missing: the log could be changed")


def test_only_the_tail_is_chained_again(healthy, monkeypatch):
    """An older fault is for `ledger replay`."""
    monkeypatch.setattr(doctor_store, "TAIL", 2)
    sql(healthy, "DROP TRIGGER events_no_update", "UPDATE events SET actor_name = 'eve' WHERE position = 2")
    assert "the last 2 events up to position 5" in one(healthy, "chain").text
    sql(healthy, "PRAGMA foreign_keys=OFF", "DROP TRIGGER events_no_delete", "DELETE FROM events WHERE position = 3")
    assert one(healthy, "chain").text == "no event stands at position 3"


def test_every_board_of_the_store_is_examined(healthy):
    """Another board's findings name it, and so do its commands."""
    healthy.found("ops")
    sql(healthy, "DROP TRIGGER boards_head_grows", "UPDATE boards SET head_position = 9 WHERE board = 'ops'")
    here, there = found(healthy, "chain")
    assert (here.level, there.level) == (OK, ERROR)
    assert there.text.startswith("board ops: the head says")
    assert there.try_ == "ledger replay --board ops"


def test_a_clock_behind_the_log_is_a_warning(healthy):
    """By more than a minute: until then every event is booked at the instant of the last."""
    healthy.clock.advance(120)
    healthy.create()
    healthy.clock.advance(-61)
    assert one(healthy, "clock").level is WARNING
    healthy.clock.advance(10)
    assert_ok(healthy, "clock")


# Runs


def test_an_open_run_whose_process_is_gone_is_for_the_sweep(healthy):
    """It is not booked yet."""
    card = healthy.board.columns()["columns"]["running"][0]["id"]
    assert_ok(healthy, "runs")
    os.killpg(healthy.supervisor(card), signal.SIGKILL)
    until(lambda: healthy.board.sweeper.children.reap() or not healthy.members(card))
    finding = one(healthy, "runs")
    assert (finding.level, finding.try_) == (WARNING, "ledger sweep")
    assert finding.text == f"{card}: run 1 is open, but its process {healthy.supervisor(card)} is gone"
    healthy.sweep(most=0)
    assert_ok(healthy, "runs")


def test_what_is_left_of_a_group_whose_supervisor_is_gone_is_named(healthy):
    """The sweep ends it."""
    card = healthy.board.columns()["columns"]["running"][0]["id"]
    workers = healthy.workers(card)
    os.kill(healthy.supervisor(card), signal.SIGKILL)
    until(lambda: healthy.board.sweeper.children.reap() or healthy.supervisor(card) not in healthy.members(card))
    assert f"is gone, and of its group {workers[0]} is left" in one(healthy, "runs").text


def test_a_run_from_before_the_last_start_of_the_machine_is_named(healthy, monkeypatch):
    """Its processes cannot be there."""
    monkeypatch.setattr("kanban.hosts._boot", lambda: "another boot")
    assert "this machine has been started since" in one(healthy, "runs").text


def test_a_claim_that_was_never_bound_is_named_after_its_grace(fleet):
    """The dispatcher died in between."""
    fleet.staff({"w": {"command": sh("true")}})
    card = fleet.create()
    other = fleet.outside("kanban.starting.launch = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nboard.sweep()")
    other.wait()
    assert_ok(fleet, "runs")
    fleet.clock.advance(31)
    assert f"{card}: run 1 is open, but no process was bound to it" in one(fleet, "runs").text


def test_a_run_claimed_by_hand_and_one_of_another_host_are_left_to_their_leases(fleet):
    """What cannot be seen is not said."""
    fleet.board.claim(fleet.create())
    assert_ok(fleet, "runs")
    assert "0 open runs" not in one(fleet, "runs").text


def test_a_stored_run_that_cannot_be_read_is_named(healthy):
    """The projections are folded anew."""
    sql(healthy, "UPDATE runs SET stops = 'rubbish'")
    assert any(finding.try_ == "ledger db rebuild" for finding in found(healthy, "runs"))


def test_a_process_whose_run_is_over_is_named(fleet):
    """It left its group, so no sweep ends it: the pid is said."""
    apart = "setsid sh -c 'touch apart; exec sleep 300' & echo $! > pid; while [ ! -e apart ]; do sleep 0.02; done"
    fleet.staff({"w": {"command": sh(f"{apart}; exit 75")}})
    card = fleet.create()
    fleet.ended(card)
    assert_ok(fleet, "processes")  # within twice the stop grace
    fleet.clock.advance(30)
    stray = int(fleet.line_in(card, "pid"))
    finding = one(fleet, "processes")
    assert finding.text == f"{card}: run 1 is over (rate_limited), and process {stray} is still there"
    assert finding.try_ == f"look what it is, then kill {stray}"


def test_a_group_that_outlives_its_verb_is_for_the_sweep(healthy):
    """Its lease is kept for it."""
    card = healthy.board.columns()["columns"]["running"][0]["id"]
    healthy.workers(card)
    healthy.board.complete(card, run=1, lock=healthy.lock(card))
    healthy.clock.advance(30)
    finding = one(healthy, "processes")
    assert (finding.level, finding.try_) == (WARNING, "ledger sweep")


@pytest.mark.parametrize(
    ("task", "url", "seen"), [("t_nosuch", None, True), ("t_nosuch", "sqlite:////other.db", False)]
)
def test_a_process_of_a_run_that_is_not_in_the_log_is_named(fleet, task, url, seen):
    """Of this store only: several stores may share a home."""
    claim = {"LEDGER_BOARD": "default", "LEDGER_TASK": task, "LEDGER_RUN": "1", "LEDGER_DATABASE_URL": url or fleet.url}
    with subprocess.Popen(["sleep", "300"], env=fleet.environ | claim) as stray:
        texts = [finding.text for finding in found(fleet, "processes")]
        stray.kill()
    assert (texts == [f"process {stray.pid} works for run 1 of t_nosuch, which is not in the log"]) == seen


def test_a_lease_that_ran_out_unbooked_is_named(fleet):
    """Over lease and grace; before, it is only late."""
    card = fleet.create()
    fleet.board.claim(card)
    fleet.clock.advance(900 + 50)
    assert_ok(fleet, "leases")
    fleet.clock.advance(20)
    finding = one(fleet, "leases")
    assert (finding.level, finding.try_) == (WARNING, "ledger sweep")
    assert f"{card}: the lease of run 1 is" in finding.text
    fleet.sweep(most=0)
    assert_ok(fleet, "leases")


def test_a_lease_of_a_run_that_ended_on_another_host_is_named(healthy, monkeypatch):
    """Only that host can say whether its processes are gone."""
    card = healthy.board.columns()["columns"]["running"][0]["id"]
    healthy.board.complete(card, run=1, lock=healthy.lock(card))
    healthy.clock.advance(2000)
    assert_ok(healthy, "leases")
    host = healthy.board.host.id
    monkeypatch.setenv("LEDGER_HOST_ID", "another")
    finding = one(healthy, "leases")
    assert "over, and whether its processes are gone is not known" in finding.text
    assert finding.try_ == f"ledger sweep on host {host}"


def test_a_folder_without_its_run_is_named(healthy):
    """A later run of that number would find another's exit record there."""
    card = healthy.board.columns()["columns"]["running"][0]["id"]
    assert_ok(healthy, "folders")
    stray = healthy.folder(card, 2)
    stray.mkdir()
    finding = one(healthy, "folders")
    assert (finding.level, finding.try_) == (WARNING, f"mv {stray} {stray}.stray")
    stray.rename(f"{stray}.stray")
    assert_ok(healthy, "folders")


def test_folders_of_a_board_that_is_not_here_are_only_mentioned(healthy):
    """Another store may have the same home. A link is not followed."""
    (healthy.home / "boards/else/runs/t_x/1").mkdir(parents=True)
    (healthy.home / "boards/default/runs/t_link").symlink_to(healthy.home / "boards/else/runs/t_x")
    levels = {finding.level: finding.text for finding in found(healthy, "folders")}
    assert set(levels) == {OK, INFO}
    assert "of a board that is not in this store" in levels[INFO]


# Cards


def forge(fleet, child, parent):
    """A link that no command would write."""
    fleet.spoilt = True
    with at_desk(fleet.board.engine, "default", fleet.clock) as desk:
        desk.write(Decision((Draft.of(child, Linked(parent=parent, require="ok"), given.OPERATOR),)))


def test_a_wait_for_what_cannot_come_is_named(fleet):
    """Wrong outcome, archived undone, not there; each with its remedies."""
    failed, gone, child = fleet.create(), fleet.create(), fleet.create()
    for parent in (failed, gone):
        fleet.board.link(child, parent)
    assert_ok(fleet, "waits")
    fleet.board.complete(failed, outcome="fail")
    fleet.board.archive(gone, children="keep")
    forge(fleet, child, "t_nosuch")
    told = {finding.text: finding.try_ for finding in found(fleet, "waits")}
    ever = f"{child} waits for ever:"
    assert told == {
        f"{ever} {failed} is fail, the link requires ok": f"ledger reopen {failed}, or ledger unlink {child} {failed}",
        f"{ever} {gone} is archived, the link requires ok": f"ledger reopen {gone}, or ledger unlink {child} {gone}",
        f"{ever} t_nosuch is not there, the link requires ok": f"ledger unlink {child} t_nosuch",
    }


def test_a_closed_card_waits_for_nothing(fleet):
    """Its links are history."""
    parent, child = fleet.create(), fleet.create()
    fleet.board.link(child, parent)
    fleet.board.archive(child)
    fleet.board.archive(parent)
    assert_ok(fleet, "waits")


def test_a_ring_in_the_log_is_named_whole(fleet):
    """No command writes one."""
    one_, two, three = (fleet.create() for _ in range(3))
    fleet.board.link(two, one_)
    fleet.board.link(three, two)
    forge(fleet, one_, three)
    (finding,) = found(fleet, "waits")
    ring = finding.text.removeprefix("cards wait for each other: ").split(" → ")
    assert (len(ring), set(ring), ring[0]) == (4, {one_, two, three}, ring[-1])
    _, _, child, parent = finding.try_.split()
    fleet.board.unlink(child, parent)
    assert_ok(fleet, "waits")


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ({}, []),
        ({"b": {"a"}}, []),
        ({"a": {"a"}}, [["a", "a"]]),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b", "a"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"b"}, "d": {"c", "x"}}, [["a", "b", "a"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c", "a"}}, [["a", "b", "a"], ["c", "d", "c"]]),
    ],
)
def test_rings_are_found_once_each(above, expected):
    """And what only waits for a ring is none."""
    assert rings(above) == expected


def test_rings_in_a_large_board_are_found_at_once():
    """A chain of ten thousand cards that ends in a ring."""
    above = {f"t_{number}": {f"t_{number + 1}"} for number in range(10_000)} | {"t_10000": {"t_9998"}}
    assert rings(above) == [["t_9998", "t_9999", "t_10000", "t_9998"]]


def test_children_of_a_card_that_only_a_person_lifts_are_mentioned(fleet):
    """No fault: somebody is asked."""
    parent = fleet.create()
    child = fleet.create(parents=[parent])
    fleet.board.block(parent, "which key?")
    finding = one(fleet, "waits")
    assert (finding.level, finding.try_) == (INFO, f"ledger why {parent}")
    assert f"{child} waits for it" in finding.text
    fleet.board.unblock(parent)
    assert_ok(fleet, "waits")


def test_a_card_that_nobody_is_to_do_is_named(healthy):
    """No sweep starts it. What is blocked, in triage or waiting is not asked for yet."""
    healthy.create(assignee=None, lane="triage")
    healthy.create(assignee=None, blocked="later")
    assert_ok(healthy, "assignees")
    card = healthy.create(assignee=None)
    finding = one(healthy, "assignees")
    assert (finding.level, finding.try_) == (WARNING, f"ledger assign {card} NAME")


def test_an_assignee_that_is_not_configured_is_named_with_the_nearest(fleet):
    """A slip of the pen holds a card for ever; a person is no slip."""
    fleet.staff({"builder": {"command": sh("true")}, "dana": {"human": True}})
    fleet.create(assignee="dana")
    assert_ok(fleet, "assignees")
    cards = [fleet.create(assignee="bulder") for _ in range(7)]
    finding = one(fleet, "assignees")
    assert finding.level is WARNING
    assert "no assignee 'bulder' is configured on this host; the nearest is 'builder'" in finding.text
    assert finding.text.endswith("and 2 more")
    assert cards[0] in finding.text


def test_an_assignee_that_another_host_may_know_is_only_mentioned(healthy):
    """A host that sweeps the board has its own configuration."""
    healthy.create(assignee="elsewhere")
    assert one(healthy, "assignees").level is WARNING
    sql(healthy, "UPDATE sweeps SET host = 'another'")
    assert one(healthy, "assignees").level is INFO


def test_the_worker_of_a_card_in_review_is_its_reviewer(healthy):
    """Not its assignee."""
    card = healthy.create()
    granted = healthy.board.claim(card)
    healthy.board.review(card, run=granted.run, lock=granted.lock)
    finding = one(healthy, "assignees")
    assert f"nobody is to do {card}" in finding.text


def test_this_hosts_name_and_id_are_told(healthy):
    """So that somebody can place a card or an assignee on it."""
    here = healthy.board.host
    assert one(healthy, "host").text == (
        f"this is {here.name}, its id is {here.id}: --host and hosts = […] take either"
    )


@pytest.mark.parametrize("placed", ["the card", "its assignee"])
def test_a_card_that_is_placed_elsewhere_is_named(healthy, placed):
    """A sweep here will never start it; where another host sweeps, that is as it should be."""
    healthy.staff({"w": {"command": sh("true"), **({"hosts": ["gpu1", "gpu2"]} if placed == "its assignee" else {})}})
    card = healthy.create(host="gpu1" if placed == "the card" else None)
    on = "gpu1" if placed == "the card" else "gpu1 or gpu2"
    finding = one(healthy, "placement")
    assert (finding.level, finding.text) == (WARNING, f"{card} can start on {on} alone, not on this host")
    sql(healthy, "UPDATE sweeps SET host = 'another'")
    assert one(healthy, "placement").level is INFO


def test_a_card_that_is_placed_here_is_not_named(healthy):
    """By this host's name or its id."""
    here = healthy.board.host
    healthy.staff({"w": {"command": sh("true"), "hosts": ["gpu1", here.name]}})
    healthy.create(host=here.id)
    assert_ok(healthy, "placement")


def test_a_sweep_that_does_not_come_is_named(fleet):
    """Ten minutes without a tick, while a card could be started."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    fleet.create()
    assert_ok(fleet, "sweeps")
    fleet.clock.advance(601)
    finding = one(fleet, "sweeps")
    assert (finding.level, finding.try_) == (WARNING, "ledger sweep --every 5s")
    assert finding.text == "1 card could start, and no sweep has come ever"
    fleet.sweep(most=0)
    assert_ok(fleet, "sweeps")
    fleet.clock.advance(700)
    assert one(fleet, "sweeps").text == "1 card could start, and no sweep has come for 11 minutes"


def test_a_sweep_is_not_missed_where_it_would_start_nothing(fleet):
    """No worker, a person, a pause, a time that has not come."""
    fleet.staff({"w": {"command": sh("true")}, "dana": {"human": True}})
    fleet.create(assignee=None)
    fleet.create(assignee="dana")
    fleet.board.schedule(fleet.create(), fleet.clock() + 9_000 * SECOND)
    fleet.clock.advance(3_000)
    assert_ok(fleet, "sweeps")
    fleet.create()
    fleet.board.pause()
    fleet.clock.advance(3_000)
    assert_ok(fleet, "sweeps")
    fleet.board.resume()
    assert one(fleet, "sweeps").level is WARNING


def test_many_findings_of_one_check_are_cut_short():
    """The worst of what is left out stands for it."""
    many = [info("waits", f"text {number}") for number in range(30)]
    told = short([*many, *found_error()], most=20)
    assert len(told) == 21
    assert (told[-1].level, told[-1].text) == (ERROR, "and 11 more, such as: worse")
    assert short(many, most=30) == many


def found_error():
    return [doctor_store.error("waits", "worse", "mend it")]
