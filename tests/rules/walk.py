"""A walk over every state that a card can be in, as far as budgets can tell: the real rules make each step.

Its nodes are states, not histories: cards of one `essence` have one future (`test_every_state` shows it), so one card
stands for all of its kind. A claim and a lift by the sweep cost nothing; an ending or an act of a person costs one. An
edit or a new policy under an open run is left out: no claim reads a limit, so it comes to what it comes to before.

`LAWS` say what no step may break. They are written from RULES §4 and §5 and call neither the fold nor the budgets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, NamedTuple

from kanban import booking, endings, plan
from kanban.commands import Archive, AskChanges, Assign, Block, Complete, Edit, Reopen, SetPolicy, Unblock
from kanban.operators import decide_as_operator
from kanban.processes import Presence
from kanban.wishes import command_of
from ledger.errors import Refusal
from ledger.events import ENDINGS, NEUTRAL, Event, Outcome
from ledger.recorded import Draft, Recorded
from projections import budgets
from projections import task as cards
from projections.graph import Link
from projections.policy import Policy
from projections.run import Run, Stop
from projections.settings import Settings
from projections.task import Card, Hold, Task
from tests import given

CARD: Final = "t_a"
NOW: Final = given.NOW
SOON: Final = NOW + 1
"""An instant at which no cooldown of the walk is over yet."""
OWN_LIMITS: Final = (None, 1, 2, 3)
SMALL: Final = Policy(failure_limit=1, violation_limit=2, attempt_limit=3, neutral_limit=2, run_limit=4)
STICKY: Final = Hold("any", None, sticky=True, count=None, limit=None, limit_source=None, position=0)
NOT_STICKY: Final = replace(STICKY, sticky=False)
COUNTS: Final = ("failures", "streak", "spent", "neutral", "runs")
Counts = tuple[int, int, int, int, int]


class State(NamedTuple):
    """A card that stands for all of its `essence`, and the policy in force."""

    task: Task
    policy: Policy

    def __str__(self) -> str:
        task = self.task
        hold = "no hold" if task.hold is None else "sticky hold" if task.hold.sticky else "hold"
        counts = " ".join(f"{name} {count}" for name, count in zip(COUNTS, counts_of(task), strict=True))
        return f"[{counts}; {cards.status(task)}, {hold}, {task.lane}; limits {limits_of(self)}]"


class Step(NamedTuple):
    """An act, the events that it came to, and the states around them."""

    before: State
    act: str
    drafts: tuple[Draft, ...]
    after: State

    def __str__(self) -> str:
        return f"{self.before} -- {self.act}: {', '.join(draft.kind for draft in self.drafts)} --> {self.after}"


def essence(task: Task, now: int = NOW) -> Task:
    """What endings and budgets can tell of *task*: no numbers, positions, names or causes; of times, whether it cools.

    Of names only that there is a last one in each role: somebody else is somebody else whatever both are called. A
    cooldown under a sticky hold or on a done card is left out: what lifts the one or reopens the other ends it too.
    """
    hold = task.hold and (STICKY if task.hold.sticky else NOT_STICKY)
    cools = (task.not_before or 0) > now and hold is not STICKY and task.outcome is None
    return Task(
        CARD,
        Card("builder", "critic", "builder", "critic", max_retries=task.card.max_retries),
        lane=task.lane,
        failures=task.failures,
        streak=task.streak,
        spent=task.spent,
        neutral=task.neutral,
        runs=task.runs,
        run=None if task.run is None else 1,
        hold=hold,
        not_before=SOON if cools else None,
        outcome=task.outcome and "ok",
        archived=task.archived,
    )


@dataclass(frozen=True, slots=True)
class Eye:
    """The view of a decision: the one card and its run, which perhaps carries a *wish*."""

    state: State
    wish: Recorded | None = None

    @property
    def now(self) -> int:
        return NOW

    @property
    def settings(self) -> Settings:
        return Settings(policy=self.state.policy)

    def task(self, _task: str) -> Task | None:
        return self.state.task

    def run(self, _task: str, _run: int) -> Run:
        return _RUN if self.wish is None else _RUN._replace(stops=(Stop(1, "operator", NOW, wish=True),))

    def parents(self, _task: str) -> tuple[Link, ...]:
        return ()

    def children(self, _task: str) -> tuple[Link, ...]:
        return ()

    def event(self, _position: int) -> Recorded | None:
        return self.wish

    def completion(self, _task: str) -> Recorded | None:
        return None


_RUN: Final = Run(CARD, 1, by="spawn")
_SEEN: Final = plan.Seen(Presence.GONE)
_LEASE: Final = plan.Lease(NOW, None, row=True)
_HERE: Final = plan.Here("node-1", "boot-1", 8, {})
_OBSERVER: Final = "node-1:7"
_CLAIMS: Final = {lane: given.draft(given.claimed(1, lane=lane), actor=given.SWEEP) for lane in ("work", "review")}


def evolved(task: Task, drafts: Iterable[Draft]) -> Task:
    """The card that *drafts* make of *task*, with all that it has."""
    for draft in drafts:
        if draft.task == CARD:
            task = cards.evolve(task, draft.as_if(position=task.position + 1, version=task.version + 1, at=NOW))
    return task


def after(state: State, drafts: tuple[Draft, ...]) -> State:
    """The state that *drafts* make of *state*. A claim comes once the cooldown is over."""
    task = evolved(state.task, drafts)
    policy = MOVED[state.policy] if drafts and drafts[0].task == "" else state.policy
    return State(essence(task, NOW if task.run is None else SOON), policy)


# The acts. Each answers with events; with none where it changes nothing or is refused.

Act = Callable[[State], Iterable[Draft]]


def claims(state: State) -> Iterable[Draft]:
    """A tick opens a run, at the end of a cooldown at the latest."""
    return [_CLAIMS[state.task.lane]] if cards.claimable(state.task, SOON) else ()


def lifts(state: State) -> Iterable[Draft]:
    """Step 5 of a tick: planned, and decided again. Every held card is put to it, sticky or not."""
    if state.task.hold is None:
        return ()
    eye = Eye(state)
    steps = plan.settle(NOW, eye.settings, _HERE, open_runs=(), ending=(), liftable=[state.task], seen={})
    return [draft for step in steps for draft in booking.decide_step(eye, step, given.SWEEP, _OBSERVER).drafts]


def exits(outcome: Outcome, state: State, wish: Recorded | None = None) -> Iterable[Draft]:
    """A tick books the run."""
    eye = Eye(state, wish)
    return booking.decide_step(eye, plan.Book(eye.run(CARD, 1), outcome, _SEEN, _LEASE), given.SWEEP, _OBSERVER).drafts


def says(event: Event, state: State, wish: Recorded | None = None) -> Iterable[Draft]:
    """The worker ends its run by a verb."""
    if event.kind == "changes_requested" and state.task.lane != "review":
        return ()
    eye = Eye(state, wish)
    return endings.ending(eye, eye.run(CARD, 1), event, given.WORKER)[0]


def orders(name: str, state: State) -> Iterable[Draft]:
    """A person gives the command of that name. It is decided on a card without counts: no command may look at them."""
    return _ordered(name, State(state.task._replace(**_UNCOUNTED), state.policy))


@cache
def _ordered(name: str, state: State) -> tuple[Draft, ...]:
    return decided(state, SetPolicy(MOVED[state.policy]._asdict()) if name == "policy moves" else COMMANDS[name])


def decided(state: State, command: Any) -> tuple[Draft, ...]:
    """What a person's *command* comes to."""
    try:
        return decide_as_operator(Eye(state), command, given.OPERATOR).drafts
    except Refusal:
        return ()


def raised(policy: Policy) -> Policy:
    """Every limit of *policy* that is set, one higher."""
    more = {name: getattr(policy, name) + 1 for name in _LIMITS if getattr(policy, name) is not None}
    return policy._replace(**more)


def wished(verb: str) -> Any:
    """The command that the wish to *verb* stands for."""
    asked = command_of(WISHES[verb])
    assert asked is not None
    return asked[0]


_UNCOUNTED: Final = dict.fromkeys(COUNTS)
_LIMITS: Final = ("failure_limit", "violation_limit", "attempt_limit", "neutral_limit", "run_limit")
MOVED: Final = {Policy(): raised(Policy()), raised(Policy()): Policy(), SMALL: raised(SMALL), raised(SMALL): SMALL}
"""What a change of policy comes to: every limit one higher, or that taken back."""
VERBS: Final[Mapping[str, Event]] = {
    "blocks": given.blocked(1, "worker", block_kind="needs_input"),
    "waits for a parent": given.waiting(1),
    "asks for review": given.review_requested(1, reviewer=None),
    "asks for changes": given.changes_requested(1),
    "completes": given.completed(1),
    "fails": given.completed(1, "fail"),
}
COMMANDS: Final[Mapping[str, Any]] = {
    "is unblocked": Unblock(CARD),
    "is assigned": Assign(CARD, "eve"),
    "is blocked": Block(CARD, None),
    "is completed": Complete(CARD),
    "is reopened": Reopen(CARD),
    "is sent back": AskChanges(CARD, "no"),
    **{f"gets limit {own}": Edit(CARD, {"max_retries": own}) for own in OWN_LIMITS},
    "is archived": Archive(CARD),
}
WISHES: Final[Mapping[str, Recorded]] = {
    verb: given.history(given.stop_requested(1, wish=given.wish(verb, **data), wish_words={}))[0]
    for verb, data in {
        "assign": {"to": "eve", "role": "assignee"},
        "block": {"kind": None},
        "complete": {"outcome": "ok"},
        "archive": {"children": None},
    }.items()
}

EXITS: Final[Mapping[str, Act]] = {
    f"exits {outcome}": partial(exits, outcome) for outcome in Outcome if outcome not in {Outcome.OK, Outcome.FAIL}
}
SWEEPS: Final[Mapping[str, Act]] = {"is lifted": lifts, "is claimed": claims}
ENDS: Final[Mapping[str, Act]] = EXITS | {verb: partial(says, event) for verb, event in VERBS.items()}
TWINS: Final[Mapping[str, str]] = {
    "exits timed_out": "exits crashed",
    "exits stalled": "exits crashed",
    "exits spawn_failed": "exits crashed",
    "exits lost": "exits interrupted",
    "fails": "completes",
}
"""Ends that share a row of RULES §4 with another: where a walk is long, that one stands for them."""
ROWS: Final = {name: act for name, act in ENDS.items() if name not in TWINS}
PEOPLE: Final[Mapping[str, Act]] = {
    name: partial(orders, name) for name in (*COMMANDS, "policy moves") if name != "is archived"
}
ARCHIVING: Final = PEOPLE | {"is archived": partial(orders, "is archived")}
WISHED: Final[Mapping[tuple[str, str], Act]] = {
    (end, verb): partial(act, wish=wish)  # type: ignore[call-arg]
    for end, act in ENDS.items()
    for verb, wish in WISHES.items()
}


# The walk


def fresh(own: int | None, policy: Policy) -> State:
    """A card that nothing has happened to, with a limit of its *own* or none."""
    return State(essence(given.fold([given.created(max_retries=own)])), policy)


BOTH: Final = (SMALL, Policy())
STARTS: Final = tuple(fresh(own, policy) for policy in BOTH for own in OWN_LIMITS)


def steps_from(state: State, acts: Mapping[Any, Act]) -> Iterator[Step]:
    """The steps that *acts* make of *state*."""
    for name, act in acts.items():
        drafts = tuple(act(state))
        if drafts:
            yield Step(state, name, drafts, after(state, drafts))


def walk(
    starts: Iterable[State], depth: int, *, ends: Mapping[str, Act] = ENDS, people: Mapping[str, Act] = PEOPLE
) -> Iterator[Step]:
    """Every step of every sequence of at most *depth* of *ends* and acts of *people*: breadth first, each once."""
    layer = list(starts)
    seen = set(layer)
    for _ in range(depth):
        for state in layer:  # grows by what ticks do of themselves
            for step in steps_from(state, SWEEPS):
                yield step
                if step.after not in seen:
                    seen.add(step.after)
                    layer.append(step.after)
        coming: list[State] = []
        for state in layer:
            for step in steps_from(state, people if state.task.run is None else ends):
                yield step
                if step.after not in seen:
                    seen.add(step.after)
                    coming.append(step.after)
        layer = coming


def longest_chain(start: State, ends: Mapping[str, Act]) -> int:
    """The most runs in a row by sweeps and *ends* alone. Raises `RecursionError` were a chain endless."""
    known: dict[State, int] = {}

    def runs_from(state: State) -> int:
        if state not in known:
            steps = steps_from(state, SWEEPS if state.task.run is None else ends)
            known[state] = max((runs_from(step.after) + (step.act == "is claimed") for step in steps), default=0)
        return known[state]

    return runs_from(start)


# The laws. Each says what is wrong with a step, or nothing.

ZERO: Final[Counts] = (0, 0, 0, 0, 0)
TABLE: Final = (
    ("violation_budget", 1, True),
    ("neutral_budget", 3, True),
    ("run_budget", 4, True),
    ("failure_budget", 0, False),
    ("attempt_budget", 2, False),
)
"""RULES §5 in its order: a budget, its place in `COUNTS`, whether its hold is sticky."""


def counts_of(task: Task) -> Counts:
    """What RULES §4 counts."""
    return task.failures, task.streak, task.spent, task.neutral, task.runs


def limits_of(state: State) -> Counts:
    """The limit of each count (RULES §5)."""
    return _limits(state.task.card.max_retries, state.policy)


@cache
def _limits(own: int | None, policy: Policy) -> Counts:
    failures, violations = policy.failure_limit, policy.violation_limit
    attempts = policy.attempt_limit or failures + violations + 1
    return own or failures, own or violations, own or attempts, policy.neutral_limit, policy.run_limit


def told(counts: Counts, draft: Draft) -> Counts:
    """What RULES §4 makes of *counts*."""
    failures, streak, spent, neutral, runs = counts
    match draft.kind, draft.outcome:
        case "exited", Outcome.CLEAN:
            return failures, streak + 1, spent + 1, 0, runs
        case "exited", outcome if outcome in NEUTRAL:
            return failures, streak, spent, neutral + 1, runs
        case "exited", _:
            return failures + 1, 0, spent + 1, 0, runs
        case "claimed", _:
            return failures, streak, spent, neutral, runs + 1
        case (("completed" | "reopened" | "assigned"), _):
            return ZERO
        case "unblocked", _ if draft.actor.kind == "operator":
            return ZERO
        case (("review_requested" | "changes_requested"), _):
            return failures, 0, spent, 0, runs
        case "blocked", _ if draft.run is not None:
            return failures, 0, spent, 0, runs
        case _:
            return counts


def counts_as_told(step: Step) -> str | None:
    """RULES §4: nothing but the table moves a counter."""
    counts = counts_of(step.before.task)
    for draft in step.drafts:
        counts = told(counts, draft)
    found = counts_of(step.after.task)
    return None if found == counts else f"{found}, not {counts}"


def kept(state: State) -> bool:
    """Whether no count is over its limit, and none at it without a hold (`runs`: once the run has ended)."""
    task = state.task
    free = task.hold is None and not task.closed
    room = (free, free, free, free, free and task.run is None)
    return all(count + one <= limit for count, one, limit in zip(counts_of(task), room, limits_of(state), strict=True))


def within_limits(step: Step) -> str | None:
    """RULES §5: never more than the limit before a hold, while limits do not fall."""
    if kept(step.after) or not kept(step.before):
        return None
    fell = any(now < was for was, now in zip(limits_of(step.before), limits_of(step.after), strict=True))
    return None if fell else "a count has its limit, and the card no hold"


def owed(state: State, end: Draft) -> tuple[Any, ...] | None:
    """The hold that *end* of a run must bring with it: cause, count, limit, source, sticky."""
    if _holds(end):
        return None
    before, limits = counts_of(state.task), limits_of(state)
    counts = told(before, end)
    for cause, place, sticky in TABLE:
        grew = counts[place] > before[place] or (cause == "run_budget" and end.kind != "completed")
        if grew and counts[place] >= limits[place]:
            own = place < 3 and state.task.card.max_retries is not None
            return cause, counts[place], limits[place], "task" if own else "policy", sticky
    return None


def _holds(draft: Draft) -> bool:
    return draft.outcome == Outcome.CONFIG or (draft.kind == "blocked" and '"hold":true' in draft.facts_text)


def blocks_as_owed(step: Step) -> str | None:
    """RULES §5: the budget that an end brings to its limit blocks in the same append; nothing else ever does."""
    names = ("cause", "count", "limit", "limit_source", "sticky")
    blocks = [draft for draft in step.drafts if draft.kind == "blocked" and draft.actor.kind == "system"]
    found = [tuple(json.loads(draft.facts_text)[name] for name in names) for draft in blocks]
    ends = step.before.task.run is not None and step.drafts[0].kind in ENDINGS
    expected = owed(step.before, step.drafts[0]) if ends else None
    return None if found == ([] if expected is None else [expected]) else f"{found}, not {expected}"


def cause_of(draft: Draft) -> str | None:
    """Why the card is blocked, or the sweep unblocks it."""
    named = draft.kind == "blocked" or (draft.kind == "unblocked" and draft.actor.kind == "sweep")
    return str(json.loads(draft.facts_text)["cause"]) if named else None


def holds_as_said(step: Step) -> str | None:
    """RULES §4: a block holds from its event on, as sticky as it says; `config` sticky at once."""
    holding = [place for place, draft in enumerate(step.drafts) if _holds(draft)]
    if not holding or any(draft.kind in {"completed", "reopened"} for draft in step.drafts[holding[-1] :]):
        return None
    last, hold = step.drafts[holding[-1]], step.after.task.hold
    sticky = last.kind == "exited" or json.loads(last.facts_text)["sticky"]
    return None if hold is not None and hold.sticky == sticky else f"the hold is {hold}"


def neutral_moves_two(step: Step) -> str | None:
    """RULES §4: neutral ends move only `neutral`, and `runs` by their claim."""
    if step.drafts[0].outcome not in NEUTRAL or step.drafts[-1].actor.kind == "operator":
        return None
    expected = step.before.task._replace(neutral=step.before.task.neutral + 1, run=None)
    found = step.after.task._replace(hold=expected.hold, not_before=expected.not_before)
    return None if found == expected else "it moves more"


def sticky_waits_for_a_person(step: Step) -> str | None:
    """RULES §1: only an operator's `unblocked`, a `completed` or a `reopened` lifts a sticky hold."""
    before, now = step.before.task.hold, step.after.task.hold
    if before is None or not before.sticky or (now is not None and now.sticky):
        return None
    lifting = {draft.kind for draft in step.drafts if draft.actor.kind == "operator"}
    return None if lifting & {"unblocked", "completed", "reopened"} else "a sticky hold is gone"


def hold_outlasts_its_tick(step: Step) -> str | None:
    """RULES §5: a hold never lifts in the tick that set it unless an operator's event came between."""
    if not any(_holds(draft) for draft in step.drafts) or step.drafts[-1].actor.kind == "operator":
        return None
    return "the sweep lifts it at once" if any(lifts(step.after)) else None


def lifts_as_owed(step: Step) -> str | None:
    """RULES §5: a hold that is not sticky lifts exactly when no budget is at its limit any more; so raising lifts."""
    task = step.after.task
    if task.hold is None or task.hold.sticky or task.closed:
        return None
    gone = all(count < limit for count, limit in zip(counts_of(task), limits_of(step.after), strict=True))
    return None if gone == any(lifts(step.after)) else f"the hold {'stands' if gone else 'lifts'}"


def raising_blocks_no_more(step: Step) -> str | None:
    """RULES §5: under a higher limit the same end blocks no card that it does not block now, and none harder."""
    end, before = step.drafts[0], step.before
    if before.task.run is None or end.kind not in ENDINGS:
        return None
    now = _hardness(before, end)
    for higher in higher_limits(before):
        if _hardness(higher, end) > now:
            return f"blocked harder under limits {limits_of(higher)} than under {limits_of(before)}"
    return None


def _hardness(state: State, end: Draft) -> int:
    """0: the end trips no budget; 1: one that a raised limit lifts; 2: one that waits for a person."""
    task = state.task
    found = budgets.tripped(task, evolved(task, [end]), state.policy, ended_by=end.kind)
    return 0 if found is None else 1 + found.sticky


def higher_limits(state: State) -> Iterator[State]:
    """*state* with one limit, or every one, one higher."""
    task, policy = state
    for name in _LIMITS:
        limit = getattr(policy, name)
        if limit is not None:
            yield State(task, policy._replace(**{name: limit + 1}))
    yield State(task, raised(policy))
    if task.card.max_retries is not None:
        yield State(task._replace(card=task.card._replace(max_retries=task.card.max_retries + 1)), policy)


Law = Callable[[Step], str | None]
LAWS: Final[tuple[Law, ...]] = (
    counts_as_told,
    within_limits,
    blocks_as_owed,
    holds_as_said,
    neutral_moves_two,
    sticky_waits_for_a_person,
    hold_outlasts_its_tick,
    lifts_as_owed,
)
"""What every step keeps. `raising_blocks_no_more` tries each end under many limits: it has a shorter walk."""


def faults(steps: Iterable[Step], laws: Iterable[Law] = LAWS) -> Iterator[tuple[str, str]]:
    """Each broken law by name, with the step that broke it."""
    checks = [(law.__name__, law) for law in laws]
    for step in steps:
        for name, law in checks:
            wrong = law(step)
            if wrong is not None:
                yield name, f"{step}: {wrong}"
