"""Checkpoints: what they say, what may be compared with them, and that folds do not change unseen (RULES §10)."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kanban.importing.jsonl import import_jsonl
from kanban.importing.lines import numbered
from ledger.errors import UnknownBoard
from projections import world as worlds
from projections.checkpoint import BadCheckpoint, OtherCheckpoint, Unsound, checkpoint, checkpoints
from projections.compared import Comparison
from projections.folding import FOLD_VERSION
from projections.verify import verify
from projections.world import World
from tests import given, ledgers
from tests.audits import audit, mend, outside

FOLDS = Path(__file__).parent.parent / "fixtures" / "folds"
LOGS = FOLDS / "logs.jsonl"
"""Boards as an early version exported them: every kind once, and walks of people, workers and sweeps."""
PINNED: dict[str, Any] = json.loads((FOLDS / "digests.json").read_text())
"""The version of the folds, and by board the digest at each of its positions."""


@pytest.fixture
def whole(board):
    """The lived-in log, of which what was redacted is really gone."""
    board.sql("DELETE FROM words WHERE position = 21")
    return board


@pytest.fixture
def seen(whole):
    """A checkpoint of it."""
    return checkpoint(whole.engine, ledgers.BOARD)


def look(store, *since, **how):
    """What a verification says about these checkpoints."""
    return verify(store.engine, ledgers.BOARD, since=since, **how)


def line(mark, **fields):
    """The line of a checkpoint, with other values."""
    return json.dumps({"schema": 1, **mark.as_json()} | fields)


def test_a_checkpoint_is_position_hash_fold_version_and_digest(whole, seen):
    """RULES §10: and the board that it is of."""
    assert seen.as_json() == {
        "board": "b",
        "board_id": ledgers.BOARD_ID,
        "position": 23,
        "hash": whole.head().hash.hex(),
        "fold": FOLD_VERSION,
        "digest": audit(whole).digest,
    }


def test_an_unknown_board_is_said(store):
    """CLI: exit 5."""
    with pytest.raises(UnknownBoard):
        checkpoint(store.engine, "nowhere")


def test_of_a_broken_log_there_is_no_checkpoint(whole):
    """RULES §10: it would vouch for what was forged; exit 8, and the position."""
    outside(whole, "UPDATE events SET actor_name = 'eve' WHERE position = 20")
    with pytest.raises(Unsound, match="broken at position 20: its hash is not that of its columns") as caught:
        checkpoint(whole.engine, ledgers.BOARD)
    assert caught.value.position == 20


def test_of_a_log_with_an_illegal_event_or_a_forged_row_there_is_one(whole):
    """RULES §9: what was written wrong once stays in the log; rows are no part of it."""
    whole.append(given.completed(7))
    outside(whole, "UPDATE tasks SET failures = 9")
    mark = checkpoint(whole.engine, ledgers.BOARD)
    assert (mark.position, look(whole, mark).divergences) == (24, ())


# Comparing


def test_a_log_agrees_with_its_checkpoint_for_ever(whole, seen):
    """RULES §10: whatever is appended, redacted or folded anew since."""
    whole.append(given.commented("on"), given.redacted(19))
    whole.sql("DELETE FROM words WHERE position = 19")
    found = look(whole, seen)
    assert (found.divergences, found.checkpoints, found.notes) == ((), (23,), ())


def test_a_digest_that_this_program_does_not_come_to_is_named(whole, seen):
    """RULES §10: the log is the same, so its folds are not: only that comparison folds."""
    other = seen._replace(digest="0" * 64)
    (fault,) = look(whole, other).divergences
    assert (fault.position, fault.rule, fault.computed) == (23, "§10 checkpoint", "0" * 64)
    assert "this program folds otherwise" in fault.text
    assert look(whole, other, fold=False).divergences == ()


def test_only_the_digest_of_the_last_one_is_compared(whole, seen):
    """A file of many checkpoints costs one fold."""
    early = seen._replace(position=11, hash=whole.read()[10].hash.hex(), digest="0" * 64, fold=FOLD_VERSION + 1)
    assert look(whole, early, seen).divergences == ()


def test_what_cannot_be_folded_any_more_is_named(whole, seen):
    """RULES §2: a checkpoint of another program may have seen it folded."""
    outside(whole, "UPDATE events SET kind = 'dreamt' WHERE position = 20")
    mend(whole)
    other = seen._replace(hash=whole.head().hash.hex())
    (fault,) = look(whole, other).divergences
    assert (fault.position, fault.rule) == (20, "§10 checkpoint")
    assert "it cannot be folded, though a checkpoint saw it folded: UnknownKind" in fault.text


def test_a_forged_log_is_not_folded_for_its_digest(whole, seen):
    """RULES §10: what is broken is named, once."""
    outside(whole, "UPDATE events SET facts = '[]' WHERE position = 20")
    assert [(each.position, each.rule) for each in look(whole, seen).divergences] == [(20, "§10 chain")]


def test_a_checkpoint_of_a_position_that_was_forged_names_it_as_changed(whole, seen):
    """RULES §10: here nobody has chained anew."""
    outside(whole, "UPDATE events SET hash = words_digest WHERE position = 23")
    (*_, fault) = look(whole, seen).divergences
    assert fault.text == "a checkpoint saw another log: from position 1 to 23 something was changed"


@pytest.mark.parametrize("changes", [{"board_id": "c" * 32}, {"board": "c"}])
def test_a_checkpoint_of_another_board_is_refused_by_name(whole, seen, changes):
    """RULES §10: it says nothing about this one."""
    with pytest.raises(OtherCheckpoint, match=r"checkpoint at position 23 is of board .*; this is board b, id bbb"):
        look(whole, seen._replace(**changes), fold=False)


def test_a_checkpoint_of_other_folds_is_refused_by_name(whole, seen):
    """RULES §10: fold version; the log alone can still be compared, and that is what to run next."""
    other = seen._replace(fold=FOLD_VERSION + 1)
    said = f"was folded by version {FOLD_VERSION + 1}, this program folds by version {FOLD_VERSION}"
    with pytest.raises(OtherCheckpoint, match=said) as caught:
        look(whole, other)
    assert "--no-fold" in caught.value.remedy
    assert look(whole, other, fold=False).divergences == ()


# As lines


def test_lines_are_read_as_they_were_printed(seen):
    """CLI: `ledger checkpoint >> FILE`: any number of them, in any order."""
    early = seen._replace(position=4)
    assert checkpoints(line(seen)) == (seen,)
    assert checkpoints(f"{line(seen)}\n\n{line(early)}\n") == (early, seen)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_no_checkpoint(text):
    """A checkpoint that was lost must not look as if it agreed."""
    with pytest.raises(BadCheckpoint, match="line 1 is no checkpoint: nothing is there"):
        checkpoints(text)


@pytest.mark.parametrize(
    "fields",
    [{"schema": 2}, {"position": 0}, {"position": "x"}, {"hash": "0"}, {"hash": "G" * 64}, {"digest": None},
     {"fold": 0}, {"more": 1}, {"board": None}],
)  # fmt: skip
def test_a_line_that_is_no_checkpoint_is_named(seen, fields):
    """By its number and the field."""
    with pytest.raises(BadCheckpoint, match=f"line 2 is no checkpoint: {next(iter(fields))}: ") as caught:
        checkpoints(f"{line(seen)}\n{line(seen, **fields)}")
    assert caught.value.line == 2


@pytest.mark.parametrize("text", ["{", "null", "[]", "\x00", '{"schema":1}'])
def test_garbage_is_no_checkpoint(text):
    """Whatever the file holds."""
    with pytest.raises(BadCheckpoint, match="line 1 is no checkpoint: "):
        checkpoints(text)


# Fold versions


def logs():
    """The kept logs, by board."""
    with LOGS.open("rb") as file:
        events = [event for _, event in numbered(file)]
    return {board: list(log) for board, log in groupby(events, key=lambda event: event.board)}


def digests(log):
    """The digest of the fold at each position of *log*, shortened."""
    world, found = World(), []
    for event in log:
        world.evolve(event)
        found.append(Comparison(world, task=None, unread=frozenset()).run(None, event.board)[:12])
    return found


def test_folds_change_only_with_their_version():
    """RULES §10: if this fails, raise `FOLD_VERSION`, and write what `digests` says of each log into digests.json."""
    assert PINNED["fold"] == FOLD_VERSION
    found = {board: digests(log) for board, log in logs().items()}
    assert found.keys() == PINNED["digests"].keys()
    for board, pinned in PINNED["digests"].items():
        changed = [place for place, pair in enumerate(zip(found[board], pinned, strict=True), 1) if len(set(pair)) > 1]
        assert not changed, f"board {board}: other rows from position {changed[0]} on"


KEPT = {
    "evolve": ("failures", "streak", "spent", "neutral", "runs", "lane", "hold", "not_before", "outcome", "archived"),
    "evolve_run": ("outcome", "ended_by", "stops", "late_position", "progress_at"),
    "evolve_settings": ("policy", "pauses"),
}
"""What a fold that was changed may leave as it was, by fold."""


@pytest.mark.parametrize(("fold", "name"), [(fold, name) for fold, names in KEPT.items() for name in names])
def test_a_changed_fold_is_noticed(monkeypatch, fold, name):
    """The kept logs move all of it: a fold that leaves one thing as it was comes to other digests."""
    evolve = getattr(worlds, fold)

    def changed(before, event):
        after = evolve(before, event)
        return after if before is None or after is None else after._replace(**{name: getattr(before, name)})

    monkeypatch.setattr(worlds, fold, changed)
    assert {board: digests(log) for board, log in logs().items()} != PINNED["digests"]


@pytest.mark.parametrize("name", PINNED["digests"])
def test_an_early_export_can_still_be_imported(nothing, name):
    """B61: golden logs of earlier versions; the board comes to the digest that it had, on every database."""
    lines = [line for line in LOGS.read_bytes().splitlines(keepends=True) if f'"board":"{name}"'.encode() in line]
    made = import_jsonl(SimpleNamespace(url=nothing), iter(lines), environ={})
    assert made.replay.digest[:12] == PINNED["digests"][name][-1]
    assert not [each for each in made.replay.divergences if each.rule in {"§9 stored", "§10 chain"}]
