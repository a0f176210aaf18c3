"""A replay that several share finds what one finds, wherever the cards lie and whatever somebody did to the store."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from ledger import store as log
from ledger.database import writing
from ledger.errors import UnknownTask
from ledger.events import Actor
from ledger.recorded import Draft
from projections.parts import Cards
from projections.read_models import apply
from projections.replay import replay
from tests import given, hands, ledgers
from tests.audits import ZEROS, act, audit, mend, outside
from tests.engines import on
from tests.rules.test_properties import STORIES

CHAINED = [True, False]


def written(store, events):
    """*events*, of a board in memory, on the board of *store* behind its first one."""
    with writing(store.engine) as tx:
        for event in events:
            draft = Draft(event.task, event.kind, event.run, event.outcome, event.facts_text, event.words_text,
                          Actor(kind=event.actor_kind, name=event.actor_name, host=event.actor_host))  # fmt: skip
            at = max(event.at, given.NOW)
            apply(tx, ledgers.BOARD, log.append(tx, ledgers.BOARD, [draft], expected=event.version - 1, at=at))


WISHES = st.fixed_dictionaries(
    {"jobs": st.integers(2, 4), "chain": st.booleans(), "strict": st.booleans()},
    optional={"until": st.integers(1, 90), "task": st.sampled_from(["t_a", "t_b"])},
)


def test_whatever_legal_history_there_is_parts_alone_answer_as_one(lend, engine_name, answered):
    """RULES §9: every field but the time, and where no card is wrong no second look by one process is needed."""

    @settings(max_examples=25 if engine_name == "sqlite" else 8, suppress_health_check=[*HealthCheck])
    @drawn(STORIES, WISHES)
    def after(story, wish):
        with lend("founded") as store:
            written(store, story.world.log[1:])
            _, by = hands.alike(store, answered, **wish)
            every_card = replay(store.engine, ledgers.BOARD, until=wish.get("until"), strict=wish["strict"])
            assert by in ({"one", "few"} if every_card.divergences else {"parts", "few"})
            shared.append(by)

    shared = []
    after()
    assert shared.count("parts") > shared.count("few")


DAMAGE = [
    "UPDATE events SET kind = 'archived', facts = '{\"children\":null}', run = NULL WHERE position = {p}",
    "UPDATE events SET task = 't_b', version = 90 WHERE position = {p}",
    "UPDATE events SET run = 7 WHERE position = {p}",
    "UPDATE events SET version = version + 90 WHERE position = {p}",
    "UPDATE events SET outcome = 'ok', kind = 'completed' WHERE position = {p}",
    "UPDATE events SET facts = '{}' WHERE position = {p}",
    "UPDATE events SET schema = 9 WHERE position = {p}",
    "UPDATE events SET kind = 'dreamt' WHERE position = {p}",
    "UPDATE events SET actor_kind = 'worker' WHERE position = {p}",
    "UPDATE events SET at = at + 1000000000000 WHERE position = {p}",
    "DELETE FROM words WHERE position = {p}",
    "DELETE FROM events WHERE position = {p}",
    "UPDATE tasks SET failures = failures + 1 WHERE position = {p}",
    "UPDATE runs SET code = 77 WHERE claimed_position = {p}",
    "DELETE FROM links",
    "UPDATE settings SET version = version + 1",
    "UPDATE boards SET head_position = head_position + 1",
]


def test_whatever_was_damaged_parts_answer_as_one(lend, engine_name, answered):
    """RULES §9: found or not found, named alike, with hashes made anew or not."""

    @settings(max_examples=40 if engine_name == "sqlite" else 10, suppress_health_check=[*HealthCheck])
    @drawn(
        STORIES, st.lists(st.sampled_from(DAMAGE), min_size=1, max_size=2), st.integers(2, 40), st.booleans(), WISHES
    )
    def after(story, damage, position, mended, wish):
        with lend("founded") as store:
            written(store, story.world.log[1:])
            outside(store, *(each.replace("{p}", str(position)) for each in damage))
            if mended:
                mend(store)
            hands.alike(store, answered, **wish)

    after()


# What no single part can see


FORGED = [
    ("UPDATE boards SET head_at = head_at + 1", "§9 head"),
    (f"UPDATE boards SET head_hash = {ZEROS}", "§9 head"),
    ("UPDATE boards SET head_position = 22", "§9 head"),
    ("INSERT INTO words SELECT board, 99, salt, words FROM words WHERE position = 4", "§10 words"),
    ("UPDATE words SET words = replace(words, 'Parent', 'Forged') WHERE position = 4", "§10 words"),
    ("DELETE FROM words WHERE position = 4", "§10 words"),
    (f"UPDATE events SET hash = {ZEROS} WHERE position = 11", "§10 chain"),
    (f"UPDATE events SET hash = {ZEROS} WHERE position = 12", "§10 chain"),
    ("UPDATE events SET actor_name = 'eve' WHERE position = 1", "§10 chain"),
    ("UPDATE events SET at = at + 10000000 WHERE position = 12", "§2 at"),
    ("UPDATE events SET version = 90 WHERE position = 23", "§2 version"),
    ("UPDATE events SET version = 90 WHERE position = 21", "§2 version"),
    ("UPDATE events SET position = 99 WHERE position = 23", "§2 position"),
    ("UPDATE settings SET name = 'x'", "§9 stored"),
    ("UPDATE boards SET board_id = 'x'", "§9 head"),
    ("DELETE FROM links", "§9 stored"),
    ("UPDATE tasks SET failures = 9 WHERE task = 't_p'", "§9 stored"),
    ("UPDATE tasks SET task = 't_0' WHERE task = 't_a'", "§9 stored"),
    ("UPDATE runs SET code = 9 WHERE task = 't_a'", "§9 stored"),
    ("DELETE FROM tasks", "§9 stored"),
]  # fmt: skip


@pytest.mark.parametrize(("forged", "rule"), FORGED)
def test_whatever_is_forged_is_named_by_one(board, answered, forged, rule):
    """RULES §9: head, words, the chain where two stretches meet, and rows of any part; all else is sound."""
    outside(board, forged)
    for jobs, chained in ((2, True), (3, True), (2, False), (3, False)):
        one, _ = hands.alike(board, answered, jobs=jobs, chain=chained)
        seen = chained or not (rule.startswith("§10") or "head_hash" in forged)
        assert (rule in [each.rule for each in one.divergences]) is seen


@pytest.mark.parametrize("jobs", [2, 3])
def test_an_instant_before_that_of_the_event_before_it_is_named_wherever_stretches_meet(store, answered, jobs):
    """RULES §2: never less than the `at` before it, whichever card had that."""
    for number in range(9):
        act(store, f"t_{number % 3}", given.created() if number < 3 else given.commented())
    for position in range(5, 8):  # of these no row tells
        outside(store, f"UPDATE events SET at = at + 1500000 WHERE position = {position}")
        one, by = hands.alike(store, answered, jobs=jobs, chain=False)
        assert ([(each.position, each.rule) for each in one.divergences], by) == ([(position + 1, "§2 at")], "one")
        outside(store, f"UPDATE events SET at = at - 1500000 WHERE position = {position}")
    assert hands.alike(store, answered, jobs=jobs, chain=False)[1] == "parts"


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        ([given.claimed(), given.late_result()], "§8"),
        ([given.claimed(), given.exited(1, "clean", code=0, evidence="exit_record")], "§2"),
    ],
    ids=["late result", "clean exit"],
)
def test_what_must_follow_an_event_is_missed_by_its_part(store, answered, told, rule):
    """RULES §2, §8: a late result of an open run ends it as blocked, a clean exit is a violation."""
    for task in ("t_a", "t_b", "t_c"):
        act(store, task, given.created())
    act(store, "t_c", *told)
    act(store, "t_b", given.commented())
    one, by = hands.alike(store, answered, jobs=2, chain=False)
    assert ([each.rule for each in one.divergences], by) == ([rule], "one")


@pytest.mark.parametrize("position", [21, 23])
def test_a_shape_is_looked_at_by_the_part_of_its_card(board, answered, position):
    """CLI: --strict; words have shapes, too."""
    outside(board, f"UPDATE words SET words = '{{\"body\":7}}' WHERE position = {position}")
    assert hands.alike(board, answered, jobs=2, chain=False)[1] == "parts"
    one, by = hands.alike(board, answered, jobs=2, chain=False, strict=True)
    assert ([each.rule for each in one.divergences], by) == (["§2 shape"], "one")


def test_an_event_that_was_moved_with_its_row_leaves_a_hole(board, answered):
    """RULES §9: as many events as there must be, but not at their positions."""
    outside(
        board,
        "UPDATE words SET position = 99 WHERE position = 23",
        "UPDATE events SET position = 99 WHERE position = 23",
        "UPDATE tasks SET position = 99 WHERE task = 't_p'",
    )
    one, by = hands.alike(board, answered, jobs=2, chain=False)
    assert ([each.rule for each in one.divergences], by) == (["§2 position", "§9 head"], "one")


@on("sqlite")  # PostgreSQL's columns take no other type
@pytest.mark.parametrize("column", ["position", "at", "run", "facts", "words_digest", "hash", "task", "version"])
def test_a_column_of_another_type_is_named_by_one(board, answered, column):
    """RULES §9: it belongs to no part, or to one that cannot read it."""
    value = "'text'" if column not in {"facts", "task"} else "x'00ff'"
    outside(board, f"UPDATE events SET {column} = {value} WHERE position = 21")
    for chained in CHAINED:
        one, _ = hands.alike(board, answered, jobs=2, chain=chained)
        assert one.divergences or (not chained and column in {"words_digest", "hash", "facts"})


def test_a_card_that_is_not_there_is_refused(board, answered):
    """CLI: exit 5, at once."""
    with pytest.raises(UnknownTask):
        audit(board, task="t_x", jobs=2)
    assert answered == ["parts"]


def test_one_card_is_reported_on_alone(board, answered):
    """CLI: --task; its rows are compared by the part that it stands in."""
    for task in ("t_a", "t_p"):
        one, by = hands.alike(board, answered, jobs=2, task=task)
        assert (one.tasks, one.events, by) == (1, 23, "parts")
    outside(board, "UPDATE tasks SET failures = 9 WHERE task = 't_p'")
    assert hands.alike(board, answered, jobs=2, task="t_a")[1] == "parts"
    assert hands.alike(board, answered, jobs=2, task="t_p")[0].divergences != ()


@pytest.mark.parametrize("until", [1, 4, 5, 12, 22, 23, 24])
@pytest.mark.parametrize("chained", CHAINED)
def test_the_past_is_shared_too(board, answered, until, chained):
    """CLI: --at; compared with what a look at that past is answered."""
    one, by = hands.alike(board, answered, jobs=2, until=until, chain=chained)
    assert (one.divergences, one.position, by) == ((), min(until, 23), "parts")


def test_all_events_are_told_of_as_done(board, answered):
    """The bar of a terminal: it never runs back, and ends at the end."""
    heard = []
    audit(board, jobs=2, progress=lambda done, total: heard.append((done, total)))
    assert answered == ["parts"]
    assert heard == sorted(heard)
    assert heard[-1] == (23, 23)


def test_a_log_that_is_empty_or_not_shareable_is_ones_own(store, answered):
    """There is a card for each process, or fewer processes."""
    assert hands.alike(store, answered, jobs=4)[1] == "few"
    act(store, "t_a", given.created())
    assert hands.alike(store, answered, jobs=4)[0].divergences == ()


def test_ranges_of_cards_hold_each_card_once():
    """RULES §9: whatever an id looks like, in the order that both databases know."""
    names = ["", "T", "t_", "t_a", "t_a ", "t_é", "t_\uffff", "t_\U0001f600"]
    assert names == sorted(names, key=lambda name: name.encode())
    ranges = [Cards(None, "t_a"), Cards("t_a", "t_é"), Cards("t_é", None)]
    assert [sum(name in each for each in ranges) for name in names] == [1] * len(names)


@pytest.mark.parametrize("name", ["t_\uffff", "t_\U0001f600", "T", "t_é"])
def test_ids_stand_where_python_says(store, answered, name):
    """DESIGN §3: names are compared by code points on every engine."""
    for card in ("t_\uffee", name, "t_z"):
        act(store, card, given.created())
    for jobs in (2, 3):
        one, by = hands.alike(store, answered, jobs=jobs)
        assert (one.tasks, by) == (3, "parts")
