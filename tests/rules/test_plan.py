"""RULES §7, step by step: what a tick does with what it saw, as a pure function of snapshot, policy and clock."""

from __future__ import annotations

import signal

import pytest

from kanban.admission import Live
from kanban.commands import AskReview, Edit, Progress
from kanban.evidence import Evidence
from kanban.plan import AskStop, Book, Forget, Lease, Renew, Seen, Signal, Worker, admit, settle
from kanban.processes import Presence
from ledger.events import Outcome
from projections.run import Binding, Run
from tests import given
from tests.rules.world import BOOT, GONE, HOST, NOW, SECOND, WorldView, ended

ALIVE = Seen(Presence.ALIVE, members=(4242,))
UNKNOWN = Seen(Presence.UNKNOWN)
LEFT = Seen(Presence.GONE, members=(4243,))
"""The supervisor is gone, a member of its group is not."""


def board(*, by="spawn", bound=None, host=HOST, boot=BOOT, **limits):
    """A board whose one card has run 1 open since `NOW`."""
    world = WorldView(**limits)
    world.create()
    world.claim(by=by, bound=bound, host=host, boot=boot)
    return world


def steps(world, seen=None, *, after=0.0):
    """What a tick plans so many seconds later; *seen*: of run 1 of t_a."""
    world.later(after)
    return world.planned({} if seen is None else {("t_a", 1): seen})


def booked(world, seen=None, *, after=0.0):
    """The outcomes that a tick books then."""
    return [step.outcome for step in steps(world, seen, after=after) if isinstance(step, Book)]


def asked(world, seen=ALIVE, *, after=0.0):
    """(cause, since, limit) of every stop that a tick asks for then."""
    found = (step for step in steps(world, seen, after=after) if isinstance(step, AskStop))
    return [(step.cause, step.since, step.limit) for step in found]


def signalled(world, seen, *, after=0.0):
    """The signals that a tick sends then."""
    return [step.signum for step in steps(world, seen, after=after) if isinstance(step, Signal)]


def renewed(world, seen, *, after=0.0):
    """Until when a tick renews leases then."""
    return [step.until for step in steps(world, seen, after=after) if isinstance(step, Renew)]


# 1. Book every run of this host that has ended


@pytest.mark.parametrize("by", ["spawn", "hand"])
def test_a_bound_run_has_ended_when_its_processes_are_gone(by):
    """RULES §6: a spawned run when its group is empty, a run by hand with `--pid` when that pid is gone."""
    assert booked(board(by=by, bound=True), GONE) == [Outcome.CRASHED]


@pytest.mark.parametrize("seen", [ALIVE, LEFT, Seen(Presence.REBOOTED, members=(1,))])
def test_a_run_with_a_live_member_has_not_ended(seen):
    """RULES §6: ended when its process *group* is empty."""
    assert booked(board(), seen, after=10**9) == []


def test_evidence_comes_first():
    """RULES §7.1: evidence first, always."""
    assert booked(board(), ended(75)) == [Outcome.RATE_LIMITED]


def test_a_quota_pattern_that_was_seen_counts():
    """RULES §6: a quota pattern of the claim matches."""
    assert booked(board(), ended(1, quota=True)) == [Outcome.RATE_LIMITED]


def test_a_witness_counts_also_after_a_reboot():
    """RULES §6: the order of witnesses is the same on every path."""
    world = board()
    seen = Seen(Presence.REBOOTED, evidence=Evidence("trailer", 78, None, None, None, ()))
    assert booked(world, seen) == [Outcome.CONFIG]


def test_a_reboot_ends_a_bound_run():
    """RULES §6: none, host booted since → interrupted."""
    assert booked(board(), Seen(Presence.REBOOTED)) == [Outcome.INTERRUPTED]


def test_a_run_of_this_host_that_nobody_looked_at_is_left_alone():
    """RULES §7: observe, then plan: what was not seen is not judged."""
    assert steps(board(), None, after=10) == []


def test_a_booking_says_what_was_seen_and_the_lease():
    """RULES §7: a real tick does exactly the plan."""
    world = board()
    (step,) = steps(world, ended(5))
    assert (step.run, step.seen, step.lease) == (world.run("t_a", 1), ended(5), world.leases["t_a", 1])


def test_a_run_that_ended_is_neither_stopped_nor_renewed():
    """RULES §7.1: evidence first, always."""
    assert [type(step) for step in steps(board(max_runtime=1), GONE, after=10**6)] == [Book]


# 3. Claims that were never bound


def test_a_spawn_that_was_never_bound_ends_after_the_launch_grace():
    """RULES §6: claimed by spawn, never bound, launch grace (30 s) over → interrupted."""
    world = board(bound=False)
    assert booked(world, Seen(), after=30) == []
    assert booked(world, Seen(), after=0.000_001) == [Outcome.INTERRUPTED]


@pytest.mark.parametrize(("code", "outcome"), [(127, Outcome.SPAWN_FAILED), (143, Outcome.INTERRUPTED)])
def test_a_witness_ends_a_spawn_that_was_never_bound_at_once(code, outcome):
    """RULES §6: the claimer writes record 127; RULES §7.7: a gate that closed unopened, 143."""
    assert booked(board(bound=False), Seen(evidence=ended(code).evidence)) == [outcome]


def test_a_reboot_ends_a_spawn_that_was_never_bound_at_once():
    """RULES §6: none, host booted since → interrupted."""
    assert booked(board(bound=False, boot="boot-0"), Seen()) == [Outcome.INTERRUPTED]


def test_a_spawn_that_was_never_bound_is_not_judged_unseen():
    """RULES §7: observe, then plan."""
    assert booked(board(bound=False), None, after=10**6) == []


# 2. Stops


def test_a_run_over_its_time_is_asked_to_stop():
    """RULES §7.2: over max runtime; RULES §2: cause, since, limit."""
    world = board(max_runtime=60)
    assert asked(world, after=60) == []
    assert asked(world, after=0.000_001) == [("max_runtime", NOW, 60)]


def test_the_cards_own_runtime_wins():
    """RULES §5: max_runtime 6 h (a task's own wins)."""
    world = WorldView()
    world.create(max_runtime=5)
    world.claim()
    assert asked(world, after=6) == [("max_runtime", NOW, 5)]


def test_a_new_max_runtime_holds_for_the_open_run():
    """RULES §2: a new max_runtime holds for the open run too."""
    world = board()
    world.do(Edit("t_a", {"max_runtime": 5}))
    assert asked(world, after=6) == [("max_runtime", NOW, 5)]


def test_the_default_runtime_is_six_hours():
    """RULES §5: max_runtime 6 h."""
    world = board()
    assert asked(world, after=6 * 3_600) == []
    assert asked(world, after=1) == [("max_runtime", NOW, 21_600)]


def test_a_run_that_says_nothing_is_stalled():
    """RULES §7.2: no `claimed`, `worker_bound` or `progressed` of this run for progress_timeout."""
    world = board(progress_timeout=60)
    assert asked(world, after=60) == []
    assert asked(world, after=0.000_001) == [("stalled", NOW, 60)]


def test_progress_starts_the_time_anew():
    """RULES §7.2: `progressed`."""
    world = WorldView(progress_timeout=60)
    world.create()
    claim = world.claim()
    world.later(50)
    world.do(Progress("t_a", claim.proof, "half"))
    assert asked(world, after=60) == []
    assert asked(world, after=1) == [("stalled", NOW + 50 * SECOND, 60)]


@pytest.mark.parametrize("role", ["group", "turns"])
def test_a_binding_starts_the_time_anew(role):
    """RULES §7.2: `worker_bound`."""
    world = board(progress_timeout=60)
    world.later(50)
    world.happened(given.worker_bound(1, role=role))
    assert asked(world, after=60) == []


def test_a_beat_does_not():
    """RULES §7.2: beats do not count."""
    world = board(progress_timeout=60)
    world.later(50)
    world.leases["t_a", 1] = Lease(world.now + 900 * SECOND, world.now, row=True)
    assert asked(world, after=20) == [("stalled", NOW, 60)]


def test_without_a_progress_timeout_nothing_stalls():
    """RULES §5: progress_timeout unset."""
    assert asked(board(max_runtime=10**7), after=10**6) == []


@pytest.mark.parametrize(("kind", "name"), [("board", ""), ("assignee", "builder"), ("host", HOST)])
def test_a_draining_pause_stops_the_runs_in_its_scope(kind, name):
    """RULES §7.2: drain (`pause --drain`: the runs in its scope)."""
    world = board()
    pause = world.happened(given.paused(kind, name, drain=True))
    assert asked(world, after=1) == [("drain", pause.at, None)]


@pytest.mark.parametrize(("kind", "name"), [("assignee", "other"), ("host", "node-2"), ("host", "builder")])
def test_a_draining_pause_leaves_other_runs_alone(kind, name):
    """RULES §7.2: the runs in its scope."""
    world = board()
    world.happened(given.paused(kind, name, drain=True))
    assert asked(world, after=1) == []


def test_a_pause_that_does_not_drain_stops_no_run():
    """RULES §7.2: `pause --drain`."""
    world = board()
    world.happened(given.paused())
    assert asked(world, after=1) == []


def test_of_several_causes_the_runtime_is_named():
    """RULES §7.2: over max runtime, stalled, operator, drain."""
    world = board(max_runtime=5, progress_timeout=5)
    world.happened(given.paused(drain=True))
    assert [cause for cause, *_ in asked(world, after=6)] == ["max_runtime"]


@pytest.mark.parametrize("cause", ["max_runtime", "stalled", "operator", "drain"])
def test_a_run_that_was_asked_is_not_asked_again(cause):
    """RULES §2: at most one by the sweep for a run and cause."""
    world = board(max_runtime=5, progress_timeout=5)
    world.happened(given.stop_requested(1, cause))
    assert asked(world, after=60) == []


@pytest.mark.parametrize("bound", [True, False])
def test_a_run_by_hand_is_asked_too(bound):
    """RULES §7.2: request stops."""
    world = board(by="hand", bound=bound, max_runtime=5)
    assert [cause for cause, *_ in asked(world, ALIVE if bound else Seen(), after=6)] == ["max_runtime"]


def test_a_stop_stands_before_any_signal():
    """RULES §2: before any signal to an open run whose supervisor lives."""
    world = board(max_runtime=5)
    assert [type(step) for step in steps(world, ALIVE, after=6)] == [AskStop, Signal]


@pytest.mark.parametrize("cause", ["max_runtime", "stalled", "operator", "drain"])
def test_a_stop_sends_term_at_first(cause):
    """RULES §7.2: TERM to the group."""
    world = board()
    world.happened(given.stop_requested(1, cause))
    assert signalled(world, ALIVE) == [signal.SIGTERM]


def test_kill_follows_after_the_grace():
    """RULES §7.2: KILL after the grace (10 s), counted from what the first tick wrote down."""
    world = board()
    world.happened(given.stop_requested(1))
    seen = ALIVE._replace(ending_since=NOW + 100 * SECOND)
    assert signalled(world, seen, after=109.999_999) == []
    assert signalled(world, seen, after=0.000_001) == [signal.SIGKILL]


def test_without_a_stop_a_live_run_is_not_signalled():
    """RULES §7.2: only a stop signals it."""
    assert signalled(board(), ALIVE, after=3_600) == []


def test_what_a_dead_supervisor_left_is_ended_without_an_event():
    """RULES §6: a supervisor that is gone with members left: TERM, grace, KILL; RULES §2: no stop and no event."""
    world = board()
    assert [type(step) for step in steps(world, LEFT)] == [Signal]
    assert signalled(world, LEFT) == [signal.SIGTERM]
    assert signalled(world, LEFT._replace(ending_since=NOW), after=9) == []
    assert signalled(world, LEFT._replace(ending_since=NOW), after=1) == [signal.SIGKILL]


def test_a_process_that_will_not_die_keeps_the_claim():
    """RULES §7.2: never two live runs."""
    world = board()
    world.happened(given.stop_requested(1))
    kept = ALIVE._replace(ending_since=NOW)
    assert booked(world, kept, after=10**6) == []
    assert [type(step) for step in steps(world, kept)] == [Signal, Renew]


def test_what_cannot_be_checked_is_never_signalled():
    """RULES §6: what cannot be checked is left to the lease, and is never signalled."""
    world = board()
    world.happened(given.stop_requested(1))
    assert steps(world, UNKNOWN) == []


def test_a_run_that_no_process_has_is_not_signalled():
    """RULES §7.2: TERM to the group: there is none."""
    world = board(by="hand")
    world.happened(given.stop_requested(1))
    assert steps(world, Seen()) == []


# 3. Leases


def test_the_lease_of_a_live_worker_is_renewed_before_it_runs_out():
    """RULES §7.3: renew leases of live workers (lease 900 s)."""
    world = board()
    assert renewed(world, ALIVE, after=450) == []
    assert renewed(world, ALIVE, after=1) == [world.now + 900 * SECOND]


def test_expiry_alone_does_not_end_a_run_that_is_seen_alive():
    """RULES §6: expiry alone never ends a run whose process this host can see alive: the sweep renews its lease."""
    world = board()
    found = steps(world, ALIVE, after=10_000)
    assert [type(step) for step in found] == [Renew]


@pytest.mark.parametrize("seen", [LEFT, UNKNOWN, Seen()])
def test_no_lease_is_renewed_without_a_worker_that_can_be_seen(seen):
    """RULES §7.2: no lease is renewed without a process that can be seen."""
    assert renewed(board(), seen, after=600) == []


def test_a_run_by_hand_that_is_not_bound_renews_its_own_lease():
    """RULES §2: `hand`: whoever holds the lock beats."""
    assert renewed(board(by="hand"), Seen(), after=600) == []


# 4. Runs whose host cannot be asked

ASKED_IN_VAIN = {
    "by hand, not bound": ({"by": "hand"}, Seen()),
    "by hand, not bound, not seen": ({"by": "hand"}, None),
    "bound on another host": ({"host": "node-2"}, None),
    "another pid namespace": ({}, UNKNOWN),
}


@pytest.mark.parametrize("case", ASKED_IN_VAIN)
def test_what_cannot_be_asked_is_lost_when_lease_and_grace_are_over(case):
    """RULES §7.4: once lease + grace have passed: `lost`."""
    how, seen = ASKED_IN_VAIN[case]
    world = board(**how)
    assert booked(world, seen, after=960) == []
    assert booked(world, seen, after=0.000_001) == [Outcome.LOST]


@pytest.mark.parametrize("case", ASKED_IN_VAIN)
def test_a_beat_puts_that_off(case):
    """RULES §7.4: the lease counts, not the claim."""
    how, seen = ASKED_IN_VAIN[case]
    world = board(**how)
    world.leases["t_a", 1] = Lease(NOW + 5_000 * SECOND, NOW, row=True)
    assert booked(world, seen, after=961) == []


def test_another_hosts_spawn_that_was_never_bound_is_interrupted():
    """RULES §6: claimed by spawn, never bound → interrupted: that row comes before `lost`, whoever books it."""
    world = board(bound=False, host="node-2", boot="boot-2")
    assert booked(world, None, after=960) == []
    assert booked(world, None, after=1) == [Outcome.INTERRUPTED]


@pytest.mark.parametrize("seen", [None, GONE, ALIVE])
def test_another_hosts_run_is_neither_stopped_nor_signalled_nor_renewed(seen):
    """RULES §7.1: every run of this host."""
    world = board(host="node-2", max_runtime=5)
    assert steps(world, seen, after=600) == []


# 5. Holds are lifted: see test_endings


def test_holds_are_lifted_after_the_runs_were_settled():
    """RULES §7: the order of the steps."""
    world = board(failure_limit=1)
    world.create("t_b")
    world.attempt("t_b")
    world.policy(failure_limit=2)
    assert [type(step).__name__ for step in steps(world, GONE)] == ["Book", "Lift"]


# 6. Admit


def waiting(*cards, **limits):
    """A board with these cards of builder's, oldest first."""
    world = WorldView(**limits)
    for card in cards or ("t_a",):
        world.create(card)
        world.later(1)
    return world


def started(world, most=None):
    """The cards that start now."""
    return [start.task.id for start in world.admit(most).starts]


def held(world):
    """The reasons why cards that were looked at do not start."""
    return {task: reason for task, (reason, _) in world.admit().held.items()}


def test_a_card_that_waits_for_nothing_starts_for_its_worker():
    """RULES §7.6: admit."""
    (start,) = waiting().admit().starts
    assert (start.task.id, start.worker) == ("t_a", "builder")


def test_the_order_is_priority_then_age_then_id():
    """RULES §7.6: larger priority first, then older, then id."""
    world = WorldView()
    world.create("t_b")
    world.create("t_a")
    world.later(1)
    world.create("t_c")
    world.create("t_d", priority=1)
    assert started(world) == ["t_d", "t_a", "t_b", "t_c"]


@pytest.mark.parametrize(("kind", "name"), [("board", ""), ("assignee", "builder"), ("host", HOST)])
def test_a_pause_holds_back(kind, name):
    """RULES §7.6: pause (board, assignee, host): `paused`."""
    world = waiting()
    world.happened(given.paused(kind, name))
    assert (started(world), held(world)) == ([], {"t_a": "paused"})


@pytest.mark.parametrize(("kind", "name"), [("assignee", "other"), ("host", "node-2")])
def test_a_pause_of_another_scope_does_not(kind, name):
    """RULES §7.6: pause (board, assignee, host)."""
    world = waiting()
    world.happened(given.paused(kind, name))
    assert started(world) == ["t_a"]


def test_a_card_without_a_worker_is_held():
    """RULES §7.6: `no_assignee`."""
    world = WorldView()
    world.create(assignee=None)
    assert held(world) == {"t_a": "no_assignee"}


def test_a_card_in_review_without_a_reviewer_is_held():
    """RULES §1: worker of a card: none at all: held `no_assignee`."""
    world = board()
    world.exit(outcome="review")
    assert (world.status(), held(world)) == ("review", {"t_a": "no_assignee"})


def test_a_card_in_review_starts_for_its_reviewer():
    """RULES §1: in lane review its reviewer."""
    world = WorldView()
    world.create()
    claim = world.claim()
    world.do(AskReview("t_a", claim.proof, reviewer="critic"))
    assert [start.worker for start in world.admit().starts] == ["critic"]


def test_a_worker_that_this_host_does_not_know_is_held():
    """RULES §7.6: `unknown_assignee`."""
    world = WorldView()
    world.create(assignee="stranger")
    assert held(world) == {"t_a": "unknown_assignee"}


def test_a_card_of_a_person_waits_for_that_person():
    """RULES §7.6: `waiting_for_person` (a worker declared `human`)."""
    world = waiting()
    world.workers["builder"] = Worker(human=True, max_running=None)
    assert (started(world), held(world)) == ([], {"t_a": "waiting_for_person"})


def test_a_cooling_card_is_held_until_its_time():
    """RULES §7.6: `cooldown_until`."""
    world = waiting()
    world.attempt(outcome="rate_limited")
    until = world.card().not_before
    assert world.admit().held == {"t_a": ("cooldown_until", until)}
    world.now = until
    assert started(world) == ["t_a"]


def test_a_card_whose_last_processes_are_still_there_is_held():
    """RULES §7.7: while its group has a live member the card is not claimable (`ending`)."""
    world = waiting()
    world.ending.add("t_a")
    assert held(world) == {"t_a": "ending"}


@pytest.mark.parametrize("most", [1, 2])
def test_the_boards_cap_bounds_its_live_runs(most):
    """RULES §7.6: caps (board); behind it nobody was looked at."""
    world = waiting("t_a", "t_b", "t_c", max_running=most)
    assert (started(world), held(world)) == (["t_a", "t_b"][:most], {})


def test_live_runs_count_against_the_boards_cap():
    """RULES §7.6: counted from live runs."""
    world = waiting("t_a", "t_b", max_running=1)
    world.claim("t_a")
    assert started(world) == []


def test_the_hosts_cap_bounds_its_spawned_runs():
    """RULES §7.6: caps (host: spawned runs over all boards)."""
    world = waiting("t_a", "t_b")
    world.host_cap = 1
    assert (started(world), held(world)) == (["t_a"], {})


def test_a_run_by_hand_does_not_count_against_the_hosts_cap():
    """RULES §7.6: host: spawned runs."""
    world = waiting("t_a", "t_b")
    world.host_cap = 1
    world.claim("t_a", by="hand")
    assert started(world) == ["t_b"]


def test_a_full_assignee_is_held_and_takes_no_slot():
    """RULES §7.6: `assignee_at_capacity`; a skipped card takes no slot."""
    world = waiting("t_a", "t_b", max_running_per_assignee=1, max_running=2)
    world.create("t_c", assignee="other")
    assert (started(world), held(world)) == (["t_a", "t_c"], {"t_b": "assignee_at_capacity"})


def test_an_assignees_own_cap_counts_if_it_is_smaller():
    """RULES §7.6: caps (assignee)."""
    world = waiting("t_a", "t_b", max_running_per_assignee=5)
    world.workers["builder"] = Worker(human=False, max_running=1)
    assert started(world) == ["t_a"]


def test_held_reasons_are_those_of_the_cards_that_were_looked_at():
    """RULES §7.6: stored for the cards looked at before the slots ran out."""
    world = WorldView(max_running=1)
    world.create("t_a", assignee=None)
    world.create("t_b")
    world.create("t_c", assignee=None)
    assert (started(world), held(world)) == (["t_b"], {"t_a": "no_assignee"})


def test_a_tick_may_be_bounded():
    """CLI: `sweep --max N`."""
    assert started(waiting("t_a", "t_b", "t_c"), most=2) == ["t_a", "t_b"]


def test_the_caps_that_let_a_card_in_are_kept():
    """RULES §2: `claimed`: live and cap of each cap that let it in."""
    world = waiting("t_a", "t_b", max_running=5, max_running_per_assignee=3)
    told = [[(cap.cap, cap.live, cap.limit) for cap in start.caps] for start in world.admit().starts]
    assert told == [
        [("board", 0, 5), ("assignee", 0, 3), ("host", 0, 8)],
        [("board", 1, 5), ("assignee", 1, 3), ("host", 1, 8)],
    ]


# 7. Runs that ended by a verb, and whose processes remain

RUN = Run(
    "t_a", 1, by="spawn", host=HOST, boot=BOOT, ended_by="completed", ended_at=NOW,
    group=Binding(4242, 777, 4242, HOST, BOOT, "pid:1"),
)  # fmt: skip


def of_ended(seen, *, after):
    """What a tick plans for an ended run so many seconds after its end."""
    world = WorldView()
    now = NOW + round(after * SECOND)
    looked_at = {} if seen is None else {("t_a", 1): seen}
    found = settle(
        now, world.settings, world.here, open_runs=(), ending=[RUN], liftable=(), seen=looked_at
    )  # fmt: skip
    return [step.signum if isinstance(step, Signal) else type(step) for step in found]


def test_an_ended_run_whose_processes_are_gone_is_forgotten():
    """RULES §7.7: while its group on this host has a live member the card is not claimable."""
    assert of_ended(GONE, after=0) == [Forget]
    assert of_ended(Seen(Presence.REBOOTED), after=0) == [Forget]


@pytest.mark.parametrize("presence", [Presence.ALIVE, Presence.GONE])
def test_an_ended_run_has_the_grace_to_go(presence):
    """RULES §7.7: stop_grace after the `at` of the ending event it gets TERM, after another KILL."""
    left = Seen(presence, members=(4243,))
    assert of_ended(left, after=9.999_999) == []
    assert of_ended(left, after=10) == [signal.SIGTERM]
    signalled_at = left._replace(ending_since=NOW + 12 * SECOND)
    assert of_ended(signalled_at, after=21.999_999) == []
    assert of_ended(signalled_at, after=22) == [signal.SIGKILL]


@pytest.mark.parametrize("seen", [None, UNKNOWN])
def test_an_ended_run_that_cannot_be_checked_is_left(seen):
    """RULES §6: what cannot be checked is never signalled."""
    assert of_ended(seen, after=10**6) == []


# Pure


def test_a_plan_made_twice_is_the_same():
    """RULES §7: `--dry-run` prints the plan; a real tick on the same inputs does exactly the plan."""
    world = board(max_runtime=5, failure_limit=1)
    world.create("t_b")
    world.attempt("t_b")
    world.policy(failure_limit=2)
    world.later(6)
    assert world.planned({("t_a", 1): ALIVE}) == world.planned({("t_a", 1): ALIVE})
    assert world.admit() == world.admit()


def test_admission_asks_nothing_of_a_full_board():
    """RULES §7.6: looks no further once the slots have run out."""
    world = waiting(max_running=1)
    found = admit(NOW, world.settings, world.here, iter([world.card()]), Live(board=1))
    assert (found.starts, found.held) == ((), {})
