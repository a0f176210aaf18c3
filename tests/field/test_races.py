"""Two at once: claims, creates, verbs and passes that were decided on what is no longer true (RULES §7–8)."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kanban import commands as c
from kanban.booking import decide_step
from kanban.commands import Block, Complete, Edit, Progress
from kanban.plan import AskStop, Book, Lift
from kanban.refusals import AlreadyDone, Closed, Conflict, LiveClaim, LostClaim, NotClaimable, NothingToDo, Taken
from ledger.database import writing
from ledger.errors import WrongExpectedVersion
from ledger.ids import task_id
from ledger.store import append
from tests import given
from tests.field.stories import ALIVE, die, go, hold, night
from tests.fleets import sh
from tests.rules.world import GONE, OBSERVER, ended


def at_once(boards, ask, times=1):
    """What *ask* answers on every board at once, *times* each; a refusal is an answer."""

    def tried(board):
        try:
            return ask(board)
        except (Taken, NothingToDo, NotClaimable, Conflict) as refusal:
            return refusal

    with ThreadPoolExecutor(len(boards)) as pool:
        return list(pool.map(tried, [board for board in boards for _ in range(times)]))


@pytest.fixture
def boards(fleet):
    """Eight callers on one board."""
    return [fleet.another() for _ in range(8)]


def test_one_card_has_one_claimer(fleet, boards):
    """B26: eight at once: one has it, and the other seven are told which run that is."""
    card = fleet.create(assignee=None)
    answers = at_once(boards, lambda board: board.claim(card))
    won = [answer for answer in answers if not isinstance(answer, Exception)]
    assert [each.run for each in won] == [1]
    assert [answer.run for answer in answers if isinstance(answer, Taken)] == [1] * 7
    assert fleet.kinds(card) == ["created", "claimed"]


def test_choosing_and_claiming_are_one_step(fleet, boards):
    """B26: eight ask for the next of five cards: five get one each, three get nothing, none gets another's."""
    cards = {fleet.create(assignee=None) for _ in range(5)}
    answers = at_once(boards, lambda board: board.claim())
    won = [answer for answer in answers if not isinstance(answer, Exception)]
    assert sorted(each.task for each in won) == sorted(cards)
    assert sum(isinstance(answer, NothingToDo) for answer in answers) == 3
    assert len({each.lock for each in won}) == 5


def test_a_sweep_and_a_hand_do_not_claim_one_card(fleet):
    """B26: dispatchers in other processes beside claims by hand: every card has one run."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    fleet.board.set_policy(max_running=50)
    cards = [fleet.create() for _ in range(6)]
    other = fleet.outside("print(len(board.sweep().claimed))")
    hands = [fleet.another() for _ in range(4)]
    at_once(hands, lambda board: board.claim())
    assert other.wait() == 0
    fleet.sweep(most=0)
    for card in cards:
        assert fleet.kinds(card).count("claimed") <= 1


def test_no_entry_exceeds_a_cap(fleet, boards):
    """B16: the cap is counted in the claim itself: by hand, by `--next`, by a sweep, and all at once."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}}, max_running=8)
    fleet.board.set_policy(max_running=3)
    cards = [fleet.create() for _ in range(12)]
    boards = [fleet.another() for _ in range(8)]
    answers = at_once(boards, lambda board: board.claim())
    assert sum(not isinstance(answer, Exception) for answer in answers) == 3
    assert fleet.sweep().claimed == []
    with pytest.raises(NotClaimable, match="at_capacity"):
        fleet.board.claim(cards[-1])
    assert fleet.board.stats()["live"] == 3


def test_a_lowered_cap_drains_and_never_locks_up(fleet):
    """B16: five live, a cap of two: nothing starts until one is left, then it does; a raised cap acts at once."""
    cards = [fleet.create(assignee=None) for _ in range(8)]
    granted = [fleet.board.claim() for _ in range(5)]
    fleet.board.set_policy(max_running=2)
    for each in granted[:3]:
        with pytest.raises((NotClaimable, NothingToDo)):
            fleet.board.claim()
        fleet.board.complete(each.task, lock=each.lock)
    with pytest.raises((NotClaimable, NothingToDo)):
        fleet.board.claim()
    fleet.board.complete(granted[3].task, lock=granted[3].lock)
    assert fleet.board.claim().task in cards
    fleet.board.set_policy(max_running=9)
    assert fleet.board.claim().task in cards


def test_caps_count_every_lane_and_no_card_that_is_skipped(world):
    """B16: a review takes a slot like any run; cards that cannot start reserve none; a worker's cap is its own."""
    world.policy(max_running=3, max_running_per_assignee=1)
    world.create("t_r", priority=5)
    go_review(world, "t_r")
    world.create("t_nobody", assignee=None, priority=9)
    for name in ("t_1", "t_2"):
        world.create(name)
    world.create("t_3", assignee="other")
    world.create("t_4", assignee="critic")
    admission = world.admit()
    assert [start.task.id for start in admission.starts] == ["t_r", "t_1", "t_3"]
    world.host_cap = 1
    assert len(world.admit().starts) == 1


def go_review(world, task):
    """The card asks for a review by critic."""
    claim = world.claim(task)
    world.do(c.AskReview(task, claim.proof, reviewer="critic"), given.WORKER, claim.own)


def test_a_host_has_a_cap_that_nobody_had_to_set(fleet):
    """B16: 2 to 8 by its memory; and the default policy's other limits are finite as well."""
    assert 2 <= fleet.board.sweeper.cap <= 8
    unset = {name for name, value in fleet.board.settings.policy._asdict().items() if value is None}
    assert unset == {"attempt_limit", "progress_timeout", "max_running", "max_running_per_assignee"}


@pytest.mark.parametrize("meanwhile", ["completed", "blocked", "exited", "next run"])
def test_a_pass_writes_no_old_decision_over_a_newer_fact(world, meanwhile):
    """B25: what was seen of run 1 says nothing once it has ended, or once run 2 is there."""
    world.create()
    claim = world.claim()
    run, lease = world.run("t_a", 1), world.leases["t_a", 1]
    stale = [Book(run, "crashed", GONE, lease), AskStop(run, "max_runtime", world.now, 1), Lift("t_a", "limit_raised")]
    match meanwhile:
        case "completed":
            world.do(Complete("t_a", claim=claim.proof), given.WORKER, claim.own)
        case "blocked":
            world.do(Block("t_a", "x", claim=claim.proof), given.WORKER, claim.own)
        case _:
            die(world, 3)
    if meanwhile == "next run":
        world.claim()
    before, status = world.head, world.status()
    for step in stale:
        world.write(decide_step(world, step, given.SWEEP, OBSERVER).drafts)
    assert (world.head, world.status()) == (before, status)


def test_the_first_end_of_a_run_wins(world):
    """B25: a later one, by the same worker or an older run's, changes nothing: not the outcome, not run 2."""
    world.create()
    old = world.claim()
    die(world, 3)
    new = world.claim()
    world.refuses(LostClaim, Block("t_a", "late", claim=old.proof), given.WORKER, old.own)
    world.refuses(LostClaim, c.AskReview("t_a", old.proof), given.WORKER, old.own)
    assert isinstance(world.do(Complete("t_a", "late", claim=old.proof), given.WORKER, old.own).refusal, LostClaim)
    assert (world.card().run, world.run("t_a", 1).outcome) == (2, "crashed")
    world.do(Complete("t_a", claim=new.proof), given.WORKER, new.own)
    assert world.status() == "done"


def test_an_append_on_an_old_version_is_refused(fleet):
    """B25: the store itself compares: a decision on version 1 does not land on version 2, and leaves no trace."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    fleet.board.complete(card, lock=granted.lock)
    draft = given.draft(given.exited(1, "lost"), task=card, actor=given.SWEEP)
    with pytest.raises(WrongExpectedVersion), writing(fleet.board.engine) as tx:
        append(tx, "default", [draft], expected=2, at=fleet.clock())
    assert fleet.card(card)["status"] == "done"


FROM_OUTSIDE = {
    "schedule": c.Schedule("t_a", given.NOW + 9 * given.SECOND),
    "block": Block("t_a", "stop that"),
    "complete": Complete("t_a", "I did it"),
    "assign": c.Assign("t_a", "other"),
    "archive": c.Archive("t_a"),
}


@pytest.mark.parametrize("verb", FROM_OUTSIDE)
def test_no_command_frees_a_card_from_under_its_worker(world, verb):
    """B27: refused without force, by name; with it the worker is asked to stop, and only its death applies the wish."""
    world.create()
    world.claim()
    assert "--force" in world.refuses(LiveClaim, FROM_OUTSIDE[verb]).remedy
    world.do(replace(FROM_OUTSIDE[verb], force=True))
    assert (world.kinds()[-1], world.status()) == ("stop_requested", "running")
    world.settle({("t_a", 1): ALIVE})
    assert world.admit().starts == ()
    assert die(world, 9) == "interrupted"
    assert world.status() == {"schedule": "scheduled", "block": "blocked", "complete": "done", "assign": "ready",
                              "archive": "archived"}[verb]  # fmt: skip
    assert world.log[-1].actor_name == "ada"


@pytest.mark.parametrize(
    "command",
    [Edit("t_a", {"lane": "triage"}), c.Reopen("t_a"), c.AddLink("t_a", "t_p"), c.AskChanges("t_a", "no"),
     c.Accept("t_a", 1)],
    ids=lambda command: type(command).__name__,
)  # fmt: skip
def test_what_has_no_force_is_refused_on_a_running_card(world, command):
    """B27: triage, reopen, link, changes, accept: none of them pulls a card from under its run."""
    world.create("t_p")
    world.create()
    world.claim()
    world.refuses(LiveClaim, command)


def test_a_run_speaks_for_itself_alone(world):
    """B27: what names run 1 does not reach run 2: beat, block, complete, progress with the old lock or number."""
    world.create()
    first = world.claim()
    die(world, 3)
    second = world.claim()
    mixed = c.Credential(second.lock, 1)
    for command in (Progress("t_a", first.proof), Block("t_a", "x", claim=first.proof)):
        world.refuses(LostClaim, command, given.WORKER, first.own)
    with pytest.raises(Exception, match="not the lock of run 1"):
        world.do(Block("t_a", "x", claim=mixed), given.WORKER, ("t_a", mixed))
    assert world.card().run == 2


def test_work_that_was_finished_too_late_is_kept_and_offered(world):
    """B28: the budget trips a moment before the completion: kept, named, accepted by a person, hold or no hold."""
    world.policy(failure_limit=1)
    world.create()
    claim = world.claim()
    die(world, 3)
    assert hold(world) == ("failure_budget", False)
    refusal = world.do(Complete("t_a", "all done", claim=claim.proof), given.WORKER, claim.own).refusal
    assert (refusal.kept, refusal.remedy) == (True, "ledger accept t_a 1")
    world.do(c.Accept("t_a", 1))
    assert (world.status(), world.last("completed").words["summary"]) == ("done", "all done")


def test_a_done_card_is_not_done_again(world):
    """B28: never claimed, by no tick and no hand, whatever is late; twice the same completion is no event."""
    world.create()
    claim = world.claim()
    done = Complete("t_a", "did it", claim=claim.proof)
    world.do(done, given.WORKER, claim.own)
    head = world.head
    assert world.do(done, given.WORKER, claim.own).drafts == ()
    assert night(world, 0, ticks=5) == 0
    with pytest.raises(NotClaimable):
        world.claim(by="hand")
    world.refuses(AlreadyDone, Complete("t_a", "otherwise"))
    world.refuses(Closed, Block("t_a", "wait"))
    world.settle({("t_a", 1): ended(3)})
    assert world.head == head


def test_a_late_run_does_not_undo_what_the_earlier_one_completed(world):
    """B28: run 1's late result while run 2 works: kept beside it; run 2's verdict is the card's."""
    world.create()
    old = world.claim()
    go_on = die(world, 75)
    assert go_on == "rate_limited"
    world.now = world.card().not_before
    new = world.claim()
    world.do(Complete("t_a", "late", claim=old.proof), given.WORKER, old.own)
    world.do(Complete("t_a", "the second", claim=new.proof), given.WORKER, new.own)
    assert world.completion("t_a").words["summary"] == "the second"
    world.refuses(AlreadyDone, c.Accept("t_a", 1))


def test_a_repeated_create_is_one_card(fleet, boards):
    """B51: thirty-two at once with one key: one card, thirty-two equal ids; another body is a conflict."""
    answers = at_once(boards, lambda board: board.create("same", key="K"), times=4)
    assert len({answer.task["id"] for answer in answers}) == 1
    assert sum(answer.replayed for answer in answers) == 31
    others = at_once(boards, lambda board: board.create("other", key="K"))
    assert {type(answer) for answer in others} == {Conflict}
    assert len(fleet.board.tasks()["tasks"]) == 1
    assert fleet.board.tasks()["tasks"][0]["key"] == "K"


def test_ids_need_no_coordination():
    """B51: two stores that never met, ten thousand cards each: no id twice."""
    assert len({task_id() for _ in range(20_000)}) == 20_000


def test_a_key_outlives_its_card(world):
    """B51: done or archived, the first answer stays the answer; a key is the board's, not a worker's."""
    world.do(c.Create("t_a", "x", key="k"))
    world.do(Complete("t_a"))
    world.do(c.Archive("t_a"))
    assert world.do(c.Create("t_b", "x", key="k")).replayed == "t_a"
    claim = (world.create("t_w"), world.claim("t_w"))[1]
    assert world.do(c.Create("t_c", "x", key="k"), given.WORKER, claim.own).replayed == "t_a"


def test_a_command_that_is_sent_again_is_one_event(fleet, boards):
    """B62: one command id, eight senders at once, and once more after others wrote: one event, the first answer."""
    card = fleet.create(assignee=None)
    say = c.Comment(card, "once")
    answers = at_once(boards, lambda board: board.do(say, command_id="cmd-1"))
    assert sum(answer.changed for answer in answers) == 1
    fleet.board.comment(card, "in between")
    again = fleet.board.do(say, command_id="cmd-1")
    assert (again.replayed, again.changed, again.task["id"]) == (True, False, card)
    assert fleet.kinds(card).count("commented") == 2


def test_a_create_that_is_sent_again_answers_the_first_card(fleet):
    """B62: the second try has drawn a new id, and still gets the first card; no other expected version matters."""
    first = fleet.board.create("x", command_id="cmd-1")
    fleet.board.comment(first.task["id"], "in between")
    again = fleet.board.create("x", command_id="cmd-1")
    assert (again.task["id"], again.replayed) == (first.task["id"], True)
    assert len(fleet.board.tasks()["tasks"]) == 1


def test_a_batch_is_whole_or_not_at_all(fleet):
    """B62: an append that is refused half way leaves nothing; repeated, it is whole, and repeated again, one."""
    one = fleet.create(blocked="wait")
    done = fleet.create()
    fleet.board.complete(done)
    position = fleet.board.stats()["position"]
    with pytest.raises(Closed):
        fleet.board.unblock_many([one, done])
    assert fleet.board.stats()["position"] == position
    assert [answer.changed for answer in fleet.board.unblock_many([one])] == [True]
    assert [answer.changed for answer in fleet.board.unblock_many([one])] == [False]


def test_an_old_worker_cannot_hold_what_a_person_took(world):
    """B25: a forced hand-over decided while run 1 lives, applied at its end; its late words change nothing."""
    world.create()
    claim = world.claim()
    world.do(c.Assign("t_a", "other", force=True))
    die(world, 143)
    assert (world.card().worker, go(world, 3)) == ("other", "crashed")
    world.refuses(LostClaim, Block("t_a", "mine", claim=claim.proof), given.WORKER, claim.own)
