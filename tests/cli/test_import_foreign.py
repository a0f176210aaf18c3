"""Boards of the reference system brought in as real ones: import hermes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kanban.importing import bringing
from tests.cli.imports import (
    AT,
    DRIFT,
    FIXTURES,
    ROOT,
    SMALL,
    Hermes,
    blocked,
    brought,
    by_title,
    created,
    note,
    refused,
)
from tests.engines import once
from tests.fleets import PATIENCE


@pytest.fixture
def board(tmp_path):
    """An empty board of the reference system."""
    return Hermes(tmp_path / "kanban.db")


def imported(ledger, board):
    """What *board* comes to here, by title."""
    brought(ledger, "hermes", board.path)
    return by_title(ledger)


# Hermes


@pytest.mark.parametrize(
    ("path", "amounts", "statuses"),
    [
        (DRIFT, (40, 30, 14), {"todo": 20, "ready": 6, "blocked": 9, "done": 5}),
        (SMALL, (14, 6, 4), {"blocked": 3, "done": 9, "archived": 2}),
    ],
)
def test_a_real_board_becomes_one_of_ours(bare, path, amounts, statuses):
    """Every card, link and comment; what was running there is ready; the replay is clean; the file is as it was."""
    before = path.read_bytes()
    made = brought(bare, "hermes", path, "--board", "fleet")
    assert ((made["tasks"], made["linked"], made["comments"]), made["skipped"]) == (amounts, [])
    assert (made["board"], made["changed"], len(made["board_id"])) == ("fleet", True, 32)
    found = bare.json("stats", "--board", "fleet")["by_status"]
    assert {status: count for status, count in found.items() if count} == statuses
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", sorted(path.name for path in (FIXTURES / "hermes").glob("*.sql")))
def test_a_board_of_any_version_comes_in_whole(ledger, tmp_path, name):
    """0.13 to 0.19: no card is left out, and each link is made or named."""
    with closing(sqlite3.connect(tmp_path / "kanban.db")) as driver:
        driver.executescript((FIXTURES / "hermes" / name).read_text())
        count, links = (driver.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("tasks", "task_links"))
    made = brought(ledger, "hermes", tmp_path / "kanban.db")
    named = [each for each in made["notes"] if " does not wait for " in each]
    assert (made["tasks"], made["skipped"], made["linked"] + len(named)) == (count, [], links)


def test_a_card_keeps_all_that_its_source_says(ledger, board):
    """Its id and time are facts, in its key; its fields are ours where we have them; the rest is in its note."""
    board.card(
        "t_1", title="Mend it", body="At length.", assignee="builder", priority=3, tenant="acme", max_retries=4,
        max_runtime_seconds=90, workspace_kind="dir", workspace_path="/srv/x", goal_mode=1, goal_max_turns=7,
        consecutive_failures=1, claim_lock="secret",
    )  # fmt: skip
    board.add("task_runs", task_id="t_1", outcome="crashed", started_at=AT, ended_at=AT + 5, claim_lock="secret")
    board.add("task_comments", task_id="t_1", author="ann", body="Try\nagain.", created_at=AT + 9)
    shown = imported(ledger, board)["Mend it"]
    facts = created(ledger, shown)
    assert facts["key"] == "hermes:t_1@2025-10-20T22:40:00.000000Z"
    wanted = {
        "assignee": "builder", "priority": 3, "tenant": "acme", "max_retries": 4, "max_runtime": 90,
        "workspace": "dir:/srv/x", "goal": {"max_turns": 7}, "lane": "work",
    }  # fmt: skip
    assert wanted.items() <= facts.items()
    said = note(shown)
    assert (said["id"], said["created_at"], said["status"], said["consecutive_failures"]) == ("t_1", AT, "ready", 1)
    assert said["runs"] == [{"id": 1, "outcome": "crashed", "started_at": AT, "ended_at": AT + 5}]
    assert shown["comments"][1]["body"] == "ann wrote at 2025-10-20T22:40:09.000000Z:\nTry\nagain."
    assert "secret" not in ledger.ok("export").out


def test_what_the_source_does_not_say_stays_unknown(ledger, board):
    """No assignee, no limit, no body and no time is made up, and nothing that never happened is told."""
    board.card("t_1", created_at=None, max_retries=0, priority=None, goal_mode=0, goal_max_turns=7)
    shown = imported(ledger, board)["card t_1"]
    facts = created(ledger, shown)
    assert {"assignee", "tenant", "max_retries", "max_runtime", "goal", "host", "made_by"} <= {
        name for name, value in facts.items() if value is None
    }
    assert (facts["key"], facts["priority"], shown["runs"]) == ("hermes:t_1", 0, [])
    assert note(shown) == {"id": "t_1", "status": "ready", "goal_mode": 0, "goal_max_turns": 7, "max_retries": 0}
    assert [event["kind"] for event in shown["events"]] == ["created", "commented"]


def test_the_dispatcher_may_start_no_card_that_waits_or_is_held_there(ledger, board):
    """Ready and running ones are ready here; whatever stood still there stands still, for a person."""
    for status in ("triage", "todo", "ready", "running", "scheduled", "review", "blocked", "odd", ""):
        board.card(f"t_{status}", "t_ready" if status == "todo" else "t_ready2", title=f"a {status}", status=status)
    board.card("t_ready2", title="a ready2", status="done", completed_at=AT)
    board.add("task_events", task_id="t_blocked", kind="blocked", payload=json.dumps({"reason": "which one?"}))
    cards = imported(ledger, board)
    found = {title: shown["task"]["status"] for title, shown in cards.items()}
    assert found == {
        "a triage": "triage", "a todo": "todo", "a ready": "ready", "a running": "ready", "a scheduled": "blocked",
        "a review": "blocked", "a blocked": "blocked", "a odd": "blocked", "a ": "blocked", "a ready2": "done",
    }  # fmt: skip
    assert blocked(ledger, cards["a blocked"]) == (None, "which one?", True)
    assert blocked(ledger, cards["a review"]) == ("review", "its status in hermes is review", True)
    assert blocked(ledger, cards["a scheduled"])[2]
    assert blocked(ledger, cards["a "])[1] == "its status in hermes is missing"


def test_a_claim_is_released_and_its_worker_named(ledger, board):
    """Nobody holds a card here because somebody held it there, but a worker may still be at it."""
    board.card("t_1", status="running", claim_lock="ops:1")
    made = brought(ledger, "hermes", board.path)
    released = "1 card was at work there, and nobody holds them here; stop their workers there: t_1"
    assert made["notes"] == [released]
    assert by_title(ledger)["card t_1"]["task"]["run"] is None


def test_the_last_reason_counts(ledger, board):
    """What a breaker said, or what failed last where no event says why; none where nothing does."""
    for card, error in (("t_1", None), ("t_2", "no such tool"), ("t_3", None)):
        board.card(card, status="blocked", last_failure_error=error, block_kind="capability")
    for reason in ("first", "last"):
        board.add("task_events", task_id="t_1", kind="gave_up", payload=json.dumps({"error": reason}))
    cards = imported(ledger, board)
    reasons = [blocked(ledger, cards[f"card t_{number}"])[:2] for number in (1, 2, 3)]
    assert reasons == [("capability", "last"), ("capability", "no such tool"), ("capability", None)]


def test_a_done_card_is_completed_with_its_words(ledger, board):
    """Summary and metadata of the run that completed it, and its result; archived ones as well, if they were done."""
    for card, row in (("t_1", {"status": "done"}), ("t_2", {"status": "archived"}), ("t_3", {"status": "archived"})):
        board.card(card, result="shipped", completed_at=None if card == "t_3" else AT, **row)
        board.add("task_runs", task_id=card, outcome="completed", summary="old", metadata="{}")
        board.add("task_runs", task_id=card, outcome="completed", summary="all of it", metadata='{"files": 6}')
        board.add("task_runs", task_id=card, outcome="crashed", summary="no")
    cards = imported(ledger, board)
    assert [cards[f"card t_{n}"]["task"]["status"] for n in (1, 2, 3)] == ["done", "archived", "archived"]
    assert [cards[f"card t_{n}"]["task"]["outcome"] for n in (1, 2, 3)] == ["ok", "ok", None]
    said = ledger.ok("events", cards["card t_1"]["task"]["id"], "--kind", "completed", "--jsonl").out
    assert json.loads(said)["words"] == {"summary": "all of it", "result": "shipped", "metadata": {"files": 6}}


def test_what_stays_behind_is_named(ledger, board):
    """A worktree there is no repository here; attachments are files elsewhere; a board at work goes on."""
    board.card("t_1", workspace_kind="worktree", workspace_path="/srv/x")
    board.card("t_2", workspace_kind="dir", workspace_path="x")
    with closing(sqlite3.connect(board.path)) as driver:
        driver.execute("PRAGMA journal_mode = WAL")
        driver.execute("CREATE TABLE task_attachments (id INTEGER, task_id TEXT, filename TEXT)")
        driver.execute("INSERT INTO task_attachments VALUES (1, 't_1', 'log.txt')")
        driver.commit()
        made = brought(ledger, "hermes", board.path)
    assert made["notes"] == [
        "somebody was at work on that board: what it wrote after it was copied is not here",
        "2 cards worked in another place there, and have a scratch folder here, see ledger edit --workspace: t_1, t_2",
        "attachments stay where they are: their places are told on 1 card",
    ]
    shown = by_title(ledger)["card t_1"]
    assert created(ledger, shown)["workspace"] == "scratch"
    assert note(shown)["workspace_path"] == "/srv/x"
    assert note(shown)["attachments"] == [{"id": 1, "filename": "log.txt"}]


@pytest.mark.parametrize("at", [-1, 10**12, 10**30, "soon", 1.5, b"\xff"])
def test_a_time_that_is_none_is_none(ledger, board, at):
    """Before 1970, behind the year 9999, or no number: it stands in the note as it stood there."""
    board.card("t_1", created_at=str(at) if at == 10**30 else at)
    shown = imported(ledger, board)["card t_1"]
    assert created(ledger, shown)["key"] == "hermes:t_1"
    assert "created_at" in note(shown)


@pytest.mark.parametrize(("metadata", "kept"), [("{half", "{half"), ("[NaN]", ["nan"]), ("[" * 5_000, "[" * 5_000)])
def test_metadata_that_is_no_json_is_kept_as_text(ledger, board, metadata, kept):
    """Half a text is better than none, and no reason to leave the card out."""
    board.card("t_1", status="done", completed_at=AT)
    board.add("task_runs", task_id="t_1", outcome="completed", metadata=metadata)
    shown = imported(ledger, board)["card t_1"]
    said = ledger.ok("events", shown["task"]["id"], "--kind", "completed", "--jsonl").out
    assert json.loads(said)["words"]["metadata"] == kept


# What cannot come in, repeats, and interruptions


def test_what_no_card_here_can_say_is_left_out_and_named(ledger, board):
    """The others come in."""
    board.card("t_1", title="")
    board.card("t_2", title="a\0b")
    board.card("t_3", assignee="x" * 201)
    board.card("t_4", priority=10**12)
    board.card("t_5")
    board.card("t_5", title="twice")
    board.card("")
    made = brought(ledger, "hermes", board.path)
    skipped = {each["id"]: each["why"] for each in made["skipped"]}
    assert (made["tasks"], list(skipped)) == (1, ["", "t_5", "t_1", "t_2", "t_3", "t_4"])
    assert (skipped[""], skipped["t_5"]) == ("it has no id", "another card has that id")
    assert skipped["t_1"] == "a title must say something"
    assert skipped["t_2"] == "created.title: a NUL character cannot be stored"
    assert "an assignee" in skipped["t_3"]
    assert "priority" in skipped["t_4"]
    assert list(by_title(ledger)) == ["card t_5"]


def test_a_repeat_changes_nothing(ledger):
    """What is here is passed over, whatever became of it on either side."""
    brought(ledger, "hermes", SMALL)
    before = ledger.position()
    made = brought(ledger, "hermes", SMALL)
    assert (made["tasks"], made["known"], made["changed"], ledger.position()) == (0, 14, False, before)
    assert made["notes"] == ["14 cards of it had been brought in before, and stayed as they are here"]


def test_two_boards_whose_ids_are_the_same_do_not_meet(ledger, board, tmp_path):
    """An id is one of its board; with the time when the card was made it is one of all."""
    other = Hermes(tmp_path / "other.db")
    board.card("t_1", title="here")
    other.card("t_1", title="there", created_at=AT + 1)
    brought(ledger, "hermes", board.path)
    assert brought(ledger, "hermes", other.path)["tasks"] == 1
    assert set(by_title(ledger)) == {"here", "there"}


def test_cards_that_are_here_already_stay_as_they_are(ledger, board):
    """A board of ours may have others."""
    card = ledger.create("mine")
    board.card("t_1")
    before = ledger.json("show", card)["task"]
    assert brought(ledger, "hermes", board.path)["tasks"] == 1
    after = ledger.json("show", card)["task"]
    assert {**after, "position": 0} == {**before, "position": 0}


def test_a_card_that_comes_later_finds_its_parents_as_they_are_by_then(ledger, board):
    """Not as they were there: somebody has archived one of them here in between."""
    board.card("t_1")
    board.card("t_2")
    cards = imported(ledger, board)
    ledger.ok("archive", cards["card t_1"]["task"]["id"])
    ledger.ok("complete", cards["card t_2"]["task"]["id"], "--outcome", "fail")
    board.card("t_3", "t_1", "t_2", status="done", completed_at=AT)
    made = brought(ledger, "hermes", board.path)
    assert made["tasks"] == 1
    assert made["notes"][:2] == [
        "t_3 does not wait for t_1: it is archived undone",
        "t_3 does not wait for t_2: it is done: fail",
    ]


def test_a_dry_run_says_the_same_and_writes_nothing(ledger, board):
    """Into a board that is here, with the counts of the real one."""
    board.card("t_1", "t_2", status="todo")
    board.card("t_2", "t_gone")
    board.card("t_3", title=" ")
    before = ledger.bytes()
    dry = brought(ledger, "hermes", board.path, "--dry-run")
    assert ledger.bytes() == before
    wet = brought(ledger, "hermes", board.path)
    assert (dry["dry_run"], dry["changed"], dry["tasks"], dry["linked"]) == (True, False, 2, 1)
    assert {**dry, "dry_run": 0, "changed": 0} == {**wet, "dry_run": 0, "changed": 0}


def test_a_dry_run_makes_neither_store_nor_board(bare):
    """Its id is not known yet."""
    made = brought(bare, "hermes", SMALL, "--dry-run")
    assert (made["board_id"], made["tasks"], made["linked"]) == (None, 14, 6)
    assert bare("list").code == 8
    bare.ok("init")
    assert brought(bare, "hermes", SMALL, "--dry-run", "--board", "other")["board_id"] is None
    assert bare("list", "--board", "other").code == 5


@pytest.mark.parametrize(("point", "cards"), [("before-verb-commit", 0), ("after-verb-commit", bringing.PAGE)])
def test_a_killed_import_is_finished_by_the_same_command(ledger, board, point, cards):
    """Each page is a transaction, and each card whole: after `kill -9` the rest comes in."""
    count = bringing.PAGE + 5
    board.chain(count)
    command = [sys.executable, "-c", "from cli.main import main; main()", "import", "hermes", str(board.path)]
    killed = subprocess.run(
        command, env=os.environ | {"LEDGER_FAILPOINT": point}, cwd=ROOT, timeout=PATIENCE, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert sum(ledger.json("stats")["by_status"].values()) == cards
    made = brought(ledger, "hermes", board.path)
    assert (made["tasks"], made["known"]) == (count - cards, cards)
    found = ledger.json("stats")["by_status"]
    assert (found["ready"], found["todo"]) == (1, count - 1)


def test_pages_may_end_anywhere(ledger, monkeypatch):
    """Between a card and its parent, too."""
    monkeypatch.setattr(bringing, "PAGE", 1)
    assert brought(ledger, "hermes", DRIFT)["linked"] == 30


# What is refused


@once
@pytest.mark.parametrize("system", ["hermes", "vibe"])
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Path, "nothing is there"),
        (lambda path: path.mkdir(), "that is a folder"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"no database, this"), "that is no SQLite database"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE songs (id)"), "1 table: songs"),
        (lambda path: path.write_bytes(SMALL.read_bytes()[:4096] + b"\xa5" * 40_000), "malformed"),
    ],
)
def test_a_file_that_is_no_board_is_named_with_what_is_in_it(bare, tmp_path, system, make, says):
    """Exit 8, and no store is made for it."""
    path = tmp_path / "kanban.db"
    make(path)
    error = refused(bare, 8, "import", system, str(path))
    assert says in error["message"]
    assert error["try"]
    assert bare("list").code == 8


@once
def test_a_board_of_one_system_is_none_of_another(bare, ledger):
    """Its tables say so; nor is a store of ours."""
    assert "no table projects" in refused(ledger, 8, "import", "vibe", str(SMALL))["message"]
    own = str(ledger.home / "ledger.db")
    assert "it is a ledger of this program" in refused(ledger, 8, "import", "hermes", own)["message"]


def test_a_worker_imports_nothing(worker, board):
    """RULES §8: a worker may act on its own run, and nothing else."""
    ledger, _ = worker
    board.card("t_1")
    for flags in ([], ["--dry-run"]):
        assert refused(ledger, 4, "import", "hermes", str(board.path), *flags)["code"] == "forbidden"


def test_people_read_what_was_made_and_what_was_not(ledger, board):
    """At most forty notes, and how many more there are."""
    for number in range(45):
        board.card(f"t_{number}", "t_gone", status="todo")
    said = ledger.ok("import", "hermes", str(board.path), "--dry-run")
    assert said.out == "board default: 45 cards, 0 links, 0 comments would be made\n"
    assert said.err.count("does not wait for") == 40
    assert said.err.endswith("note: and 5 more: --json names them all\n")
    assert ledger.ok("import", "hermes", str(board.path)).out.endswith(" comments made\n")
