"""Claim, gate, lease, fence and sweepers as a model. Each step is one atomic act of the code, and any may be the last.

    step                        the line of the code that it stands for (`STANDS_FOR` has each; a test looks it up)
    --------------------------  ---------------------------------------------------------------------------------------
    takes the lock              sweep._only_one: flock, kept for the tick; whoever dies gives it back
    looks                       sweep._observe: the open runs, then the processes; all that this tick knows of them
    applies: books, claims      sweep._act: one transaction, which also renews the leases of those seen alive; what was
                                seen counts only of a run that is still as it was
    launches                    starting.start: launch; the supervisor stands in supervise._Gate.opened
    binds                       starting._bind: one transaction; may_bind refuses a run that is over, and a pause
    opens, shuts                starting._let_run: open_gate, close_gate; the gate of a dead claimer shuts of itself
    starts the command          supervise._supervise: command.start
    gives up                    supervise._supervise: not gate.opened
    completes, asks for review  workers._complete, workers._review: one transaction; the run of that lock must be open
    is refused                  workers._late: the run of that lock is over; the card does not change
    wishes, archives            wishes.wish: one transaction, acknowledged once it commits; endings._grant does it
    pauses                      operators._board: one transaction
    claims by hand              claims.claim_all: one transaction, after a look at processes (claims.seen_gone)
    ends, dies, reboots,        accidents: processes may end at any step, so the sweep's signals need none of their own
      leaves a stray

Time is left out: what may happen after a while may happen at once. A claim is unbound "for too long" as soon as a tick
sees it, and a lease may run out wherever no tick has renewed it. Only this is said of time: when lease and grace are
over, a supervisor that lives has ended its group (RULES §7.4; on one host no lease of a spawned run matters).

The model is of RULES. One of its guards is not in the code so far, and its story in `test_protocol` is what may happen
until then: `watch of the lease`, wanted once hosts share a store.

Left out: budgets, cooldowns, parents (`tests/rules` walks through them), caps, and all that only says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Final, NamedTuple

STANDS_FOR: Final = {
    "takes the lock": ("kanban/sweep.py", "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
    "looks": ("kanban/sweep.py", "seen = observe(watch.everyone(),"),
    "applies": ("kanban/sweep.py", "with at_desk(self.shop.engine, self.shop.board, self.shop.clock) as desk:"),
    "launches": ("kanban/starting.py", "launched = launch("),
    "binds": ("kanban/starting.py", "if not may_bind(desk, claim.task.id, claim.run, shop.host.id):"),
    "opens": ("kanban/starting.py", "open_gate(launched)"),
    "shuts": ("kanban/starting.py", "close_gate(launched) return Started("),
    "starts the command": ("kanban/worker/supervise.py", "command.start(order.command)"),
    "gives up": ("kanban/worker/supervise.py", "if not gate.opened(order.gate):"),
    "completes": ("kanban/workers.py", "return _ended(view, run, event, actor) def unmet_result("),
    "asks for review": ("kanban/workers.py", "event = e.ReviewRequested("),
    "is refused": ("kanban/workers.py", "return Decision((late,), lost(view, run, kept=True))"),
    "wishes to archive": ("kanban/wishes.py", "return Decision((Draft.of(task.id, asked, actor),))"),
    "archives": ("kanban/archiving.py", "drafts = [_archived(task.id, command, actor)]"),
    "pauses": ("kanban/operators.py", "e.Paused("),
    "claims by hand": (
        "kanban/claims.py",
        "refuse(desk, task, worker, host.id, caps, ending=task.id in ending)",
    ),
}
"""Where each step stands in the code: a text that its file has once, spaces and line ends aside."""
ACCIDENTS: Final = frozenset({"ends", "ends and leaves a stray", "dies", "reboots", "runs out"})

FAULTS: Final = {
    "gate": "the command runs as soon as it is launched",
    "lock of its own": "all runs that one dispatcher claims have its lock",
    "sight of death": "a run is released when its supervisor is gone, whoever is left of its group",
    "second look": "what was seen to have ended is booked, whatever came between",
    "second look at a claim": "what was seen to be free is claimed, whatever came between",
    "check at binding": "a run is bound without asking whether it is still open, or the board paused",
    "fence of an ending": "a card is claimed while the group of its ended run is still there",
    "wish at a verb": "only an exit grants the wishes of a run",
    "watch of the lease": "no supervisor minds its lease",
    "lock of the host": "two sweepers of a host tick at once",
    "look at open runs": "a claim by hand is fenced from the runs that had ended when it looked, not from later ones",
}
"""What a protocol may be without."""

NOTHING, WAITS, LET_RUN, SHUT_OUT, WORKS, LINGERS, ORPHAN, LINGERING_ORPHAN, DEAD = range(9)
"""The processes of a run: none yet; a supervisor at its gate, which is closed, opened or shut; the command as well,
before and after it used its verb; the command without its supervisor, likewise; none any more."""
COMMANDS: Final = frozenset({WORKS, LINGERS, ORPHAN, LINGERING_ORPHAN})
AFTER_VERB: Final = {WORKS: LINGERS, ORPHAN: LINGERING_ORPHAN, DEAD: DEAD}
WITHOUT_SUPERVISOR: Final = {
    WAITS: DEAD, LET_RUN: DEAD, SHUT_OUT: DEAD, WORKS: ORPHAN, LINGERS: LINGERING_ORPHAN,
}  # fmt: skip


class Run(NamedTuple):
    """A run: which of the sweepers claimed it, how often it was ended, and what is left of it."""

    by: int
    bound: bool = False
    ends: int = 0
    process: int = NOTHING
    stray: bool = False
    wish: bool = False
    leased: bool = True


PAST: Final = Run(0, bound=True, ends=1, process=DEAD)
"""A run that can do nothing more. Whose it was is forgotten."""


class Card(NamedTuple):
    """A card: its runs, oldest first; whether it is done or archived; whether an acknowledged wish is still due."""

    runs: tuple[Run, ...] = ()
    closed: bool = False
    asked: bool = False

    @property
    def open(self) -> bool:
        """Whether its last run is."""
        return bool(self.runs) and not self.runs[-1].ends


class Sweeper(NamedTuple):
    """Where a sweeper stands in its tick, what it saw of each card's runs, and the runs that it is starting."""

    at: str = "idle"
    seen: tuple[str, ...] = ()
    claims: tuple[tuple[int, int], ...] = ()


class State(NamedTuple):
    """The board, the sweepers, how many acts and crashes may still come, and what must not have happened and has."""

    cards: tuple[Card, ...]
    sweepers: tuple[Sweeper, ...]
    acts: int
    crashes: int
    paused: bool = False
    wrong: str = ""


IDLE: Final = Sweeper()
Step = tuple[str, State]
Change = tuple[str, Card, int, str]
"""What may become of a card by itself: what happens, the card then, what it costs of the crashes, what is wrong."""


@dataclass(frozen=True)
class Protocol:
    """The model: the host of each sweeper, how many cards, runs of a card, acts of people, crashes, claims of a tick.

    *in_all*: the most runs of the whole board. The last *hands* of the sweepers are people who claim by hand. *leases*:
    whether they run out in a step of their own, or may be over at any time. *without*: one of `FAULTS`.
    """

    hosts: tuple[int, ...] = (0, 0)
    cards: int = 1
    runs: int = 2
    acts: int = 0
    crashes: int = 2
    most: int = 2
    in_all: int = 9
    hands: int = 0
    pauses: bool = False
    leases: bool = False
    without: str = ""

    def start(self) -> State:
        """Nothing has happened."""
        return State((Card(),) * self.cards, (IDLE,) * len(self.hosts), self.acts, self.crashes)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever may happen next."""
        for s in range(len(self.hosts)):
            yield from self._ticks(state, s) if s < len(self.hosts) - self.hands else self._by_hand(state, s)
        for c, card in enumerate(state.cards):
            for what, then, cost, wrong in _alone(self, card):
                if cost <= state.crashes:
                    after = _with_card(state, c, then)
                    yield f"{c}{what}", _spent(after, crashes=cost, wrong=wrong) if cost or wrong else after
            if state.acts and not card.closed:
                what, then = _wished(card)
                yield f"operator {what} {c}", _spent(_with_card(state, c, then), acts=1)
        if state.acts and self.pauses and not state.paused:
            yield "operator pauses", _spent(state, acts=1)._replace(paused=True)
        if state.crashes:
            yield from self._crashes(_spent(state, crashes=1))

    def alike(self, state: State) -> State:
        """One of all states that differ only in which card, or which sweeper, is called the first."""
        cards, sweepers = state.cards, state.sweepers
        if len(cards) > 1 and cards[1] < cards[0]:
            cards, sweepers = cards[::-1], tuple(_turned(sweeper) for sweeper in sweepers)
        if not self.hands and sweepers[1] < sweepers[0]:
            cards, sweepers = tuple(_renamed(card) for card in cards), sweepers[::-1]
        return State(cards, sweepers, *state[2:])

    # A tick

    def _ticks(self, state: State, s: int) -> Iterator[Step]:
        me = state.sweepers[s]
        match me.at:
            case "idle" if self.hosts.count(self.hosts[s]) == 1:
                yield f"sweeper {s} takes the lock, looks", self._looked(state, s, "applies")
            case "idle":
                if not self._locked(state, s):
                    yield f"sweeper {s} takes the lock", _with_sweeper(state, s, Sweeper("looks"))
            case "looks":
                yield f"sweeper {s} looks", self._looked(state, s, "applies")
            case "applies":
                for what, cards, then in _applied(self, s, state.cards, me.seen, state.paused):
                    yield f"sweeper {s} applies{what}", _with_sweeper(State(cards, *state[1:]), s, then)
            case "launches":
                yield self._launches(state, s, me)
            case "binds":
                yield f"sweeper {s} binds", self._binds(state, s, me)
            case _:
                yield self._lets_run(state, s, me)

    def _locked(self, state: State, s: int) -> bool:
        others = [sweeper for sweeper, host in zip(state.sweepers, self.hosts, strict=True) if host == self.hosts[s]]
        return self.without != "lock of the host" and any(other.at not in {"idle", "claims"} for other in others)

    def _looked(self, state: State, s: int, then: str) -> State:
        return _with_sweeper(state, s, Sweeper(then, tuple(_seen(self, s, card) for card in state.cards)))

    def _launches(self, state: State, s: int, me: Sweeper) -> Step:
        c, r = next((c, r) for c, r in me.claims if state.cards[c].runs[r].process == NOTHING)
        state = _with_run(state, c, r, process=WORKS if self.without == "gate" else WAITS)
        left = any(state.cards[c].runs[r].process == NOTHING for c, r in me.claims)
        return f"sweeper {s} launches {c}.{r}", state if left else _with_sweeper(state, s, me._replace(at="binds"))

    def _binds(self, state: State, s: int, me: Sweeper) -> State:
        for c, r in me.claims:
            refused = bool(state.cards[c].runs[r].ends) or state.paused
            if not refused or self.without == "check at binding":
                state = _spent(_with_run(state, c, r, bound=True), wrong="bound too late" if refused else "")
        return _with_sweeper(state, s, me._replace(at="opens"))

    def _lets_run(self, state: State, s: int, me: Sweeper) -> Step:
        (c, r), *others = me.claims
        run = state.cards[c].runs[r]
        if run.process == WAITS:
            state = _with_run(state, c, r, process=LET_RUN if run.bound else SHUT_OUT)
        then = me._replace(claims=tuple(others)) if others else IDLE
        return f"sweeper {s} {'opens' if run.bound else 'shuts'} {c}.{r}", _with_sweeper(state, s, then)

    # People and accidents

    def _by_hand(self, state: State, s: int) -> Iterator[Step]:
        me = state.sweepers[s]
        if me.at == "idle" and state.acts:
            yield "person looks", self._looked(_spent(state, acts=1), s, "claims")
        elif me.at == "claims":
            state = _with_sweeper(state, s, IDLE)
            for c, card in enumerate(state.cards):
                if not state.paused and _free(self, card) and not self._may_remain(card, me.seen[c]):
                    run = Run(s, bound=True, process=WORKS)
                    yield f"person claims by hand {c}", _with_card(state, c, card._replace(runs=(*card.runs, run)))

    def _may_remain(self, card: Card, saw: str) -> bool:
        """Whether processes of the card's ended run may be there: they are unless the look showed that they are not."""
        if not card.runs or card.runs[-1] is PAST:
            return False
        last = saw[len(card.runs) - 1 :][:1]
        return last == "a" if self.without == "look at open runs" else last != "g"

    def _crashes(self, state: State) -> Iterator[Step]:
        for s, me in enumerate(state.sweepers):
            if me.at != "idle":
                yield f"sweeper {s} dies", _without_sweeper(state, s)
        for host in sorted(set(self.hosts)):
            then = state
            for s in [s for s, of in enumerate(self.hosts) if of == host]:
                then = _without_sweeper(then, s)
            for c, card in enumerate(then.cards):
                for r, run in enumerate(card.runs):
                    if run is not PAST and self.hosts[run.by] == host and run.process != NOTHING:
                        then = _with_run(then, c, r, process=DEAD, stray=False)
            yield f"host {host} reboots", then


# What happens to one card. Known once, for the same card and the same protocol.


def _free(protocol: Protocol, card: Card) -> bool:
    """Whether the store alone would let a run be opened."""
    return not card.closed and not card.open and len(card.runs) < protocol.runs


@cache
def _seen(protocol: Protocol, s: int, card: Card) -> str:
    """Of each run: `a` its group is alive, `g` gone; `u` unbound: none to look for; `.` not this host's, or over."""
    looks = [_look(protocol, s, run) for run in card.runs]
    if protocol.without == "look at open runs" and s >= len(protocol.hosts) - protocol.hands:
        looks = [look if run.ends else "." for run, look in zip(card.runs, looks, strict=True)]
    if protocol.without == "second look at a claim":
        looks += ["+"] * (_free(protocol, card) and "a" not in looks)
    return "".join(looks)


def _look(protocol: Protocol, s: int, run: Run) -> str:
    if run is PAST or protocol.hosts[run.by] != protocol.hosts[s]:
        return "."
    if not run.bound:
        return "." if run.ends else "u"
    leaderless = run.process in {ORPHAN, LINGERING_ORPHAN}
    return "g" if run.process == DEAD or (leaderless and protocol.without == "sight of death") else "a"


@cache
def _applied(
    protocol: Protocol, s: int, before: tuple[Card, ...], seen: tuple[str, ...], paused: bool
) -> tuple[tuple[str, tuple[Card, ...], Sweeper], ...]:
    """What one transaction of a tick may come to: each card settled, then claims while there is room."""
    found = []
    for settled in product(*(_settled(protocol, s, card, saw) for card, saw in zip(before, seen, strict=True))):
        told = [f" books {c}.{len(card.runs) - 1}" for c, (card, booked) in enumerate(settled) if booked]
        cards, claims = [card for card, _ in settled], []
        for c, card in enumerate(cards):
            room = len(claims) < protocol.most and sum(len(each.runs) for each in cards) < protocol.in_all
            if room and not paused and _claimable(protocol, card, seen[c]):
                cards[c] = card._replace(runs=(*card.runs, Run(s)))
                claims.append((c, len(card.runs)))
                told.append(f" claims {c}.{len(card.runs)}")
        then = Sweeper("launches", (), tuple(claims)) if claims else IDLE
        found.append((":" * bool(told) + ",".join(told), tuple(cards), then))
    return tuple(found)


def _claimable(protocol: Protocol, card: Card, saw: str) -> bool:
    if protocol.without == "second look at a claim":
        return "+" in saw and len(card.runs) < protocol.runs
    return _free(protocol, card) and ("a" not in saw or protocol.without == "fence of an ending")


@cache
def _settled(protocol: Protocol, s: int, card: Card, saw: str) -> tuple[tuple[Card, bool], ...]:
    """What a tick may make of the card's last run: left or renewed, or booked."""
    last = len(card.runs) - 1
    look = saw[last] if 0 <= last < len(saw) else ""
    stays, booked = (card, False), (_ended(card), True) if card.runs else None
    stale = protocol.without == "second look" and look in {"g", "u"}
    if booked is None or look in {"", "+"} or not (card.open or stale):
        return (stays,)
    run = card.runs[-1]
    match look:
        case "a":
            return ((_changed(card, last, leased=True), False),)
        case "g":
            return (booked,)
        case "u":
            return (stays, booked) if not run.bound else (stays,)
        case _:
            lives = run.process in {WORKS, LINGERS} and protocol.without != "watch of the lease"
            other = protocol.hosts[run.by] != protocol.hosts[s]
            return (stays, booked) if other and not lives and not (run.leased and protocol.leases) else (stays,)


@cache
def _alone(protocol: Protocol, card: Card) -> tuple[Change, ...]:
    """Whatever the processes of the card's runs may do next, or suffer."""
    found: list[Change] = []
    for r, run in enumerate(card.runs):
        found += _of_processes(protocol, card, r, run)
        if protocol.leases and run.leased and not run.ends:
            found.append((f".{r}: its lease runs out", _changed(card, r, leased=False), 0, ""))
        if run.process in WITHOUT_SUPERVISOR and run.by < len(protocol.hosts) - protocol.hands:
            left = WITHOUT_SUPERVISOR[run.process]
            found.append((f".{r}: its supervisor dies", _changed(card, r, process=left), 1, ""))
        if run.process == WORKS:
            found.append((f".{r} ends and leaves a stray", _changed(card, r, process=DEAD, stray=True), 1, ""))
    return tuple(found)


def _of_processes(protocol: Protocol, card: Card, r: int, run: Run) -> Iterator[Change]:
    watched = protocol.without != "watch of the lease"
    out = (not run.leased if protocol.leases else bool(run.ends)) and watched
    if run.process == LET_RUN and not out:
        yield f".{r} starts the command", _changed(card, r, process=WORKS), 0, ""
    if run.process == SHUT_OUT or (run.process == LET_RUN and out):
        yield f".{r} gives up", _changed(card, r, process=DEAD), 0, ""
    if run.process in COMMANDS:
        yield f".{r} ends", _changed(card, r, process=DEAD), 0, ""
    if run.process in {WORKS, ORPHAN}:
        by_hand = run.by >= len(protocol.hosts) - protocol.hands
        yield from _speaks(protocol, card, r, "", process=DEAD if by_hand else AFTER_VERB[run.process])
    if run.stray:
        yield from _speaks(protocol, card, r, ": its stray", stray=False)


def _speaks(protocol: Protocol, card: Card, r: int, who: str, **then: int) -> Iterator[Change]:
    """The worker of run *r* uses a verb with the lock that it was given."""
    run, last = card.runs[r], card.runs[-1]
    shared = protocol.without == "lock of its own" and card.open and last.by == run.by
    if run.ends and not shared:
        yield f".{r}{who} is refused", _changed(card, r, **then), 0, ""
        return
    wrong = "" if not run.ends else "a stale lock opened"
    spoken = _changed(card, r, **then)
    ended = _ended(spoken)
    if protocol.without == "wish at a verb":
        ended = ended._replace(closed=spoken.closed, asked=spoken.asked)
    yield f".{r}{who} completes", ended._replace(closed=True), 0, wrong
    yield f".{r}{who} asks for review", ended, 0, wrong


@cache
def _wished(card: Card) -> tuple[str, Card]:
    """An operator wants the card archived."""
    if not card.open:
        return "archives", card._replace(closed=True)
    return "wishes to archive", _changed(card, len(card.runs) - 1, wish=True)._replace(asked=True)


def _ended(card: Card) -> Card:
    """An event ends the card's last run, and grants its wish in the same append."""
    run = card.runs[-1]
    ended = _changed(card, len(card.runs) - 1, ends=run.ends + 1, wish=False)
    return ended._replace(closed=True, asked=False) if run.wish else ended


def _changed(card: Card, r: int, **changes: int) -> Card:
    run = card.runs[r]._replace(**changes)
    if run.ends == 1 and run.process == DEAD and not run.stray:
        run = PAST
    return card._replace(runs=(*card.runs[:r], run, *card.runs[r + 1 :]))


@cache
def _renamed(card: Card) -> Card:
    return card._replace(runs=tuple(run if run is PAST else run._replace(by=1 - run.by) for run in card.runs))


def forget() -> None:
    """Let go of what is known of cards."""
    for known in (_seen, _applied, _settled, _alone, _wished, _renamed):
        known.cache_clear()


# What happens to the state


def _with_card(state: State, c: int, card: Card) -> State:
    return State((*state.cards[:c], card, *state.cards[c + 1 :]), *state[1:])


def _with_run(state: State, c: int, r: int, **changes: int) -> State:
    return _with_card(state, c, _changed(state.cards[c], r, **changes))


def _with_sweeper(state: State, s: int, sweeper: Sweeper) -> State:
    return State(state.cards, (*state.sweepers[:s], sweeper, *state.sweepers[s + 1 :]), *state[2:])


def _without_sweeper(state: State, s: int) -> State:
    """It is gone, and with it its lock and its ends of all gates."""
    for c, card in enumerate(state.cards):
        for r, run in enumerate(card.runs):
            if run.by == s and run.process == WAITS:
                state = _with_run(state, c, r, process=SHUT_OUT)
    return _with_sweeper(state, s, IDLE)


def _spent(state: State, *, acts: int = 0, crashes: int = 0, wrong: str = "") -> State:
    left = state.acts - acts, state.crashes - crashes
    return State(state.cards, state.sweepers, *left, state.paused, state.wrong or wrong)


def _turned(sweeper: Sweeper) -> Sweeper:
    if sweeper is IDLE:
        return IDLE
    return Sweeper(sweeper.at, sweeper.seen[::-1], tuple((1 - c, r) for c, r in sweeper.claims))


# What must hold of every state


def one_worker_a_card(protocol: Protocol, state: State) -> bool:
    """Never two live commands of a card on a host. On two hosts the older one has used its verb or lost its supervisor.

    RULES §7.7 keeps an ended run's card from its own host only, and only a supervisor watches the lease: there the
    lock is the fence.
    """
    for card in state.cards:
        live = [run for run in card.runs if run.process in COMMANDS]
        if len(live) > 1 and (
            len({protocol.hosts[run.by] for run in live}) < len(live) or any(run.process == WORKS for run in live[:-1])
        ):
            return False
    return True


def no_wish_is_lost(_protocol: Protocol, state: State) -> bool:
    """A wish that was acknowledged is granted with the end of its run, and stands on an open run until then."""
    return all(not card.asked or (card.open and card.runs[-1].wish) for card in state.cards)


def a_run_ends_once(_protocol: Protocol, state: State) -> bool:
    """At most once, and only the last run of a card is open. That it can end is asked of the whole model."""
    ends = [[run.ends for run in card.runs] for card in state.cards]
    return all(each == [1] * (len(each) - 1) + [each[-1]] and each[-1] <= 1 for each in ends if each)


def never_bound_never_ran(_protocol: Protocol, state: State) -> bool:
    """No command lives for a run that was not bound; none is bound once its run is over or the board is paused."""
    bound = all(run.bound or run.process not in COMMANDS for card in state.cards for run in card.runs)
    return bound and state.wrong != "bound too late"


def a_stale_lock_opens_nothing(_protocol: Protocol, state: State) -> bool:
    """A verb with the lock of a run that is over changes no card."""
    return state.wrong != "a stale lock opened"


RULES: Final = (
    one_worker_a_card,
    no_wish_is_lost,
    a_run_ends_once,
    never_bound_never_ran,
    a_stale_lock_opens_nothing,
)
