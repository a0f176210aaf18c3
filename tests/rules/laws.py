"""The laws of the rules, as functions that raise, and the histories that they are tried on.

A history is a list of `Move`s, each a wish of somebody: what a rule refuses leaves no trace. So every log here is one
that `decide`, the plan and the booking can produce. The laws restate the rules from the log alone, naively: they
share no code with the folds.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

from kanban.booking import decide_step
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
    Progress,
    RemoveLink,
    Reopen,
    Resume,
    Schedule,
    SetPolicy,
    Unblock,
)
from kanban.endings import ending
from kanban.plan import Book, Seen
from kanban.processes import Presence
from ledger.errors import LedgerError
from ledger.events import Actor
from ledger.recorded import Recorded
from projections.policy import Policy, policy_from
from projections.rows import run_from, run_row, task_from, task_row
from projections.run import evolve_run
from projections.task import Task, claimable, evolve
from tests import given
from tests.rules.world import SECOND, Claim, WorldView, ended

LIMITS = {"failure_limit": 2, "violation_limit": 2, "neutral_limit": 3, "run_limit": 5}
"""Small enough that every budget is met in a short history."""
CARDS = ("t_a", "t_b", "t_c")
CODES = (None, 0, 0, 1, 5, 5, 75, 78, 126, 127, 130, 143)
"""Exit codes; none: nobody bears witness."""
PEOPLE = ("builder", "other", "critic", None)
WAITS = (1, 40, 700, 2_000, 5_000, 40_000)


class Move(NamedTuple):
    """Somebody wants something of one of the cards; *other* and *n* say which and how much."""

    verb: str
    card: int
    other: int
    n: int


# Histories


class Story:
    """A board that moves are made on, and every lock that was ever given out."""

    def __init__(self, cards: int) -> None:
        self.world = WorldView(**LIMITS)
        self.claims: dict[str, list[Claim]] = {task: [] for task in CARDS}
        self.cards = CARDS[:cards]
        for task in self.cards:
            self.world.create(task)

    def make(self, move: Move) -> None:
        """Make *move*; what a rule refuses leaves no trace."""
        task = self.cards[move.card % len(self.cards)]
        other = self.cards[move.other % len(self.cards)]
        try:
            _VERBS[move.verb](self, task, other, move.n)
        except LedgerError:
            return

    def claim(self, task: str, by: str, n: int) -> None:
        card = self.world.card(task)
        if n % 2:
            self.world.now = max(self.world.now, card.not_before or 0, card.scheduled or 0)
        how = ("violation", "complete", "review", "violation")[n % 4]
        extra = {"on_success": how, "reviewer": "critic"} if by == "spawn" else {"bound": n % 3 == 0}
        self.claims[task].append(self.world.claim(task, by, **extra))

    def end(self, task: str, n: int) -> None:
        number = self.world.card(task).run
        if number is not None:
            self.world.settle({(task, number): seen_of(n)})

    def speak(self, task: str, verb: str, n: int) -> None:
        """The worker of a run, mostly of the last, says its verb."""
        given_out = self.claims[task]
        if not given_out:
            return
        proof = given_out[-1 if n % 4 else n % len(given_out)].proof
        match verb:
            case "complete":
                command: Any = Complete(task, f"s{n % 2}", ("ok", "fail")[n % 5 == 4], claim=proof)
            case "block":
                command = Block(task, "stuck", (None, "dependency")[n % 2], claim=proof)
            case "review":
                command = AskReview(task, proof, "look", ("critic", None)[n % 2])
            case "changes":
                command = AskChanges(task, "no", proof)
            case _:
                command = Progress(task, proof, "half")
        self.world.do(command)


def seen_of(n: int) -> Seen:
    """How an empty group was found: the code of its witness, if any, and whether a quota pattern matched."""
    seen = ended(CODES[n % len(CODES)], quota=n % 7 == 6, reset=given.NOW + n * 3_600 * SECOND)
    return seen._replace(presence=Presence.REBOOTED) if n % 5 == 4 else seen


def _policy(story: Story, _: str, __: str, n: int) -> None:
    name = ("failure_limit", "violation_limit", "neutral_limit", "run_limit", "attempt_limit")[n % 5]
    story.world.do(SetPolicy({name: 1 + n // 5 % 7}))


def _operator(command: Callable[[str, str, int], Any]) -> Callable[[Story, str, str, int], None]:
    def act(story: Story, task: str, other: str, n: int) -> None:
        story.world.do(command(task, other, n))

    return act


_VERBS: dict[str, Callable[[Story, str, str, int], Any]] = {
    "spawn": lambda story, task, _, n: story.claim(task, "spawn", n),
    "hand": lambda story, task, _, n: story.claim(task, "hand", n),
    "end": lambda story, task, _, n: story.end(task, n),
    "tick": lambda story, *_: story.world.tick(),
    "wait": lambda story, _, __, n: story.world.later(WAITS[n % len(WAITS)]),
    "says complete": lambda story, task, _, n: story.speak(task, "complete", n),
    "says block": lambda story, task, _, n: story.speak(task, "block", n),
    "says review": lambda story, task, _, n: story.speak(task, "review", n),
    "says changes": lambda story, task, _, n: story.speak(task, "changes", n),
    "says progress": lambda story, task, _, n: story.speak(task, "progress", n),
    "policy": _policy,
    "assign": _operator(lambda task, _, n: Assign(task, PEOPLE[n % 4], force=n % 3 > 0)),
    "link": _operator(lambda task, other, n: AddLink(task, other, ("ok", "any")[n % 2])),
    "unlink": _operator(lambda task, other, _: RemoveLink(task, other)),
    "comment": _operator(lambda task, _, __: Comment(task, "word")),
    "schedule": _operator(lambda task, _, n: Schedule(task, given.NOW + n * 9_000 * SECOND, force=n % 3 > 0)),
    "archive": _operator(lambda task, _, n: Archive(task, (None, "keep", "unlink", "cascade")[n % 4], force=n % 3 > 0)),
    "reopen": _operator(lambda task, _, __: Reopen(task)),
    "block": _operator(lambda task, _, n: Block(task, f"r{n % 2}", force=n % 3 > 0)),
    "unblock": _operator(lambda task, _, __: Unblock(task)),
    "complete": _operator(lambda task, _, n: Complete(task, f"s{n % 2}", ("ok", "fail")[n % 5 == 4], force=n % 3 > 0)),
    "accept": _operator(lambda task, _, n: Accept(task, 1 + n % 4)),
    "changes": _operator(lambda task, _, __: AskChanges(task, "no")),
    "limit": _operator(lambda task, _, n: Edit(task, {"max_retries": (None, 1, 2, 3, 4)[n % 5]})),
    "lane": _operator(lambda task, _, n: Edit(task, {"lane": ("work", "triage")[n % 2]})),
    "pause": _operator(lambda _, __, n: Pause("assignee", "other", drain=n % 2 == 0)),
    "resume": _operator(lambda _, __, ___: Resume("assignee", "other")),
    "create": lambda story, task, _, n: story.world.do(
        Create(f"t_{story.world.head}", "New", assignee="builder", parents=((task, ("ok", "any")[n % 2]),))
    ),
}
OFTEN = ("spawn", "end", "spawn", "end", "spawn", "end", "hand", "tick")
"""Said more often, or no history would come to a budget."""
VERBS = ("wait", *_VERBS, *OFTEN * 6)


def played(cards: int, moves: list[Move]) -> Story:
    """The story of *moves* on so many cards."""
    story = Story(cards)
    for move in moves:
        story.make(move)
    return story


def random_story(seed: int) -> Story:
    """A story that is the same for the same seed."""
    dice = random.Random(seed)
    draw = dice.randrange
    return played(1 + draw(3), [Move(dice.choice(VERBS), draw(3), draw(3), draw(60)) for _ in range(70)])


# The log, restated naively


def streams(log: list[Recorded]) -> dict[str, list[Recorded]]:
    """Each card's events."""
    found: dict[str, list[Recorded]] = {}
    for event in log:
        if event.task:
            found.setdefault(event.task, []).append(event)
    return found


def said(event: Recorded) -> dict[str, Any]:
    """The facts, read without the program's help."""
    return json.loads(event.facts_text)


class Naive:
    """What one card's log comes to, by RULES §4 as a person would read it."""

    def __init__(self) -> None:
        self.last = {"assignee": None, "reviewer": None}
        self.hold: tuple[str, bool] | None = None
        self.max_retries: int | None = None
        self.epoch()

    def epoch(self) -> None:
        self.failures = self.streak = self.spent = self.neutral = self.runs = 0

    def counters(self) -> tuple[int, ...]:
        return self.failures, self.streak, self.spent, self.neutral, self.runs

    def take(self, event: Recorded) -> None:
        facts = said(event)
        match event.kind:
            case "created":
                self.last["assignee"], self.max_retries = facts["assignee"], facts["max_retries"]
            case "edited":
                self.max_retries = facts["values"].get("max_retries", self.max_retries)
            case "claimed":
                self.runs += 1
            case "exited":
                self._exited(event)
            case "completed" | "reopened":
                self.epoch()
                self.hold = None
            case "unblocked":
                self.hold = None
                if facts["cause"] == "operator":
                    self.epoch()
            case "assigned":
                if facts["to"] is not None and facts["to"] != self.last[facts["role"]]:
                    self.epoch()
                self.last[facts["role"]] = facts["to"] or self.last[facts["role"]]
            case "review_requested" | "changes_requested":
                self.streak = self.neutral = 0
                if facts.get("reviewer"):
                    self.last["reviewer"] = facts["reviewer"]
            case "blocked":
                if event.run is not None:
                    self.streak = self.neutral = 0
                if facts["hold"]:
                    self.hold = (facts["cause"], facts["sticky"])

    def _exited(self, event: Recorded) -> None:
        if event.outcome in {"rate_limited", "interrupted", "lost"}:
            self.neutral += 1
            return
        self.neutral = 0
        self.spent += 1
        if event.outcome == "clean":
            self.streak += 1
            return
        self.streak = 0
        self.failures += 1
        if event.outcome == "config":
            self.hold = ("config", True)

    def limits(self, policy: Policy) -> tuple[int, ...]:
        """Of failures, streak, spent, neutral, runs: RULES §5."""
        attempts = policy.attempt_limit
        if attempts is None:
            attempts = policy.failure_limit + policy.violation_limit + 1
        own = self.max_retries
        return (
            policy.failure_limit if own is None else own,
            policy.violation_limit if own is None else own,
            attempts if own is None else own,
            policy.neutral_limit,
            policy.run_limit,
        )


def retold(log: list[Recorded]) -> Iterator[tuple[Recorded, dict[str, Naive], Policy]]:
    """Every event, and the cards and the policy as they stand after it."""
    cards: dict[str, Naive] = {}
    policy = Policy()
    for event in log:
        if event.kind == "policy_changed":
            policy = policy_from(said(event))
        if event.task:
            cards.setdefault(event.task, Naive()).take(event)
        yield event, cards, policy


# The laws


def counters_are_what_the_log_says(story: Story) -> None:
    """RULES §4: nothing but the table moves a counter."""
    for task, stream in streams(story.world.log).items():
        naive, folded = Naive(), Task(task)
        for event in stream:
            naive.take(event)
            folded = evolve(folded, event)
            found = (folded.failures, folded.streak, folded.spent, folded.neutral, folded.runs)
            assert found == naive.counters(), (event.position, event.kind, found, naive.counters())


def no_count_exceeds_its_limit(story: Story) -> None:
    """RULES §5: while limits do not fall, no count exceeds its limit. A limit that fell counts again in a new epoch."""
    known: dict[str, tuple[int, ...]] = {}
    fell: dict[str, set[int]] = {}
    for event, cards, policy in retold(story.world.log):
        for task, card in cards.items():
            limits, lowered = card.limits(policy), fell.setdefault(task, set())
            changes = zip(known.get(task, limits), limits, strict=True)
            lowered |= {number for number, (old, new) in enumerate(changes) if new < old}
            known[task] = limits
            for number, (count, limit) in enumerate(zip(card.counters(), limits, strict=True)):
                if count < limit:
                    lowered.discard(number)
                assert count <= limit or number in lowered, (event.position, task, number, count, limit)


def no_run_opens_under_a_hold(story: Story) -> None:
    """RULES §3: claimable: no hold."""
    holds: dict[str, Any] = {}
    for event, cards, _ in retold(story.world.log):
        if event.kind == "claimed":
            assert holds.get(event.task) is None, event.position
        holds = {task: card.hold for task, card in cards.items()}


def a_sticky_hold_ends_with_a_person(story: Story) -> None:
    """RULES §1: only an operator's `unblocked`, a `completed` or a `reopened` ends a sticky hold."""
    for task, stream in streams(story.world.log).items():
        folded = Task(task)
        for event in stream:
            before, folded = folded, evolve(folded, event)
            if before.hold is None or not before.hold.sticky or (folded.hold is not None and folded.hold.sticky):
                continue
            ended_by = said(event)["cause"] if event.kind == "unblocked" else event.kind
            assert ended_by in {"operator", "completed", "reopened"}, (event.position, event.kind)
            assert event.kind != "unblocked" or event.actor_kind == "operator", event.position


def neutral_ends_move_only_neutral(story: Story) -> None:
    """RULES §4: a neutral end: = = = +1, the run ends, not before; `claimed`: runs +1."""
    for task, stream in streams(story.world.log).items():
        folded = Task(task)
        for event in stream:
            before, folded = folded, evolve(folded, event)
            seen = {"version": event.version, "position": event.position, "updated_at": event.at}
            if event.kind == "exited" and event.outcome in {"rate_limited", "interrupted", "lost"}:
                moved = {"neutral": before.neutral + 1, "run": None, "not_before": said(event)["not_before"]}
                assert folded == before._replace(**seen, **moved), event.position
            if event.kind == "claimed":
                moved = {"runs": before.runs + 1, "run": event.run, "last_run": event.run, "scheduled": None}
                assert folded == before._replace(**seen, **moved), event.position


def folding_does_not_depend_on_the_cut(story: Story) -> None:
    """RULES §4: fold(a + b) is fold(b) from fold(a), also when fold(a) was stored meanwhile."""
    for task, stream in streams(story.world.log).items():
        whole = reduce(evolve, stream, Task(task))
        for cut in {0, 1, len(stream) // 3, len(stream) // 2, len(stream) - 1}:
            part = reduce(evolve, stream[:cut], Task(task))
            if cut:
                part = task_from({**task_row(part), "open_parents": 0})
            assert reduce(evolve, stream[cut:], part) == whole, (task, cut)


def the_board_is_the_sum_of_its_cards(story: Story) -> None:
    """RULES §3: a card's row is touched by another card's event only in `open_parents`."""
    world = story.world
    for task, stream in streams(world.log).items():
        assert world.world.tasks[task] == reduce(evolve, stream, Task(task)), task
        for number in {event.run for event in stream} - {None}:
            run = None
            for event in stream:
                if event.run == number or (event.kind == "edited" and run is not None and run.open):
                    run = evolve_run(run, event)
            assert run is not None
            assert world.run(task, number) == run == run_from(run_row(run)), (task, number)
        waits = _links(world.log).get(task, {})
        outcomes = _outcomes(world.log)
        unmet = [parent for parent, require in waits.items() if not _satisfies(outcomes.get(parent), require)]
        assert world.card(task).open_parents == len(unmet), (task, unmet)


def a_card_is_claimable_when_the_rules_say_so(story: Story) -> None:
    """RULES §3: not archived, not done, no run, no hold, lane not triage, every parent satisfied, both times come."""
    world = story.world
    for task, stream in streams(world.log).items():
        card = world.card(task)
        times = {world.now, card.scheduled or 0, card.not_before or 0}
        for instant in sorted({time + step for time in times for step in (-1, 0, 1)}):
            assert claimable(card, instant) == _claimable(world.log, stream, instant), (task, instant, card)


def _claimable(log: list[Recorded], stream: list[Recorded], instant: int) -> bool:
    lasts = {event.kind: event.position for event in stream}
    reopened = lasts.get("reopened", 0)
    if lasts.get("archived", 0) > reopened or lasts.get("completed", 0) > reopened:
        return False
    ends = {"exited", "completed", "review_requested", "changes_requested", "blocked"}
    ended_at = max((event.position for event in stream if event.kind in ends and event.run is not None), default=0)
    if lasts.get("claimed", 0) > ended_at:
        return False
    naive = Naive()
    lane, scheduled, not_before = "work", 0, 0
    for event in stream:
        epoch = naive.last.copy()
        naive.take(event)
        facts = said(event)
        match event.kind:
            case "created":
                lane = facts["lane"]
            case "edited":
                lane = facts["values"].get("lane", lane)
            case "review_requested":
                lane = "review"
            case "changes_requested":
                lane = "work"
            case "scheduled":
                scheduled = facts["not_before"]
            case "claimed":
                scheduled = 0
            case "reopened":
                lane, scheduled, not_before = "work", 0, 0
            case "exited" if event.outcome in {"rate_limited", "interrupted", "lost"}:
                not_before = facts["not_before"] or 0
            case "unblocked" if facts["cause"] == "operator":
                not_before = 0
            case "assigned" if facts["to"] is not None and facts["to"] != epoch[facts["role"]]:
                not_before = 0
    outcomes = _outcomes(log)
    waits = _links(log).get(stream[0].task, {})
    met = all(_satisfies(outcomes.get(parent), require) for parent, require in waits.items())
    return naive.hold is None and lane != "triage" and met and scheduled <= instant >= not_before


def _links(log: list[Recorded]) -> dict[str, dict[str, str]]:
    waits: dict[str, dict[str, str]] = {}
    for event in log:
        if event.kind == "created":
            waits[event.task] = {each["task"]: each["require"] for each in said(event)["parents"]}
        elif event.kind == "linked":
            waits[event.task][said(event)["parent"]] = said(event)["require"]
        elif event.kind == "unlinked":
            waits[event.task].pop(said(event)["parent"])
    return waits


def _outcomes(log: list[Recorded]) -> dict[str, str | None]:
    return {event.task: event.outcome for event in log if event.kind in {"completed", "reopened"}}


def _satisfies(outcome: str | None, require: str) -> bool:
    return outcome == "ok" or (outcome == "fail" and require == "any")


def runs_are_numbered_and_locks_are_never_used_again(story: Story) -> None:
    """RULES §1: runs are numbered 1, 2, 3… per card; the lock is the token of one run."""
    locks = [said(event)["lock_hash"] for event in story.world.log if event.kind == "claimed"]
    assert len(set(locks)) == len(locks)
    for stream in streams(story.world.log).values():
        numbers = [event.run for event in stream if event.kind == "claimed"]
        assert numbers == list(range(1, len(numbers) + 1))


def never_two_live_runs(story: Story) -> None:
    """RULES §1: opened by `claimed`, ended by exactly one event; RULES §7.2: never two live runs."""
    ends = {"exited", "completed", "review_requested", "changes_requested", "blocked"}
    for stream in streams(story.world.log).values():
        marks = [event for event in stream if event.run is not None and event.kind in ends | {"claimed"}]
        for one, two in pairwise(marks):
            assert (one.kind == "claimed") == (two.kind != "claimed"), two.position
            assert one.kind != "claimed" or one.run == two.run, two.position


def no_hold_lifts_by_itself(story: Story) -> None:
    """RULES §5: a hold never lifts in the tick that set it unless an operator's event came between."""
    log = story.world.log
    held: dict[str, int] = {}
    for event in log:
        sets = event.kind == "blocked" and said(event)["hold"]
        if sets or (event.kind == "exited" and event.outcome == "config"):
            held[event.task] = event.position
        if event.kind == "unblocked" and said(event)["cause"] != "operator":
            between = log[held[event.task] : event.position - 1]
            acts = [each for each in between if each.task in {"", event.task} and each.actor_kind == "operator"]
            assert acts, (event.position, held[event.task])


def no_card_runs_on_by_itself(story: Story, seed: int = 0) -> None:
    """RULES §5: `policy` prints the most runs that a card can use between two acts of a person: run_limit.

    From the end of the story on only sweeps and workers act; time goes on until nothing can start any more.
    """
    world, dice, since = story.world, random.Random(seed), story.world.head
    most = world.settings.policy.run_limit
    for _ in range(len(world.world.tasks) * (most + 2) + 2):
        for run in world.live():
            _ends_somehow(story, run.task, dice)
        world.later(100_000)
        for card in sorted(world.world.tasks):
            story.claims.setdefault(card, [])
        _, admission = world.tick()
        used = Counter(event.task for event in world.log[since:] if event.kind == "claimed")
        assert all(runs <= most for runs in used.values()), used
        if not admission.starts and not world.live() and not _something_is_due(world):
            return
    raise AssertionError("the board runs on")


def _ends_somehow(story: Story, task: str, dice: random.Random) -> None:
    """The open run ends: mostly not as it should."""
    world = story.world
    verb = dice.choice(["5", "0", "none", "review", "changes", "5", "0", "none"])
    run = world.run(task, world.card(task).run or 0)
    if run is None:
        return
    if verb in {"review", "changes"}:
        event = given.review_requested(run.run) if verb == "review" else given.changes_requested(run.run)
        _by_verb(world, run, event)
        return
    world.later(30_000)
    code = {"5": 5, "0": 0}.get(verb, 130)
    world.settle({} if verb == "none" and run.group is None else {(task, run.run): ended(code)})


def _by_verb(world: WorldView, run: Any, event: Any) -> None:
    drafts, _ = ending(world, run, event, Actor(kind="worker", name=run.worker, host="node-1"))
    world.write(drafts)


def _something_is_due(world: WorldView) -> bool:
    cards = [world.card(task) for task in world.world.tasks]
    horizon = world.now + 10**9 * SECOND
    waiting = [card for card in cards if claimable(card, horizon) and not claimable(card, world.now)]
    if waiting:
        world.now = max(world.now, *(max(card.scheduled or 0, card.not_before or 0) for card in waiting))
    return bool(waiting)


def the_same_death_is_booked_alike(story: Story) -> None:
    """RULES §6: booked by any process: equal kinds, outcomes and facts but for the observer."""
    world = story.world
    for task in sorted(world.world.tasks):
        story.make(Move("spawn", CARDS.index(task) if task in CARDS else 0, 0, 1))
    for n in range(len(CODES)):
        steps = world.planned({(run.task, run.run): seen_of(n) for run in world.live()})
        for step in steps:
            if isinstance(step, Book):
                one = _told(world, step, "node-1:1", given.SWEEP)
                two = _told(world, step, "node-1:2", Actor(kind="sweep", name="sweep", host="node-1"))
                assert one == two, (n, one, two)


def _told(world: WorldView, step: Book, observer: str, actor: Actor) -> list[Any]:
    drafts = decide_step(world, step, actor, observer).drafts
    facts = [json.loads(draft.facts_text) for draft in drafts]
    return [
        (draft.task, draft.kind, draft.run, draft.outcome, {**each, "observer": None}, draft.words_text)
        for draft, each in zip(drafts, facts, strict=True)
    ]


def the_log_has_no_gaps(story: Story) -> None:
    """RULES §2: position 1, 2, 3… per board, version 1, 2, 3… per card; every event is whole."""
    log = story.world.log
    assert [event.position for event in log] == list(range(1, len(log) + 1))
    for stream in streams(log).values():
        assert [event.version for event in stream] == list(range(1, len(stream) + 1))
        assert stream[0].kind == "created"
    for event in log[-10:]:
        event.event()


LAWS: dict[str, Callable[[Story], None]] = {
    law.__name__: law
    for law in (
        counters_are_what_the_log_says,
        no_count_exceeds_its_limit,
        no_run_opens_under_a_hold,
        a_sticky_hold_ends_with_a_person,
        neutral_ends_move_only_neutral,
        folding_does_not_depend_on_the_cut,
        the_board_is_the_sum_of_its_cards,
        a_card_is_claimable_when_the_rules_say_so,
        runs_are_numbered_and_locks_are_never_used_again,
        never_two_live_runs,
        no_hold_lifts_by_itself,
        no_card_runs_on_by_itself,
        the_same_death_is_booked_alike,
        the_log_has_no_gaps,
    )
}
