"""What the cases of goals share: a worker of a card with a goal, its claim held for real, and its judge."""

from __future__ import annotations

from kanban.worker.face import Worker
from kanban.worker.verdict import Ruling, Verdict
from tests.reference.workers import CARRIER, SUCCESS, Turns, hold

MORE, WAIT = {"verdict": "continue", "reason": "two tests fail"}, {"verdict": "wait"}
MET, STUCK = {"verdict": "done", "reason": "all is green"}, Verdict(Ruling.BLOCKED, "nobody has the key")
SECOND_REPLY = SUCCESS | {"final_response": "more of it is done"}


class Pursued:
    """A worker of a card with a goal, its claim held for real: what it was told and asked, and how it ended."""

    def __init__(self, fleet, answers, verdicts=(), *, max_turns=20, run=True, **how):
        self.fleet = fleet
        self.held = hold(fleet, title="Mend the roof", body="It leaks.", goal_max_turns=max_turns)
        self.card = self.held.carrier.task
        self.environ = {**CARRIER.as_environment(), **fleet.environ, **how.pop("environ", {})}
        self.worker = Worker(self.held.carrier, self.environ)
        self.turns, self.judge = Turns(list(answers)), Turns(list(verdicts))
        if run:
            self.run(**how)

    def run(self, turn=None, judge=None, **how):
        """Let it work."""
        means = {"sleep": lambda _: None} | how
        self.ended = self.worker.run(turn or self.turns, "do it", judge=judge or self.judge, **means)
        return self.ended

    @property
    def replies(self):
        """What the judge saw of each turn."""
        return [asked.reply for asked in self.judge.texts]

    @property
    def shown(self):
        """The card as it is now."""
        return self.fleet.card(self.card)


def doing(verb, at, otherwise=SUCCESS):
    """A turn that uses its own *verb* in turn *at*, and answers well each time."""
    texts = []

    def turn(text):
        texts.append(text)
        if len(texts) == at:
            verb()
        return otherwise

    return turn, texts
