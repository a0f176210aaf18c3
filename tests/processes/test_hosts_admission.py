"""Many hosts that want the same cards at once: caps hold exactly, and a card has one claimer (RULES §7.6)."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from kanban import Board
from kanban.refusals import NothingToDo
from tests.fleets import sh
from tests.hosts import sharing

HOSTS = 16


@pytest.fixture
def machines(tmp_path):
    """Sixteen machines on one store, each with room for two runs."""
    with sharing(tmp_path) as make:
        made = [make(f"m{number}") for number in range(HOSTS)]
        work = {"command": sh("exec sleep 60")}
        for each in made:
            each.staff({"ann": work, "bob": work}, max_running=2)
        yield made


def at_once(machines):
    """A tick of each at the same moment; all that was claimed."""
    boards = [machine.board for machine in machines]
    start = Barrier(len(boards))

    def tick(board):
        start.wait()
        return board.sweep()

    with ThreadPoolExecutor(len(boards)) as pool:
        ticks = list(pool.map(tick, boards))
    assert [tick.errors for tick in ticks if tick.errors] == []
    return [claim["task"] for tick in ticks for claim in tick.claimed]


def live(board):
    """How many runs are open, of each worker."""
    return Counter(card["assignee"] for card in board.tasks(status="running", limit=None)["tasks"])


def test_caps_of_board_and_assignee_hold_exactly_under_sixteen_sweeps(machines):
    """Counted inside the board's lock: neither one too many, nor a slot that nobody took."""
    board = machines[0].board
    board.set_policy(max_running=5, max_running_per_assignee=3)
    for number in range(20):
        board.create("a card", assignee=("ann", "bob")[number % 2])
    claimed = at_once(machines)
    assert len(claimed) == len(set(claimed)) == 5
    assert sorted(live(board).values()) == [2, 3]
    assert at_once(machines) == []
    assert board.replay().divergences == ()


def test_hosts_take_cards_of_one_board_in_batches_and_none_twice(machines):
    """Each fills its own slots in one transaction."""
    board = machines[0].board
    made = {board.create("a card", assignee="ann").task["id"] for _ in range(HOSTS * 2 - 5)}
    claimed = at_once(machines)
    assert sorted(claimed) == sorted(made)
    assert {len(board.runs(card)["runs"]) for card in made} == {1}
    assert max(Counter(board.runs(card)["runs"][0]["host"] for card in made).values()) <= 2


def test_of_64_clients_that_want_the_next_of_50_cards_50_get_one(machines):
    """`claim --next`: no card twice, none left over, and the others are told that there is nothing to do."""
    board = machines[0].board
    made = {board.create("a card").task["id"] for _ in range(50)}
    clients = [Board.open(environ=machines[number % HOSTS].environ) for number in range(64)]
    start = Barrier(len(clients))

    def claim(client):
        start.wait()
        try:
            return client.claim().task
        except NothingToDo:
            return None
        finally:
            client.close()

    with ThreadPoolExecutor(len(clients)) as pool:
        told = Counter(pool.map(claim, clients))
    assert told.pop(None) == 14
    assert told == dict.fromkeys(made, 1)
