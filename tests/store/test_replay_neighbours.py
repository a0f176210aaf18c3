"""What a judgement asks of another card, when the two are looked at in different parts of a replay."""

from __future__ import annotations

import pytest

from tests import given, hands
from tests.audits import act, mend, outside

SWEEP, WORKER, OPERATOR = given.SWEEP, given.WORKER, given.OPERATOR
CLEAN = given.exited(1, "clean", code=0, evidence="exit_record")


def born(p, c, require="ok"):
    """A card and its child."""
    return [(p, given.created(), OPERATOR), (c, given.created(parents=[(p, require)]), OPERATOR)]


def run(card, *events, number=1, **fields):
    """A run of it that is open, and what its worker says."""
    opened = [(card, given.claimed(number, **fields), SWEEP), (card, given.worker_bound(number), SWEEP)]
    return [*opened, *((card, event, WORKER) for event in events)]


def done(card, outcome="ok"):
    return (card, given.completed(None, outcome), OPERATOR)


def said(card, event):
    return (card, event, OPERATOR)


def limited(most):
    return ("", given.policy_changed(max_running=most), OPERATOR)


def capped(live, most=2):
    return {"caps": (given.cap("board", live, most),)}


def both(p, c):
    return [said(p, given.created()), said(c, given.created())]


LEGAL = {
    "a parent that can come": born,
    "a parent of any outcome": lambda p, c: [said(p, given.created()), done(p, "fail"),
                                             said(c, given.created(parents=[(p, "any")])), *run(c)],
    "a parent that is done": lambda p, c: [*born(p, c), done(p), *run(c, given.completed(1))],
    "a parent that is done once more": lambda p, c: [*born(p, c), done(p), said(p, given.reopened()), done(p), *run(c)],
    "a parent that is done and archived": lambda p, c: [*born(p, c), done(p), said(p, given.archived()), *run(c)],
    "a parent that is done last": lambda p, c: [*born(p, c), done(p)],
    "a parent that was unlinked": lambda p, c: [*born(p, c), said(c, given.unlinked(p)), *run(c)],
    "a parent that was linked late": lambda p, c: [*both(p, c), said(c, given.linked(p)), done(p), *run(c)],
    "a parent that waits, so the child does": lambda p, c: [*born(p, c), done(p), *run(c), said(p, given.reopened()),
                                                           (c, given.waiting(1), WORKER)],
    "a link back that was taken away": lambda p, c: [*born(p, c), said(c, given.unlinked(p)),
                                                       said(p, given.linked(c))],
    "keys that differ": lambda p, c: [said(p, given.created(key="k")), said(c, given.created(key="l"))],
    "a cap that counts another's run": lambda p, c: [limited(2), *both(p, c), *run(p, **capped(0)),
                                                      *run(c, **capped(1))],
    "a cap that counts no ended run": lambda p, c: [limited(2), *both(p, c), *run(p, given.completed(1), **capped(0)),
                                                    *run(c, **capped(0))],
    "a card that another's run made": lambda p, c: [said(p, given.created()), *run(p),
                                                   (c, given.created(made_by={"task": p, "run": 1}), WORKER)],
    "an archived card whose children are kept": lambda p, c: [*born(p, c), said(p, given.archived("keep"))],
    "an archived card whose child is closed": lambda p, c: [*born(p, c), said(c, given.archived()),
                                                            said(p, given.archived())],
    "an archived card whose child was unlinked": lambda p, c: [*born(p, c), said(c, given.unlinked(p)),
                                                               said(p, given.archived())],
    "a violation in its append": lambda p, c: [*both(p, c), *run(p), (p, CLEAN, SWEEP), (p, given.violation(1), SWEEP)],
}  # fmt: skip
ILLEGAL = {
    "a parent that is not there": ("§3", lambda p, c: [said(p, given.created()),
                                                      said(c, given.created(parents=["t_x"]))]),
    "a parent that is dead": ("§3", lambda p, c: [said(p, given.created()), done(p, "fail"),
                                                 said(c, given.created(parents=[p]))]),
    "a parent that is archived undone": ("§3", lambda p, c: [*both(p, c), said(p, given.archived()),
                                                            said(c, given.linked(p))]),
    "a claim before its parent": ("§3", lambda p, c: [*born(p, c), *run(c)]),
    "a claim while its parent is open again": ("§3", lambda p, c: [*born(p, c), done(p), said(p, given.reopened()),
                                                                  *run(c)]),
    "a completion before its parent": ("§8", lambda p, c: [*born(p, c), done(c)]),
    "nothing to wait for": ("§8", lambda p, c: [*born(p, c), done(p), *run(c, given.waiting(1))]),
    "a ring": ("§3", lambda p, c: [*born(p, c), said(p, given.linked(c))]),
    "a cap that forgets another's run": ("§7", lambda p, c: [limited(2), *both(p, c), *run(p, **capped(0)),
                                                            *run(c, **capped(0))]),
    "a cap that counts an ended run": ("§7", lambda p, c: [limited(2), *both(p, c),
                                                          *run(p, given.completed(1), **capped(0)),
                                                          *run(c, **capped(1))]),
    "a run that never made it": ("§8", lambda p, c: [said(p, given.created()), *run(p),
                                                    (c, given.created(made_by={"task": p, "run": 2}), WORKER)]),
    "a run that made it before it began": ("§8", lambda p, c: [
        said(p, given.created()), (c, given.created(made_by={"task": p, "run": 1}), WORKER), *run(p)]),
    "an open child and no choice": ("§8", lambda p, c: [*born(p, c), said(p, given.archived())]),
    "a child that was linked late and no choice": ("§8", lambda p, c: [*both(p, c), said(c, given.linked(p)),
                                                                      said(p, given.archived())]),
    "a word between a clean exit and its violation": ("§2", lambda p, c: [
        *both(p, c), *run(p), (p, CLEAN, SWEEP), said(c, given.commented()), (p, given.violation(1), SWEEP)]),
    "another's word in the place of a violation": ("§2", lambda p, c: [*both(p, c), *run(p), (p, CLEAN, SWEEP),
                                                                      said(c, given.commented())]),
    "a run of a board that is paused": ("§7", lambda p, c: [*both(p, c), ("", given.paused(), OPERATOR), *run(c)]),
}  # fmt: skip
WAYS = [("t_a", "t_b"), ("t_b", "t_a")]
"""Which of two cards stands in the first part."""


def told(store, steps):
    for card, event, actor in steps:
        act(store, card, event, actor=actor)


@pytest.mark.parametrize(("p", "c"), WAYS, ids=["down", "up"])
@pytest.mark.parametrize("case", LEGAL)
def test_what_is_legal_beside_another_card_needs_one_look(store, answered, case, p, c):
    """RULES §9: parts ask for the other card where a judgement does, and are answered as of that moment."""
    told(store, LEGAL[case](p, c))
    one, by = hands.alike(store, answered, jobs=2)
    assert (one.divergences, by) == ((), "parts")


@pytest.mark.parametrize(("p", "c"), WAYS, ids=["down", "up"])
@pytest.mark.parametrize("case", ILLEGAL)
def test_what_is_illegal_because_of_another_card_is_named(store, answered, case, p, c):
    """RULES §9: as one process names it, which then looks at the whole log."""
    rule, steps = ILLEGAL[case]
    told(store, steps(p, c))
    one, by = hands.alike(store, answered, jobs=2, chain=False)
    assert ([each.rule for each in one.divergences], by) == ([rule], "one")


@pytest.mark.parametrize(("p", "c"), WAYS, ids=["down", "up"])
@pytest.mark.parametrize(("named", "rules"), [(4, []), (1, ["§10 words"])])
def test_words_may_be_redacted_by_an_event_of_another_card(store, answered, p, c, *, named, rules):
    """RULES §10: whichever stream the `redacted` stands in; without one that names them they are missing."""
    told(store, [*both(p, c), said(p, given.commented("Secret")), said(c, given.redacted(named))])
    outside(store, "DELETE FROM words WHERE position = 4")
    for until in (None, 4):
        one, by = hands.alike(store, answered, jobs=2, until=until)
        assert ([each.rule for each in one.divergences], by) == (rules, "one" if rules else "parts")


@pytest.mark.parametrize(("p", "c"), WAYS, ids=["down", "up"])
def test_a_key_that_two_cards_have_is_named(store, answered, p, c):
    """RULES §8: the store allows no second one, so somebody forged it, and the row as well."""
    told(store, LEGAL["keys that differ"](p, c))
    outside(
        store,
        "DROP INDEX tasks_key",
        "UPDATE events SET facts = replace(facts, '\"l\"', '\"k\"')",
        "UPDATE tasks SET key = 'k'",
    )
    mend(store)
    one, by = hands.alike(store, answered, jobs=2)
    assert ([each.rule for each in one.divergences], by) == (["§8"], "one")


@pytest.mark.parametrize(("p", "c"), WAYS, ids=["down", "up"])
def test_a_card_that_cannot_be_read_is_named_once(store, answered, p, c):
    """RULES §2: its children are given the benefit of the doubt by one process, so parts must ask it."""
    told(store, [said(p, given.created()), said(p, given.commented()), said(c, given.created(parents=[p]))])
    outside(store, "UPDATE events SET schema = 9 WHERE position = 2")
    mend(store)
    one, by = hands.alike(store, answered, jobs=2)
    assert ([each.rule for each in one.divergences], by) == (["§2 schema"], "one")


@pytest.mark.parametrize(("p", "c"), WAYS, ids=["down", "up"])
def test_a_replay_that_ends_before_what_must_follow_is_content(store, answered, p, c):
    """RULES §9: *until* cuts an append in two; what stands behind it is not looked at."""
    told(store, [*both(p, c), *run(p), (p, CLEAN, SWEEP), (p, given.violation(1), SWEEP)])
    one, by = hands.alike(store, answered, jobs=2, until=6)
    assert (one.divergences, by) == ((), "parts")
