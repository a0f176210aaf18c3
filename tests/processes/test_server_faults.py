"""A server that fails: restarted, cut off, out of connections, too slow. Nothing is lost, and nothing runs twice."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress

import psycopg
import pytest

from kanban import Board
from kanban.at_desk import at_desk
from kanban.founding import found
from kanban.refusals import LostClaim
from ledger.clock import SECOND, system_clock
from ledger.errors import StoreBusy, StoreFault, StoreUnreachable
from tests import servers
from tests.fleets import FOUNDER, sh, until
from tests.hosts import Machine

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "wal_level": "replica"}
CUT = psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.fixture(scope="module")
def server():
    """A server that only these tests have, and that keeps what it has acknowledged."""
    with servers.own(**DURABLE, max_connections="40") as own:
        yield own


@pytest.fixture
def url(server, request):
    """A founded database on it."""
    address = server.url(f"faults_{abs(hash(request.node.name))}")
    found(address, "default", FOUNDER, system_clock)
    return address


@pytest.fixture
def machine(url, tmp_path):
    """What makes a machine that uses it."""
    made = []

    def make(name):
        home = tmp_path / name
        home.mkdir()
        made.append(Machine(home, url, name))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def board(machine):
    """The board, as an operator has it open."""
    return machine("one").board


@contextmanager
def answers_lost(board, monkeypatch, times=1):
    """The next commits of what was written are done, and their answers never come."""
    left, commit = [times], board.engine.dialect.do_commit

    def cut_off(dbapi):
        driver = dbapi.driver_connection
        wrote = driver.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").fetchone()[0]
        commit(dbapi)
        if wrote and left[0] > 0:
            left[0] -= 1
            driver.close()
            raise CUT

    with monkeypatch.context() as patched:
        patched.setattr(board.engine.dialect, "do_commit", cut_off)
        yield
    assert left == [0]


def kinds(board, card):
    """The kinds of a card's events."""
    return [event.kind for event in board.events(card)]


# The answer is lost after the commit


def test_a_card_whose_answer_was_lost_is_made_once(board, monkeypatch):
    """The repetition carries the same command id, and so finds what it has done."""
    with answers_lost(board, monkeypatch):
        answer = board.create("a card")
    assert (answer.changed, answer.replayed) == (True, False)
    assert [card["id"] for card in board.tasks()["tasks"]] == [answer.task["id"]]


def test_a_claim_whose_answer_was_lost_is_held_by_the_lock_that_is_told(board, monkeypatch):
    """One run, and the lock that comes with the second answer is its own."""
    card = board.create("a card").task["id"]
    with answers_lost(board, monkeypatch):
        claim = board.claim(card)
    board.heartbeat(card, run=claim.run, lock=claim.lock)
    with answers_lost(board, monkeypatch):
        board.complete(card, "did it", run=claim.run, lock=claim.lock)
    assert kinds(board, card) == ["created", "claimed", "completed"]


def test_many_acts_whose_answer_was_lost_are_done_once(board, monkeypatch):
    """All of one transaction."""
    for _ in range(3):
        board.create("a card")
    with answers_lost(board, monkeypatch):
        claims = board.claim_many(5)
    assert len({claim.task for claim in claims}) == 3
    for claim in claims:
        board.complete(claim.task, run=claim.run, lock=claim.lock)
    assert board.stats()["by_status"]["done"] == 3


def test_a_beat_whose_answer_was_lost_is_harmless_twice(board, monkeypatch):
    """It is no event."""
    card = board.create("a card").task["id"]
    claim = board.claim(card)
    with answers_lost(board, monkeypatch):
        board.heartbeat(card, run=claim.run, lock=claim.lock)
    assert kinds(board, card) == ["created", "claimed"]


def test_a_tick_whose_answer_was_lost_starts_nothing_and_the_next_one_says_so(machine, monkeypatch):
    """What was claimed is never bound, so it never ran: interrupted after the launch grace, and charged to nobody."""
    host = machine("one")
    host.staff({"w": {"command": sh("echo ran; exit 0"), "on_success": "complete"}})
    board = host.board
    board.set_policy(launch_grace=1)
    card = host.create()
    with answers_lost(board, monkeypatch), pytest.raises(StoreUnreachable):
        host.sweep()
    assert not host.folder(card).joinpath("log").exists()
    until(lambda: host.sweep() and host.board.show(card)["task"]["status"] == "done")
    runs = host.runs(card)
    assert [run["outcome"] for run in runs] == ["interrupted", "ok"]
    assert board.show(card)["task"]["failures"] == 0


# The server goes and comes


def test_a_command_waits_for_a_server_that_is_restarted(board, server):
    """What has been let in waits a moment; an answer that was given stands."""
    kept = board.create("before").task["id"]
    server.stop("immediate")
    back = threading.Timer(0.7, server.start)
    back.start()
    answer = board.create("meanwhile")
    back.join()
    assert {card["id"] for card in board.tasks()["tasks"]} == {kept, answer.task["id"]}


def test_a_server_that_is_not_there_is_said_at_once(server, url, machine):
    """A new command does not wait: somebody types it."""
    host = machine("one")
    began = time.monotonic()
    host.ledger("list")
    usual = time.monotonic() - began
    server.stop()
    try:
        began = time.monotonic()
        error = host.ledger("list", code=8)["error"]
        assert time.monotonic() - began < 4 + 4 * usual
    finally:
        server.start()
    assert error["code"] == "store_unreachable"
    assert error["try"]


def test_an_idle_connection_that_was_cut_is_not_used_again(board, server):
    """A backend ended by its server, between two commands."""
    board.create("a card")
    assert server.terminate() > 0
    assert len(board.tasks()["tasks"]) == 1
    board.create("another")


def test_a_transaction_that_is_cut_in_the_middle_leaves_nothing(board, server):
    """Not half a card, and no hole."""
    before = board.stats()["position"]
    with pytest.raises(StoreFault):
        _cut_in_the_middle(board, server)
    answer = board.create("a card")
    assert answer.position == before + 1


def _cut_in_the_middle(board, server):
    with at_desk(board.engine, "default", board.clock) as desk:
        server.terminate()
        desk.live()


def test_a_fleet_goes_on_while_its_server_is_restarted_every_few_seconds(server, url, machine):
    """Two dispatchers in loops, workers that report for themselves: what was acknowledged is done, once."""
    hosts = [machine("one"), machine("two")]
    for host in hosts:
        host.staff({"w": {"command": sh("echo ran >> $LEDGER_LOG.ran; exec ledger complete done")}}, max_running=4)
    board = hosts[0].board
    board.set_policy(launch_grace=1, cooldown=1, cooldown_cap=1)
    made = [hosts[0].create() for _ in range(12)]
    for host in hosts:
        host.loop()
    until(lambda: all(any(host.home.glob("boards/default/runs/*/*/log")) for host in hosts))
    for ending in ("fast", "immediate", "fast", "immediate"):
        time.sleep(1.2)
        server.restart(ending)
    with suppress(StoreFault):
        made.append(hosts[0].create())
    until(lambda: _done(board) == set(made))
    ran = Counter(
        path.parent.parent.name for host in hosts for path in host.home.glob("boards/default/runs/*/*/log.ran")
    )
    for card in made:
        told = [event for event in board.events(card) if event.kind == "completed"]
        assert len(told) == 1
        assert ran[card] == len([event for event in board.events(card) if event.kind == "worker_bound"])
    assert board.replay().divergences == ()


def test_clients_whose_backends_are_terminated_lose_nothing_that_was_acknowledged(server, url, machine):
    """Creates by keys from four threads while somebody ends every connection again and again."""
    homes = [machine(f"m{number}") for number in range(4)]
    told, over = [], threading.Event()

    def create(host, number):
        told.extend(host.board.create("a card", key=f"{number}-{turn}").task["id"] for turn in range(12))

    def cut():
        while not over.wait(0.05):
            with suppress(psycopg.Error):
                server.terminate()

    for host in homes:
        host.board.stats()
    cutter = threading.Thread(target=cut)
    clients = [threading.Thread(target=create, args=(host, number)) for number, host in enumerate(homes)]
    cutter.start()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    over.set()
    cutter.join()
    board = homes[0].board
    assert len(told) == len(set(told)) == 48
    assert {card["id"] for card in board.tasks(limit=None)["tasks"]} == set(told)
    assert board.replay().divergences == ()


def _done(board):
    try:
        return {card["id"] for card in board.tasks(status="done", limit=None)["tasks"]}
    except StoreFault:
        return set()


# Out of something


def test_a_server_without_a_connection_left_is_called_busy(tmp_path):
    """And once one comes free the same board goes on."""
    with servers.own(max_connections="8", superuser_reserved_connections="0", reserved_connections="0") as small:
        address = small.url("small")
        found(address, "default", FOUNDER, system_clock)
        with Board.open(address, environ={"LEDGER_HOME": str(tmp_path), "HOME": str(tmp_path)}) as board:
            board.engine.dispose()
            held = []
            with suppress(psycopg.OperationalError):
                while True:
                    held.append(psycopg.connect(address.replace("+psycopg", "")))
            with pytest.raises(StoreBusy, match="no connection left"):
                board.tasks()
            for each in held:
                each.close()
            until(lambda: board.create("a card").changed)


def test_a_statement_that_takes_too_long_is_called_busy_and_leaves_nothing(url, tmp_path, board):
    """`statement_timeout` of the operator's own choice; another writer holds the board."""
    slow = f"{url}&options=-cstatement_timeout%3D200"
    with Board.open(slow, environ={"LEDGER_HOME": str(tmp_path), "HOME": str(tmp_path)}) as hasty:
        with at_desk(board.engine, "default", board.clock), pytest.raises(StoreBusy):
            hasty.create("a card")
        assert hasty.tasks()["tasks"] == []
        hasty.create("a card")


def test_a_client_that_stands_still_in_the_middle_loses_the_board_to_the_others(url, board):
    """The server ends its transaction, nothing of it stays, and nobody has waited longer than for a busy board."""
    quick = f"{url}&options=-cidle_in_transaction_session_timeout%3D300"
    with psycopg.connect(quick.replace("+psycopg", "")) as stopped:
        stopped.execute("SELECT 1 FROM boards WHERE board = 'default' FOR UPDATE")
        assert board.create("a card").changed
        with pytest.raises(psycopg.Error):
            stopped.execute("SELECT 1")


def test_a_worker_cut_off_while_its_run_was_taken_is_told_so(board):
    """A lease that ran out while the server was away is no licence: the lock is looked at again."""
    card = board.create("a card").task["id"]
    claim = board.claim(card)
    board.stop(card)
    later = Board.open(board.url, environ=board.environ, clock=lambda: system_clock() + 7_200 * SECOND)
    later.sweep()
    with pytest.raises(LostClaim):
        board.complete(card, run=claim.run, lock=claim.lock)
    later.close()


def test_a_loop_says_that_the_server_is_away_and_goes_on(server, machine):
    """`sweep --every --json`: one object a tick, also of those that could not look."""
    host = machine("one")
    loop = subprocess.Popen(host._command("sweep", "--every", "1s", "--json"), **host._how(), stdout=subprocess.PIPE)
    try:
        assert '"claimed"' in loop.stdout.readline()
        server.stop("immediate")
        line = until(lambda: next((line for line in loop.stdout if "skipped" in line), None))
        server.start()
        until(lambda: '"claimed"' in loop.stdout.readline())
    finally:
        loop.terminate()
        loop.communicate()
    assert '"store unreachable"' in line
    assert loop.returncode == 143
