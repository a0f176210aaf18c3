"""From one revision of the tables to the next, on both databases: once, whole or not at all, and never back.

There is one revision so far, so a second one is pretended: a program that has it in a folder of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import migrations
from ledger import upgrade
from ledger.database import connected, reading, writing
from ledger.errors import LedgerError, StoreOutdated, StoreTooNew
from ledger.schema import REVISION
from projections.tables import metadata
from tests import audits, fleets, given, ledgers, servers

ROOT = Path(__file__).parents[2]
NEXT = f"{int(REVISION) + 1:04}"
SECOND = f'''
"""Another table, and a mark of whoever made it."""

import os
import time

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{NEXT}", "{REVISION}", None, None


def upgrade():
    op.create_table("later", sa.Column("process", sa.Integer()))
    op.add_column("sweeps", sa.Column("note", sa.Text()))
    time.sleep(float(os.environ.get("UPGRADE_TAKES", "0")))
    if os.environ.get("UPGRADE_DIES"):
        os.kill(os.getpid(), 9)
    if os.environ.get("UPGRADE_FAILS"):
        raise RuntimeError("half way")
    op.execute(f"INSERT INTO later VALUES ({{os.getpid()}})")
'''
PROGRAM = f"""
import os, sys
from pathlib import Path
import alembic.command
from ledger import upgrade
from ledger.database import connected
upgrade.files, upgrade.REVISION = lambda _: Path(sys.argv[1]), "{NEXT}"
upgrade._TRIES = 1  # whoever comes second waits, and has nothing to try again
waiting, go = os.pipe()
processes = int(sys.argv[3])
while processes and os.fork():
    processes -= 1
if processes:
    os.close(go)
    os.read(waiting, 1)
    with connected(sys.argv[2]) as engine:
        upgrade.upgrade(engine)
        upgrade.check_revision(engine, sys.argv[2])
    os._exit(0)
print("ready", flush=True)
sys.stdin.readline()
os.close(go)
print([os.wait()[1] for _ in range(int(sys.argv[3]))], flush=True)
"""


@pytest.fixture(scope="session")
def later(tmp_path_factory):
    """The revisions of a later program: those of this one, and one more."""
    folder = tmp_path_factory.mktemp("later") / "migrations"
    shutil.copytree(Path(next(iter(migrations.__path__))), folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{NEXT}_later.py").write_text(SECOND)
    return folder


@pytest.fixture
def newer(later, monkeypatch):
    """This process is the later program."""
    monkeypatch.setattr(upgrade, "files", lambda _: later)
    monkeypatch.setattr(upgrade, "REVISION", NEXT)


def begun(later, url, processes=1, **variables):
    """That many processes of the later program, which upgrade the store at *url* at the same moment: now."""
    pipe, command = subprocess.PIPE, [sys.executable, "-c", PROGRAM, str(later), url, str(processes)]
    all_of_them = subprocess.Popen(command, cwd=ROOT, env=os.environ | variables, stdin=pipe, stdout=pipe, text=True)
    assert all_of_them.stdout.readline() == "ready\n"
    all_of_them.stdin.write("\n")
    all_of_them.stdin.flush()
    return all_of_them


def ended(all_of_them):
    """What each of them ended with: 0, or the signal that killed it."""
    return json.loads(all_of_them.communicate(timeout=fleets.PATIENCE)[0])


def marks(store):
    """Who has made the second revision's table."""
    return [mark for (mark,) in store.sql("SELECT process FROM later")]


def has_table(store, name):
    with reading(store.engine) as tx:
        return upgrade.inspect(tx).has_table(name)


def test_eight_processes_at_once_make_one_migration(board, later):
    """All end well; one of them has made it; the log and what is folded of it stand as they stood."""
    before, digest = board.read(), audits.audit(board).digest
    board.engine.dispose()
    assert ended(begun(later, board.url, 8, UPGRADE_TAKES="0.2")) == [0] * 8
    assert len(marks(board)) == 1
    assert (board.read(), audits.audit(board).digest) == (before, digest)
    assert upgrade.revision(board.engine) == NEXT


def test_killed_in_the_middle_it_leaves_the_old_revision(board, later):
    """`kill -9` with half of the tables made: nothing of them is there, writers go on, and the next try goes well."""
    board.engine.dispose()
    assert ended(begun(later, board.url, UPGRADE_DIES="1")) == [signal.SIGKILL]
    assert upgrade.revision(board.engine) == REVISION
    assert not has_table(board, "later")
    board.append(given.commented("still here"), task="t_p")
    assert audits.audit(board).divergences == ()
    upgrade.differences(board.engine, metadata)
    assert ended(begun(later, board.url)) == [0]
    assert len(marks(board)) == 1


def test_one_that_fails_in_the_middle_leaves_nothing(board, newer, monkeypatch):
    """All steps are one transaction."""
    monkeypatch.setenv("UPGRADE_FAILS", "1")
    with pytest.raises(RuntimeError, match="half way"):
        upgrade.upgrade(board.engine)
    assert upgrade.revision(board.engine) == REVISION
    assert not has_table(board, "later")
    monkeypatch.delenv("UPGRADE_FAILS")
    assert upgrade.upgrade(board.engine) == NEXT
    assert marks(board) == [os.getpid()]


def test_a_store_that_is_older_says_what_to_run(board, newer):
    """The later program changes nothing by opening it; both revisions are named."""
    before = board.read()
    with pytest.raises(StoreOutdated, match=f"is at revision {REVISION}, this program needs {NEXT}") as refused:
        upgrade.open_store(board.url)
    assert "ledger db upgrade" in refused.value.remedy
    assert board.read() == before
    assert not has_table(board, "later")


def test_a_store_that_is_newer_is_refused_and_stays_as_it_is(board, later):
    """An older program neither opens nor upgrades it."""
    with pytest.MonkeyPatch.context() as now:
        now.setattr(upgrade, "files", lambda _: later)
        now.setattr(upgrade, "REVISION", NEXT)
        upgrade.upgrade(board.engine)
    before = board.read()
    with pytest.raises(StoreTooNew, match=f"is at revision {NEXT}, this program knows {REVISION}"):
        upgrade.open_store(board.url)
    with pytest.raises(Exception, match=f"Can't locate revision identified by '{NEXT}'"):
        upgrade.upgrade(board.engine)
    assert upgrade.revision(board.engine) == NEXT
    assert (board.read(), len(marks(board))) == (before, 1)


def test_a_store_that_is_new_gets_all_revisions_at_once(engine_name, newer, tmp_path):
    """Founded by the later program."""
    if engine_name == "postgresql":
        with servers.shared().lent() as url:
            _founded_anew(url)
    else:
        _founded_anew(f"sqlite:///{tmp_path}/new.db")


def _founded_anew(url):
    store = ledgers.founded(url)
    assert upgrade.revision(store.engine) == NEXT
    assert len(marks(store)) == 1
    assert audits.audit(store).divergences == ()
    store.engine.dispose()


def test_writers_that_come_meanwhile_wait_and_then_write(board, later):
    """An upgrade locks no writer out for longer than it takes."""
    board.engine.dispose()
    upgrading = begun(later, board.url, UPGRADE_TAKES="0.5")
    numbers = []
    while upgrading.poll() is None:
        numbers.append(board.append(given.commented("meanwhile"), task="t_p")[0].position)
    assert ended(upgrading) == [0]
    board.append(given.commented("after it"), task="t_p")
    assert ledgers.faults(board) == []
    assert numbers == list(range(24, 24 + len(numbers)))


@pytest.mark.parametrize("word", ["moving", "moved"])
def test_a_store_that_is_being_moved_is_not_upgraded(board, newer, word):
    """Its revision is a word, which no revision has."""
    board.sql(f"UPDATE alembic_version SET version_num = '{word}'")
    with pytest.raises(Exception, match=f"Can't locate revision identified by '{word}'"):
        upgrade.upgrade(board.engine)
    assert upgrade.revision(board.engine) == word
    with pytest.raises(LedgerError, match=re.escape(f"is at revision {word}")):
        upgrade.open_store(board.url)


def test_revisions_and_declared_tables_agree(board):
    """`alembic check` is clean, and finds what no revision makes."""
    upgrade.differences(board.engine, metadata)
    with writing(board.engine) as tx:
        tx.exec_driver_sql("CREATE TABLE stray (x INTEGER)")
    with pytest.raises(Exception, match="stray"):
        upgrade.differences(board.engine, metadata)
    with connected(board.url) as engine:
        assert upgrade.revision(engine) == REVISION
