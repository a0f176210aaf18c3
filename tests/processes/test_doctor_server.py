"""Every check that `ledger doctor` makes of a store on a server, made to find something and to find nothing."""

import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from kanban import doctor_server
from kanban.doctor import examine, is_broken, is_unreadable
from kanban.doctor_server import of_connections, of_skew, of_version
from kanban.findings import Level
from ledger import triggers
from ledger.clock import SECOND
from ledger.database import connected, reading
from ledger.triggers import faults_of_triggers
from tests import fleets, ledgers, served, servers
from tests.fleets import sh
from tests.processes.test_doctor import address
from tests.served import BOARD, asked, opened

OK, INFO, WARNING, ERROR = Level
SAFE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


@pytest.fixture
def url():
    """The address of a store with the board `default` and no card."""
    with served.lent() as found:
        yield found


def examined(fleet, url, **how):
    """All findings."""
    return examine(address(fleet, url=url, **how))


def one(fleet, url, check, **how):
    """The one thing that a check found."""
    (finding,) = [finding for finding in examined(fleet, url, **how) if finding.check == check]
    return finding


def session(url, *statements):
    """A client that stands still after *statements*, in the middle of a transaction."""
    client = psycopg.connect(url.replace("+psycopg", "", 1), application_name="somebody")
    for statement in statements:
        client.execute(statement)
    return client


def test_a_healthy_store_on_a_server_has_no_fault(fleet, tmp_path):
    """Every check speaks; what is a file's own is left out; that workers have no role of their own is no fault."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}})
    (fleet.home / "ledger.toml").chmod(0o600)
    fleet.home.chmod(0o700)
    with servers.own(**SAFE) as server:
        fleets.found(server.url(), BOARD, fleets.FOUNDER, fleets.system_clock)
        with opened(server.url()) as board:
            board.create("a card", assignee="w")
        findings = examined(fleet, server.url())
    assert [finding.check for finding in findings if finding.level is not OK] == ["workers"]
    assert not is_broken(findings)
    assert {finding.check for finding in findings} == {
        "packages", "host", "disk", "permissions", "store", "revision", "server", "durability", "connections",
        "transactions", "skew", "rights", "workers", "boards", "chain", "append_only", "clock", "runs", "processes",
        "leases", "folders", "waits", "assignees", "placement", "sweeps",
    }  # fmt: skip


def test_a_server_that_does_not_answer_leaves_the_machine_to_be_examined(fleet, tmp_path):
    """As a file that cannot be read does; the password is not shown."""
    findings = examined(fleet, f"postgresql+psycopg://ledger:hunter2@/none?host={tmp_path}")
    (found,) = [finding for finding in findings if finding.check == "store"]
    assert (found.level, is_unreadable(findings)) == (ERROR, True)
    assert "cannot be reached" in found.text
    assert "hunter2" not in str(findings)
    assert {finding.check for finding in findings} == {"packages", "host", "disk", "permissions", "store"}


def test_a_store_of_another_revision_is_examined_as_a_server_only(fleet, url):
    """What its tables mean is not known to this program."""
    asked(url, "UPDATE alembic_version SET version_num = '9999'")
    checks = {finding.check: finding for finding in examined(fleet, url)}
    assert checks["revision"].level is ERROR
    assert checks["server"].level is OK
    assert not {"rights", "chain", "runs"} & checks.keys()


@pytest.mark.parametrize(("number", "level"), [(140000, OK), (180006, OK), (130021, ERROR), (90624, ERROR)])
def test_a_server_that_is_too_old_is_an_error(number, level):
    """14 is the first."""
    assert of_version(number, "PostgreSQL").level is level


def test_a_standby_takes_no_writes(fleet, tmp_path):
    """Somebody named a replica's address."""
    with servers.own(wal_level="replica", **SAFE) as server:
        fleets.found(server.url(), BOARD, fleets.FOUNDER, fleets.system_clock)
        server.ask("CHECKPOINT")
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        found = [finding for finding in examined(fleet, server.url()) if finding.check == "server"]
    assert [finding.level for finding in found] == [OK, ERROR]
    assert "it is a standby" in found[1].text


def test_a_database_that_is_read_only_takes_no_writes(fleet, url):
    """By a setting that stands there for everybody."""
    name = url.partition("?")[0].rpartition("/")[2]
    asked(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    found = [finding for finding in examined(fleet, url) if finding.check == "server"]
    assert "every transaction is read-only" in found[1].text


def test_what_a_power_cut_would_lose_is_told(fleet, url):
    """The server of the tests keeps nothing for certain; each setting is named with what it risks."""
    found = [finding for finding in examined(fleet, url) if finding.check == "durability"]
    assert {finding.level for finding in found} == {WARNING}
    assert [finding.text for finding in found] == [
        "fsync is off: a power cut can lose the whole store",
        "full_page_writes is off: a power cut can lose the whole store",
        "synchronous_commit is off: a power cut can lose the last commits",
    ]


@pytest.mark.parametrize(("used", "level"), [(1, OK), (90, OK), (91, WARNING), (100, WARNING)])
def test_a_server_that_is_nearly_full_is_foreseen(used, level):
    """Fewer than ten connections are left."""
    assert of_connections(100, used).level is level


def test_how_many_connections_there_are_is_the_servers_own_count(fleet, url):
    """What superusers keep for themselves is not there for others."""
    most = int(asked(url, "SELECT setting FROM pg_settings WHERE name = 'max_connections'")[0][0])
    assert one(fleet, url, "connections").text.endswith(f"of {most - 3} connections are in use")


def test_a_transaction_that_stands_still_is_named_and_writers_go_on(fleet, url, monkeypatch):
    """B59: an idle session that never writes is told, with its pid and since when; nobody waits for it."""
    monkeypatch.setattr(doctor_server, "IDLE", SECOND // 10)
    with session(url, "SELECT count(*) FROM events") as client:
        pid = client.info.backend_pid
        time.sleep(0.2)
        found = one(fleet, url, "transactions")
        with opened(url) as board:
            board.create("written meanwhile")
    assert found.level is INFO
    assert found.text.startswith(f"{pid} (somebody, ledger on this machine) has stood still in a transaction for 0 s")
    assert "no writer waits for it" in found.text
    assert found.try_ == f"SELECT pg_terminate_backend({pid})"


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM boards FOR UPDATE", "UPDATE tasks SET priority = 1", "LOCK TABLE boards"]
)
def test_a_transaction_that_stands_still_and_holds_a_board_is_a_warning(fleet, url, monkeypatch, statement):
    """Its writers wait, and give up."""
    monkeypatch.setattr(doctor_server, "IDLE", SECOND // 10)
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=100ms")
    with session(url, statement) as client:
        time.sleep(0.2)
        found = next(finding for finding in examined(fleet, url) if finding.check == "transactions")
        assert (found.level, "may hold a board" in found.text) == (WARNING, True)
        client.rollback()
    assert one(fleet, url, "transactions").level is OK


def test_a_transaction_that_is_at_work_or_young_is_nobodys_business(fleet, url, monkeypatch):
    """Ten seconds of standing still, no less."""
    with session(url, "SELECT count(*) FROM events"):
        assert one(fleet, url, "transactions").level is OK
    monkeypatch.setattr(doctor_server, "IDLE", 0)
    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True):
        assert one(fleet, url, "transactions").level is OK


@pytest.mark.parametrize(
    ("ahead", "doubt", "level"),
    [(0, 0, OK), (SECOND, 0, OK), (SECOND + 1, 0, WARNING), (-2 * SECOND, 0, WARNING), (2 * SECOND, 2 * SECOND, OK)],
)
def test_clocks_that_differ_by_more_than_a_second_are_a_warning(ahead, doubt, level):
    """How long the server took to answer is no difference."""
    assert of_skew(ahead, doubt).level is level


def test_a_clock_ten_minutes_ahead_is_told_and_decides_nothing(fleet, url, monkeypatch):
    """B57: leases are judged by the server's clock, in an examination too."""
    with opened(url) as board:
        card = board.create("a card").task["id"]
        board.set_policy(lease=300, lease_grace=1)
        board.claim(card)
    real = time.time_ns
    monkeypatch.setattr("ledger.clock.time.time_ns", lambda: real() + 600 * 10**9)
    found = {finding.check: finding for finding in examined(fleet, url)}
    assert (found["skew"].level, "600.0 s ahead of the server's" in found["skew"].text) == (WARNING, True)
    assert found["leases"].level is OK
    assert found["clock"].level is OK


def test_a_role_that_may_not_write_is_told_what_it_lacks(fleet, url):
    """A reader's address was given to an operator."""
    asked(url, "CREATE ROLE mv_reads LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO mv_reads")
    try:
        found = one(fleet, url.replace("ledger@", "mv_reads@"), "rights")
    finally:
        asked(url, "DROP OWNED BY mv_reads", "DROP ROLE mv_reads")
    assert found.level is WARNING
    assert (
        "the role mv_reads may not do all that operators do: it lacks INSERT of boards, UPDATE of boards" in found.text
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("DROP TRIGGER events_no_update ON events", "the trigger events_no_update is missing"),
        ("ALTER TABLE words DISABLE TRIGGER words_no_truncate", "the trigger words_no_truncate is disabled"),
        ("ALTER TABLE boards ENABLE REPLICA TRIGGER boards_no_delete", "the trigger boards_no_delete is disabled"),
        (
            "CREATE OR REPLACE FUNCTION ledger_refuses() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "the trigger events_no_delete refuses nothing: its function was replaced",
        ),
    ],
)
def test_a_log_that_could_be_changed_is_an_error(fleet, url, change, fault):
    """Missing, disabled, or harmless: the database refuses nothing any more."""
    asked(url, change)
    found = [finding for finding in examined(fleet, url) if finding.check == "append_only"]
    assert {finding.level for finding in found} == {ERROR}
    assert f"{fault}: the log could be changed, and only a replay would tell" in [finding.text for finding in found]


def test_the_triggers_that_are_looked_for_are_those_that_a_new_store_has(tmp_path, url):
    """A revision that adds one adds it to the list."""
    ledgers.new_ledger(tmp_path / "ledger.db").engine.dispose()
    on_server = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    assert {name for (name,) in asked(url, on_server)} == triggers.ON_POSTGRES
    with connected(f"sqlite:///{tmp_path}/ledger.db") as engine, reading(engine) as tx:
        assert list(faults_of_triggers(tx)) == []
        made = tx.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars()
        assert set(made) == triggers.ON_SQLITE


def test_a_process_that_works_for_a_run_that_is_over_is_found_by_its_address(fleet, url):
    """Whichever role its address names; of another database it is another store's."""
    with opened(url) as board:
        card = board.create("a card").task["id"]
        run = board.claim(card)
        board.complete(card, run=run.run, lock=run.lock)
    claim = {"LEDGER_BOARD": BOARD, "LEDGER_TASK": "t_nosuch", "LEDGER_RUN": "1"}
    for theirs, seen in ((url.replace("ledger@", "worker:pw@"), True), (url.replace("?", "_other?"), False)):
        environ = fleet.environ | claim | {"LEDGER_DATABASE_URL": theirs}
        with subprocess.Popen(["sleep", "300"], env=environ) as stray:
            found = one(fleet, url, "processes")
            stray.kill()
        assert (f"process {stray.pid} works for run 1 of t_nosuch" in found.text) == seen


def test_nothing_of_a_file_is_looked_for(fleet, url):
    """No file is named after the address."""
    before = sorted(fleet.home.rglob("*"))
    examined(fleet, url)
    assert sorted(fleet.home.rglob("*")) == before
    assert not list(Path.cwd().glob("postgresql*"))
