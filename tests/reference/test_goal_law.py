"""Goals at random: no goal turn without a proof, and none after a refusal."""

from hypothesis import given
from hypothesis import strategies as st

from kanban.worker.exits import exit_code
from kanban.worker.goal import pursue
from kanban.worker.proof import Live, Lost, Reason
from kanban.worker.recovery import budget_of
from kanban.worker.result import result_of
from kanban.worker.turns import run_turns
from projections.goals import Goal
from tests.reference.goals import MET, MORE, STUCK, WAIT
from tests.reference.workers import CARRIER, INTERRUPT, PARTIAL, QUOTA, SETTLED, SUCCESS, TIMEOUT

RESULTS = st.sampled_from([None, *[SUCCESS] * 6, TIMEOUT, TIMEOUT, QUOTA, PARTIAL, INTERRUPT, SETTLED])
VERDICTS = st.sampled_from([*[MORE] * 6, WAIT, MET, STUCK, {"verdict": "?"}])
GONE = [Lost(Reason.LEASE_EXPIRED), Lost(Reason.NOT_RUNNING)]


@given(
    results=st.lists(RESULTS, min_size=60, max_size=60),
    verdicts=st.lists(VERDICTS, min_size=20, max_size=20),
    claims=st.lists(st.sampled_from([*[Live(1)] * 20, *GONE]), min_size=200, max_size=200),
    budget=st.sampled_from(["0", "1", "2"]),
    most=st.integers(1, 6),
    finalize=st.booleans(),
)
def test_no_goal_turn_begins_without_a_proof_nor_after_a_refusal(*, results, verdicts, claims, budget, most, finalize):
    """For every sequence of results, verdicts and lost claims.

    A proof stands right before each turn; a goal takes its turns at most, each with its own attempts; what would not
    exit with 0 and may not be tried again, a lost claim, a block and a failing judge are followed by no turn.
    """
    seen, answers, said, held = [], iter(results), iter(verdicts), iter(claims)
    environ = {"LEDGER_TURN_RECOVERY": budget}

    def turn(text):
        seen.append(("turn" if "recovery attempt" not in text else "retry", next(answers)))
        return seen[-1][1]

    def check():
        proof = next(held)
        seen.append(("proof" if isinstance(proof, Live) else "refusal", proof))
        return proof

    def judge(_asked):
        seen.append(("judge", next(said)))
        return seen[-1][1]

    def block(_reason):
        seen.append(("refusal", "block"))

    means = {"check": check, "sleep": lambda _: seen.append(("sleep", None))}
    first = run_turns(turn, "do it", CARRIER, environ=environ, **means)
    aim = Goal("it", most)
    ended = pursue(turn, first, CARRIER, judge, environ=environ, goal=aim, finalize=finalize, block=block, **means)
    names = [name for name, _ in seen]
    turns = [at for at, name in enumerate(names) if name in {"turn", "retry"}]
    assert all(names[at - 1] == "proof" for at in turns)
    assert names.count("turn") <= most
    assert names.count("retry") <= most * budget_of(environ)
    last = turns[-1] if turns else -1
    assert "refusal" not in names[: last + 1]
    assert all(_may_follow(names[at], value) for at, (_, value) in enumerate(seen[:last]) if names[at] != "sleep")
    if turns and names[-1] != "refusal" and "judge" not in names[last:]:
        assert ended.code == exit_code(result_of(seen[last][1]), is_worker=True)


def _may_follow(name, value):
    """Whether a turn may come after this."""
    if name == "judge":
        return value in (MORE, WAIT, MET)
    if name in {"turn", "retry"}:
        return value in (SUCCESS, TIMEOUT)
    return name == "proof"
