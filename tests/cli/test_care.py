"""doctor, backup, restore, prune: what they print, what they refuse, and with which code."""

from pathlib import Path

import pytest

from kanban.folders import run_folder
from tests.engines import on, once


@pytest.fixture
def sound(fleet):
    """A board that nothing is wrong with."""
    fleet.home.chmod(0o700)
    (fleet.home / "ledger.toml").chmod(0o600)
    return fleet


def finding(said, check):
    """The findings of one check."""
    return [each for each in said.json["findings"] if each["check"] == check]


# doctor


def test_doctor_prints_findings_and_ends_with_0_where_nothing_is_broken(sound):
    """check, level, text, try; warnings alone are no error."""
    sound.create("unassigned")
    said = sound("doctor", "--json")
    assert said.code == 0
    assert said.json.keys() == {"schema", "findings"}
    assert all(each.keys() == {"check", "level", "text", "try"} for each in said.json["findings"])
    assert [each["level"] for each in finding(said, "assignees")] == ["warning"]


@on("sqlite")
def test_doctor_ends_with_1_where_something_is_broken(sound):
    """An error, and what mends it."""
    (sound.home / "ledger.db").chmod(0o666)
    said = sound("doctor", "--json")
    assert said.code == 1
    assert finding(said, "permissions")[0]["try"] == f"chmod 600 {sound.home / 'ledger.db'}"


@on("sqlite")
@pytest.mark.parametrize("content", [None, b"rubbish" * 1000])
def test_doctor_ends_with_8_where_the_store_cannot_be_read_and_still_says_what_it_can(sound, content):
    """The machine is looked at all the same."""
    store = sound.home / "ledger.db"
    store.unlink()
    if content is not None:
        store.write_bytes(content)
    said = sound("doctor", "--json")
    assert said.code == 8
    assert finding(said, "store")[0]["level"] == "error"
    assert finding(said, "sqlite")


def test_doctor_for_people_says_level_check_text_and_what_to_run(sound):
    """With --quiet only what is not ok."""
    card = sound.create("unassigned")
    lines = sound.ok("doctor").out.splitlines()
    assert any(line.startswith("ok      packages") for line in lines)
    place = next(number for number, line in enumerate(lines) if line.startswith("warning assignees"))
    assert lines[place + 1].strip() == f"try: ledger assign {card} NAME"
    bad = [line for line in lines if not line.startswith("ok ")]
    assert bad[0 if sound.url.startswith("sqlite") else -2 :] == lines[place : place + 2]  # this server forgets, too
    assert sound.ok("doctor", "--quiet").out.splitlines() == bad


def test_a_worker_may_ask_the_doctor(worker):
    """It changes nothing."""
    ledger, _ = worker
    assert ledger("doctor", "--json").code in {0, 1}


@once
def test_doctor_of_a_server_that_is_not_there_says_so(sound):
    """8, with the reason, and without the password."""
    said = sound("doctor", "--json", "--database", "postgresql://ada:secret@/ledger?host=/nonexistent")
    assert said.code == 8
    assert "cannot be reached" in finding(said, "store")[0]["text"]
    assert "secret" not in said.out


# backup


def test_backup_prints_file_position_and_hash(ledger, tmp_path):
    """Those of the board in question, and of every board."""
    ledger.create()
    ledger.ok("init", "--board", "ops")
    made = ledger.json("backup", str(tmp_path / "copy.db"))
    assert (made["file"], made["position"]) == (str(tmp_path / "copy.db"), ledger.position())
    assert made["boards"].keys() == {"default", "ops"}
    assert made["hash"] == made["boards"]["default"]["hash"] == ledger.json("replay")["hash"]
    assert ledger.json("backup", "ops.db", "--board", "ops")["position"] == 2


def test_backup_for_people_says_where_each_log_ends(ledger):
    """A line a board; a relative name is one in the folder where the command runs."""
    said = ledger.ok("backup", "copy.db")
    assert said.out.startswith("board default at position 2, hash ")
    assert said.out.endswith("copied to copy.db\n")
    assert Path("copy.db").exists()


def test_backup_refuses_a_name_that_is_taken_unless_forced(ledger):
    """1, and what to do."""
    ledger.ok("backup", "copy.db")
    said = ledger("backup", "copy.db", "--json")
    assert (said.code, said.error["code"]) == (1, "copy_there")
    assert "--force" in said.error["try"]
    ledger.ok("backup", "copy.db", "--force")


@pytest.mark.parametrize(
    ("argv", "code", "name"),
    [
        (("backup", "nosuch/copy.db"), 5, "not_found"),
        (("backup", ""), 2, "invalid_input"),
        (("backup", "copy.db", "--board", "nosuch"), 5, "unknown_board"),
        (("backup",), 2, "usage"),
        (("restore", "nosuch.db"), 5, "not_found"),
        (("restore",), 2, "usage"),
    ],
)
def test_what_cannot_be_copied_or_put_back_is_refused(ledger, argv, code, name):
    """Each with its code."""
    said = ledger(*argv, "--json")
    assert (said.code, said.error["code"]) == (code, name)


def test_backup_without_a_store_makes_nothing(bare):
    """8: only init creates."""
    assert bare("backup", "copy.db").code == 8
    assert not Path("copy.db").exists()


# restore


def test_restore_puts_a_copy_back_and_says_what_it_kept(ledger):
    """The same object as backup's, and where the old store is."""
    ledger.create("kept")
    made = ledger.json("backup", "copy.db")
    ledger.create("lost")
    refused = ledger("restore", "copy.db", "--json")
    assert (refused.code, refused.error["code"]) == (1, "restore_refused")
    assert "from position 4 to 3" in refused.error["message"]
    put = ledger.json("restore", "copy.db", "--force")
    assert {name: put[name] for name in made if name != "notes"} == {
        name: made[name] for name in made if name != "notes"
    }
    kept = str(ledger.home / "ledger.db.before-4") if ledger.url.startswith("sqlite") else "schema before_4"
    assert (put["kept"], put["dry_run"]) == (kept, False)
    assert [card["title"] for card in ledger.json("list")["tasks"]] == ["kept"]


def test_a_dry_run_of_restore_changes_nothing(ledger):
    """And says so to people."""
    ledger.ok("backup", "copy.db")
    before = ledger.bytes()
    said = ledger.ok("restore", "copy.db", "--dry-run")
    assert "would be restored from copy.db" in said.out
    kept = f"{ledger.home}/ledger.db.before-2" if ledger.url.startswith("sqlite") else "schema before_2"
    assert f"what stood there would be kept as {kept}" in said.out
    assert ledger.json("restore", "copy.db", "--dry-run")["dry_run"] is True
    assert ledger.bytes() == before


def test_restore_of_something_else_is_a_fault_of_the_store(ledger):
    """8: it does not verify, whether forced or not."""
    Path("copy.db").write_bytes(b"rubbish" * 1000)
    before = ledger.bytes()
    for flags in ((), ("--force",), ("--dry-run",)):
        said = ledger("restore", "copy.db", "--json", *flags)
        assert (said.code, said.error["code"]) == (8, "copy_unsound")
    assert ledger.bytes() == before


@on("sqlite")
def test_restore_into_an_empty_home(ledger, tmp_path, monkeypatch):
    """On another machine nothing need be founded first."""
    ledger.create("kept")
    ledger.ok("backup", "copy.db")
    monkeypatch.setenv("LEDGER_HOME", str(tmp_path / "fresh"))
    put = ledger.ok("restore", "copy.db")
    assert "restored from copy.db" in put.out
    assert [card["title"] for card in ledger.json("list")["tasks"]] == ["kept"]


# prune


def closed(ledger):
    """A done card with a run's folder."""
    card = ledger.create("done")
    ledger.ok("complete", card)
    folder = run_folder(ledger.home, "default", card, 1)
    folder.mkdir(parents=True)
    (folder / "log").write_text("x" * 10)
    return folder.parent


def test_prune_leaves_what_is_young_and_says_what_it_did(ledger):
    """removed and bytes; the default age is 30 days."""
    folder = closed(ledger)
    assert ledger.json("prune")["removed"] == []
    assert ledger.ok("prune").out == "0 folders, 0 bytes\n"
    assert folder.exists()


def test_prune_says_what_it_would_and_what_it_did_remove(ledger, monkeypatch):
    """Paths and bytes, in JSON and for people."""
    folder = closed(ledger)
    monkeypatch.setattr("kanban.prune.SECOND", 0)  # any age has passed
    shown = ledger.json("prune", "--older-than", "1s", "--dry-run")
    assert (shown["removed"], shown["bytes"], shown["dry_run"]) == ([str(folder)], 10, True)
    assert ledger.ok("prune", "--dry-run").out == f"would remove {folder}\n1 folder, 10 bytes (dry run)\n"
    assert folder.exists()
    assert ledger.ok("prune").out == f"removed {folder}\n1 folder, 10 bytes\n"
    assert not folder.exists()


@pytest.mark.parametrize("age", ["0", "0s", "-1d", "soon", "none", ""])
def test_prune_refuses_an_age_that_is_none(ledger, age):
    """2, and nothing is removed."""
    folder = closed(ledger)
    said = ledger("prune", f"--older-than={age}", "--json")
    assert (said.code, said.error["code"]) == (2, "invalid_input")
    assert folder.exists()


@pytest.mark.parametrize("argv", [("backup", "copy.db"), ("restore", "copy.db"), ("prune",)])
def test_a_worker_neither_copies_nor_restores_nor_prunes(worker, argv):
    """RULES §8: that is for operators."""
    ledger, _ = worker
    said = ledger(*argv, "--json")
    assert (said.code, said.error["code"]) == (4, "forbidden")
    assert not Path("copy.db").exists()
