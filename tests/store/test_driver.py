"""A glance at a store by its driver alone: no file is made, and what is read is one moment of the store."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import driver
from ledger.database import sqlite_path
from ledger.driver import file_of, glance
from ledger.errors import StoreFault, StoreMissing, StoreUnsupported

READ = "SELECT value FROM said"


@pytest.fixture
def store(tmp_path):
    """A database with one row, in write-ahead mode, closed."""
    path = tmp_path / "a store.db"
    with closing(writer(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE said (value)")
        db.execute("INSERT INTO said VALUES (1)")
    return path


def writer(path):
    """Another connection."""
    return driver.sqlite_module().connect(path, isolation_level=None)


def names(path):
    """The files beside *path*."""
    return sorted(each.name for each in path.parent.iterdir())


def test_a_closed_store_is_read_without_a_trace(store):
    """Nothing is made beside it."""
    assert glance(f"sqlite:///{store}", READ, ()) == (1,)
    assert glance(f"sqlite:///{store}", "SELECT 1 WHERE 0", ()) is None
    assert names(store) == [store.name]


def test_what_lies_in_the_write_ahead_log_is_read(store):
    """Committed by a writer that is still there."""
    with closing(writer(store)) as db:
        db.execute("UPDATE said SET value = 2")
        before = names(store)
        assert glance(f"sqlite:///{store}", READ, ()) == (2,)
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE said SET value = 3")
        assert glance(f"sqlite:///{store}", READ, ()) == (2,)
        db.execute("ROLLBACK")
        assert names(store) == before


def test_a_glance_cannot_write(store):
    """Whatever it is asked, and whether or not a log lies there."""
    with pytest.raises(driver.sqlite_module().OperationalError):
        glance(f"sqlite:///{store}", "DELETE FROM said", ())
    with closing(writer(store)) as db:
        db.execute("UPDATE said SET value = 2")
        with pytest.raises(driver.sqlite_module().OperationalError):
            glance(f"sqlite:///{store}", "DELETE FROM said", ())


def test_a_store_that_is_written_to_meanwhile_is_read_again(store, monkeypatch):
    """Without a log the file alone is read: it must not have moved under the reader."""
    real, answers = driver._first_row, []

    def disturbed(path, how, statement, values):
        answers.append(real(path, how, statement, values))
        if len(answers) == 1:
            with closing(writer(path)) as db:
                db.execute("UPDATE said SET value = 2")
        return answers[-1]

    monkeypatch.setattr(driver, "_first_row", disturbed)
    assert glance(f"sqlite:///{store}", READ, ()) == (2,)
    assert answers == [(1,), (2,)]


def test_a_store_that_never_stands_still_is_a_fault(store, monkeypatch):
    """Three glances, and no answer that could be wrong."""
    instants = iter(range(100))
    monkeypatch.setattr(driver, "_standing", lambda _path: (1, next(instants), 1, False))
    with pytest.raises(StoreFault):
        glance(f"sqlite:///{store}", READ, ())


@pytest.mark.parametrize("missing", ["none.db", "no/such/folder.db"])
def test_what_is_missing_is_not_made(tmp_path, missing):
    """Neither the file nor a folder."""
    with pytest.raises(StoreMissing):
        glance(f"sqlite:///{tmp_path}/{missing}", READ, ())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    ["", "sqlite:///", "sqlite:///:memory:", "sqlite:///%3Amemory%3A", "postgresql://h/d", "sqlite://h/d", "/a.db"],
)
def test_another_address_is_refused(url):
    """A glance speaks of a file."""
    with pytest.raises(StoreUnsupported):
        file_of(url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////a/b.db", "sqlite:///rel.db", "sqlite:////a/b c.db", "sqlite:////a/b%20c.db", "sqlite:////a/b.db?x=1",
        "sqlite:////a/é#b.db", "sqlite+pysqlite:////a.db", "sqlite:////a:b@c/d.db", "sqlite:////a%3Fb.db",
    ],
)  # fmt: skip
def test_an_address_means_the_same_file_to_both(url):
    """As the engine reads it."""
    assert file_of(url) == sqlite_path(url)


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0?"), min_size=1, max_size=20))
def test_any_path_means_the_same_file_to_both(path):
    """Whatever stands in it."""
    url = f"sqlite:////x/{path}"
    assert file_of(url) == sqlite_path(url)
