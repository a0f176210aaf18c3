"""What must hold after each step of the board's machine, said from the log, the air and a naive model alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Engine, select

from ledger.clock import SECOND
from ledger.database import reading
from ledger.recorded import Recorded
from ledger.schema import words
from ledger.standing import head
from ledger.store import read_board
from projections import tables
from projections.read_models import PROJECTIONS
from projections.world import World
from tests.ledgers import canonical_envelope
from tests.machines.air import Air, Death, Key
from tests.machines.naive import ENDS, Naive

APPLIES: Final = {"complete": "completed", "block": "blocked", "schedule": "scheduled", "assign": "assigned",
                  "archive": "archived"}  # fmt: skip
OF_CARD: Final = ("failures", "streak", "spent", "neutral", "runs", "run", "not_before", "scheduled")


class Watch:
    """All that was seen of a board so far, and the judgement of what comes next."""

    def __init__(self, engine: Engine, air: Air, board: str, own_caps: dict[str, int], host_caps: dict[str, int]):
        self.engine, self.air, self.board = engine, air, board
        self.own_caps, self.host_caps = own_caps, host_caps
        self.world, self.naive = World(), Naive()
        self.events: list[Recorded] = []
        self.hash = b""
        self.versions: dict[str, int] = {}
        self.policy: dict[str, Any] = {}
        self.pauses: dict[tuple[str, str], bool] = {}
        self.open: dict[Key, dict[str, Any]] = {}
        """Every open run: what its `claimed` said, the host and boot of its process, and the stops asked of it."""
        self.ended: dict[Key, str] = {}
        self.bound: dict[Key, tuple[int, int]] = {}
        self.spawned: set[Key] = set()
        self.hosts: dict[Key, str] = {}
        self.lock_hashes: set[str] = set()
        self.leases: dict[Key, int] = {}

    @property
    def now(self) -> int:
        """The instant of the last event."""
        return self.events[-1].at if self.events else 0

    def look(self, writes: Iterable[list[int]], notes: Iterable[str] | None, *, undisturbed: bool) -> list[Recorded]:
        """Judge all that came since the last look. *notes*: what the caller was told, none if it died."""
        with reading(self.engine) as tx:
            fresh = list(read_board(tx, self.board, after=len(self.events)))
            last = head(tx, self.board)
            worded = set(tx.execute(select(words.c.position).where(words.c.board == self.board)).scalars())
            stored = {table.name: [dict(row) for row in tx.execute(
                select(table).where(table.c.board == self.board)).mappings()] for table in PROJECTIONS}  # fmt: skip
            cards = tx.execute(select(tables.cards).where(tables.cards.c.board == self.board)).mappings().all()
            leases = {(row.task, row.run): row.lease_until for row in tx.execute(select(tables.leases))}
        if not self.hash:
            self.hash = hashlib.sha256(last.board_id.encode()).digest()
        appends = {position: write for write in writes for position in write}
        for event in fresh:
            self._chained(event)
            self.world.evolve(event)
            self._judged(event, undisturbed=undisturbed)
            if appends.get(event.position, [event.position])[-1] == event.position:
                self._wishes_kept(appends.get(event.position, [event.position]), notes)
        assert (last.position, last.hash) == (len(self.events), self.hash), "the head is not the end of the log"
        self._words_kept(worded)
        self._stored_as_folded(stored)
        self._stored_as_told(cards)
        self._runs_and_processes(fresh)
        self._signals()
        self._leases_kept(leases)
        return fresh

    # The log

    def _chained(self, event: Recorded) -> None:
        """RULES §2, §10: no gaps, time never runs back, each hash follows from the one before."""
        version = self.versions.get(event.task, 0) + 1
        assert (event.position, event.version) == (len(self.events) + 1, version), "a gap"
        assert event.at >= self.now, "time ran back"
        said = hashlib.sha256((event.salt or b"") + (event.words_text or "").encode()).digest()
        assert event.words_text is None or said == event.words_digest, "its words are not those that were hashed"
        text = canonical_envelope(event).encode() + hashlib.sha256(event.facts_text.encode()).digest()
        self.hash = hashlib.sha256(self.hash + text + event.words_digest).digest()
        assert self.hash == event.hash, "the chain is broken"
        self.versions[event.task] = version
        self.events.append(event)

    def _judged(self, event: Recorded, *, undisturbed: bool) -> None:
        facts, key = event.facts, (event.task, event.run or 0)
        match event.kind:
            case "policy_changed":
                self.policy = facts
            case "paused":
                self.pauses[facts["scope"]["kind"], facts["scope"]["name"]] = facts["drain"]
            case "resumed":
                self.pauses.pop((facts["scope"]["kind"], facts["scope"]["name"]), None)
            case "claimed":
                self._may_open(event)
                self.open[key] = facts | {"stops": [], "at": event.at, "group_boot": None}
                self.hosts[key] = facts["host"]
                if facts["by"] == "spawn":
                    self.spawned.add(key)
                self.leases[key] = facts["lease_until"]
            case "worker_bound":
                assert key in self.open, f"{event.position}: bound after its end"
                run = self.open[key]
                if run["by"] == "spawn":
                    self._not_paused(run["worker"], facts["host"], event)
                if facts["role"] == "group":
                    run["group_boot"] = facts["boot"]
                    self.bound[key] = (facts["pid"], facts["start_tick"])
                    self.hosts[key] = facts["host"]
                assert facts["host"] == self.hosts[key], f"{event.position}: an owner on another host"
            case "stop_requested":
                self.open[key]["stops"].append(event)
            case kind if kind in ENDS and event.run is not None:
                if kind == "exited" or event.actor_kind == "system":
                    self._ended_as_witnessed(event, undisturbed=undisturbed)
                assert key in self.open, f"{event.position}: the run had no claim or has ended before"
        if event.task:
            self.naive.tell(event)

    def _may_open(self, event: Recorded) -> None:
        """RULES §3, §7.6, §8: claimable, not paused, under every cap, by a lock that was never used."""
        facts, card = event.facts, self.naive.cards[event.task]
        assert facts["lock_hash"] not in self.lock_hashes, "a lock is used again"
        self.lock_hashes.add(facts["lock_hash"])
        status = self.naive.status(event.task)
        assert status in {"ready", "review", "scheduled"}, f"{event.position}: claimed while {status}"
        assert (card["scheduled"] or 0) <= event.at >= (card["not_before"] or 0), f"{event.position}: too early"
        worker, host = facts["worker"], facts["host"]
        self._not_paused(worker, host, event)
        runs = self.open.values()
        own = [limit for limit in (self.policy["max_running_per_assignee"], self.own_caps.get(worker)) if limit]
        caps = [("board", len(runs), self.policy["max_running"])]
        caps += [("assignee", sum(run["worker"] == worker for run in runs), limit) for limit in own]
        if facts["by"] == "spawn":
            here = sum(run["by"] == "spawn" and run["host"] == host for run in runs)
            caps.append(("host", here, self.host_caps[host]))
        for name, live, limit in caps:
            assert limit is None or live < limit, f"{event.position}: over the {name} cap: {live} of {limit}"

    def _not_paused(self, worker: str, host: str, event: Recorded) -> None:
        scopes = {("board", ""), ("assignee", worker), ("host", host)}
        assert not scopes & self.pauses.keys(), f"{event.position}: {event.kind} while paused"

    def _ended_as_witnessed(self, event: Recorded, *, undisturbed: bool) -> None:
        """RULES §6: the outcome is the one of the first row that matches; `lost` only with lease and grace over."""
        key = (event.task, event.run or 0)
        run = self.open[key]
        host = self.hosts[key]
        own = event.actor_host == host
        booted = (run["group_boot"] or run["boot"]) != f"{host}-boot-{self.air.boots[host]}"
        death = self.air.deaths.get(key, Death(witness=False)) if own else Death(witness=False)
        expected = booked_as(run, death, own=own, bound=key in self.bound, booted=booted)
        said = event.outcome if event.kind == "exited" else event.kind
        dependency = {"completed": "blocked"}.get(expected)
        assert said in {expected, dependency}, f"{event.position}: booked as {said}, not {expected}: {death}"
        if said == "lost":
            over = event.facts["lease_until"] + event.facts["grace"] * SECOND
            assert event.at > over, f"{event.position}: lost before its lease was over"
            if undisturbed:
                assert event.facts["lease_until"] == self.leases[key], f"{event.position}: not the lease it had"
        if own and key in self.bound:
            assert not self.air.group(key, host), f"{event.position}: booked while its processes live"

    # Wishes

    def _wishes_kept(self, write: list[int], notes: Iterable[str] | None) -> None:
        """RULES §7.1: what was asked of a run is applied by whatever ends it, refused by name, or named as idle."""
        events = [self.events[position - 1] for position in write]
        for event in events:
            key = (event.task, event.run or 0)
            if event.kind not in ENDS or key not in self.open:
                continue
            self.ended[key] = event.kind
            wished = [asked for asked in self.open.pop(key)["stops"] if asked.facts["wish"] is not None]
            for place, asked in enumerate(wished):
                wish = asked.facts["wish"]
                again = any(wish | {"actor": ""} == one.facts["wish"] | {"actor": ""} for one in wished[:place])
                self._wish_kept(asked, events, notes, again=again)

    def _wish_kept(self, asked: Recorded, events: list[Recorded], notes: Iterable[str] | None, *, again: bool) -> None:
        wish, card = asked.facts["wish"], self.naive.cards[asked.task]
        mine = [event for event in events if event.task == asked.task and event.actor_name == wish["actor"]["name"]]
        verb, data = wish["verb"], wish["data"]
        if mine:
            refused = [event.facts["block_kind"] == "wish_refused" for event in mine if event.kind == "blocked"]
            assert APPLIES[verb] in {event.kind for event in mine} or any(refused), f"{asked.position}: not applied"
            return
        if again:  # true by the wish before it, whatever came then
            return
        done = any(event.kind == "completed" and event.task == asked.task for event in events)
        if done and verb != "archive":
            named = any(f"(position {asked.position})" in note for note in notes or ())
            assert notes is None or named, f"{asked.position}: an idle wish that nobody was told of"
            return
        true = {
            "assign": lambda: card["names"].get(data["role"]) == data["to"],
            "schedule": lambda: card["scheduled"] == data["not_before"],
            "archive": lambda: card["archived"],
            "block": lambda: card["hold"] is not None and card["hold"][1],
            "complete": lambda: False,
        }
        assert true[verb](), f"{asked.position}: the wish to {verb} is gone"

    # What is stored

    def _words_kept(self, worded: set[int]) -> None:
        """RULES §10: the words of an event are gone if and only if a `redacted` says so."""
        gone = {event.facts["redacts"] for event in self.events if event.kind == "redacted"}
        assert worded == set(range(1, len(self.events) + 1)) - gone, "words are gone, or there, without a reason"

    def _stored_as_folded(self, stored: dict[str, list[dict[str, Any]]]) -> None:
        """RULES §9: every stored column equals the refold."""
        for table in PROJECTIONS:
            keys = [column.name for column in table.primary_key if column.name != "board"]
            found = {tuple(row[key] for key in keys): {k: v for k, v in row.items() if k != "board"}
                     for row in stored[table.name]}  # fmt: skip
            folded = {tuple(row[key] for key in keys if key in row): row for row in self.world.rows(table)}
            assert found == folded, f"{table.name}: stored otherwise than folded"

    def _stored_as_told(self, cards: Iterable[Any]) -> None:
        """The naive model says the same of statuses, counters and holds."""
        for row in cards:
            told = self.naive.cards[row["task"]]
            hold = None if row["hold_cause"] is None else (row["hold_cause"], bool(row["hold_sticky"]))
            found = {name: row[name] for name in OF_CARD} | {"status": row["status"], "hold": hold}
            naive = {name: told[name] for name in OF_CARD}
            naive |= {"status": self.naive.status(row["task"]), "hold": told["hold"]}
            assert found == naive, f"{row['task']}: {found} is not {naive}"
            live = [run for task, run in self.open if task == row["task"]]
            assert live == ([] if row["run"] is None else [row["run"]]), f"{row['task']}: live runs {live}"

    def _runs_and_processes(self, fresh: Iterable[Recorded]) -> None:
        """RULES §7: never two live workers of a card; what was never bound never ran; `ending` keeps the card."""
        at_work: dict[str, set[tuple[str, Key]]] = {}
        for host, key in self.air.working():
            assert key in self.bound, f"{key} runs and was never bound"
            if key in self.open or self.hosts[key] == self.hosts[key[0], max(r for t, r in self.hosts if t == key[0])]:
                at_work.setdefault(key[0], set()).add((host, key))
        for task, groups in at_work.items():
            assert len(groups) == 1, f"{task}: two live workers: {groups}"
        for event in fresh:
            if event.kind == "claimed":
                host, run = event.facts["host"], event.run or 0
                left = [key for key in self.bound if key[0] == event.task and key[1] < run and key in self.spawned]
                left = [key for key in left if self.hosts[key] == host and self.air.group(key, host)]
                assert not left, f"{event.position}: claimed while the processes of {left} are still there"

    def _signals(self) -> None:
        """RULES §2, §6, §7.2: no signal to a stranger, none to an open run without the event that asks for it."""
        whose = {identity: key for key, identity in self.bound.items()}
        asked = {(event.task, event.run) for event in self.events if event.kind == "stop_requested"}
        for sent in self.air.signals:
            key = whose[sent.binding]
            assert sent.hit <= {key, None if key not in self.spawned else key}, f"{key}: signalled {sent.hit}"
            if sent.supervised or key not in self.spawned:
                assert key in asked or key in self.ended, f"{key}: signalled without stop_requested"
        self.air.signals.clear()

    def _leases_kept(self, leases: dict[Key, int]) -> None:
        """RULES §7: an open run has a lease; an ended one only while its processes keep the card."""
        for key in self.open:
            assert key in leases, f"{key}: open without a lease"
        for key in leases.keys() - self.open.keys():
            kept = self.ended.get(key) not in {None, "exited"} and key in self.bound and key in self.spawned
            assert kept, f"{key}: a lease without a run"
        self.leases.update(leases)

    # What a tick owes

    def tick_owes(self, host: str, now: int, dead: set[Key]) -> None:
        """After an undisturbed tick of *host*: the *dead* are booked, the drained asked, the living renewed."""
        now = max(now, self.now)
        for key, run in self.open.items():
            if key not in self.bound or self.hosts[key] != host:
                continue
            assert key not in dead, f"{key} was dead and was not booked"
            drained = {scope for scope, drain in self.pauses.items() if drain}
            drained &= {("board", ""), ("assignee", run["worker"]), ("host", run["host"])}
            if drained:
                assert run["stops"], f"{key} was not asked to stop"
            if any(p.role in {"supervisor", "hand"} for p in self.air.group(key, host)):
                assert self.leases[key] > now, f"{key}: the lease of a live worker ran out"


def booked_as(run: dict[str, Any], death: Death, *, own: bool, bound: bool, booted: bool) -> str:
    """The row of RULES §6 that matches first."""
    code, last = death.code, run["stops"]
    if code in {75, 78}:
        return "rate_limited" if code == 75 else "config"
    if last:
        return {"max_runtime": "timed_out", "stalled": "stalled"}.get(last[0].facts["cause"], "interrupted")
    if code in {0, 1} and death.quota and run["quota"]:
        return "rate_limited"
    if code == 0:
        review = "review_requested" if run["on_success"] == "review" and run["lane"] == "work" else "clean"
        return "completed" if run["on_success"] == "complete" else review
    if death.witness:
        asked = code in {129, 130, 143} or death.signal in {1, 2, 15}
        return "spawn_failed" if code in {126, 127} else "interrupted" if asked else "crashed"
    if not bound:
        return "interrupted" if run["by"] == "spawn" else "lost"
    return "lost" if not own else "interrupted" if booted else "crashed"


def told_by(tick: Any) -> dict[str, Any]:
    """What a tick says it did, in no order: equal for a dry run and the tick after it."""
    shown = {"held": {reason: sorted(tasks) for reason, tasks in tick.held.items()}, "errors": tick.errors}
    shown["claimed"] = sorted((claim["task"], claim["run"]) for claim in tick.claimed)
    for name in ("booked", "stopped", "renewed", "lifted"):
        shown[name] = sorted(json.dumps(each, sort_keys=True) for each in getattr(tick, name))
    return shown
