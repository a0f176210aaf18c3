"""Which machine this is: host id, boot id, pid namespace and the default cap (RULES §5, §6)."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kanban import hosts
from kanban.hosts import HostUnknown, default_cap, known_host, this_host
from tests.fleets import PATIENCE

ROOT = Path(__file__).parents[2]
KEPT_ID = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kanban import hosts
hosts._MACHINE_ID = Path("/nowhere/machine-id")
sys.stdin.readline()
print(hosts.this_host(Path(sys.argv[2])).id)
"""


@pytest.fixture(autouse=True)
def no_id_given(monkeypatch):
    monkeypatch.delenv("LEDGER_HOST_ID", raising=False)


@pytest.fixture
def no_machine_id(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "_MACHINE_ID", tmp_path / "machine-id")
    return tmp_path / "machine-id"


def test_an_id_that_is_given_wins(tmp_path, monkeypatch):
    """RULES §6: identity starts with the host id, which containers are given."""
    monkeypatch.setenv("LEDGER_HOST_ID", "node-7")
    assert this_host(tmp_path).id == "node-7"


def test_to_know_a_host_makes_nothing(tmp_path, no_machine_id):
    """A worker that proves its claim only looks: a machine that was never named has no name, and gets none."""
    home = tmp_path / "home"
    assert (known_host(None), known_host(home), home.exists()) == (None, None, False)
    named = this_host(home)
    assert (known_host(home), known_host(None)) == (named, None)
    no_machine_id.write_text("0123456789abcdef0123456789abcdef\n")
    assert known_host(None) == this_host(home)


def test_the_machine_id_is_hashed_never_shown(tmp_path, no_machine_id):
    """RULES §6: the host id is the same for every process of the machine and does not give the machine id away."""
    no_machine_id.write_text("0123456789abcdef0123456789abcdef\n")
    assert this_host(tmp_path).id == "c187a1de414d"
    assert not (tmp_path / "host-id").exists()


@pytest.mark.parametrize("content", [None, "", "\n", "uninitialized\n"])
def test_without_a_machine_id_a_random_one_is_kept(tmp_path, no_machine_id, content):
    """RULES §6: an image that was never started has no machine id; its host id must still stay the same."""
    if content is not None:
        no_machine_id.write_text(content)
    home = tmp_path / "new" / "home"
    first = this_host(home).id
    assert this_host(home).id == first
    assert len(first) == 12
    assert int(first, 16) >= 0
    assert stat.S_IMODE((home / "host-id").stat().st_mode) == 0o600
    assert [file.name for file in home.iterdir()] == ["host-id"]
    assert this_host(tmp_path / "other").id != first


def test_processes_that_start_at_once_keep_the_same_id(tmp_path):
    """RULES §6: two processes of one host are one host, however close together they first ask."""
    arguments = [sys.executable, "-c", KEPT_ID, str(ROOT), str(tmp_path / "home")]
    asking = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    for process in asking:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=PATIENCE)[0] for process in asking}
    assert len(answers) == 1
    assert answers != {""}


def test_a_kept_id_that_is_empty_is_an_error(tmp_path, no_machine_id):
    """RULES §6: no host id is guessed: with a wrong one every bound process would look like another's."""
    (tmp_path / "host-id").write_text("")
    with pytest.raises(HostUnknown, match="host-id is empty"):
        this_host(tmp_path)


def test_a_home_that_is_there_keeps_its_mode(tmp_path, no_machine_id):
    """DESIGN §4: the home folder may be the user's own; asking for the host does not close it."""
    tmp_path.chmod(0o755)
    this_host(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_name_boot_and_namespace_are_the_kernels(tmp_path):
    """RULES §6: a binding names the boot and the pid namespace, so that neither is mistaken for another."""
    host = this_host(tmp_path)
    assert host.name == os.uname().nodename
    assert host.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert host.namespace == str(Path("/proc/self/ns/pid").readlink())


def test_without_proc_the_boot_is_its_time(tmp_path, monkeypatch):
    """DESIGN §7: macOS has no boot id and no pid namespaces."""
    monkeypatch.setattr(hosts, "_BOOT_ID", tmp_path / "none")
    monkeypatch.setattr(hosts, "_PID_NAMESPACE", tmp_path / "none")
    host = this_host(tmp_path)
    assert int(host.boot) > 1_000_000_000
    assert host.namespace == ""


@pytest.mark.parametrize(("gib", "cap"), [(1, 2), (2, 2), (3.9, 3), (8, 8), (512, 8)])
def test_the_default_cap_follows_memory(monkeypatch, gib, cap):
    """RULES §5: total memory / 1 GiB, at least 2, at most 8."""
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": int(gib * 1024**3) // 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert default_cap() == cap
