"""Children that started too early, or never: parents, rings, and waits that explain themselves (RULES §3, §8)."""

import pytest

from kanban.address import address_of
from kanban.commands import AddLink, Archive, Block, Complete, Create, RemoveLink, Reopen, Unblock
from kanban.doctor import examine
from kanban.refusals import ChoiceNeeded, DeadParent, LiveClaim, NotClaimable, Ring, Unmet
from ledger.database import writing
from ledger.errors import UnknownTask
from ledger.recorded import Draft
from ledger.store import append
from projections.read_models import apply
from tests import given
from tests.field.stories import night
from tests.rules.world import WorldView


def started(world):
    """The cards that a tick would start."""
    return [start.task.id for start in world.admit().starts]


def forge(fleet, card, *events):
    """These stand in the log, although no rule allows them."""
    fleet.spoilt = True
    with writing(fleet.board.engine) as tx:
        known = max((event.version for event in fleet.events(card)), default=0)
        drafts = [Draft.of(card, event, given.OPERATOR) for event in events]
        apply(tx, "default", append(tx, "default", drafts, expected=known, at=fleet.clock()))


def examined(fleet):
    """What doctor says of waits."""
    at = address_of(None, None, actor=None, config=None, environ=fleet.environ, cwd=fleet.home)
    return [found for found in examine(at, clock=fleet.clock) if found.check == "waits"]


def test_archiving_a_done_parent_keeps_its_children_free(world):
    """B30: done with the outcome that is asked for satisfies, archived or not, before and after the link."""
    world.create("t_p")
    world.create(parents=["t_p"])
    world.do(Complete("t_p", "the key is under the mat"))
    world.do(Archive("t_p"))
    world.create("t_late", parents=["t_p"])
    assert started(world) == ["t_a", "t_late"]
    assert world.completion("t_p").words["summary"] == "the key is under the mat"


@pytest.mark.parametrize(
    ("choice", "status", "waits"), [("keep", "todo", True), ("unlink", "ready", False), ("cascade", "archived", True)]
)
def test_archiving_an_unfinished_parent_asks_what_becomes_of_its_children(world, choice, status, waits):
    """B30: no guess: refused without a choice, and each choice is in the log; no child runs because of an archive."""
    world.create("t_p")
    world.create(parents=["t_p"])
    world.refuses(ChoiceNeeded, Archive("t_p"))
    world.do(Archive("t_p", choice))
    assert (world.status(), bool(world.parents("t_a"))) == (status, waits)
    assert world.last("archived").facts["children"] == choice or choice == "cascade"
    assert started(world) == (["t_a"] if choice == "unlink" else [])


def test_every_command_has_the_same_gate(world):
    """B30: an undone archived parent is dead for claim, completion, create and link alike; reopening revives it."""
    world.create("t_p")
    world.create(parents=["t_p"])
    world.do(Archive("t_p", "keep"))
    with pytest.raises(NotClaimable):
        world.claim(by="hand")
    world.refuses(Unmet, Complete("t_a"))
    world.refuses(DeadParent, Create("t_b", "x", parents=(("t_p", "ok"),)))
    world.create("t_c")
    world.refuses(DeadParent, AddLink("t_c", "t_p"))
    world.do(Reopen("t_p"))
    world.do(Complete("t_p"))
    assert "t_a" in started(world)


def test_a_result_is_readable_after_the_parent_was_archived(fleet):
    """B30: the worker of the child is told the parent's summary still, and a dashboard finds it."""
    parent = fleet.create("the parent", assignee=None)
    child = fleet.create(parents=[parent], assignee=None)
    fleet.board.complete(parent, "the key is under the mat")
    fleet.board.archive(parent)
    assert fleet.board.show(child)["parents"][0]["status"] == "archived"
    completed = [event for event in fleet.board.show(parent)["events"] if event["kind"] == "completed"]
    assert completed[0]["words"]["summary"] == "the key is under the mat"
    assert fleet.board.claim(child).run == 1


def test_a_child_of_a_parked_parent_says_whom_it_waits_for(fleet, ledger):
    """B31: a review below the card that waits for it: `why`, claim, completion and doctor name the parent."""
    parent = fleet.create("work", assignee=None)
    granted = fleet.board.claim(parent)
    fleet.board.block(parent, "look at it", kind="review", lock=granted.lock)
    child = ledger.create("review it", "--parent", parent)
    why = ledger.json("why", child)
    assert why["waits_on"][0] == {
        "parent": parent, "require": "ok", "status": "blocked", "outcome": None, "hold": "worker", "dead": False,
        "position": why["waits_on"][0]["position"],
    }  # fmt: skip
    assert ledger("why", parent).out.count("review")
    for refused in (("claim", child), ("complete", child, "done")):
        said = ledger(*refused, "--json")
        assert (said.code, said.error["try"] is not None) == (4, True)
    assert parent in ledger("complete", child, "--json").error["message"]
    assert [(str(found.level), child in found.text) for found in examined(fleet)] == [("info", True)]


def test_nothing_but_the_parents_own_end_frees_the_child(world):
    """B31: no force, no unblock of the child, no hand-over: or the command is refused; never a lie."""
    world.create("t_p")
    world.do(Block("t_p", "for a person"))
    world.create(parents=["t_p"])
    assert world.do(Unblock("t_a")).drafts == ()
    world.refuses(Unmet, Complete("t_a", force=True))
    assert night(world, 0) == 0
    world.do(Unblock("t_p"))
    assert world.status() == "todo"
    world.do(RemoveLink("t_a", "t_p"))
    assert "t_a" in started(world)


def test_a_parent_that_ends_with_no_releases_nobody(world):
    """B33: done with fail keeps a child that asks for ok; done again with ok starts it."""
    world.create("t_g")
    world.create("t_c", parents=["t_g"])
    world.create("t_any", parents=[("t_g", "any")])
    world.do(Complete("t_g", outcome="fail"))
    assert world.status("t_c") == "todo"
    assert started(world) == ["t_any"]
    world.do(Reopen("t_g"))
    assert world.status("t_any") == "todo", "an open parent satisfies nobody"
    world.do(Complete("t_g", outcome="ok"))
    assert sorted(started(world)) == ["t_any", "t_c"]


def test_a_no_is_told_to_the_child(fleet):
    """B33: `why` says the verdict, that it will wait for ever, and what a person can do."""
    gate = fleet.create("gate", assignee=None)
    child = fleet.create(parents=[gate], assignee=None)
    fleet.board.complete(gate, "no", outcome="fail")
    why = fleet.board.why(child)
    assert why["because"][0]["text"] == f"waiting_for_ever: {gate} is done: fail, the link requires ok"
    assert f"ledger reopen {gate}" in why["try"]
    with pytest.raises(DeadParent):
        fleet.create(parents=[gate])
    assert [found.level for found in examined(fleet)] == ["warning"]


def test_a_worker_that_says_no_releases_nobody(world):
    """B33: the verdict of a run counts as an operator's does, also in the middle of a chain."""
    world.create("t_p")
    world.create("t_c", parents=["t_p"])
    world.create("t_d", parents=["t_c"])
    claim = world.claim("t_p")
    world.do(Complete("t_p", outcome="fail", claim=claim.proof), given.WORKER, claim.own)
    assert started(world) == []
    assert {world.status(task) for task in ("t_c", "t_d")} == {"todo"}


def test_a_parent_that_is_not_there_keeps_its_child(fleet):
    """B34: refused when it is asked for; found in a log it fails closed, by name, with a remedy that works."""
    with pytest.raises(UnknownTask):
        fleet.create(parents=["t_nowhere"])
    card = fleet.create(assignee=None)
    with pytest.raises(UnknownTask):
        fleet.board.link(card, "t_nowhere")
    forge(fleet, card, given.linked("t_nowhere"))
    assert fleet.card(card)["status"] == "todo"
    with pytest.raises(NotClaimable):
        fleet.board.claim(card)
    assert "waiting_for_ever: t_nowhere is unknown" in fleet.board.why(card)["because"][0]["text"]
    assert [found.level for found in examined(fleet)] == ["warning"]
    fleet.board.unlink(card, "t_nowhere")
    assert fleet.board.claim(card).run == 1


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_ring_is_refused_whole_however_long(length):
    """B34: in one step or in seven; the refusal prints all of it; a diamond is none."""
    world = WorldView()
    names = [f"t_{number}" for number in range(length)]
    for above, name in zip([None, *names], names, strict=False):
        world.create(name, parents=() if above is None else (above,))
    ring = world.refuses(Ring, AddLink(names[0], names[-1])).ring
    assert (ring[0], ring[-1], set(ring)) == (ring[-1], ring[0], set(names))
    world.create("t_x", parents=(names[0], names[-1]) if length > 1 else (names[0],))


def test_a_ring_that_is_in_the_log_hangs_nothing(fleet):
    """B34: fold, why, sweep, replay and doctor come to an end; doctor prints the ring; an unlink ends it."""
    one = fleet.create("one", assignee=None)
    two = fleet.create("two", parents=[one], assignee=None)
    forge(fleet, one, given.linked(two))
    fleet.sweep()
    assert {fleet.card(card)["status"] for card in (one, two)} == {"todo"}
    assert fleet.board.why(one)["waits_on"][0]["parent"] == two
    assert {each.rule for each in fleet.board.replay().divergences}
    (found,) = examined(fleet)
    assert "wait for each other" in found.text
    fleet.board.unlink(one, two)
    assert fleet.card(one)["status"] == "ready"


def test_the_last_unlinked_parent_frees_the_child_in_the_same_tick(world):
    """B34: two parents, one done, the other unlinked: it starts now; the parents' own holds do not matter."""
    world.create("t_p")
    world.create("t_q")
    world.do(Block("t_q", "wait"))
    world.create(parents=["t_p", "t_q"])
    world.do(Complete("t_p"))
    world.do(RemoveLink("t_a", "t_q"))
    assert started(world) == ["t_a"]


def test_unblocking_a_parent_touches_nobody_else(world):
    """B34: edges stay, the child waits on; only the parent's stream grows."""
    world.create("t_p")
    world.do(Block("t_p", "wait"))
    world.create(parents=["t_p"])
    before = world.card()
    world.do(Unblock("t_p"))
    assert (world.card(), world.status(), len(world.parents("t_a"))) == (before, "todo", 1)
    assert started(world) == ["t_p"]


def test_a_link_into_a_running_card_is_refused(world):
    """B35: no event, both names; and a card that is done, archived or linked already is told so too."""
    world.create("t_p")
    world.create()
    world.claim()
    refusal = world.refuses(LiveClaim, AddLink("t_a", "t_p"))
    assert "t_a" in refusal.message
    assert refusal.run == 1
    assert world.parents("t_a") == ()


def test_a_run_may_link_its_own_card_and_wait(world):
    """B35: the worker links, blocks for the dependency, and the card is `todo` until the parent is done."""
    world.create("t_p")
    world.create()
    claim = world.claim()
    world.do(AddLink("t_a", "t_p", claim=claim.proof), given.WORKER, claim.own)
    world.do(Block("t_a", "needs t_p", kind="dependency", claim=claim.proof), given.WORKER, claim.own)
    assert world.status() == "todo"
    assert started(world) == ["t_p"]
    world.do(Complete("t_p"))
    assert started(world) == ["t_a"]


def test_a_refused_completion_names_the_parents_and_loses_nothing(world):
    """B35: a worker that completes under an open parent is told which; its result is kept and can be accepted."""
    world.create("t_p")
    world.create("t_q")
    world.create()
    claim = world.claim()
    for parent in ("t_p", "t_q"):
        world.do(AddLink("t_a", parent, claim=claim.proof), given.WORKER, claim.own)
    decision = world.do(Complete("t_a", "done", claim=claim.proof), given.WORKER, claim.own)
    assert isinstance(decision.refusal, Unmet)
    assert decision.refusal.parents == ("t_p", "t_q")
    assert "ledger accept t_a 1" in decision.refusal.remedy
    assert (world.status(), world.last("late_result").words["summary"]) == ("todo", "done")
