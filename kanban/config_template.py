"""The commented `ledger.toml` that `ledger init` writes into a new home."""

from __future__ import annotations

import json
from typing import Final

TEMPLATE: Final = """\
# Settings of kanban-ledger. Everything here is commented out: remove the # in front of a setting to use it.
# Stronger than this file are flags, LEDGER_* variables and a file named by --config or LEDGER_CONFIG.
# What is in force, and where it came from: ledger config show --origin

# The board that commands speak about.
#board = "default"

# The store: a file, or a server as postgresql+psycopg://USER@HOST/NAME. Without this line it is ledger.db beside this
# file. A password is best kept in ~/.pgpass or PGPASSWORD.
#database = "sqlite:////path/to/ledger.db"

# Another address of the same store, for workers: with a role that can only append (ledger db grant ROLE).
#worker_database = "postgresql+psycopg://worker@db.example/ledger"

# Whose name stands on what you do.
#actor = "dana"

# How many workers this host runs at once, over all its boards. Without this line: one a GiB of
# memory, at least 2 and at most 8.
#max_running = 4

# How much of a run's output is kept, beside its first MiB.
#log_limit = "20MiB"

# An assignee is a command. {prompt} {prompt_file} {task} {title} {run} {workspace} {result_file} are filled in.
# on_success: what exit 0 means when the worker did not say: complete, review or violation (the default).
# quota: patterns on the last lines of the log that mean that a usage limit was reached.
# result: what becomes the summary: last-lines (the default), file:{result_file} or none.
# resume: how it goes on after a failure that may pass, in the same run and workspace; {prompt} is what it is told then.
# retry: patterns on the last lines that mean such a failure; without any only the agent's own word does.
# judge: a command that says after each turn of a card with a goal whether that is met; with resume.
# hosts: where it may be started: ids or node names of hosts, as ledger doctor tells them; without this line anywhere.
# env: what the worker's environment holds beside PATH, HOME, LANG, TMPDIR and TERM; {env:NAME} is read when it starts.
#[assignees.claude]
#command = ["claude", "-p", "{prompt}"]
#on_success = "complete"
#result = "last-lines"
#quota = ["^You.ve hit your .*limit", "(?i)usage limit reached"]
#resume = ["claude", "--continue", "-p", "{prompt}"]
#retry = ["^API Error: (Repeated 529|5[0-9][0-9])"]
#judge = ["/srv/agents/judge.sh", "make", "test"]
#env = { ANTHROPIC_API_KEY = "{env:ANTHROPIC_API_KEY}" }
#max_running = 2
#hosts = ["gpu1"]

#[assignees.codex]
#command = ["codex", "exec", "--skip-git-repo-check", "{prompt}"]
#on_success = "review"
#reviewer = "dana"
#result = "last-lines"
#quota = ["(?i)you.ve hit your usage limit"]

# A person: never started; cards wait for them.
#[assignees.dana]
#human = true
"""
"""The ledger.toml of a new home. `#` and a space open prose, `#` alone a setting that can be un-commented."""

_STORE: Final = '#database = "sqlite:////path/to/ledger.db"'


def template(database: str | None = None) -> str:
    """The `ledger.toml` of a new home, which names the store where *database* is its address."""
    if database is None:
        return TEMPLATE
    quoted = json.dumps(database, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's escapes are JSON's but for it
    return TEMPLATE.replace(_STORE, f"database = {quoted}")
