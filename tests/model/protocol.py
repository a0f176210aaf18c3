from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

NOTHING, HELD, OPEN, SHUT, WORKS, LINGERS, ORPHAN, ORPHAN_LINGERS, DEAD = range(9)
BORN, IDLE = "", "idle"
GROUP = frozenset({HELD, OPEN, SHUT, WORKS, LINGERS, ORPHAN, ORPHAN_LINGERS})
WORKER = frozenset({WORKS, LINGERS, ORPHAN, ORPHAN_LINGERS})


class Run(NamedTuple):
    by: int
    bound: bool = False
    ends: int = 0
    process: int = NOTHING
    stray: bool = False
    wish: bool = False


class Card(NamedTuple):
    runs: tuple[Run, ...] = ()
    closed: str = ""
    asked: bool = False


class Sweeper(NamedTuple):
    at: str = IDLE
    seen: tuple[str, ...] = ()
    claims: tuple[int, ...] = ()


class State(NamedTuple):
    cards: tuple[Card, ...]
    sweepers: tuple[Sweeper, ...]
    acts: int
    crashes: int
    forged: bool = False


@dataclass(frozen=True)
class Protocol:
    hosts: tuple[int, ...] = (0, 0)
    cards: int = 2
    runs: int = 2
    crashes: int = 2
    acts: int = 1
    most: int = 2
    without: str = ""

    def start(self):
        return State((Card(),) * self.cards, (Sweeper(),) * len(self.hosts), self.acts, self.crashes)

    def steps(self, state):
        for s in range(len(self.hosts)):
            yield from self.sweeps(state, s)
        for c, card in enumerate(state.cards):
            for r, run in enumerate(card.runs):
                yield from self.lives(state, c, r, run)
        if state.acts:
            yield from self.orders(state)
        if state.crashes:
            yield from self.crashed(state)

    # sweeper
    def sweeps(self, state, s):
        me = state.sweepers[s]
        match me.at:
            case "idle":
                if all(o.at == IDLE or self.hosts[i] != self.hosts[s] for i, o in enumerate(state.sweepers)):
                    yield f"sweep {s}: lock", self.now(state, s, Sweeper("locked"))
            case "locked":
                yield f"sweep {s}: observe", self.now(state, s, Sweeper("looked", tuple(self.looks(s, card) for card in state.cards)))
            case "looked":
                for cards, claims in self.applied(state, s):
                    yield f"sweep {s}: apply", self.now(state._replace(cards=cards), s, Sweeper("launch", (), claims) if claims else Sweeper())
            case "launch":
                c = next(c for c in me.claims if state.cards[c].runs[-1].process == NOTHING)
                to = HELD if self.without != "gate" else WORKS
                state = self.run(state, c, -1, process=to)
                left = any(state.cards[c].runs[-1].process == NOTHING for c in me.claims)
                yield f"sweep {s}: launch {c}", state if left else self.now(state, s, me._replace(at="bind"))
            case "bind":
                for c in me.claims:
                    if not state.cards[c].runs[-1].ends or self.without=="binding check":
                        state = self.run(state, c, -1, bound=True)
                yield f"sweep {s}: bind", self.now(state, s, me._replace(at="open"))
            case "open":
                c, *rest = me.claims
                run = state.cards[c].runs[-1]
                if run.process == HELD:
                    state = self.run(state, c, -1, process=OPEN if run.bound else SHUT)
                yield f"sweep {s}: open {c}", self.now(state, s, me._replace(claims=tuple(rest)) if rest else Sweeper())

    def now(self, state, s, sweeper):
        return state._replace(sweepers=(*state.sweepers[:s], sweeper, *state.sweepers[s+1:]))

    def run(self, state, c, r, **changes):
        runs = list(state.cards[c].runs)
        runs[r] = runs[r]._replace(**changes)
        return self.card(state, c, runs=tuple(runs))

    def card(self, state, c, **changes):
        cards = list(state.cards)
        cards[c] = cards[c]._replace(**changes)
        return state._replace(cards=tuple(cards))

    def looks(self, s, card):
        return "".join(self.look(s, run) for run in card.runs)

    def look(self, s, run):
        if self.hosts[run.by] != self.hosts[s]: return "."
        if not run.bound: return "u"
        gone = run.process not in GROUP or (self.without=="death" and run.process in {ORPHAN, ORPHAN_LINGERS})
        return "g" if gone else "a"

    def applied(self, state, s):
        options = [list(self.settled(s, card, seen)) for card, seen in zip(state.cards, state.sweepers[s].seen)]
        for cards in product(*options):
            claims = [c for c, card in enumerate(cards) if self.claimable(s, card, state.sweepers[s].seen[c])][: self.most]
            out = list(cards)
            for c in claims:
                out[c] = out[c]._replace(runs=(*out[c].runs, Run(s)))
            yield tuple(out), tuple(claims)

    def claimable(self, s, card, seen):
        if card.closed or len(card.runs) == self.runs: return False
        if card.runs and not card.runs[-1].ends: return False
        return "a" not in seen or self.without == "ending"

    def settled(self, s, card, seen):
        yield_plain = True
        if card.runs:
            run = card.runs[-1]
            open_ = not run.ends
            saw = seen[len(card.runs)-1] if len(seen) >= len(card.runs) else "?"
            if self.without == "recheck" and saw in "g" :
                yield booked(card); return
            if open_:
                if saw == "g" : 
                    yield booked(card); return
                if saw == "u" and not run.bound:
                    yield booked(card)
                if saw == "." and self.lease_over(run):
                    yield booked(card)
        yield card

    def lease_over(self, run):
        return self.without == "lease watch" or run.process not in {OPEN, WORKS, LINGERS}

    def lives(self, state, c, r, run):
        match run.process:
            case 2: yield f"{c}.{r}: starts command", self.run(state,c,r,process=WORKS)
            case 3: yield f"{c}.{r}: gives up", self.run(state,c,r,process=DEAD)
            case 4 | 6:
                yield from self.verbs(state,c,r,run.process+1 if run.process==WORKS else ORPHAN_LINGERS)
                yield f"{c}.{r}: dies", self.run(state,c,r,process=DEAD)
                if state.crashes:
                    yield f"{c}.{r}: leaves a stray", self.run(state,c,r,process=DEAD,stray=True)._replace(crashes=state.crashes-1)
            case 5 | 7:
                yield f"{c}.{r}: dies", self.run(state,c,r,process=DEAD)
        if run.stray:
            for l, st in self.verbs(state,c,r,run.process):
                yield "stray "+l, self.run(st,c,r,stray=False)

    def verbs(self, state, c, r, then):
        card = state.cards[c]
        last = card.runs[-1]
        if self.without == "lock per run":
            good = not last.ends and last.by == card.runs[r].by
        else:
            good = not card.runs[r].ends
        state = self.run(state, c, r, process=then)
        if not good:
            yield f"{c}.{r}: verb refused", state
            return
        forged = r != len(card.runs)-1
        for verb in ("completes","reviews"):
            done = booked(state.cards[c])
            if verb == "completes" and not done.closed: done = done._replace(closed="done")
            yield f"{c}.{r}: {verb}", state._replace(cards=(*state.cards[:c], done, *state.cards[c+1:]), forged=forged)

    def orders(self, state):
        c = 0
        card = state.cards[0]
        if card.closed: return
        st = state._replace(acts=state.acts-1)
        if card.runs and not card.runs[-1].ends:
            st = self.run(st, 0, -1, wish=True)
            yield "operator wishes", self.card(st, 0, asked=True)
        else:
            yield "operator archives", self.card(st, 0, asked=True, closed="archived")

    def crashed(self, state):
        less = state._replace(crashes=state.crashes-1)
        for s, me in enumerate(state.sweepers):
            if me.at != IDLE:
                st = self.now(less, s, Sweeper())
                for c, card in enumerate(st.cards):
                    for r, run in enumerate(card.runs):
                        if run.by == s and run.process == HELD:
                            st = self.run(st,c,r,process=SHUT)
                yield f"sweep {s} dies", st
        for c, card in enumerate(state.cards):
            for r, run in enumerate(card.runs):
                if run.process in {HELD, OPEN, SHUT}:
                    yield f"{c}.{r}: supervisor dies", self.run(less,c,r,process=DEAD)
                if run.process in {WORKS, LINGERS}:
                    yield f"{c}.{r}: supervisor dies", self.run(less,c,r,process=run.process+2)


def booked(card):
    run = card.runs[-1]
    return card._replace(runs=(*card.runs[:-1], run._replace(ends=run.ends+1, wish=False)), closed="archived" if run.wish else card.closed)

RULES = {
  "two workers": lambda st: all(sum(r.process in WORKER for r in c.runs) <= 1 for c in st.cards),
  "wish lost": lambda st: all(not c.asked or c.closed=="archived" or (c.runs and c.runs[-1].wish) for c in st.cards),
  "ends twice": lambda st: all(r.ends<=1 for c in st.cards for r in c.runs),
  "never bound": lambda st: all(r.bound or r.process not in WORKER for c in st.cards for r in c.runs),
  "forged": lambda st: not st.forged,
}
