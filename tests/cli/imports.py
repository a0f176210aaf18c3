"""Boards of other systems for the tests of import, and what becomes of their cards here."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
DRIFT = FIXTURES / "hermes" / "hermes-board-drift.db"
SMALL = FIXTURES / "hermes" / "hermes-board-small.db"
AT = 1_761_000_000
"""When every card of a made-up hermes board was made: 2025-10-20T22:40:00Z."""
TABLES = """
CREATE TABLE tasks (
    id TEXT, title TEXT, body TEXT, assignee TEXT, status TEXT, priority INTEGER, created_at INTEGER,
    completed_at INTEGER, result TEXT, tenant TEXT, max_retries INTEGER, max_runtime_seconds INTEGER,
    workspace_kind TEXT, workspace_path TEXT, goal_mode INTEGER, goal_max_turns INTEGER, block_kind TEXT,
    last_failure_error TEXT, consecutive_failures INTEGER, claim_lock TEXT
);
CREATE TABLE task_events (
    id INTEGER PRIMARY KEY, task_id TEXT, run_id INTEGER, kind TEXT, payload TEXT, created_at INTEGER
);
CREATE TABLE task_links (parent_id TEXT, child_id TEXT);
CREATE TABLE task_comments (id INTEGER PRIMARY KEY, task_id TEXT, author TEXT, body TEXT, created_at INTEGER);
CREATE TABLE task_runs (
    id INTEGER PRIMARY KEY, task_id TEXT, outcome TEXT, started_at INTEGER, ended_at INTEGER, summary TEXT,
    metadata TEXT, claim_lock TEXT
);
"""


class Hermes:
    """A made-up board of the reference system."""

    def __init__(self, path):
        self.path = path
        with self._open() as driver:
            driver.executescript(TABLES)

    def add(self, table, **row):
        """One row."""
        with self._open() as driver:
            marks = ", ".join("?" * len(row))
            driver.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
            driver.commit()

    def card(self, card, *parents, **row):
        """A card, ready unless something else is said, that waits for *parents*."""
        self.add("tasks", **{"id": card, "title": f"card {card}", "status": "ready", "created_at": AT, **row})
        for parent in parents:
            self.add("task_links", parent_id=parent, child_id=card)

    def chain(self, count):
        """So many cards, each of which waits for the one before it; the last one is the first row."""
        ids = [f"t_{number:05}" for number in range(count, 0, -1)]
        with self._open() as driver:
            rows = [(card, card, "todo", AT) for card in ids]
            driver.executemany("INSERT INTO tasks (id, title, status, created_at) VALUES (?, ?, ?, ?)", rows)
            driver.executemany("INSERT INTO task_links (child_id, parent_id) VALUES (?, ?)", pairwise(ids))
            driver.commit()

    def _open(self):
        return closing(sqlite3.connect(self.path))


def brought(ledger, system, path, *flags):
    """What an import answers; the board replays clean afterwards, or is as it was."""
    made = ledger.json("import", system, str(path), *flags)
    if not made["dry_run"]:
        assert ledger.json("replay", "--board", made["board"])["divergences"] == []
    return made


def by_title(ledger):
    """Each card as `show` tells it, by title."""
    cards = ledger.json("list", "--limit", "1000")["tasks"]
    return {card["title"]: ledger.json("show", card["id"]) for card in cards}


def created(ledger, shown):
    """The facts of its `created`."""
    said = ledger.ok("events", shown["task"]["id"], "--kind", "created", "--jsonl").out
    return json.loads(said)["facts"]


def note(shown, system="hermes"):
    """What the note that the card begins with says."""
    opening, said = shown["comments"][0]["body"].split(": ", 1)
    assert opening == f"imported from {system}"
    return json.loads(said)


def blocked(ledger, shown):
    """Kind, reason and whether only a person lifts the card's hold."""
    said = json.loads(ledger.ok("events", shown["task"]["id"], "--kind", "blocked", "--jsonl").out)
    return shown["task"]["hold"]["kind"], said["words"]["reason"], shown["task"]["hold"]["sticky"]


def links(ledger):
    """(child, parent) by title."""
    cards = by_title(ledger)
    titles = {shown["task"]["id"]: title for title, shown in cards.items()}
    return {(title, titles[parent["task"]]) for title, shown in cards.items() for parent in shown["parents"]}


def refused(ledger, code, *argv):
    """The error of what must fail with *code*; nothing is founded."""
    said = ledger(*argv, "--json")
    assert said.code == code, said
    return said.error
