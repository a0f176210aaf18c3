"""Tasks of Vibe Kanban brought in as cards: import vibe."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.cli.imports import FIXTURES, blocked, brought, by_title, created, note, refused
from tests.engines import once

ID = "00000000-0000-0000-0000-0000000000"


@pytest.fixture(params=[{}, {"task_attempts": "workspaces", "parent_task_attempt": "parent_workspace_id"}])
def vibe(request, tmp_path):
    """A file of Vibe Kanban, before and after it renamed its attempts."""
    path, script = tmp_path / "db.sqlite", (FIXTURES / "vibe" / "board.sql").read_text()
    for old, new in request.param.items():
        script = script.replace(old, new)
    with closing(sqlite3.connect(path)) as driver:
        driver.executescript(script)
    return path


def test_tasks_of_vibe_kanban_become_cards(ledger, vibe):
    """Done ones done, cancelled ones archived undone, those in review held; a project is a tenant."""
    before = vibe.read_bytes()
    made = brought(ledger, "vibe", vibe)
    assert (made["tasks"], made["linked"], made["comments"], made["skipped"]) == (5, 0, 0, [])
    assert made["notes"] == [
        "2 projects: each is a tenant here, see ledger list --tenant",
        f"1 card was at work there, and nobody holds them here; stop their workers there: {ID}a2",
    ]
    cards = by_title(ledger)
    found = {title: (shown["task"]["status"], shown["task"]["tenant"]) for title, shown in cards.items()}
    assert found == {
        "Tune it": ("done", "engine"), "Mend it": ("ready", "engine"), "Paint it": ("blocked", "site"),
        "Burn it": ("archived", "site"), "Sell it": ("ready", "site"),
    }  # fmt: skip
    assert cards["Burn it"]["task"]["outcome"] is None
    assert blocked(ledger, cards["Paint it"]) == ("inreview", "its status in Vibe Kanban is inreview", True)
    assert vibe.read_bytes() == before
    assert brought(ledger, "vibe", vibe)["known"] == 5


def test_a_task_keeps_all_that_vibe_kanban_says(ledger, vibe):
    """Its id and time are facts; its attempts are in its note, and the one that it came out of is no link."""
    brought(ledger, "vibe", vibe)
    cards = by_title(ledger)
    assert created(ledger, cards["Tune it"])["key"] == f"vibe:{ID}a1@2025-11-01 09:00:00.123"
    (attempt,) = note(cards["Tune it"], "vibe")["attempts"]
    assert (attempt["branch"], attempt["id"]) == ("vk/tune-it", f"{ID}f1")
    assert f"{ID}f1" in note(cards["Mend it"], "vibe").values()
    assert "attempts" not in note(cards["Mend it"], "vibe")


def test_an_id_that_is_none_of_its_own_is_kept_as_it_is_written(ledger, vibe):
    """Such as a number; a task without one is left out."""
    with closing(sqlite3.connect(vibe)) as driver:
        for task in (7, None):
            row = (task, b"?", "odd", "inprogress", "", "")
            columns = "id, project_id, title, status, created_at, updated_at"
            driver.execute(f"INSERT INTO tasks ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)
        driver.commit()
    made = brought(ledger, "vibe", vibe)
    assert (made["tasks"], made["skipped"]) == (6, [{"id": "", "why": "it has no id"}])
    assert made["notes"][1].endswith(f"{ID}a2, 7")
    shown = by_title(ledger)["odd"]
    assert (created(ledger, shown)["key"], shown["task"]["tenant"]) == ("vibe:7", None)


def test_one_that_is_at_work_is_copied_and_says_so(ledger, vibe):
    """Nothing is written beside its file."""
    with closing(sqlite3.connect(vibe)) as driver:
        driver.execute("PRAGMA journal_mode = WAL")
        driver.execute("UPDATE tasks SET title = 'Sell it now' WHERE title = 'Sell it'")
        driver.commit()
        made = brought(ledger, "vibe", vibe)
    assert made["notes"][0] == "somebody was at work on that board: what it wrote after it was copied is not here"
    assert "Sell it now" in by_title(ledger)


@once
def test_a_table_of_tasks_without_its_columns_is_no_board_of_vibe_kanban(bare, tmp_path):
    """It says which are missing."""
    path = tmp_path / "db.sqlite"
    with closing(sqlite3.connect(path)) as driver:
        driver.executescript("CREATE TABLE projects (id); CREATE TABLE tasks (id, title)")
        driver.executescript("INSERT INTO tasks VALUES (1, 2)")
    error = refused(bare, 8, "import", "vibe", str(path))
    assert "its table tasks has no column project_id, status" in error["message"]
