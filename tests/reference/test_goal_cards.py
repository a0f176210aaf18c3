"""Which card has a goal, and when that is read."""

import pytest

from kanban.worker import goal as goals
from kanban.worker.face import Worker
from projections.goals import goal_of
from tests.reference.goals import MORE, STUCK, Pursued, doing
from tests.reference.workers import INTERRUPT, QUOTA, SUCCESS, Turns, hold


def test_a_card_without_a_goal_is_not_judged(fleet):
    """One turn, as without a judge."""
    held = hold(fleet)
    turns, judge = Turns([SUCCESS]), Turns([MORE])
    ended = Worker(held.carrier, fleet.environ).run(turns, "do it", judge=judge)
    assert (ended.code, len(turns.texts), judge.texts) == (0, 1, [])


def test_a_goal_without_a_judge_is_one_turn(fleet):
    """Whoever runs the turns says who judges."""
    held = hold(fleet, goal_max_turns=5)
    turns = Turns([SUCCESS])
    assert Worker(held.carrier, fleet.environ).run(turns, "do it").code == 0
    assert len(turns.texts) == 1


def test_a_review_has_no_goal(fleet):
    """It is the work's, and not its reviewer's."""
    held = hold(fleet, goal_max_turns=5)
    fleet.board.review(held.carrier.task, "look", reviewer="dana", run=1, lock=held.carrier.lock)
    granted = fleet.board.claim(held.carrier.task)
    assert goal_of(fleet.url, "default", held.carrier.task, 1) is not None
    assert goal_of(fleet.url, "default", held.carrier.task, granted.run) is None


def test_the_goal_is_what_the_card_says_when_the_first_turn_is_over(fleet):
    """Title and body and turns may have been edited, and the goal may have been taken away."""
    pursued = Pursued(fleet, [], [STUCK], run=False)
    changes = {"title": "Mend the floor", "body": "", "goal": {"max_turns": 2}}
    turn, _ = doing(lambda: fleet.board.edit(pursued.card, **changes), at=1)
    pursued.run(turn)
    assert [(asked.goal, asked.max_turns) for asked in pursued.judge.texts] == [("Mend the floor", 2)]
    other = Pursued(fleet, [], [STUCK], run=False)
    turn, _ = doing(lambda: fleet.board.edit(other.card, goal=None), at=1)
    assert (other.run(turn).code, other.judge.texts) == (0, [])


@pytest.mark.parametrize(("said", "code"), [(SUCCESS, 1), (QUOTA, 75), (INTERRUPT, 130)])
def test_a_goal_that_cannot_be_read_is_not_met(fleet, monkeypatch, caplog, said, code):
    """Code 1, and no judge; a turn that did not go well keeps its own, and the goal is not even looked at."""

    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(goals, "goal_of", broken)
    pursued = Pursued(fleet, [said], [MORE])
    assert (pursued.ended.code, len(pursued.turns.texts), pursued.judge.texts) == (code, 1, [])
    assert ("could not be read" in caplog.text) == (code == 1)
