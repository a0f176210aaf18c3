"""What a released program has left is opened by every later one: upgraded, whole, and understood as it was."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect

from kanban.backup import backup
from ledger import upgrade
from ledger.database import reading
from ledger.schema import REVISION
from projections.folding import FOLD_VERSION
from projections.tables import metadata
from tests import audits, given, ledgers, servers, stores


@pytest.fixture(params=sorted(stores.known()))
def kept(request, engine_name, tmp_path):
    """A store as a released program left it, brought to this program's revision; and its revision."""
    if engine_name == "postgresql":
        with servers.shared().lent() as url:
            yield from _upgraded(request.param, engine_name, tmp_path, url)
    else:
        yield from _upgraded(request.param, engine_name, tmp_path, "")


def _upgraded(revision, engine, folder, url):
    store = stores.opened(revision, engine, folder, url)
    assert upgrade.revision(store.engine) == revision
    upgrade.upgrade(store.engine)
    yield store, stores.known()[revision]
    store.engine.dispose()


def test_it_is_what_it_was_and_nothing_is_wrong_with_it(kept):
    """Its log ends where it ended, and a replay finds nothing; the same fold makes the same of it."""
    store, known = kept
    found = audits.audit(store, strict=True)
    assert found.divergences == ()
    assert (found.position, found.hash) == (known["position"], known["hash"])
    assert found.digest == known["digest"] or known["fold"] < FOLD_VERSION
    assert ledgers.faults(store) == []


def test_its_tables_are_those_that_the_program_declares(kept):
    """`alembic check` on what was upgraded, and not only on what is new."""
    store, _ = kept
    upgrade.differences(store.engine, metadata)


def test_it_is_written_to_and_copied_like_any_other(kept, tmp_path):
    """What is operational came along."""
    store, known = kept
    upgrade.open_store(store.url).dispose()
    assert [len(store.rows(metadata.tables[name])) for name in ("leases", "held", "sweeps")] == [2, 1, 1]
    (event,) = store.append(given.commented("years later"), task="t_p")
    assert event.position == known["position"] + 1
    found = backup(store.url, ledgers.BOARD, tmp_path / "copy.db")
    assert (found.heads[ledgers.BOARD].position, found.doubts) == (event.position, ())


def test_the_database_still_refuses_that_its_log_is_changed(kept):
    """The triggers of that time, or later ones."""
    store, _ = kept
    for statement in ("UPDATE events SET at = at + 1", "DELETE FROM events", "UPDATE words SET words = '{}'"):
        with pytest.raises(Exception, match=r"append-only|can be redacted"):
            store.sql(statement)


def test_an_upgrade_that_fails_at_its_last_step_leaves_the_store_as_it_was(engine_name, tmp_path):
    """All steps are one transaction: nobody ever sees a store between two revisions."""
    with servers.shared().lent() as url:
        store = stores.opened("0001", engine_name, tmp_path, url)
        store.sql("DROP INDEX tasks_running")  # which a later revision drops
        with pytest.raises(Exception, match="tasks_running"):
            upgrade.upgrade(store.engine)
        assert upgrade.revision(store.engine) == "0001"
        with reading(store.engine) as tx:
            assert not inspect(tx).has_table("snapshots")
        store.sql("CREATE INDEX tasks_running ON tasks (board, run)")
        assert upgrade.upgrade(store.engine) == REVISION
        store.engine.dispose()


def test_stores_of_this_revision_are_kept():
    """For the programs that come after it."""
    assert REVISION in stores.known()
