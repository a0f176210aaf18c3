"""Claim, gate, lease, fence and sweepers as a model: each step is one atomic act of the code, and any may be the last.

    step                    the line of the code that it stands for (a test finds each)
    ----------------------  -------------------------------------------------------------------------------------------
    takes the lock          sweep._only_one: flock; a process that dies gives it back
    looks                   sweep._observe: the store, then processes; what was seen is all that this tick knows of them
    applies                 sweep._act, one transaction: settle books, renews; admit and _claim claim; nothing seen
                            before the lock counts unless the run is still as it was
    launches                starting.start: launch; the supervisor waits in supervise._Gate.opened
    binds                   starting._bind, one transaction: may_bind, `worker_bound`
    opens, shuts            starting._let_run: open_gate, close_gate; a dead claimer's gate shuts of itself
    starts the command      supervise._supervise: command.start
    gives up                supervise._supervise: not gate.opened
    completes, asks for     workers._complete, _review, one transaction: proved, run.open, endings.ending
      review, is refused
    ends                    the process group is empty
    its lease runs out      nothing renewed it; the supervisor then ends its group (RULES §7.4)
    wishes                  wishes.wish, one transaction: acknowledged when it commits, granted by endings._grant
    pauses                  operators._board: the pause is in force when it commits

Time is left out: what may happen after a while may happen at once. So a claim may be unbound "for too long" as soon as
it is seen, and a lease may run out wherever no tick has renewed it. One thing is said of time: by the end of lease and
grace a supervisor that lives has ended its group.

Left out: budgets, cooldowns, parents (see `tests/rules`), and signals, since a process may die at any step anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

STANDS_FOR: Final = {
    "takes the lock": ("kanban/sweep.py", "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
    "looks": ("kanban/sweep.py", "seen = observe(watch.everyone(), self.shop.host, self.shop.home, ProcessTable"),
    "applies": ("kanban/sweep.py", "with at_desk(self.shop.engine, self.shop.board, self.shop.clock) as desk:"),
    "launches": ("kanban/starting.py", "launched = launch(_order(shop, claim))"),
    "binds": ("kanban/starting.py", "if may_bind(desk, claim.task.id, claim.run, shop.host.id):"),
    "opens": ("kanban/starting.py", "        open_gate(launched)\n"),
    "shuts": ("kanban/starting.py", "    close_gate(launched)\n    return Started"),
    "starts the command": ("kanban/worker/supervise.py", "command.start(order.command)"),
    "gives up": ("kanban/worker/supervise.py", "if not gate.opened(order.gate):\n            return _STOPPED"),
    "completes": ("kanban/workers.py", "    if waiting:\n        return unmet_result(view, run, event, actor, waiting)\n"),
    "asks for review": ("kanban/workers.py", "return _ended(view, run, event, actor) if run.open else _repeated("),
    "is refused": ("kanban/workers.py", "    if not run.open:\n        return _late(view, run, event, actor)"),
    "wishes": ("kanban/wishes.py", "return Decision((Draft.of(task.id, asked, actor),))"),
    "pauses": ("kanban/operators.py", "return one(\"\", e.Paused("),
}
"""Where each step stands in the code: a text that a file has once."""

NOTHING, WAITS, LET_RUN, SHUT_OUT, WORKS, LINGERS, ORPHAN, ORPHAN_LINGERS, DEAD = range(9)
"""A run's processes: none; a supervisor at its gate, which is closed, opened, or shut; it and the command, which has
or has not used its verb; the command without its supervisor, alike; none any more."""
COMMANDS: Final = frozenset({WORKS, LINGERS, ORPHAN, ORPHAN_LINGERS})
SUPERVISORS: Final = frozenset({WAITS, LET_RUN, SHUT_OUT, WORKS, LINGERS})
ORPHANS: Final = {WORKS: ORPHAN, LINGERS: ORPHAN_LINGERS}

FAULTS: Final = (
    "gate",
    "lock of its own",
    "sight of death",
    "second look",
    "check at binding",
    "fence of an ending",
    "one transaction",
    "watch of the lease",
    "fresh look at a claim",
)
"""What a broken protocol may be without."""


class Run(NamedTuple):
    """A run: the sweeper that claimed it (-1: an operator, by hand), and how often an event has ended it."""

    by: int
    bound: bool = False
    ends: int = 0
    process: int = NOTHING
    stray: bool = False
    wish: bool = False
    leased: bool = True


PAST: Final = Run(0, bound=True, ends=1, process=DEAD)
"""Every run that is over: it can do nothing more, so whose it was is forgotten."""


class Card(NamedTuple):
    """A card: its runs, oldest first, how it was closed, and whether an operator's wish was acknowledged."""

    runs: tuple[Run, ...] = ()
    closed: bool = False
    asked: bool = False

    @property
    def open(self) -> bool:
        return bool(self.runs) and not self.runs[-1].ends


class Sweeper(NamedTuple):
    """Where a sweeper stands in its tick; what it saw of each card's runs; the runs that it is starting."""

    at: str = "idle"
    seen: tuple[str, ...] = ()
    claims: tuple[tuple[int, int], ...] = ()


class State(NamedTuple):
    """Everything: cards, sweepers, acts and crashes that may still come, and what must never have happened."""

    cards: tuple[Card, ...]
    sweepers: tuple[Sweeper, ...]
    acts: int
    crashes: int
    paused: bool = False
    wrong: str = ""


Step = tuple[str, State]
IDLE: Final = Sweeper()


@dataclass(frozen=True, slots=True)
class Protocol:
    """The model. *hosts*: of each sweeper; *most*: claims of a tick; *without*: what of `FAULTS` is missing."""

    hosts: tuple[int, ...] = (0, 0)
    cards: int = 2
    runs: int = 2
    acts: int = 1
    crashes: int = 2
    most: int = 2
    pauses: bool = False
    leases: bool = False
    strays: bool = True
    without: str = ""

    def start(self) -> State:
        """Nothing has happened."""
        return State((Card(),) * self.cards, (IDLE,) * len(self.hosts), self.acts, self.crashes)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever may happen next."""
        for sweeper in range(len(self.hosts)):
            yield from self._ticks(state, sweeper)
        for c, card in enumerate(state.cards):
            for r, run in enumerate(card.runs):
                if run is not PAST:
                    yield from self._lives(state, c, r)
            if state.acts and not card.closed:
                yield self._wishes(state, c)
        if state.acts and self.pauses and not state.paused:
            yield "operator pauses", state._replace(acts=state.acts - 1, paused=True)
        if state.crashes:
            yield from self._crashes(state._replace(crashes=state.crashes - 1))

    def alike(self, state: State) -> State:
        """One state for all that differ only in which card, or which sweeper of a host, is called the first."""
        if len(state.cards) == 2 and state.cards[1] < state.cards[0]:
            state = state._replace(cards=state.cards[::-1], sweepers=tuple(_turned(each) for each in state.sweepers))
        if state.sweepers[1] < state.sweepers[0]:
            cards = tuple(
                card._replace(runs=tuple(run if run is PAST else run._replace(by=1 - run.by) for run in card.runs))
                for card in state.cards
            )
            state = state._replace(cards=cards, sweepers=state.sweepers[::-1])
        return state

    # A sweeper

    def _ticks(self, state: State, s: int) -> Iterator[Step]:
        me = state.sweepers[s]
        match me.at:
            case "idle" if self.hosts.count(self.hosts[s]) == 1:
                yield f"sweeper {s} takes the lock and looks", self._looked(state, s)
            case "idle":
                if all(other.at == "idle" for other, host in zip(state.sweepers, self.hosts, strict=True) if host == self.hosts[s]):
                    yield f"sweeper {s} takes the lock", _now(state, s, Sweeper("looks"))
            case "looks":
                yield f"sweeper {s} looks", self._looked(state, s)
            case "applies":
                yield from self._applies(state, s)
            case "launches":
                yield self._launches(state, s)
            case "binds":
                yield f"sweeper {s} binds", self._binds(state, s)
            case _:
                yield self._lets_run(state, s)

    def _looked(self, state: State, s: int) -> State:
        seen = tuple("".join(self._look(s, run) for run in card.runs) for card in state.cards)
        return _now(state, s, Sweeper("applies", seen))

    def _look(self, s: int, run: Run) -> str:
        """`.` not its to judge, or over; `u` unbound: no process to look for; `g` its group is empty; `a` alive."""
        if run is PAST or self.hosts[run.by] != self.hosts[s]:
            return "."
        if not run.bound:
            return "." if run.ends else "u"
        orphans = self.without == "sight of death" and run.process in {ORPHAN, ORPHAN_LINGERS}
        return "g" if run.process in {NOTHING, DEAD} or orphans else "a"

    def _applies(self, state: State, s: int) -> Iterator[Step]:
        seen = state.sweepers[s].seen
        for settled in product(*(self._settles(s, card, saw) for card, saw in zip(state.cards, seen, strict=True))):
            cards, claims = list(settled), []
            for c, card in enumerate(settled):
                if len(claims) < self.most and not state.paused and self._claimable(s, card, seen[c], state.cards[c]):
                    cards[c] = card._replace(runs=(*card.runs, Run(s)))
                    claims.append((c, len(card.runs)))
            then = Sweeper("launches", (), tuple(claims)) if claims else IDLE
            label = f"sweeper {s} applies{_told(state.cards, cards)}"
            yield label, _now(state._replace(cards=tuple(cards)), s, then)

    def _settles(self, s: int, card: Card, saw: str) -> Iterator[Card]:
        """What step 1, 3 and 4 of the tick may make of the card's last run, and so of the card."""
        last = len(card.runs) - 1
        look = saw[last] if 0 <= last < len(saw) else ""
        if look == "" or not (card.open or self.without == "second look"):
            yield card
            return
        run = card.runs[-1]
        if look == "a":
            yield _with(card, last, leased=True)
        elif look == "g":
            yield _ended(card)
        elif look == "u":
            yield card
            if not run.bound:
                yield _ended(card)
        else:
            yield card
            ended_itself = run.process not in {WORKS, LINGERS} or self.without == "watch of the lease"
            if ended_itself and not (run.leased and self.leases):
                yield _ended(card)

    def _claimable(self, s: int, card: Card, saw: str, before: Card) -> bool:
        if self.without == "fresh look at a claim":
            card = before
        if card.closed or card.open or len(card.runs) == self.runs:
            return False
        return "a" not in saw or self.without == "fence of an ending"

    def _launches(self, state: State, s: int) -> Step:
        me = state.sweepers[s]
        c, r = next((c, r) for c, r in me.claims if state.cards[c].runs[r].process == NOTHING)
        state = _run(state, c, r, process=WORKS if self.without == "gate" else WAITS)
        left = any(state.cards[c].runs[r].process == NOTHING for c, r in me.claims)
        return f"sweeper {s} launches {c}.{r}", state if left else _now(state, s, me._replace(at="binds"))

    def _binds(self, state: State, s: int) -> State:
        me = state.sweepers[s]
        for c, r in me.claims:
            run = state.cards[c].runs[r]
            if self.without == "check at binding" or (not run.ends and not state.paused):
                state = _run(state, c, r, bound=True)
                if run.ends or state.paused:
                    state = state._replace(wrong="bound")
        return _now(state, s, me._replace(at="opens"))

    def _lets_run(self, state: State, s: int) -> Step:
        me = state.sweepers[s]
        (c, r), *others = me.claims
        run = state.cards[c].runs[r]
        if run.process == WAITS:
            state = _run(state, c, r, process=LET_RUN if run.bound else SHUT_OUT)
        then = me._replace(claims=tuple(others)) if others else IDLE
        return f"sweeper {s} {'opens' if run.bound else 'shuts'} {c}.{r}", _now(state, s, then)

    # A run's processes

    def _lives(self, state: State, c: int, r: int) -> Iterator[Step]:
        run = state.cards[c].runs[r]
        name = f"{c}.{r}"
        fresh = (run.leased if self.leases else not run.ends) or self.without == "watch of the lease"
        match run.process:
            case 2 if fresh:
                yield f"{name} starts the command", _run(state, c, r, process=WORKS)
            case 2 | 3:
                yield f"{name} gives up", _run(state, c, r, process=DEAD)
            case 4 | 6:
                yield from self._speaks(state, c, r, name, process=LINGERS if run.process == WORKS else ORPHAN_LINGERS)
                yield f"{name} ends", _run(state, c, r, process=DEAD)
            case 5 | 7:
                yield f"{name} ends", _run(state, c, r, process=DEAD)
            case _:
                pass
        if run.stray:
            yield from self._speaks(state, c, r, f"a stray of {name}", stray=False)
        if run.leased and not run.ends and self.leases:
            yield f"{name}: its lease runs out", _run(state, c, r, leased=False)

    def _speaks(self, state: State, c: int, r: int, name: str, **then: int) -> Iterator[Step]:
        """The worker uses a verb, with the lock that it was given."""
        card = state.cards[c]
        run, last = card.runs[r], card.runs[-1]
        opens = not run.ends
        if self.without == "lock of its own":
            opens = card.open and last.by == run.by
        if not opens:
            yield f"{name} is refused", _run(state, c, r, **then)
            return
        ended = _ended(_with(card, r, **then))
        wrong = state.wrong if r == len(card.runs) - 1 else "forged"
        for verb, closed in (("completes", True), ("asks for review", ended.closed)):
            yield f"{name} {verb}", _card(state, c, ended._replace(closed=closed))._replace(wrong=wrong)

    # People and accidents

    def _wishes(self, state: State, c: int) -> Step:
        card = state.cards[c]
        if card.open:
            wished = _with(card, len(card.runs) - 1, wish=True)._replace(asked=True)
        else:
            wished = card._replace(closed=True)
        verb = "wishes to archive" if card.open else "archives"
        return f"operator {verb} {c}", _card(state, c, wished)._replace(acts=state.acts - 1)

    def _crashes(self, state: State) -> Iterator[Step]:
        for s, me in enumerate(state.sweepers):
            if me.at != "idle":
                yield f"sweeper {s} dies", _died(state, s)
        for c, card in enumerate(state.cards):
            for r, run in enumerate(card.runs):
                if run.process in SUPERVISORS:
                    left = ORPHANS.get(run.process, DEAD)
                    yield f"the supervisor of {c}.{r} dies", _run(state, c, r, process=left)
                if run.process == WORKS and self.strays:
                    yield f"{c}.{r} ends and leaves a stray", _run(state, c, r, process=DEAD, stray=True)
        for host in sorted(set(self.hosts)):
            yield f"host {host} reboots", self._rebooted(state, host)

    def _rebooted(self, state: State, host: int) -> State:
        for s, of in enumerate(self.hosts):
            if of == host:
                state = _died(state, s)
        for c, card in enumerate(state.cards):
            for r, run in enumerate(card.runs):
                if run is not PAST and self.hosts[run.by] == host and run.process != NOTHING:
                    state = _run(state, c, r, process=DEAD, stray=False)
        return state


def _died(state: State, s: int) -> State:
    """The sweeper is gone, and with it its lock and its ends of all gates."""
    for c, card in enumerate(state.cards):
        for r, run in enumerate(card.runs):
            if run is not PAST and run.by == s and run.process == WAITS:
                state = _run(state, c, r, process=SHUT_OUT)
    return _now(state, s, IDLE)


def _ended(card: Card) -> Card:
    """An event ends the card's last run and grants its wish, in one append."""
    run = card.runs[-1]
    ended = _with(card, len(card.runs) - 1, ends=run.ends + 1, wish=False)
    return ended._replace(closed=True, asked=False) if run.wish else ended


def _with(card: Card, r: int, **changes: int) -> Card:
    run = card.runs[r]._replace(**changes)
    if run.ends == 1 and run.process == DEAD and not run.stray:
        run = PAST
    return card._replace(runs=(*card.runs[:r], run, *card.runs[r + 1 :]))


def _run(state: State, c: int, r: int, **changes: int) -> State:
    return _card(state, c, _with(state.cards[c], r, **changes))


def _card(state: State, c: int, card: Card) -> State:
    return state._replace(cards=(*state.cards[:c], card, *state.cards[c + 1 :]))


def _now(state: State, s: int, sweeper: Sweeper) -> State:
    return state._replace(sweepers=(*state.sweepers[:s], sweeper, *state.sweepers[s + 1 :]))


def _turned(sweeper: Sweeper) -> Sweeper:
    claims = tuple((1 - c, r) for c, r in sweeper.claims)
    return sweeper._replace(seen=sweeper.seen[::-1], claims=claims)


def _told(before: tuple[Card, ...], after: list[Card]) -> str:
    """What an apply came to, for its label."""
    said = []
    for c, (was, now) in enumerate(zip(before, after, strict=True)):
        booked = sum(run.ends for run in now.runs) - sum(run.ends for run in was.runs)
        said += [f" books {c}.{len(was.runs) - 1}"] * booked + [f" claims {c}.{len(was.runs)}"] * (len(now.runs) > len(was.runs))
    return ":" + ",".join(said) if said else ""
