"""The role of workers on a server: every verb of a worker goes through it, and nothing that changes the log does."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from kanban.address import address_for_workers, address_of
from kanban.config import ConfigFault, values
from kanban.doctor import examine
from kanban.refusals import LostClaim, Unmet
from kanban.roles import NEVER, OPERATORS, WORKERS, grant, having, lacking
from kanban.worker.proof import Live, prove_here
from ledger.clock import system_clock
from ledger.database import connected, reading
from ledger.errors import InvalidInput, NotFound, StoreDenied
from projections.tables import metadata
from tests import fleets, served, servers
from tests.fleets import sh
from tests.served import BOARD, asked, forged

LEDGER = Path(sys.executable).parent / "ledger"
_numbers = itertools.count(1)


@pytest.fixture
def url():
    """The operators' address of a store with the board `default`."""
    with served.lent() as found:
        yield found


@pytest.fixture
def role(url):
    """A role that may log in, and nothing more."""
    name = f"worker_{os.getpid()}_{next(_numbers)}"
    asked(url, f"CREATE ROLE {name} LOGIN PASSWORD 'pw'")
    yield name
    asked(url, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@pytest.fixture
def theirs(url, role):
    """The workers' address."""
    with connected(url) as engine:
        grant(engine, role)
    return address_of_role(url, role)


@pytest.fixture
def ada(url, tmp_path):
    """The board, as an operator has it open."""
    with fleets.Board.open(url, environ=environ(tmp_path), cwd=tmp_path) as board:
        yield board


def environ(home, **more):
    return {"LEDGER_HOME": str(home), "HOME": str(home), "USER": "ada", **more}


def address_of_role(url, role):
    return make_url(url).set(username=role, password="pw").render_as_string(hide_password=False)


class Worker:
    """The worker of a card that was claimed for it, at the workers' address."""

    def __init__(self, ada, theirs, home, **card):
        self.card = ada.create("mine", assignee="w", **card).task["id"]
        granted = ada.claim(self.card)
        self.run, self.lock = granted.run, granted.lock
        claim = {"LEDGER_TASK": self.card, "LEDGER_RUN": str(self.run), "LEDGER_LOCK": self.lock}
        self.environ = environ(home, LEDGER_DATABASE_URL=theirs, LEDGER_BOARD=BOARD, **claim)
        self.board = fleets.Board.open(environ=self.environ, cwd=home)


@pytest.fixture
def hired(ada, theirs, tmp_path):
    """Makes workers, and lets their store go in the end."""
    made = []

    def hire(**card):
        made.append(Worker(ada, theirs, tmp_path, **card))
        return made[-1]

    yield hire
    for worker in made:
        worker.board.close()
    assert ada.replay().divergences == ()


# What goes


def test_a_worker_beats_reports_and_completes(url, ada, hired):
    """The verbs of nearly every run; and the proof that its claim holds."""
    worker = hired()
    _, proof = prove_here(worker.environ, system_clock())
    assert isinstance(proof, Live)
    worker.board.heartbeat()
    asked(url, "DELETE FROM leases")  # a row that was lost comes back
    worker.board.heartbeat()
    worker.board.progress(note="half of it")
    worker.board.complete(summary="all of it", result="here", metadata={"a": 1})
    assert ada.show(worker.card)["task"]["status"] == "done"
    assert worker.board.complete(summary="all of it", result="here", metadata={"a": 1}).changed is False


@pytest.mark.parametrize("kind", ["needs_input", "dependency"])
def test_a_worker_blocks_its_card(ada, hired, kind):
    """Whichever the reason."""
    parent = ada.create("first").task["id"]
    worker = hired()
    worker.board.link(worker.card, parent)
    worker.board.block(None, "which key?", kind=kind)
    assert ada.show(worker.card)["task"]["status"] == {"needs_input": "blocked", "dependency": "todo"}[kind]


def test_a_worker_asks_for_a_review_and_a_reviewer_asks_for_changes(ada, hired, tmp_path, theirs):
    """Both lanes."""
    worker = hired()
    worker.board.review(summary="look", reviewer="critic")
    granted = ada.claim(worker.card)
    claim = {"LEDGER_TASK": worker.card, "LEDGER_RUN": str(granted.run), "LEDGER_LOCK": granted.lock}
    there = environ(tmp_path, LEDGER_DATABASE_URL=theirs, **claim)
    with fleets.Board.open(environ=there, cwd=tmp_path) as critic:
        critic.changes(None, "more tests")
    assert ada.show(worker.card)["task"]["status"] == "ready"


def test_a_worker_makes_links_and_talks_about_cards(ada, hired):
    """Cards of its own making, with parents and a key; its own card waits for them; a word on any card."""
    worker, other = hired(), ada.create("another").task["id"]
    first = worker.board.create("part one", key="k", labels=("red",)).task["id"]
    assert worker.board.create("part one", key="k", labels=("red",)).replayed
    second = worker.board.create("part two", parents=[first]).task["id"]
    worker.board.link(worker.card, second)
    worker.board.comment(other, "see my card")
    with pytest.raises(Unmet):
        worker.board.complete(summary="too soon")
    assert ada.show(worker.card)["task"]["status"] == "todo"
    assert ada.show(worker.card)["task"]["parents"] == [second]


def test_what_waits_for_a_card_moves_when_its_worker_completes_it(ada, hired):
    """A column of other cards' rows."""
    worker = hired()
    child = ada.create("after it", parents=[worker.card]).task["id"]
    worker.board.complete(summary="done")
    assert ada.show(child)["task"]["status"] == "ready"


def test_a_late_result_is_kept(ada, hired):
    """The run was ended meanwhile: the result is an event all the same."""
    worker = hired()
    ada.block(worker.card, "stop", run=worker.run, lock=worker.lock)
    with pytest.raises(LostClaim):
        worker.board.complete(summary="too late")
    assert list(ada.events(worker.card))[-1].kind == "late_result"


def test_what_an_operator_wished_is_done_by_the_verb_that_ends_the_run(ada, hired):
    """In the worker's own append."""
    worker = hired()
    ada.archive(worker.card, force=True)
    worker.board.complete(summary="done")
    assert ada.show(worker.card)["task"]["status"] == "archived"


def test_a_worker_reads_what_it_is_asked_about(ada, hired):
    """Show, list, board, why, runs, events, stats."""
    worker = hired()
    board = worker.board
    assert board.show(worker.card)["task"]["id"] == worker.card
    for answer in (board.columns(), board.why(worker.card), board.runs(worker.card), board.stats()):
        json.dumps(answer, default=str)
    assert [event.kind for event in board.events(worker.card)] == ["created", "claimed"]
    assert board.replay().divergences == ()


# What does not


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET at = at + 1", "UPDATE events SET facts = '{}' WHERE position = 1", "DELETE FROM events",
        "TRUNCATE events CASCADE", "UPDATE words SET words = '{}'", "DELETE FROM words", "TRUNCATE words",
        "INSERT INTO boards SELECT 'another', board_id, 0, 0, head_hash FROM boards",
        "UPDATE boards SET board_id = 'f'", "UPDATE boards SET board = 'f'", "DELETE FROM boards",
        "UPDATE settings SET policy = '{}'", "DELETE FROM tasks", "DELETE FROM runs", "TRUNCATE leases",
        "UPDATE alembic_version SET version_num = '0000'", "DELETE FROM held", "UPDATE sweeps SET errors = 0",
        "DROP TABLE events", "DROP TABLE leases", "ALTER TABLE events ADD COLUMN x int", "CREATE TABLE mine (x int)",
        "ALTER TABLE events DISABLE TRIGGER events_no_update", "DROP TRIGGER events_no_update ON events",
        "CREATE TRIGGER mine BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION ledger_refuses('no')",
        "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'", "CREATE SCHEMA mine",
        "CREATE OR REPLACE FUNCTION ledger_refuses() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "SET session_replication_role = replica", "COPY events TO PROGRAM 'cat'", "CREATE INDEX mine ON events (at)",
        "BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE", "CREATE ROLE more",
        "ALTER TABLE boards OWNER TO CURRENT_USER",
    ],
)  # fmt: skip
def test_what_is_no_workers_is_refused_by_the_database(url, theirs, statement):
    """Whatever program it uses: it may append, and change nothing that is in the log."""
    before = asked(url, "SELECT count(*), sum(at) FROM events")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        asked(theirs, statement)
    assert asked(url, "SELECT count(*), sum(at) FROM events") == before


def test_the_head_does_not_go_back_for_a_worker_either(theirs):
    """It may move it, as an append does; the trigger lets it grow only."""
    with pytest.raises(psycopg.errors.RaiseException, match="the head only grows"):
        asked(theirs, "UPDATE boards SET head_position = 0")


@pytest.mark.parametrize("verb", ["pause", "sweep", "redact", "rebuild", "init"])
def test_an_operators_verb_through_the_workers_role_does_nothing(ada, theirs, tmp_path, verb):
    """A worker that takes its claim out of its environment is no operator."""
    card = ada.create("a card", assignee="w").task["id"]
    ada.comment(card, "secret")
    before = ada.replay().digest
    with fleets.Board.open(theirs, environ=environ(tmp_path), cwd=tmp_path) as board:
        acts = {
            "pause": board.pause,
            "sweep": board.sweep,
            "redact": lambda: board.redact(4, thoroughly=False),
            "rebuild": board.rebuild,
            "init": lambda: fleets.found(theirs, "another", fleets.FOUNDER, system_clock),
        }
        with pytest.raises(StoreDenied, match="the database server refuses: permission denied"):
            acts[verb]()
    assert ada.replay().digest == before


# How a role is given that


def test_what_was_given_before_is_taken(url, role):
    """Twice is harmless, and too much is set right."""
    asked(url, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    with connected(url) as engine:
        first = grant(engine, role)
        assert grant(engine, role) == first
        with reading(engine) as tx:
            assert (lacking(tx, role, WORKERS), having(tx, role, NEVER)) == ([], [])


def test_a_store_in_a_schema_of_its_own_is_given_there(url, role, tmp_path):
    """Where the address says so; nobody may look into a new schema by himself."""
    asked(url, 'CREATE SCHEMA "My own"')
    there, home = f"{url}&options=-csearch_path%3D%22My%5C%20own%22", environ(tmp_path)
    fleets.found(there, BOARD, fleets.FOUNDER, system_clock)
    with connected(there) as engine:
        grant(engine, role)
    with fleets.Board.open(address_of_role(there, role), environ=home, cwd=tmp_path) as board:
        assert board.replay().divergences == ()
    with pytest.raises(StoreDenied):
        fleets.Board.open(address_of_role(url, role), environ=home, cwd=tmp_path)


def test_a_dry_run_gives_nothing(url, role):
    """It says the statements, which an administrator may run."""
    with connected(url) as engine:
        statements = grant(engine, role, dry_run=True)
        with reading(engine) as tx:
            assert "INSERT of events" in lacking(tx, role, WORKERS)
    asked(url, *statements)
    with connected(url) as engine, reading(engine) as tx:
        assert lacking(tx, role, WORKERS) == []


def test_a_role_that_is_not_there_one_that_owns_and_a_file_are_named(url, role, tmp_path):
    """Nothing can be denied to an owner, or to a superuser."""
    with connected(url) as engine:
        with pytest.raises(NotFound, match="no role 'mv_nobody'"):
            grant(engine, "mv_nobody")
        with pytest.raises(InvalidInput, match="is a superuser: nothing can be denied to it"):
            grant(engine, make_url(url).username)
        asked(url, f"ALTER TABLE events OWNER TO {role}")
        with pytest.raises(InvalidInput, match="owns the tables"):
            grant(engine, role)
        asked(url, "ALTER TABLE events OWNER TO CURRENT_USER")
    fleets.found(f"sqlite:///{tmp_path}/ledger.db", BOARD, fleets.FOUNDER, system_clock)
    with connected(f"sqlite:///{tmp_path}/ledger.db") as engine, pytest.raises(InvalidInput, match="no roles"):
        grant(engine, role)


def test_the_command_gives_it_and_says_what_is_next(url, role, theirs, tmp_path):
    """The statements on request; JSON for programs."""

    def ledger(*words):
        there = environ(tmp_path, LEDGER_DATABASE_URL=url)
        return subprocess.run([LEDGER, *words], env=there, capture_output=True, text=True, check=False)

    said = ledger("db", "grant", role, "--dry-run")
    assert f'GRANT SELECT, INSERT ON "public".events TO "{role}";' in said.stdout
    assert "next: worker_database in ledger.toml" in ledger("db", "grant", role).stderr
    told = json.loads(ledger("db", "grant", role, "--json").stdout)
    assert (told["role"], told["dry_run"], len(told["statements"]) > 10) == (role, False, True)
    missing = ledger("db", "grant", "nobody-there", "--json")
    assert (missing.returncode, json.loads(missing.stdout)["error"]["code"]) == (5, "not_found")


def test_every_table_is_spoken_of():
    """A revision that adds one says what of it is a worker's and what an operator's."""
    assert WORKERS.keys() - {"cards", "alembic_version"} == OPERATORS.keys() == metadata.tables.keys()


# How a worker gets it


def test_a_worker_that_a_sweep_starts_is_given_the_workers_address(url, theirs, ada, tmp_path):
    """And not the operators': neither in its environment, nor by the operator's own variables."""
    script = f'env > {tmp_path}/env.txt; exec "$LEDGER_BIN" complete "$(id -un)"'
    (tmp_path / "ledger.toml").write_text(
        f'worker_database = "{theirs}"\n[assignees.w]\ncommand = {json.dumps(sh(script))}\n'
    )
    card = ada.create("a card", assignee="w").task["id"]
    there = environ(tmp_path, LEDGER_DATABASE_URL=url)
    with fleets.Board.open(environ=there, cwd=tmp_path) as board:
        fleets.until(lambda: (board.sweep(), board.show(card)["task"]["status"] == "done")[1])
    told = dict(line.partition("=")[::2] for line in (tmp_path / "env.txt").read_text().splitlines())
    assert make_url(told["LEDGER_DATABASE_URL"])[1:3] == make_url(theirs)[1:3]
    assert url not in str(told)
    assert list(ada.events(card))[-1].kind == "completed"


def test_the_address_of_workers_is_whole_but_takes_no_password_of_the_operators(monkeypatch):
    """What it leaves out is completed where the sweep runs; a password is never."""
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    ours = "postgresql+psycopg://ada@/ledger"
    assert "hunter2" in address_for_workers(ours, None)
    alone = address_for_workers(ours, "postgresql+psycopg://worker@/ledger")
    assert ("db.example" in alone, "hunter2" in alone) == (True, False)
    own = address_for_workers(ours, "postgresql+psycopg://worker:own@/ledger")
    assert ("worker:own@" in own, "hunter2" in own) == (True, False)
    asked_for = address_for_workers(ours, "postgresql+psycopg://worker@/ledger?password=own")
    assert "password=own" in asked_for


@pytest.mark.parametrize(
    ("url", "own", "why"),
    [
        ("sqlite:////srv/ledger.db", "postgresql+psycopg://worker@db/ledger", "for a store on a server"),
        ("postgresql+psycopg://ada@db/ledger", "sqlite:////srv/ledger.db", "for a store on a server"),
        ("postgresql+psycopg://ada@db/ledger", "postgresql+psycopg://worker@db/other", "of database other"),
    ],
)
def test_an_address_of_another_store_is_refused_before_anything_starts(url, own, why):
    """Workers would report where nobody reads."""
    with pytest.raises(ConfigFault, match=why):
        address_for_workers(url, own)


def test_a_sweep_with_another_stores_address_for_workers_starts_nothing(url, ada, tmp_path):
    """It is refused as a whole, and no card is claimed for it."""
    (tmp_path / "ledger.toml").write_text('worker_database = "postgresql+psycopg://w@/other"\n')
    with fleets.Board.open(url, environ=environ(tmp_path), cwd=tmp_path) as board, pytest.raises(ConfigFault):
        board.sweep()


def test_the_address_of_workers_is_a_secret(tmp_path):
    """It is shown without its password, and where it came from; a wrong one is not shown at all."""
    there = environ(tmp_path, LEDGER_WORKER_DATABASE_URL="postgresql://worker:hunter2@db/ledger")
    at = address_of(None, None, actor=None, config=None, environ=there, cwd=tmp_path)
    shown = {"value": "postgresql://worker:***@db/ledger", "origin": "LEDGER_WORKER_DATABASE_URL"}
    assert values(at.loaded)["worker_database"] == shown
    (tmp_path / "ledger.toml").write_text('worker_database = ["postgresql://worker:hunter2@db/ledger"]\n')
    with pytest.raises(ConfigFault, match="worker_database is a list; wanted a text") as refused:
        address_of(None, None, actor=None, config=None, environ=environ(tmp_path), cwd=tmp_path)
    assert "hunter2" not in str(refused.value)


# What doctor says of it


def workers_of(url, home, **settings):
    """What `ledger doctor` finds out about the workers' role."""
    more = {} if not settings else {"LEDGER_WORKER_DATABASE_URL": settings["own"]}
    at = address_of(url, BOARD, actor=None, config=None, environ=environ(home, **more), cwd=home)
    return [(each.level, each.text) for each in examine(at) if each.check == "workers"]


def test_workers_that_share_the_operators_role_are_mentioned(url, tmp_path):
    """No fault: they are trusted."""
    ((level, text),) = workers_of(url, tmp_path)
    assert (level, "workers are given the operators' own address" in text) == ("info", True)


def test_a_role_that_can_only_append_is_well(url, theirs, tmp_path):
    """As it is after `ledger db grant`."""
    ((level, text),) = workers_of(url, tmp_path, own=theirs)
    assert (level, "may append, and cannot change what is in the log" in text) == ("ok", True)


TOO_MUCH_OR_LITTLE = {
    "GRANT UPDATE ON events TO {role}": ("warning", "may do what no worker needs: UPDATE of events"),
    "GRANT DELETE ON words TO {role}": ("warning", "may do what no worker needs: DELETE of words"),
    "GRANT CREATE ON SCHEMA public TO {role}": ("warning", "may make tables and functions"),
    "REVOKE INSERT ON words FROM {role}": ("error", "lacks INSERT of words, so verbs of workers fail"),
    "ALTER ROLE {role} SUPERUSER": ("warning", "is a superuser"),
    "ALTER TABLE events OWNER TO {role}": ("warning", "owns the tables"),
}


@pytest.mark.parametrize("statement", TOO_MUCH_OR_LITTLE)
def test_a_role_that_may_do_more_or_less_is_told(url, theirs, role, tmp_path, statement):
    """By name of the right."""
    level, told = TOO_MUCH_OR_LITTLE[statement]
    asked(url, statement.format(role=role))
    try:
        found = workers_of(url, tmp_path, own=theirs)
    finally:
        asked(url, "ALTER TABLE events OWNER TO CURRENT_USER", f"ALTER ROLE {role} NOSUPERUSER")
    assert level in {each for each, _ in found}
    assert told in " ".join(text for _, text in found)


def test_an_address_that_leads_elsewhere_is_an_error(url, theirs, tmp_path):
    """Another store, or none; the password is not shown."""
    with servers.shared().lent() as other:
        name = theirs.partition("?")[0].rpartition("/")[2]
        there = other.partition("?")[0].rpartition("/")[2]
        ((level, text),) = workers_of(url, tmp_path, own=theirs.replace(name, there))
    assert (level, ":pw@" in text) == ("error", False)
    with served.lent() as twin:
        forged(twin, "UPDATE boards SET board_id = 'f'")
        ((level, text),) = workers_of(url, tmp_path, own=twin)
    assert (level, "is another store" in text) == ("error", True)
