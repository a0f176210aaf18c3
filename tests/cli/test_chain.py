"""The commands on the log itself: verify, checkpoint, redact."""

from __future__ import annotations

import io
import json

import pytest


@pytest.fixture
def card(ledger):
    """A card at position 3."""
    return ledger.create("Secret", "--body", "More")


def typed(monkeypatch, text):
    """What is typed into stdin."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


# verify


def test_a_good_log_is_one_line(ledger, card):
    """And what only a checkpoint shows is said with --verbose."""
    said = ledger.ok("verify")
    assert said.out.startswith("3 events up to position 3, hash ")
    assert "nothing is wrong" in said.out
    assert "older checkpoint" in ledger.ok("verify", "--verbose").err


def test_the_first_bad_position_is_named_and_the_exit_code_is_7(ledger, card):
    """RULES §10: for cron."""
    ledger.outside("UPDATE events SET actor_name = 'eve' WHERE position = 2")
    said = ledger("verify")
    assert (said.code, said.err) == (7, "")
    assert "wrong from position 2 on" in said.out
    assert "  - position 2: its hash is not that of its columns after the event before it   RULES §10 chain" in said.out
    assert ledger("verify", "--json").json["first_bad"] == 2


def test_a_card_is_named_with_its_position(ledger, card):
    """So that ledger show tells more."""
    ledger.outside("DELETE FROM words WHERE position = 3")
    assert f"  - position 3 of {card}: its words are gone" in ledger("verify").out


# checkpoint


def test_a_checkpoint_is_one_line_of_json_with_and_without_json(ledger, card):
    """RULES §10: position, hash, fold version, fold digest, and the board."""
    said = ledger.ok("checkpoint").out
    assert said == ledger.ok("checkpoint", "--json").out
    assert set(json.loads(said)) == {"schema", "board", "board_id", "position", "hash", "fold", "digest"}


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_checkpoint_that_was_kept_is_compared(ledger, card, tmp_path, monkeypatch, way):
    """RULES §10: from a file, or from stdin; all of them that it holds."""
    kept = ledger.ok("checkpoint").out
    ledger.ok("comment", card, "on")
    kept += ledger.ok("checkpoint").out
    (tmp_path / "kept").write_text(kept)
    typed(monkeypatch, kept)
    said = ledger.ok("verify", "--since", "-" if way == "stdin" else str(tmp_path / "kept"))
    assert "nothing is wrong; compared with checkpoints at 3, 4" in said.out


def test_a_tail_that_was_cut_off_is_found(ledger, card, tmp_path):
    """RULES §9: together with the board's row; only the checkpoint shows it."""
    ledger.ok("comment", card, "on")
    (tmp_path / "kept").write_text(ledger.ok("checkpoint").out)
    ledger.outside(
        "DELETE FROM words WHERE position = 4",
        "DELETE FROM events WHERE position = 4",
        "UPDATE boards SET (head_position, head_at, head_hash) = (SELECT position, at, hash FROM events "
        "WHERE position = 3)",
    )
    assert ledger("verify").code == 0
    said = ledger("verify", "--since", str(tmp_path / "kept"))
    assert said.code == 7
    assert "  - position 4: the log ends at position 3; a checkpoint saw position 4" in said.out


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"board_id": "c" * 32}, "of board default, id ccc"), ({"fold": 99}, "folded by version 99")],
)
def test_a_checkpoint_that_cannot_be_compared_is_refused(ledger, card, tmp_path, fields, said):
    """Exit 2: by name."""
    (tmp_path / "kept").write_text(json.dumps(json.loads(ledger.ok("checkpoint").out) | fields))
    refused = ledger("verify", "--since", str(tmp_path / "kept"), "--json")
    assert (refused.code, refused.error["code"]) == (2, "other_checkpoint")
    assert said in refused.error["message"]


def test_the_log_alone_is_compared_without_a_fold(ledger, card, tmp_path):
    """RULES §10: what to do about another fold version."""
    (tmp_path / "kept").write_text(json.dumps(json.loads(ledger.ok("checkpoint").out) | {"fold": 99}))
    assert "compared with checkpoints at 3" in ledger.ok("verify", "--no-fold", "--since", str(tmp_path / "kept")).out


def test_what_is_no_checkpoint_is_refused(ledger, card, tmp_path):
    """Garbage, nothing, a folder, no file."""
    (tmp_path / "kept").write_text("garbage")
    (tmp_path / "empty").write_text("")
    assert ledger("verify", "--since", str(tmp_path / "kept"), "--json").error["code"] == "bad_checkpoint"
    assert ledger("verify", "--since", str(tmp_path / "empty"), "--json").error["code"] == "bad_checkpoint"
    for name in (tmp_path, tmp_path / "none"):
        said = ledger("verify", "--since", str(name), "--json")
        assert (said.code, said.error["code"]) == (2, "invalid_input")


def test_of_a_broken_log_there_is_no_checkpoint(ledger, card):
    """Exit 8."""
    ledger.outside("UPDATE events SET actor_name = 'eve' WHERE position = 2")
    said = ledger("checkpoint", "--json")
    assert (said.code, said.error["code"], said.error["try"]) == (8, "unsound", "ledger verify")


# redact


def test_words_are_gone_wherever_they_were_shown(ledger, card):
    """RULES §10: list, show, board, events, and the answers of commands say that they are."""
    ledger.ok("block", card, "Why")
    ledger.ok("redact", "3")
    ledger.ok("redact", "4")
    for argv in (["list"], ["board"], ["show", card], ["events"], ["assign", card, "ann"]):
        said = ledger.ok(*argv).out
        assert "(redacted)" in said
        assert not {"Secret", "More", "Why"} & set(said.split())
    assert ledger.json("show", card)["task"]["title"] is None
    assert [event["words"] for event in ledger.json("events")["events"]][2:4] == [None, None]
    ledger.ok("why", card)


def test_what_was_redacted_and_what_may_still_hold_it_is_said(ledger, card):
    """The position, its kind and card; notes on stderr."""
    said = ledger.ok("redact", "3", "--reason", "a name")
    assert said.out == f"position 3 (created {card}): its words are gone\n"
    assert "note: backups, exports and copies" in said.err
    assert "gone already" in ledger.ok("redact", "3").out
    assert ledger.json("events")["events"][-1]["words"] == {"reason": "a name"}


def test_the_answer_for_programs(ledger, card):
    """CLI: redact."""
    said = ledger.json("redact", "3")
    assert said.pop("notes")
    shown = {"schema": 1, "redacted": 3, "task": card, "kind": "created", "changed": True, "position": 4}
    assert said == shown
    again = ledger.json("redact", "3", "--no-rewrite")
    assert again["changed"] is False
    assert any("--no-rewrite" in note or "not asked for" in note for note in again["notes"])


@pytest.mark.parametrize(
    ("argv", "code", "name"),
    [(["99"], 5, "unknown_position"), (["2"], 4, "no_words"), (["0"], 2, "usage"), (["x"], 2, "usage"),
     ([], 2, "usage"), (["4611686018427387904"], 5, "unknown_position"), (["9223372036854775808"], 2, "usage")],
)  # fmt: skip
def test_what_cannot_be_redacted(ledger, card, argv, code, name):
    """Exit codes of DESIGN §6."""
    said = ledger("redact", *argv, "--json")
    assert (said.code, said.error["code"]) == (code, name)


def test_a_worker_redacts_nothing(worker):
    """RULES §8."""
    ledger, _ = worker
    said = ledger("redact", "3", "--json")
    assert (said.code, said.error["code"]) == (4, "forbidden")
    assert ledger.json("events")["events"][2]["words"] is not None


def test_the_help_says_what_keeps_the_words(ledger):
    """RULES §10: what was copied before is out of reach."""
    said = " ".join(ledger.ok("redact", "--help").out.split())
    assert "Backups and exports that were made before keep the words" in said
