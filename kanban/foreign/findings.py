"""What an audit finds: which card, which events of that system, which rule, how sure, what it cost, what ours says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

NEW: Final = "the versions after 0.19 are known less well"


class Sure(StrEnum):
    """How far a finding can be trusted."""

    CERTAIN = "certain"
    LIKELY = "likely"
    UNKNOWN = "unknown"


class Rule(NamedTuple):
    """A rule that does not hold, and whose it is: `hermes` or `ledger`."""

    of: str
    text: str
    ours: str


@dataclass(slots=True)
class Finding:
    """One place where a board breaks a rule, or does not say what happened on it.

    *runs*: the attempts that it cost; *ours*: what our rules would have done, where more is known than the rule.
    """

    kind: str
    task: str
    text: str
    events: tuple[int, ...]
    sure: Sure = Sure.CERTAIN
    because: str | None = None
    rule: Rule | None = None
    stored: Mapping[str, Any] | None = None
    history: Mapping[str, Any] | None = None
    runs: list[int] = field(default_factory=list)
    ours: str | None = None

    @property
    def law(self) -> Rule:
        """The rule that does not hold."""
        return self.rule or RULES[self.kind]

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger audit --json` prints."""
        return {
            "finding": self.kind,
            "task": self.task,
            "text": self.text,
            "events": list(self.events),
            "rule": self.law.text,
            "rule_of": self.law.of,
            "certainty": str(self.sure),
            "because": self.because,
            "runs": list(self.runs),
            "cost": len(self.runs),
            "stored": None if self.stored is None else dict(self.stored),
            "history": None if self.history is None else dict(self.history),
            "ours": self.ours or self.law.ours,
        }


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "stored_against_history": Rule(
            "hermes",
            "every change of a card writes an event",
            "status and counters are computed from the events (§3, §4); replay names a row that says otherwise",
        ),
        "status_without_event": Rule(
            "hermes",
            "every change of a status writes an event",
            "there is no way to move a card but to append an event; what stands before it is checked in the same lock",
        ),
        "counter_without_event": Rule(
            "hermes",
            "an end is counted once, and only named acts start again from zero",
            "the end of a run and its count are one append (§4); nothing else moves a counter",
        ),
        "promoted_while_held": Rule(
            "ledger",
            "§5: a hold lifts when a limit is raised, the card goes to somebody else, or a person unblocks it",
            "there is no promotion (§3): the hold stands, and nothing is started under it",
        ),
        "budget_exceeded": Rule(
            "hermes",
            "a breaker holds the card whose count is at the limit that it names",
            "one function computes each limit (§5); the hold is in the append that reaches it",
        ),
        "two_live_runs": Rule(
            "hermes",
            "a card has at most one open run",
            "a claim under an open run is refused (§8), and a process that will not die keeps its claim (§7.2)",
        ),
        "run_left_open": Rule(
            "hermes",
            "a run is open only while its card is running under it",
            "what ends the card's work ends its run in the same event (§4)",
        ),
        "claimed_with_open_parents": Rule(
            "hermes",
            "a claim is refused while a parent is neither done nor archived",
            "a card with an open parent is not claimable (§3)",
        ),
        "blocked_without_reason": Rule(
            "ledger",
            "§1: a hold has a cause and a reason",
            "block needs a reason, and a budget's hold carries its own arithmetic (§5)",
        ),
    }
)
"""Kind of finding → the rule behind it, unless the finding names another. § are RULES of this program."""
STICKY: Final = Rule(
    "hermes",
    "a blocked card that was not unblocked is not promoted",
    RULES["promoted_while_held"].ours,
)
UNSEEN: Final = Rule("ledger", "§5: every budget counts, whatever ends are mixed", RULES["budget_exceeded"].ours)
REVIEWED: Final = Rule(
    "ledger",
    "§3: a card with an open parent is not claimable, in review neither",
    RULES["claimed_with_open_parents"].ours,
)
