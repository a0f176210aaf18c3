"""RULES §8: what an operator's commands come to, row by row, and what they are refused as."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kanban.commands import (
    Accept,
    AddLink,
    Archive,
    AskChanges,
    AskReview,
    Assign,
    Block,
    Comment,
    Complete,
    Create,
    Edit,
    Pause,
    RemoveLink,
    Reopen,
    Resume,
    Schedule,
    SetPolicy,
    Unblock,
)
from kanban.operators import decide_as_operator
from kanban.refusals import (
    AlreadyDone,
    Closed,
    Conflict,
    DeadParent,
    Forbidden,
    LiveClaim,
    LostClaim,
    NoLateResult,
    NotDone,
    NotInReview,
    Ring,
    Unmet,
)
from ledger.errors import InvalidInput, UnknownRun, UnknownTask
from tests import given
from tests.rules.world import NOW, SECOND, WorldView

LATER = NOW + 86_400 * SECOND


def board(*cards, **limits):
    """A board with these cards of builder's; t_a if none is named."""
    world = WorldView(**limits)
    for card in cards or ("t_a",):
        world.create(card)
    return world


def told(world, command):
    """The kinds that *command* appends."""
    since = world.head
    world.do(command)
    return world.kinds(since)


def reviewing():
    """A board whose card t_a has status review."""
    world = board()
    claim = world.claim()
    world.do(AskReview("t_a", claim.proof, reviewer="critic"))
    return world


# Every command


COMMANDS = [
    Accept("t_x", 1), AddLink("t_x", "t_a"), Archive("t_x"), AskChanges("t_x", "r"), Assign("t_x", "other"),
    Block("t_x", "r"), Comment("t_x", "r"), Complete("t_x"), Edit("t_x", {"priority": 1}), RemoveLink("t_x", "t_a"),
    Reopen("t_x"), Schedule("t_x", LATER), Unblock("t_x"),
]  # fmt: skip


def name(command):
    """The command's verb."""
    return type(command).__name__.lower()


@pytest.mark.parametrize("command", COMMANDS, ids=name)
def test_a_card_that_is_not_there_is_unknown(command):
    """RULES §8: load → decide: a card that is not there has no rule."""
    board().refuses(UnknownTask, command)


@pytest.mark.parametrize(
    "command",
    [Assign("t_a", "other"), Block("t_a", "r"), Comment("t_a", "r"), Complete("t_a"), Edit("t_a", {"priority": 1}),
     Archive("t_a"), Schedule("t_a", LATER)],
    ids=name,
)  # fmt: skip
def test_every_act_has_its_actor(command):
    """RULES §8: every change has an actor."""
    world = board()
    world.do(command)
    assert (world.log[-1].actor_kind, world.log[-1].actor_name) == ("operator", "ada")


# Done and archived cards


@pytest.mark.parametrize("end", [Complete("t_a"), Archive("t_a")], ids=["done", "archived"])
@pytest.mark.parametrize(
    "command",
    [AddLink("t_a", "t_p"), AskChanges("t_a", "r"), Assign("t_a", "other"), Block("t_a", "r"), Schedule("t_a", LATER),
     Unblock("t_a"), Edit("t_a", {"lane": "triage"}), RemoveLink("t_a", "t_q")],
    ids=name,
)  # fmt: skip
def test_a_closed_card_is_left_alone(command, end):
    """RULES §8: an operator's act on a done or archived card: `Closed` (says reopen)."""
    world = board("t_a", "t_p", "t_q")
    world.do(AddLink("t_a", "t_q"))
    world.do(Complete("t_q"))
    world.do(end)
    assert "reopen" in world.refuses(Closed, command).remedy


@pytest.mark.parametrize("end", [Complete("t_a"), Archive("t_a")], ids=["done", "archived"])
@pytest.mark.parametrize(
    ("command", "kind"),
    [(Comment("t_a", "r"), "commented"), (Edit("t_a", {"title": "New", "priority": 4}), "edited"),
     (Reopen("t_a"), "reopened")],
)  # fmt: skip
def test_but_some_acts_are_for_closed_cards_too(command, kind, end):
    """RULES §8: but reopen, archive, comment, redact, `edit` without lane."""
    world = board()
    world.do(end)
    assert told(world, command) == [kind]


def test_an_archived_card_can_be_completed():
    """RULES §8: and what the rows of complete and accept say; RULES §3: satisfied when done, archived or not."""
    world = board()
    world.do(Archive("t_a"))
    assert told(world, Complete("t_a")) == ["completed"]
    assert world.status() == "archived"


# What is true already

TRUE_ALREADY = {
    "assign": (None, Assign("t_a", "builder")),
    "assign to nobody": (Assign("t_a", None), Assign("t_a", None)),
    "link": (AddLink("t_a", "t_p"), AddLink("t_a", "t_p")),
    "unlink": (None, RemoveLink("t_a", "t_p")),
    "schedule": (Schedule("t_a", LATER, "r"), Schedule("t_a", LATER, "r")),
    "archive": (Archive("t_a"), Archive("t_a")),
    "complete": (Complete("t_a", "s"), Complete("t_a", "s")),
    "block": (Block("t_a", "r", "k"), Block("t_a", "r", "k")),
    "unblock": (None, Unblock("t_a")),
    "edit": (Edit("t_a", {"priority": 3, "title": "B"}), Edit("t_a", {"priority": 3, "title": "B"})),
    "edit labels": (Edit("t_a", {"labels": ["x"]}), Edit("t_a", {"labels": ["x"]})),
    "edit lane": (None, Edit("t_a", {"lane": "work"})),
    "edit nothing": (None, Edit("t_a", {})),
    "pause": (Pause(), Pause()),
    "resume": (None, Resume()),
    "policy": (None, SetPolicy({"failure_limit": 2})),
}


@pytest.mark.parametrize("case", TRUE_ALREADY)
def test_a_wish_that_is_true_already_is_no_event(case):
    """RULES §8: a wish that is exactly true already: no event, exit 0, `"changed": false`."""
    world = board("t_a", "t_p")
    before, command = TRUE_ALREADY[case]
    if before is not None:
        assert told(world, before)
    assert told(world, command) == []


# create


def test_a_card_says_all_that_it_is_made_with():
    """RULES §2: `created`: everything needed to rebuild it is here."""
    world = board("t_p")
    world.do(
        Create("t_a", "T", "B", "ann", 3, (("t_p", "any"),), ("x",), "acme", 4, 60, "dir:/w", 5, "triage", "h", "k")
    )
    event = world.log[-1]
    assert event.facts == {
        "assignee": "ann", "priority": 3, "parents": [{"task": "t_p", "require": "any"}], "labels": ["x"],
        "tenant": "acme", "max_retries": 4, "max_runtime": 60, "workspace": "dir:/w", "goal": {"max_turns": 5},
        "lane": "triage", "host": "h", "key": "k", "made_by": None,
    }  # fmt: skip
    assert event.words == {"title": "T", "body": "B"}


@pytest.mark.parametrize(("asked", "turns"), [(None, None), (5, 5), (0, 20), (-1, 20)])
def test_a_goal_has_its_own_number_of_turns_or_twenty(asked, turns):
    """RULES §2: `created`, goal: none, or the most turns of a run."""
    world = board()
    world.do(Create("t_g", "T", goal_max_turns=asked))
    assert world.log[-1].facts["goal"] == (None if turns is None else {"max_turns": turns})


@pytest.mark.parametrize("title", ["", "   "])
def test_a_title_must_say_something(title):
    """CLI: `create TITLE`."""
    WorldView().refuses(InvalidInput, Create("t_a", title))


def test_a_card_can_be_born_blocked():
    """CLI: `create --blocked REASON`; RULES §4: `blocked` by operator, no run: set, sticky."""
    world = WorldView()
    assert told(world, Create("t_a", "T", blocked="wait")) == ["created", "blocked"]
    hold = world.card().hold
    assert (hold.cause, hold.sticky, world.log[-1].words["reason"]) == ("operator", True, "wait")


def test_a_parent_that_is_not_there_is_unknown():
    """RULES §3: a parent that is unknown is dead."""
    WorldView().refuses(UnknownTask, Create("t_a", "T", parents=(("t_x", "ok"),)))


DEAD = {
    "failed": (Complete("t_p", outcome="fail"), "ok"),
    "archived undone": (Archive("t_p"), "ok"),
    "archived undone, any": (Archive("t_p"), "any"),
}


@pytest.mark.parametrize("case", DEAD)
def test_a_card_under_a_dead_parent_is_refused(case):
    """RULES §3: create or link under a dead parent are refused; it names the remedies (reopen, link with `any`)."""
    end, require = DEAD[case]
    world = board("t_p", "t_c")
    world.do(end)
    created = world.refuses(DeadParent, Create("t_a", "T", parents=(("t_p", require),)))
    assert (created.parent, "reopen t_p" in created.remedy, "any" in created.remedy) == ("t_p", True, True)
    assert world.refuses(DeadParent, AddLink("t_c", "t_p", require)).parent == "t_p"


@pytest.mark.parametrize(
    ("end", "require"),
    [(None, "ok"), (None, "any"), (Complete("t_p"), "ok"), (Complete("t_p"), "any"),
     (Complete("t_p", outcome="fail"), "any")],
)  # fmt: skip
def test_a_card_under_a_parent_that_lives_or_satisfies_is_not(end, require):
    """RULES §3: dead: done with the wrong outcome, archived undone, or unknown."""
    world = board("t_p", "t_c")
    if end is not None:
        world.do(end)
    assert told(world, Create("t_a", "T", parents=(("t_p", require),))) == ["created"]
    assert told(world, AddLink("t_c", "t_p", require)) == ["linked"]


def test_a_done_parent_that_is_archived_still_satisfies():
    """RULES §3: satisfied when done with the outcome that the link requires, archived or not."""
    world = board("t_p", "t_c")
    world.do(Complete("t_p"))
    world.do(Archive("t_p"))
    world.do(AddLink("t_c", "t_p"))
    assert world.status("t_c") == "ready"


# create with an idempotency key


def test_the_same_request_with_a_key_gives_the_first_answer():
    """RULES §8: same key and same request (first answer, `replayed`)."""
    world = WorldView()
    world.do(Create("t_a", "T", key="k"))
    decision = world.do(Create("t_b", "T", key="k"))
    assert (decision.replayed, decision.drafts) == ("t_a", ())


@pytest.mark.parametrize(
    "other",
    [{"title": "Else"}, {"body": "B"}, {"assignee": "ann"}, {"priority": 1}, {"labels": ("x",)}, {"max_retries": 2},
     {"lane": "triage"}, {"parents": (("t_p", "ok"),)}],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_another_request_with_the_same_key_is_a_conflict(other):
    """RULES §8: else `Conflict`."""
    world = board("t_p")
    world.do(Create("t_a", "T", key="k"))
    refusal = world.refuses(Conflict, Create("t_b", **({"title": "T", "key": "k"} | other)))
    assert (refusal.key, "t_a" in str(refusal)) == ("k", True)


@pytest.mark.parametrize("end", [[Archive("t_a")], [Complete("t_a")], [Complete("t_a"), Archive("t_a")]],
                         ids=["archived", "done", "done and archived"])  # fmt: skip
def test_a_closed_card_keeps_its_key(end):
    """RULES §8: archived cards keep their key."""
    world = WorldView()
    world.do(Create("t_a", "T", key="k"))
    for command in end:
        world.do(command)
    assert world.do(Create("t_b", "T", key="k")).replayed == "t_a"
    world.refuses(Conflict, Create("t_b", "Else", key="k"))


def test_an_edit_does_not_change_what_was_asked_at_first():
    """RULES §8: same key and same *request*."""
    world = WorldView()
    world.do(Create("t_a", "T", key="k"))
    world.do(Edit("t_a", {"title": "Else"}))
    assert world.do(Create("t_b", "T", key="k")).replayed == "t_a"


def test_a_redacted_request_equals_nothing():
    """RULES §2: redacted words equal nothing."""
    world = WorldView()
    world.do(Create("t_a", "T", key="k"))
    world.redact(world.head)
    world.refuses(Conflict, Create("t_b", "T", key="k"))


def test_a_key_answers_also_when_a_parent_has_died_meanwhile():
    """RULES §8: same key and same request: the first answer."""
    world = board("t_p")
    world.do(Create("t_a", "T", parents=(("t_p", "ok"),), key="k"))
    world.do(Archive("t_p", "keep"))
    assert world.do(Create("t_b", "T", parents=(("t_p", "ok"),), key="k")).replayed == "t_a"


def test_a_card_that_was_to_be_born_blocked_is_no_answer_for_one_that_was_not():
    """RULES §8: same key and same *request*: `--blocked` is a part of it."""
    world = WorldView()
    world.do(Create("t_a", "T", key="k"))
    world.refuses(Conflict, Create("t_b", "T", key="k", blocked="wait"))


def test_a_card_that_was_born_blocked_answers_the_same_request():
    """RULES §8: same key and same request."""
    world = WorldView()
    world.do(Create("t_a", "T", key="k", blocked="wait"))
    assert world.do(Create("t_b", "T", key="k", blocked="wait")).replayed == "t_a"
    world.refuses(Conflict, Create("t_b", "T", key="k", blocked="for something else"))


def test_cards_without_a_key_are_never_the_same():
    """RULES §8: create with an idempotency key."""
    world = WorldView()
    world.do(Create("t_a", "T"))
    assert told(world, Create("t_b", "T")) == ["created"]


# edit and triage


@pytest.mark.parametrize(
    ("field", "value"),
    [("title", "New"), ("body", "New"), ("priority", 7), ("labels", ["x"]), ("tenant", "acme"), ("max_retries", 5),
     ("max_runtime", 60), ("workspace", "dir:/w"), ("goal", {"max_turns": 2}), ("lane", "triage")],
)  # fmt: skip
def test_an_edit_names_the_field_and_its_new_value(field, value):
    """RULES §2: `edited`: field → new value."""
    world = board()
    assert told(world, Edit("t_a", {field: value})) == ["edited"]
    event = world.log[-1]
    assert event.facts["fields"] == [field]
    assert (event.words if field in {"title", "body"} else event.facts["values"])[field] == value


def test_an_edit_names_only_what_changes():
    """RULES §8: a wish that is exactly true already."""
    world = board()
    world.do(Edit("t_a", {"title": "A card", "priority": 2}))
    assert world.log[-1].facts["fields"] == ["priority"]


def test_a_title_that_was_redacted_equals_nothing():
    """RULES §2: redacted words equal nothing."""
    world = board()
    world.redact(world.head)
    assert told(world, Edit("t_a", {"title": "A card"})) == ["edited"]


@pytest.mark.parametrize("field", ["host", "key", "assignee", "made_by", "nonsense"])
def test_other_fields_cannot_be_edited(field):
    """RULES §2: `edited`: title, body, priority, labels, tenant, max_retries, max_runtime, workspace, goal, lane."""
    board().refuses(InvalidInput, Edit("t_a", {field: "x"}))


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("field", ["max_retries", "max_runtime"])
def test_a_limit_below_one_is_refused(field, value):
    """RULES §2: limits ≥ 1."""
    board().refuses(InvalidInput, Edit("t_a", {field: value}))


@pytest.mark.parametrize("field", ["max_retries", "max_runtime"])
def test_a_card_is_not_born_with_a_limit_below_one(field):
    """RULES §2: limits ≥ 1."""
    WorldView().refuses(InvalidInput, Create("t_a", "T", **{field: 0}))


@pytest.mark.parametrize("lane", ["review", "nonsense", None])
def test_no_edit_leads_into_another_lane(lane):
    """RULES §2: lane (triage ↔ work)."""
    board().refuses(InvalidInput, Edit("t_a", {"lane": lane}))


def test_a_running_card_keeps_its_lane():
    """RULES §2: lane (triage ↔ work, no run open)."""
    world = board()
    world.claim()
    world.refuses(LiveClaim, Edit("t_a", {"lane": "triage"}))


@pytest.mark.parametrize("changes", [{"priority": 3}, {"title": "New"}, {"max_runtime": 60}, {"lane": "work"}])
def test_a_running_card_can_be_edited_otherwise(changes):
    """RULES §2: no run open: for lane only."""
    world = board()
    world.claim()
    assert told(world, Edit("t_a", changes)) == ([] if "lane" in changes else ["edited"])


@pytest.mark.parametrize("lane", ["work", "triage"])
def test_a_card_in_review_leaves_it_by_changes_only(lane):
    """RULES §2: lane (triage ↔ work)."""
    world = reviewing()
    assert "changes" in world.refuses(Forbidden, Edit("t_a", {"lane": lane})).remedy


def test_a_card_leaves_triage_by_an_edit():
    """RULES §3: triage: lane is triage."""
    world = WorldView()
    world.create(lane="triage")
    assert world.status() == "triage"
    world.do(Edit("t_a", {"lane": "work"}))
    assert world.status() == "ready"


def test_a_card_in_triage_is_not_in_review():
    """RULES §8: changes: status `review`."""
    world = WorldView()
    world.create(lane="triage")
    world.refuses(NotInReview, AskChanges("t_a", "r"))


# assign


def test_a_card_goes_to_somebody_else():
    """RULES §2: `assigned`: assignee or reviewer, previous."""
    world = board()
    assert told(world, Assign("t_a", "other")) == ["assigned"]
    assert world.log[-1].facts == {"role": "assignee", "to": "other", "previous": "builder"}


def test_a_card_goes_to_nobody():
    """RULES §2: or none."""
    world = board()
    world.do(Assign("t_a", None))
    assert (world.card().worker, world.card().card.last_assignee) == (None, "builder")


def test_in_review_the_reviewer_is_assigned():
    """RULES §2: in lane review it changes the reviewer."""
    world = reviewing()
    world.do(Assign("t_a", "eve"))
    card = world.card().card
    assert (card.assignee, card.reviewer) == ("builder", "eve")


def test_a_role_that_is_named_is_the_one_that_is_meant():
    """RULES §2: assignee or reviewer."""
    world = reviewing()
    world.do(Assign("t_a", "other", role="assignee"))
    card = world.card().card
    assert (card.assignee, card.reviewer) == ("other", "critic")


# link and unlink


def test_a_link_makes_the_child_wait():
    """RULES §2: `linked`: parent, required outcome, in the child's stream."""
    world = board("t_a", "t_p")
    assert told(world, AddLink("t_a", "t_p", "any")) == ["linked"]
    assert (world.log[-1].task, world.log[-1].facts) == ("t_a", {"parent": "t_p", "require": "any"})
    assert world.status() == "todo"


def test_linking_again_changes_the_requirement():
    """RULES §3: remedies: link with `any`."""
    world = board("t_a", "t_p")
    world.do(AddLink("t_a", "t_p"))
    world.do(Complete("t_p", outcome="fail"))
    assert told(world, AddLink("t_a", "t_p", "any")) == ["linked"]
    assert world.status() == "ready"


def test_no_card_waits_for_itself():
    """RULES §3: a link that makes a ring is refused (the ring is printed whole)."""
    assert board().refuses(Ring, AddLink("t_a", "t_a")).ring == ("t_a", "t_a")


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_ring_is_refused_and_printed_whole(length):
    """RULES §3: the ring is printed whole."""
    cards = [f"t_{number}" for number in range(length)]
    world = board(*cards)
    for child, parent in pairwise(cards):
        world.do(AddLink(child, parent))
    refusal = world.refuses(Ring, AddLink(cards[-1], cards[0]))
    assert set(refusal.ring) == set(cards)
    assert refusal.ring[0] == refusal.ring[-1]
    assert " → ".join(refusal.ring) in str(refusal)


def test_a_diamond_is_no_ring():
    """RULES §3: a link that makes a ring."""
    world = board("t_a", "t_b", "t_c", "t_d")
    for child, parent in [("t_b", "t_a"), ("t_c", "t_a"), ("t_d", "t_b"), ("t_d", "t_c"), ("t_d", "t_a")]:
        assert told(world, AddLink(child, parent)) == ["linked"]


def test_a_running_card_is_linked_by_its_run_only():
    """RULES §8: link into a running card: by the run itself, else `LiveClaim`."""
    world = board("t_a", "t_p")
    world.claim()
    world.refuses(LiveClaim, AddLink("t_a", "t_p"))


def test_a_running_parent_can_be_waited_for():
    """RULES §8: link *into* a running card."""
    world = board("t_a", "t_p")
    world.claim("t_p")
    assert told(world, AddLink("t_a", "t_p")) == ["linked"]


def test_an_unlinked_child_waits_no_longer():
    """RULES §2: `unlinked`: parent, required outcome."""
    world = board("t_a", "t_p")
    world.do(AddLink("t_a", "t_p", "any"))
    assert told(world, RemoveLink("t_a", "t_p")) == ["unlinked"]
    assert (world.log[-1].facts, world.status()) == ({"parent": "t_p", "require": "any"}, "ready")


def test_a_requirement_that_nobody_knows_is_refused():
    """RULES §2: required outcome (`ok` or `any`)."""
    world = board("t_p")
    world.refuses(InvalidInput, Create("t_a", "T", parents=(("t_p", "maybe"),)))


# comment, schedule


@pytest.mark.parametrize("body", ["", " "])
def test_a_comment_must_say_something(body):
    """CLI: `comment ID TEXT`."""
    board().refuses(InvalidInput, Comment("t_a", body))


@pytest.mark.parametrize("before", [None, Block("t_a", "r"), Edit("t_a", {"lane": "triage"})])
def test_a_card_is_parked_until_a_time(before):
    """RULES §2: `scheduled`: not before, reason."""
    world = board()
    if before is not None:
        world.do(before)
    assert told(world, Schedule("t_a", LATER, "fair")) == ["scheduled"]
    assert (world.card().scheduled, world.log[-1].words) == (LATER, {"reason": "fair"})


def test_a_card_is_parked_until_another_time():
    """RULES §2: `scheduled`."""
    world = board()
    world.do(Schedule("t_a", LATER))
    assert told(world, Schedule("t_a", LATER + 1)) == ["scheduled"]


# block and unblock


def test_an_operators_block_is_sticky():
    """RULES §4: `blocked` by operator, no run: set, sticky."""
    world = board()
    assert told(world, Block("t_a", "wait", "money")) == ["blocked"]
    hold = world.card().hold
    assert (hold.cause, hold.kind, hold.sticky, world.log[-1].run) == ("operator", "money", True, None)


@pytest.mark.parametrize("other", [Block("t_a", "else"), Block("t_a", "wait", "money")])
def test_another_block_replaces_the_hold(other):
    """RULES §4: an operator's `blocked` replaces any hold; RULES §8: no event only if the same kind and reason."""
    world = board()
    world.do(Block("t_a", "wait"))
    assert told(world, other) == ["blocked"]
    assert world.card().hold.position == world.head


def test_a_block_replaces_a_budgets_hold():
    """RULES §8: no event only if a *sticky* hold is in force."""
    world = board(failure_limit=1)
    world.attempt()
    reason = world.log[-1].words["reason"]
    assert told(world, Block("t_a", reason)) == ["blocked"]
    assert world.card().hold.sticky


def test_a_block_whose_reason_was_redacted_equals_nothing():
    """RULES §2: redacted words equal nothing."""
    world = board()
    world.do(Block("t_a", "wait"))
    world.redact(world.head)
    assert told(world, Block("t_a", "wait")) == ["blocked"]


def test_a_block_that_a_worker_said_stands_for_an_operators():
    """RULES §8: if a sticky hold of the same kind and reason is in force."""
    world = board()
    claim = world.claim()
    world.do(Block("t_a", "no key", "needs_input", claim=claim.proof))
    assert told(world, Block("t_a", "no key", "needs_input")) == []


@pytest.mark.parametrize("reason", ["", " "])
def test_a_blocks_reason_must_say_something(reason):
    """CLI: `block ID REASON`."""
    board().refuses(InvalidInput, Block("t_a", reason))


def test_unblocking_lifts_the_hold():
    """RULES §2: `unblocked`: cause operator, reason."""
    world = board()
    world.do(Block("t_a", "wait"))
    assert told(world, Unblock("t_a", "go")) == ["unblocked"]
    assert (world.log[-1].facts, world.log[-1].words) == ({"cause": "operator"}, {"reason": "go"})
    assert world.status() == "ready"


def test_unblocking_clears_a_cooldown():
    """RULES §8: unblock: a hold or a cooldown exists; RULES §4: not before cleared."""
    world = board()
    world.attempt(outcome="rate_limited")
    assert told(world, Unblock("t_a")) == ["unblocked"]
    assert world.card().not_before is None


def test_a_cooldown_that_is_over_is_nothing_to_unblock():
    """RULES §8: unblock: a hold or a cooldown exists."""
    world = board()
    world.attempt(outcome="rate_limited")
    world.now = world.card().not_before
    assert told(world, Unblock("t_a")) == []


def test_a_schedule_is_nothing_to_unblock():
    """RULES §8: unblock: a hold or a cooldown exists."""
    world = board()
    world.do(Schedule("t_a", LATER))
    assert told(world, Unblock("t_a")) == []


# changes


def test_changes_send_a_card_in_review_back():
    """RULES §8: changes (operator): status `review`: back to the implementer."""
    world = reviewing()
    assert told(world, AskChanges("t_a", "not yet")) == ["changes_requested"]
    assert (world.log[-1].run, world.log[-1].words) == (None, {"reason": "not yet"})
    assert (world.status(), world.card().worker) == ("ready", "builder")


def test_changes_of_a_running_review_are_refused():
    """RULES §8: else `LiveClaim`."""
    world = reviewing()
    world.claim()
    world.refuses(LiveClaim, AskChanges("t_a", "r"))


@pytest.mark.parametrize("before", [Block("t_a", "r"), Schedule("t_a", LATER), AddLink("t_a", "t_p")])
def test_changes_of_a_card_whose_status_is_not_review_are_refused(before):
    """RULES §8: else `NotInReview`."""
    world = reviewing()
    world.create("t_p")
    world.do(before)
    world.refuses(NotInReview, AskChanges("t_a", "r"))


def test_changes_of_a_ready_card_are_refused():
    """RULES §8: else `NotInReview`."""
    board().refuses(NotInReview, AskChanges("t_a", "r"))


@pytest.mark.parametrize("reason", [None, "", " "])
def test_changes_must_say_something(reason):
    """CLI: `changes ID REASON`."""
    reviewing().refuses(InvalidInput, AskChanges("t_a", reason))


# complete, accept, reopen


@pytest.mark.parametrize("before", [None, Block("t_a", "r"), Schedule("t_a", LATER), Edit("t_a", {"lane": "triage"})])
def test_an_operator_completes_whatever_holds_the_card(before):
    """RULES §8: hold, lane and schedule do not matter."""
    world = board()
    if before is not None:
        world.do(before)
    assert told(world, Complete("t_a", "s", result="r", metadata={"a": 1})) == ["completed"]
    event = world.log[-1]
    assert (event.run, event.outcome, event.words) == (
        None,
        "ok",
        {"summary": "s", "result": "r", "metadata": {"a": 1}},
    )
    assert (world.status(), world.card().hold) == ("done", None)


def test_an_operator_completes_a_card_in_review():
    """RULES §8: lane does not matter."""
    assert told(reviewing(), Complete("t_a")) == ["completed"]


def test_a_running_card_is_not_completed():
    """RULES §8: complete (operator): no run, else `LiveClaim`."""
    world = board()
    world.claim()
    world.refuses(LiveClaim, Complete("t_a"))


@pytest.mark.parametrize("other", [Complete("t_a", "else"), Complete("t_a", "s", outcome="fail"), Complete("t_a"),
                                   Complete("t_a", "s", result="r")])  # fmt: skip
def test_a_done_card_is_not_completed_otherwise(other):
    """RULES §8: complete a done card otherwise than it is: `AlreadyDone`."""
    world = board()
    world.do(Complete("t_a", "s"))
    assert "reopen" in world.refuses(AlreadyDone, other).remedy


def test_a_completion_whose_words_were_redacted_equals_nothing():
    """RULES §2: redacted words equal nothing."""
    world = board()
    world.do(Complete("t_a", "s"))
    world.redact(world.head)
    world.refuses(AlreadyDone, Complete("t_a", "s"))


def test_a_card_whose_parents_are_not_satisfied_is_not_completed():
    """RULES §8: every parent satisfied, else `Unmet`."""
    world = board("t_a", "t_p", "t_q")
    world.do(AddLink("t_a", "t_p"))
    world.do(AddLink("t_a", "t_q"))
    world.do(Complete("t_q"))
    assert world.refuses(Unmet, Complete("t_a")).parents == ("t_p",)


def late(outcome="ok"):
    """A card with a late result of run 1."""
    world = board()
    claim = world.claim()
    world.exit()
    world.do(Complete("t_a", "late", outcome, "res", [1], claim=claim.proof))
    return world


@pytest.mark.parametrize("outcome", ["ok", "fail"])
def test_a_late_result_is_accepted(outcome):
    """RULES §8: accept ID RUN: as complete (operator), from that run's `late_result`."""
    world = late(outcome)
    assert told(world, Accept("t_a", 1)) == ["completed"]
    event = world.log[-1]
    assert (event.run, event.outcome, event.actor_kind) == (None, outcome, "operator")
    assert event.words == {"summary": "late", "result": "res", "metadata": [1]}


def test_a_late_result_is_accepted_whatever_holds_the_card():
    """RULES §8: as complete (operator)."""
    world = late()
    world.do(Block("t_a", "r"))
    assert told(world, Accept("t_a", 1)) == ["completed"]


def test_a_late_result_that_was_accepted_is_accepted():
    """RULES §8: a wish that is exactly true already: no event."""
    world = late()
    world.do(Accept("t_a", 1))
    assert told(world, Accept("t_a", 1)) == []


def test_a_late_result_of_a_card_that_is_done_otherwise_is_refused():
    """RULES §8: the same: `AlreadyDone`."""
    world = late()
    world.do(Complete("t_a", "mine"))
    world.refuses(AlreadyDone, Accept("t_a", 1))


def test_a_late_result_before_the_parents_is_refused():
    """RULES §8: the same: `Unmet`."""
    world = late()
    world.create("t_p")
    world.do(AddLink("t_a", "t_p"))
    world.refuses(Unmet, Accept("t_a", 1))


def test_a_late_result_of_a_running_card_is_refused():
    """RULES §8: the same: `LiveClaim`."""
    world = late()
    world.claim()
    world.refuses(LiveClaim, Accept("t_a", 1))


def test_a_run_without_a_late_result_has_nothing_to_accept():
    """RULES §8: `NoLateResult`."""
    world = board()
    world.attempt()
    assert world.refuses(NoLateResult, Accept("t_a", 1)).run == 1


def test_a_run_that_never_was_has_nothing_to_accept():
    """RULES §8: accept ID RUN."""
    board().refuses(UnknownRun, Accept("t_a", 1))


def test_a_late_result_whose_words_were_redacted_is_accepted_without_them():
    """RULES §2: redacted words equal nothing."""
    world = late("fail")
    world.redact(world.head)
    world.do(Accept("t_a", 1))
    assert (world.log[-1].outcome, world.log[-1].words["summary"]) == ("fail", None)


@pytest.mark.parametrize("end", [[Complete("t_a")], [Archive("t_a")], [Complete("t_a"), Archive("t_a")]],
                         ids=["done", "archived", "both"])  # fmt: skip
def test_a_closed_card_is_reopened(end):
    """RULES §8: reopen: done or archived; RULES §4: lane work; schedule and not before cleared."""
    world = reviewing()
    world.do(Schedule("t_a", LATER))
    for command in end:
        world.do(command)
    assert told(world, Reopen("t_a", "again")) == ["reopened"]
    assert (world.status(), world.card().lane, world.card().runs) == ("ready", "work", 0)


@pytest.mark.parametrize("before", [None, Block("t_a", "r")])
def test_an_open_card_is_not_reopened(before):
    """RULES §8: else `NotDone`."""
    world = board()
    if before is not None:
        world.do(before)
    world.refuses(NotDone, Reopen("t_a"))


def test_a_reopened_parent_is_waited_for_again():
    """RULES §3: `open_parents` moves by `completed` and `reopened` of a parent."""
    world = board("t_a", "t_p")
    world.do(AddLink("t_a", "t_p"))
    world.do(Complete("t_p"))
    world.do(Reopen("t_p"))
    assert world.status() == "todo"


# The board's own


@pytest.mark.parametrize(("kind", "name_"), [("board", ""), ("assignee", "builder"), ("host", "node-1")])
def test_a_scope_is_paused_and_resumed(kind, name_):
    """RULES §2: `paused`, `resumed`: scope (board, assignee, host), reason."""
    world = board()
    assert told(world, Pause(kind, name_, reason="deploy")) == ["paused"]
    assert (world.log[-1].task, world.log[-1].words) == ("", {"reason": "deploy"})
    assert told(world, Resume(kind, name_)) == ["resumed"]
    assert world.settings.pauses == ()


def test_a_paused_board_can_be_drained_on_top():
    """RULES §7.2: drain (`pause --drain`)."""
    world = board()
    world.do(Pause())
    assert told(world, Pause(drain=True)) == ["paused"]


def test_another_scope_is_not_resumed():
    """RULES §8: a wish that is exactly true already."""
    world = board()
    world.do(Pause("assignee", "builder"))
    assert told(world, Resume("host", "builder")) == []


def test_a_policy_is_written_whole():
    """RULES §2: `policy_changed`: the whole policy."""
    world = board()
    world.do(SetPolicy({"failure_limit": 5}))
    assert world.log[-1].facts == world.settings.policy._asdict()
    assert world.settings.policy.failure_limit == 5


@pytest.mark.parametrize("limit", ["failure_limit", "violation_limit", "attempt_limit", "neutral_limit", "run_limit",
                                   "lease", "max_running", "max_running_per_assignee"])  # fmt: skip
def test_a_limit_of_the_policy_is_one_or_more(limit):
    """RULES §5: all limits ≥ 1."""
    board().refuses(InvalidInput, SetPolicy({limit: 0}))


def test_the_verbs_of_a_run_are_not_an_operators():
    """RULES §8: run open and lock matches."""
    world = board()
    claim = world.claim()
    with pytest.raises(Forbidden):
        decide_as_operator(world, AskReview("t_a", claim.proof), given.OPERATOR)


def test_a_stop_that_names_a_run_reaches_no_other():
    """RULES §8: a stop meant for run 1 leaves run 2 alone."""
    world = board()
    world.claim()

    world.refuses(LostClaim, Block("t_a", "enough", force=True, only_run=2))
    assert [draft.kind for draft in world.do(Block("t_a", "enough", force=True, only_run=1)).drafts] == [
        "stop_requested"
    ]


def test_a_stop_for_a_run_that_is_over_does_not_block_the_card():
    """RULES §8: nothing is open, so there is nothing to stop."""
    board().refuses(LostClaim, Block("t_a", "enough", force=True, only_run=1))
