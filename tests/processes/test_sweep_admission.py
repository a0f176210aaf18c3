"""Which cards start, in which order, and why the others do not (RULES §7.6)."""

import pytest
from sqlalchemy import text

from kanban.snapshot import liftable
from ledger.database import writing
from projections.policy import SECOND
from projections.tables import held as held_table
from tests import fleets
from tests.fleets import sh, until

WORK = {"command": sh("exec sleep 300")}
DONE = {"command": sh("exit 0"), "on_success": "complete"}


def claimed(tick):
    """The cards that the tick claimed, in order."""
    return [each["task"] for each in tick.claimed]


def caps(fleet, card):
    """The caps that let the card's claim in: name → (live, limit)."""
    (event,) = fleet.events(card, "claimed")
    return {cap["cap"]: (cap["live"], cap["limit"]) for cap in event.facts["caps"]}


def stored(fleet):
    """The stored held reasons: card → (reason, since)."""
    with fleet.board.look() as desk:
        rows = desk.tx.execute(held_table.select()).mappings()
        return {row["task"]: (row["reason"], row["since"]) for row in rows}


def test_the_boards_cap_is_kept_and_written_into_the_claims(fleet):
    """§7.6, §2: caps are counted inside the claiming transaction, and each claim carries those that let it in."""
    fleet.staff({"w": WORK}, max_running=8)
    fleet.board.set_policy(max_running=2)
    cards = [fleet.create(str(n)) for n in range(4)]
    assert claimed(fleet.sweep()) == cards[:2]
    assert [caps(fleet, card) for card in cards[:2]] == [
        {"board": (0, 2), "host": (0, 8)},
        {"board": (1, 2), "host": (1, 8)},
    ]
    assert claimed(fleet.sweep()) == []
    assert fleet.board.why(cards[2])["because"]
    fleet.board.set_policy(max_running=3)
    assert claimed(fleet.sweep()) == [cards[2]]


def test_a_claim_by_hand_counts_for_the_board_and_the_assignee_and_not_for_the_host(fleet):
    """§8, §7.6: the host's cap is of spawned runs; the board's and the assignee's of all."""
    fleet.staff({"w": WORK}, max_running=1)
    by_hand, spawned = fleet.create("by hand"), fleet.create("spawned")
    fleet.board.claim(by_hand)
    assert claimed(fleet.sweep()) == [spawned]
    assert caps(fleet, spawned) == {"host": (0, 1)}


@pytest.mark.parametrize("source", ["configuration", "policy"])
def test_an_assignees_cap_holds_its_cards_alone(fleet, source):
    """§7.6: a skipped card takes no slot: `assignee_at_capacity`, and the next assignee's card starts."""
    fleet.staff({"a": WORK | ({"max_running": 1} if source == "configuration" else {}), "b": WORK}, max_running=8)
    if source == "policy":
        fleet.board.set_policy(max_running_per_assignee=1)
    first, second, other = fleet.create(assignee="a"), fleet.create(assignee="a"), fleet.create(assignee="b")
    tick = fleet.sweep()
    assert claimed(tick) == [first, other]
    assert tick.held == {"assignee_at_capacity": [second]}
    assert caps(fleet, first)["assignee"] == (0, 1)


def test_the_hosts_cap_counts_the_spawned_runs_of_all_boards(fleet):
    """§7.6: caps (… host: spawned runs over all boards)."""
    fleet.found("other")
    fleet.staff({"w": WORK}, max_running=3)
    for number in range(2):
        fleet.create(str(number))
    assert len(fleet.sweep().claimed) == 2
    other = fleet.another("other")
    cards = [other.create(str(n), assignee="w").task["id"] for n in range(3)]
    assert claimed(other.sweep()) == cards[:1]
    assert claimed(other.sweep()) == []
    fleet.create("no slot left", priority=9)
    assert claimed(fleet.sweep()) == []


def test_a_group_that_remains_on_another_board_counts_too(fleet):
    """§7.7: while its group has a live member, the run's group counts against the host's cap, on whichever board."""
    fleet.found("other")
    fleet.staff({"w": WORK}, max_running=1)
    card = fleet.create()
    fleet.sweep()
    fleet.board.complete(card, "done", lock=fleet.lock(card))
    assert fleet.members(card)
    other = fleet.another("other")
    waits = other.create("waits", assignee="w").task["id"]
    assert claimed(other.sweep()) == []
    fleet.clock.advance(11)
    fleet.sweep()
    until(lambda: not fleet.members(card))
    assert claimed(other.sweep()) == [waits]


def test_larger_priority_first_then_the_older_card(fleet):
    """§7.6: larger priority first, then older, then id; `most` bounds the claims of a tick."""
    fleet.staff({"w": WORK}, max_running=8)
    names = {"old": 0, "older than high": 1, "high": 5, "low": -1, "young": 0}
    cards = {fleet.create(name, priority=priority): name for name, priority in names.items()}
    order = [card for _ in names for card in claimed(fleet.sweep(most=1))]
    assert [cards[card] for card in order] == ["high", "older than high", "old", "young", "low"]


def test_every_reason_is_named_and_takes_no_slot(fleet):
    """§7.6: `no_assignee`, `unknown_assignee`, `waiting_for_person`, `cooldown_until`: held, machine-readable."""
    fleet.staff({"w": WORK, "dana": {"human": True}, "limited": {"command": sh("exit 75")}}, max_running=2)
    resting = fleet.create("resting", "limited")
    fleet.sweep()
    fleet.ended(resting)
    cards = {name: fleet.create(str(name), name, priority=9) for name in ("nobody-known", None, "dana")}
    plain = fleet.create()
    tick = fleet.sweep()
    assert claimed(tick) == [plain]
    assert tick.held == {
        "unknown_assignee": [cards["nobody-known"]],
        "no_assignee": [cards[None]],
        "waiting_for_person": [cards["dana"]],
        "cooldown_until": [resting],
    }
    assert {card: reason for card, (reason, _) in stored(fleet).items()} == {
        card: reason for reason, held in tick.held.items() for card in held
    }


@pytest.mark.parametrize("scope", ["board", "assignee", "host"])
def test_a_pause_holds_what_is_in_its_scope(fleet, scope):
    """§7.6: pause (board, assignee, host) comes before the caps; a resumed card starts."""
    fleet.staff({"w": WORK, "b": WORK}, max_running=8)
    card, other = fleet.create(), fleet.create(assignee="b")
    name = {"board": "", "assignee": "w", "host": fleet.board.host.id}[scope]
    fleet.board.pause(scope=scope, name=name)
    tick = fleet.sweep()
    assert tick.held == {"paused": [card] if scope == "assignee" else [card, other]}
    fleet.board.resume(scope=scope, name=name)
    assert card in claimed(fleet.sweep())
    assert stored(fleet) == {}


def test_unchanged_reasons_write_nothing(fleet):
    """§7.6: unchanged reasons write nothing; a reason that changes gets a `since` of its own."""
    fleet.staff({"dana": {"human": True}})
    card, nobody = fleet.create(assignee="dana"), fleet.create(assignee=None)
    position = fleet.sweep().position
    before = stored(fleet)
    wal = fleet.home / "ledger.db-wal"
    written = wal.stat().st_size, wal.read_bytes()
    fleet.clock.advance(3)
    assert fleet.sweep().position == position
    assert (wal.stat().st_size, wal.read_bytes()) == written
    fleet.clock.advance(60)
    assert fleet.sweep().position == position
    assert stored(fleet) == before
    fleet.board.assign(card, "who")
    fleet.sweep()
    assert stored(fleet)[nobody] == before[nobody]
    assert stored(fleet)[card][0] == "unknown_assignee"
    assert stored(fleet)[card][1] > before[card][1]


def corrupt(fleet, statement, **values):
    """Spoil a stored row as an outsider would."""
    fleet.spoilt = True
    with writing(fleet.board.engine) as tx:
        tx.execute(text(statement), values)


def test_a_run_that_cannot_be_read_is_reported_and_the_others_go_on(fleet):
    """§7: a fault on one card is reported and the others go on."""
    fleet.staff({"w": WORK, "ok": DONE}, max_running=8)
    broken, beside = fleet.create("broken"), fleet.create("beside", "ok")
    fleet.sweep()
    until(lambda: not fleet.members(beside))
    waits = fleet.create("waits", "ok")
    corrupt(fleet, "UPDATE runs SET stops = '[' WHERE task = :task", task=broken)
    told = fleet.board.sweep(dry_run=True)
    tick = fleet.board.sweep()
    for each in (told, tick):
        assert {error["task"] for error in each.errors} == {broken}
        assert [booked["task"] for booked in each.booked] == [beside]
        assert claimed(each) == [waits]
    assert "ledger" in tick.errors[0]["error"]


def test_a_run_that_cannot_be_read_keeps_its_slot(fleet):
    """§7.6: caps are counted from live runs, and one that cannot be read is live as far as anybody knows."""
    fleet.staff({"w": WORK}, max_running=8)
    fleet.board.set_policy(max_running=1)
    broken = fleet.create("broken")
    fleet.sweep()
    waits = fleet.create("waits")
    corrupt(fleet, "UPDATE runs SET stops = '[' WHERE task = :task", task=broken)
    assert claimed(fleet.board.sweep()) == []
    fleet.board.rebuild()
    fleet.board.set_policy(max_running=2)
    assert claimed(fleet.sweep()) == [waits]


def test_a_card_that_cannot_be_read_is_reported_and_the_others_go_on(fleet):
    """§7: a fault on one card is reported and the others go on."""
    fleet.staff({"w": WORK}, max_running=8)
    broken, waits = fleet.create("broken", priority=9), fleet.create("waits")
    corrupt(fleet, "UPDATE tasks SET labels = '[' WHERE task = :task", task=broken)
    told = fleet.board.sweep(dry_run=True)
    tick = fleet.board.sweep()
    for each in (told, tick):
        assert {error["task"] for error in each.errors} == {broken}
        assert claimed(each) == [waits]


def test_a_card_whose_folder_cannot_be_made_fails_alone(fleet):
    """§6, §7: whatever goes wrong at the start of one card is that card's: record 127, and the others start."""
    fleet.staff({"w": WORK}, max_running=8)
    bad, good = fleet.create("bad", priority=1, workspace="dir:/no/such/folder"), fleet.create("good")
    tick = fleet.sweep()
    assert {each["task"]: each["pid"] is not None for each in tick.claimed} == {bad: False, good: True}
    assert "/no/such/folder" in tick.notes[0]
    assert fleets.is_alive(fleet.supervisor(good))


def test_a_card_whose_past_cannot_be_read_fails_alone(fleet):
    """§7: a fault on one card, met when it is started, is booked as that card's, and the others start."""
    fleet.staff({"w": {"command": sh("exit 1")}, "works": WORK}, max_running=8)
    bad = fleet.create("bad")
    fleet.sweep()
    until(lambda: not fleet.members(bad))
    fleet.sweep(most=0)
    corrupt(fleet, "UPDATE runs SET quota = '[' WHERE task = :task", task=bad)
    good = fleet.create("good", "works")
    tick = fleet.sweep()
    assert {each["task"]: each["pid"] is not None for each in tick.claimed} == {bad: False, good: True}
    assert (fleet.folder(bad, 2) / "exit.json").exists()


def test_a_sweeper_that_found_nothing_to_do_sees_what_others_write_since(fleet):
    """§7: what a tick read is kept only until anybody writes: a card, a raise, a pause, by whatever process."""
    fleet.staff({"w": WORK}, max_running=2)
    assert (claimed(fleet.sweep()), claimed(fleet.sweep())) == ([], [])
    other = fleet.another()
    first = str(other.create("first", assignee="w").task["id"])
    assert claimed(fleet.sweep()) == [first]
    other.set_policy(max_running=1)
    second = str(other.create("second", assignee="w").task["id"])
    assert (claimed(fleet.sweep()), claimed(fleet.sweep())) == ([], [])
    assert fleet.sweep().live == 1
    other.set_policy(max_running=2)
    assert claimed(fleet.sweep()) == [second]
    assert fleet.sweep().live == 2


def test_the_time_of_the_next_card_moves_on_though_nothing_is_written(fleet):
    """§7: `next_at` is the next instant, not the last one that was read."""
    fleet.staff({"w": WORK}, max_running=1)
    fleet.clock.freeze()
    running, soon, late = fleet.create("running", priority=1), fleet.create("soon"), fleet.create("late")
    fleet.sweep()
    now = fleet.clock()
    for card, seconds in ((soon, 20), (late, 30)):
        fleet.board.schedule(card, now + seconds * SECOND)
    told = [fleet.sweep().next_at]
    for _ in range(3):
        fleet.clock.advance(9)
        told.append(fleet.sweep().next_at)
    fleet.clock.advance(9)
    told.append(fleet.sweep().next_at)
    assert told == [now + 20 * SECOND] * 3 + [now + 30 * SECOND, None]
    assert fleet.card(running)["status"] == "running"


def test_a_standing_hold_is_looked_at_again_only_once_something_changed(fleet):
    """§5: a hold that is not sticky lifts when policy or card were changed; until then it costs a tick nothing."""
    fleet.staff({"w": {"command": sh("exit 3")}})
    fleet.board.set_policy(failure_limit=1)
    card, other = fleet.create(), fleet.create("other")
    for each in (card, other):
        fleet.finish(each, "blocked")
    with fleet.board.look() as desk:
        assert liftable(desk.tx, "default") == []
    fleet.board.edit(card, max_retries=2)
    with fleet.board.look() as desk:
        assert [task.id for task in liftable(desk.tx, "default")] == [card]
    assert [each["task"] for each in fleet.sweep(most=0).lifted] == [card]
    fleet.board.set_policy(failure_limit=3)
    assert [each["task"] for each in fleet.sweep(most=0).lifted] == [other]
