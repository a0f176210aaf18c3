"""A log written out and brought in again: export, import jsonl."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys

import pytest

from cli import copying
from cli.output import print_json
from kanban.board import Board
from tests.fleets import until


@pytest.fixture
def card(ledger):
    """A card at position 3, its comment at 4, which is redacted at 5."""
    card = ledger.create("Mend it", "--label", "red")
    ledger.ok("comment", card, "Secret")
    ledger.ok("redact", "4")
    return card


@pytest.fixture
def file(ledger, card, tmp_path):
    """The board's export."""
    path = tmp_path / "board.jsonl"
    path.write_text(ledger.ok("export").out)
    return path


@pytest.fixture
def away(ledger, monkeypatch, tmp_path):
    """From here on the home is another one, in which nothing is."""

    def go():
        monkeypatch.setenv("LEDGER_HOME", str(tmp_path / "away"))
        monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)

    return go


# export


def test_an_export_is_what_events_prints(ledger, card):
    """CLI: `events --jsonl`, byte for byte: words that were redacted are null."""
    said = ledger.ok("export").out
    assert said == ledger.ok("events", "--jsonl").out == ledger.ok("export", "--json").out
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["position"] for line in lines] == [1, 2, 3, 4, 5]
    assert (lines[3]["words"], lines[3]["salt"], lines[3]["facts"]) == (None, None, {})
    assert "Secret" not in said


@pytest.mark.parametrize(
    ("argv", "positions"),
    [(["--after", "3"], [4, 5]), (["--until", "2"], [1, 2]), (["--after", "1", "--until", "3"], [2, 3]),
     (["--until", "0"], []), (["--after", "4", "--until", "3"], []), (["--after", "99"], []),
     (["--until", "99"], [1, 2, 3, 4, 5])],
)  # fmt: skip
def test_a_part_of_it(ledger, card, argv, positions):
    """From a position, up to a position."""
    assert [json.loads(line)["position"] for line in ledger.ok("export", *argv).out.splitlines()] == positions


def test_cloud_events(ledger, card):
    """CloudEvents 1.0 in JSON, one a line, with the whole event as data; that it is one way is said."""
    said = ledger.ok("export", "--format", "cloudevents")
    first, *_, commented, _ = (json.loads(line) for line in said.out.splitlines())
    board_id = ledger.json("init")["board_id"]
    assert commented["data"] == json.loads(ledger.ok("events", "--jsonl").out.splitlines()[3])
    assert {name: value for name, value in commented.items() if name != "data"} == {
        "specversion": "1.0",
        "id": "4",
        "source": f"/kanban-ledger/boards/{board_id}",
        "type": "kanban-ledger.commented",
        "subject": card,
        "time": commented["data"]["at"],
        "sequence": "0000000000000000004",
        "datacontenttype": "application/json",
    }
    assert "subject" not in first  # an empty one is not allowed
    assert "one way" in said.err
    assert ledger.ok("export", "--format", "cloudevents", "--quiet").err == ""


def test_an_unknown_format_is_refused(ledger, card):
    """Exit 2."""
    assert ledger("export", "--format", "xml").code == 2


def test_an_export_ends_though_others_write(ledger, card, monkeypatch):
    """It ends where the log ends once all before it was read, so what was redacted meanwhile has its `redacted`."""
    with Board.open() as board:
        written = []

        def print_and_write(value):
            print_json(value)
            if value["position"] == 3:
                board.comment(card, "meanwhile")
                board.redact(6, thoroughly=False)
                written.append(value)

        monkeypatch.setattr("cli.copying.print_json", print_and_write)
        lines = [json.loads(line) for line in ledger.ok("export").out.splitlines()]
    assert written
    assert [line["position"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert (lines[5]["words"], lines[6]["facts"]) == (None, {"redacts": 6})


# import


def test_a_board_is_made_again(ledger, file, away):
    """The very same log: where nothing was, the store is made, too."""
    away()
    said = ledger.ok("import", "jsonl", str(file))
    assert "board default made: 5 of 5 events were new; position 5, hash " in said.out
    assert "replayed: no divergence; digest " in said.out
    assert ledger.ok("export").out == file.read_text()


def test_a_repeat_and_the_rest_from_stdin(ledger, file, away, monkeypatch):
    """B62: overlap is harmless; `-` is stdin."""
    away()
    lines = file.read_bytes().splitlines(keepends=True)
    for part, added in ((lines[:3], 3), (lines, 2), (lines, 0), (lines[4:], 0)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"".join(part))))
        said = ledger.json("import", "jsonl", "-")
        assert (said["added"], said["changed"]) == (added, added > 0)
    assert ledger.ok("export").out == file.read_text()


def test_the_answer_for_programs(ledger, file, away):
    """CLI: import jsonl."""
    away()
    said = ledger.json("import", "jsonl", str(file))
    assert set(said) == {
        "schema", "board", "board_id", "events", "added", "created", "changed", "dry_run", "position", "hash", "digest",
        "divergences", "notes",
    }  # fmt: skip
    assert (said["board"], said["events"], said["created"], said["divergences"]) == ("default", 5, True, [])
    assert said["digest"] == ledger.json("replay")["digest"]


def test_a_dry_run_makes_nothing(ledger, file, away, tmp_path):
    """And says what it would do."""
    away()
    said = ledger.ok("import", "jsonl", str(file), "--dry-run")
    assert "board default would be made: 5 of 5 events would be new" in said.out
    assert not (tmp_path / "away").exists()


def test_divergences_end_with_7(ledger, file, away):
    """The words of position 4 are gone, and the part that says so is not there yet."""
    away()
    part = "".join(file.read_text().splitlines(keepends=True)[:4])
    file.write_text(part)
    said = ledger("import", "jsonl", str(file))
    assert said.code == 7
    assert "replayed: 1 divergence, see ledger replay --board default" in said.out


SPOILT = {
    "garbage": (lambda _: "garbage", (2, "bad_line")),
    "empty": (lambda _: "", (2, "bad_line")),
    "changed": (lambda text: text.replace('"red"', '"hot"'), (2, "bad_line")),
    "headless": (lambda text: text.partition("\n")[2], (2, "gap")),
    "renamed": (lambda text: text.replace('"board": "default"', '"board": "../x"'), (2, "invalid_input")),
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_cannot_be_imported(ledger, file, away, how):
    """Exit codes of DESIGN §6; the line is named."""
    away()
    spoil, refusal = SPOILT[how]
    file.write_text(spoil(file.read_text()))
    said = ledger("import", "jsonl", str(file), "--json")
    assert (said.code, said.error["code"]) == refusal


def test_another_history_is_a_conflict(ledger, file, away, card):
    """Exit 3: each went on by itself."""
    old = file.read_text()
    ledger.ok("comment", card, "there")
    new = ledger.ok("export").out
    away()
    file.write_text(old)
    ledger.ok("import", "jsonl", str(file))
    ledger.ok("comment", card, "here")
    file.write_text(new)
    said = ledger("import", "jsonl", str(file), "--json")
    assert (said.code, said.error["code"]) == (3, "other_history")
    assert "part at position 6" in said.error["message"]


def test_another_board_of_that_name_is_refused(ledger, file, away):
    """Exit 8, as for a restore."""
    away()
    ledger.ok("init")
    said = ledger("import", "jsonl", str(file), "--json")
    assert (said.code, said.error["code"]) == (8, "store_exists")


def test_another_name_is_refused(ledger, file, away, monkeypatch):
    """RULES §10: the board's name is hashed; the flag may say it, the configuration does not matter."""
    away()
    monkeypatch.setenv("LEDGER_BOARD", "other")
    said = ledger("import", "jsonl", str(file), "--board", "other", "--json")
    assert (said.code, said.error["try"]) == (2, "--board default, or leave it out")
    assert ledger.json("import", "jsonl", str(file))["board"] == "default"


@pytest.mark.parametrize("name", ["none", "."])
def test_a_file_that_cannot_be_read_is_named(ledger, name):
    """Exit 2."""
    said = ledger("import", "jsonl", name, "--json")
    assert (said.code, said.error["code"]) == (2, "invalid_input")


def test_a_worker_imports_nothing(worker, tmp_path):
    """RULES §8."""
    ledger, _ = worker
    (tmp_path / "x").write_text(ledger.ok("export").out)
    assert ledger("import", "jsonl", str(tmp_path / "x"), "--json").error["code"] == "forbidden"


def test_import_alone_is_its_help(ledger):
    """And with --json a usage error."""
    assert "jsonl" in ledger.ok("import").out
    assert ledger("import", "--json").code == 2


def test_an_import_that_is_killed_goes_on(ledger, card, away, monkeypatch):
    """RULES §7: `kill -9` between two pages: what is there is whole, and the same command does the rest."""
    with Board.open() as board:
        for number in range(1_500):
            board.comment(card, f"comment {number}")
    export = ledger.ok("export").out
    lines = export.splitlines(keepends=True)
    away()
    program = [sys.executable, "-c", "from cli.main import main; main()", "import", "jsonl", "-"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as ran:
        ran.stdin.write("".join(lines[:1_200]).encode())
        ran.stdin.flush()
        until(lambda: ledger("events", "--after", "999", "--jsonl").out)
        ran.send_signal(signal.SIGKILL)
        ran.wait()
    assert ledger.position() == 1_000
    assert ledger.json("replay")["divergences"] == []
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(export.encode())))
    assert ledger.json("import", "jsonl", "-")["added"] == len(lines) - 1_000
    assert ledger.ok("export").out == export


def test_progress_is_told_by_the_bytes_of_the_file(tmp_path):
    """On a terminal: how far it has come, without a look at the file before."""
    (tmp_path / "x").write_bytes(b"a line\n" * 2_500)
    heard = []
    with (tmp_path / "x").open("rb") as file:
        assert sum(1 for _ in copying._measured(file, lambda done, total: heard.append((done, total)))) == 2_500
    assert heard == [(7, 17_500), (7_007, 17_500), (14_007, 17_500)]
