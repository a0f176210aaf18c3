"""`ledger claim --check`: whether the claim of this environment still holds, for a shell."""

from pathlib import Path

import pytest

from kanban.worker.proof import Reason


@pytest.fixture
def spawned(worker, monkeypatch):
    """A worker's whole environment: the store and the board too."""
    ledger, card = worker
    monkeypatch.setenv("LEDGER_DATABASE_URL", ledger.url)
    monkeypatch.setenv("LEDGER_BOARD", "default")
    return ledger, card


def test_a_live_claim_is_exit_0(spawned):
    """With the end of its lease."""
    ledger, card = spawned
    said = ledger("claim", "--check", "--json")
    until = said.json["lease_until"]
    assert (said.code, said.err) == (0, "")
    assert said.json == {
        "schema": 1, "live": True, "reason": None, "task": card, "run": 1, "lease_until": until,
    }  # fmt: skip
    assert until == ledger.json("show", card)["runs"][0]["lease_until"]
    assert ledger.ok("claim", "--check").out.startswith(f"{card}  run 1  live until ")


def test_a_lost_claim_is_exit_3_with_its_reason(spawned):
    """The code of `LostClaim`; its detail with --verbose."""
    ledger, card = spawned
    ledger.ok("complete", "did it")
    said = ledger("claim", "--check", "--json")
    assert said.code == 3
    assert said.json == {
        "schema": 1, "live": False, "reason": "not_running", "task": card, "run": 1, "lease_until": None,
    }  # fmt: skip
    said = ledger("claim", "--check")
    assert (said.code, said.out, said.err) == (3, f"{card}  run 1  lost: not_running\n", "")
    assert "the card is done" in ledger("claim", "--check", "--verbose").err


def test_no_claim_is_exit_3(ledger):
    """Outside of a worker there is none."""
    said = ledger("claim", "--check", "--json")
    assert (said.code, said.json["reason"], said.json["task"]) == (3, "no_claim", None)
    assert ledger("claim", "--check").out == "lost: no_claim\n"


def test_half_a_claim_is_exit_3_and_no_other_store_is_asked(worker, monkeypatch):
    """The home's own store has the card, and it is live there: but the environment does not name that store."""
    ledger, _ = worker
    monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)
    said = ledger("claim", "--check", "--json")
    assert (said.code, said.json["reason"]) == (3, "half_claim")


def test_a_check_changes_nothing(spawned):
    """Not a byte, not a row."""
    ledger, _ = spawned
    before = ledger.bytes()
    ledger.ok("claim", "--check")
    assert ledger.bytes() == before


def test_every_reason_stands_in_the_manual():
    """What scripts may rely on."""
    manual = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
    row = next(line for line in manual.splitlines() if line.startswith("| `claim --check`"))
    assert [reason for reason in Reason if f"`{reason}`" not in row] == []


@pytest.mark.parametrize(
    "flags", [("OWN",), ("--next",), ("--assignee", "a"), ("--pid", "1"), ("--board", "b"), ("--database", "d")]
)
def test_a_check_goes_alone(spawned, flags):
    """The environment says which claim, and nothing else does."""
    ledger, card = spawned
    said = ledger("claim", "--check", *(card if flag == "OWN" else flag for flag in flags), "--json")
    assert (said.code, said.error["code"]) == (2, "usage")
