"""`ledger metrics`, what is written down for it, and the Grafana dashboard that shows it."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli import metrics
from kanban.again import again
from kanban.board import Board
from ledger.errors import WrongExpectedVersion
from projections.measured import FAMILIES, PHASES
from tests.engines import on, once
from tests.fleets import PATIENCE

ROOT = Path(metrics.__file__).resolve().parent.parent
GRAFANA = ROOT / "docs" / "grafana.json"


def told(text):
    """What Prometheus reads in *text*: each value by its name and labels but the board's."""
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "board")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def asked(ledger):
    """The values that the command prints."""
    return told(ledger.ok("metrics").out)


# The command


def test_it_prints_what_the_server_answers(ledger):
    """In the text that Prometheus reads, every metric with its help and its type."""
    ledger.create("Mend it", "--assignee", "ann")
    text = ledger.ok("metrics").out
    for family in FAMILIES:
        assert f"# HELP {family.name} {family.says}\n# TYPE {family.name} {family.kind}\n" in text
    assert told(text)["ledger_events_total",] == 3
    assert told(text)["ledger_cards", "ready"] == 1


@once
def test_a_file_is_replaced_whole_and_others_may_read_it(ledger, tmp_path):
    """As a textfile collector wants it; nothing is printed, and no draft is left, also where it cannot be written."""
    file = tmp_path / "prom" / "ledger.prom"
    file.parent.mkdir()
    file.write_text("of yesterday")
    before = file.stat().st_ino
    mask = os.umask(0o077)
    try:
        assert ledger.ok("metrics", "--output", str(file)).out == ""
    finally:
        os.umask(mask)
    assert told(file.read_text())["ledger_events_total",] == 2
    assert file.stat().st_ino != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(file.parent.iterdir()) == [file]
    assert ledger("metrics", "--output", str(file.parent)).code == 1
    assert list(tmp_path.glob(".prom*")) == []
    said = ledger("metrics", "--output", str(tmp_path / "nowhere" / "x.prom"))
    assert said.code == 1
    assert "nowhere" in said.err


@once
def test_without_the_library_it_says_what_to_install(ledger, monkeypatch):
    """And JSON can be had without it."""
    monkeypatch.setattr(metrics, "find_spec", lambda name: None if name == "prometheus_client" else find_spec(name))
    said = ledger("metrics")
    assert (said.code, said.out) == (1, "")
    assert "pip install 'kanban-ledger[dashboard]'" in said.err
    assert ledger("metrics", "--json").code == 0


def test_json_has_the_same_values(ledger):
    """Each with its labels; of a summary the count and the sum. It goes to stdout alone."""
    ledger.create("Mend it")
    ledger.ok("sweep")
    found = {(each["name"], *each["labels"].values()): each for each in ledger.json("metrics")["metrics"]}
    assert found["ledger_cards", "default", "ready"]["value"] == 1
    (observed,) = [each for key, each in found.items() if key[-1] == "observe"]
    assert observed["count"] == 1
    assert observed["sum"] > 0
    assert {each["name"] for each in found.values()} <= {family.name for family in FAMILIES}
    assert ledger("metrics", "--json", "--output", "x").code == 2


@once
def test_it_loads_no_web_server(ledger):
    """A cron job of every minute."""
    probe = (
        "import sys, cli.main\n"
        "sys.argv = ['ledger', 'metrics']\n"
        "try:\n    cli.main.main()\n"
        "except SystemExit:\n    pass\n"
        "print(sorted({'fastapi', 'starlette', 'uvicorn', 'opentelemetry'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=PATIENCE, check=True, cwd=ROOT
    )
    assert ran.stdout.splitlines()[-1] == "[]"


# What is written down for it


def test_a_sweep_writes_its_parts_and_its_appends(ledger):
    """Beside the row that says it was here; what it measured after that is written by the next one."""
    ledger.create("Mend it")
    ledger.ok("sweep")
    found = asked(ledger)
    (host,) = {key[1] for key in found if key[0] == "ledger_sweep_errors"}
    assert found["ledger_sweep_phase_seconds_count", host, "observe"] == 1
    assert ("ledger_sweep_phase_seconds_count", host, "apply") not in found
    card = ledger.create("Stop it", "--max-runtime", "1s")
    ledger.ok("block", card, "for now")
    ledger.outside("UPDATE sweeps SET ticked_at = 0")
    ledger.ok("sweep")
    found = asked(ledger)
    assert [found["ledger_sweep_phase_seconds_count", host, phase] for phase in PHASES] == [2, 2, 1, 1]
    assert all(found["ledger_sweep_phase_seconds_sum", host, phase] > 0 for phase in ("observe", "plan", "apply"))


def test_an_idle_tick_writes_nothing(ledger, monkeypatch):
    """Not a measure either: the store stays as it is until the sweep's own row is due."""
    monkeypatch.setattr("kanban.standing.REWRITE", 10**15)  # however slow this machine is
    ledger.create("Mend it")
    ledger.ok("sweep")
    before = ledger.bytes()
    ledger.ok("sweep")
    assert ledger.bytes() == before


def test_appends_of_sweeps_are_timed(ledger):
    """Transactions that appended, and their seconds: of a run that ended by itself, booked by a sweep."""
    (ledger.home / "ledger.toml").write_text('[assignees.quick]\ncommand = ["true"]\non_success = "complete"\n')
    ledger.create("Do it", "--assignee", "quick")
    ledger.ok("sweep", "--until-idle")
    ledger.outside("UPDATE sweeps SET ticked_at = 0")
    ledger.ok("sweep")
    found = asked(ledger)
    ((_, host),) = [key for key in found if key[0] == "ledger_append_seconds_count"]
    assert found["ledger_append_seconds_count", host] >= 2  # the claim and its binding, and perhaps the end apart
    assert found["ledger_append_seconds_sum", host] > 0
    assert found["ledger_runs_ended_total", "ok", "quick"] == 1


def test_a_replay_tells_what_it_found(ledger):
    """How much, up to where and when, at once and without a write to what it audits; one card alone says nothing."""
    card = ledger.create("Mend it")
    ledger.ok("replay", "--task", card)
    assert not [key for key in asked(ledger) if key[0].startswith("ledger_replay")]
    before = ledger.bytes()
    ledger.ok("replay")
    assert ledger.bytes() == before
    found = asked(ledger)
    ((_, host),) = [key for key in found if key[0] == "ledger_replay_divergences"]
    assert (found["ledger_replay_divergences", host], found["ledger_replay_position", host]) == (0, 3)
    assert found["ledger_lag_events", "replay"] == 0
    ledger.outside("UPDATE tasks SET failures = 7")
    assert ledger("replay").code == 7
    ledger.ok("comment", card, "later")
    found = asked(ledger)
    assert found["ledger_replay_divergences", host] == 1
    assert found["ledger_lag_events", "replay"] == 1
    assert found["ledger_replay_timestamp_seconds", host] > 1_700_000_000


def test_the_next_sweep_brings_it_to_the_store(ledger):
    """So other hosts know of it, too; a later replay takes its place, there as here."""
    ledger.create("Mend it")
    ledger.ok("replay")
    ledger.ok("sweep")
    for file in (ledger.home / "measures").iterdir():
        file.unlink()
    found = {key: value for key, value in asked(ledger).items() if key[0].startswith("ledger_replay")}
    assert sorted(key[0] for key in found) == [
        "ledger_replay_divergences", "ledger_replay_position", "ledger_replay_timestamp_seconds",
    ]  # fmt: skip
    ledger.outside("UPDATE sweeps SET ticked_at = 0")
    ledger.ok("sweep")
    assert {key: value for key, value in asked(ledger).items() if key in found} == found


@once
def test_what_cannot_be_noted_changes_no_verdict(ledger):
    """It is a note; and where there is no home at all, none is made for it."""
    ledger.create("Mend it")
    (ledger.home / "measures").write_text("in the way")
    said = ledger.ok("replay")
    assert "no divergence" in said.out
    assert said.err.startswith("note: that the log was replayed could not be noted: ")
    assert ledger.json("replay")["divergences"] == []


@once
def test_a_home_that_is_not_there_stays_so(ledger, monkeypatch, tmp_path):
    """Who audits a copy leaves nothing behind."""
    monkeypatch.setenv("LEDGER_HOME", str(tmp_path / "nowhere"))
    assert ledger("replay", "--database", f"sqlite:///{ledger.home}/ledger.db").code == 0
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("garbage", [b"", b"nonsense", b"{}", b'{"replay divergences": 3}', b'{"at": "x"}'])
@once
def test_a_note_that_is_garbage_is_none(ledger, garbage):
    """An agent may have written it."""
    ledger.ok("replay")
    (ledger.home / "measures" / "default.replay.json").write_bytes(garbage)
    assert not [key for key in asked(ledger) if key[0].startswith("ledger_replay")]
    ledger.ok("sweep")


def test_commands_that_another_writer_made_repeat_are_counted(ledger):
    """Each time, by host, also where the third attempt failed; one that went through at once writes nothing."""
    with Board.open() as board:
        faults = [WrongExpectedVersion("t_a", expected=1, actual=2)] * 2

        def attempt():
            if faults:
                raise faults.pop()
            return "done"

        assert board.retried(attempt) == "done"
        assert asked(ledger)["ledger_conflicts_total", board.host.id] == 2
        faults += [WrongExpectedVersion("t_a", expected=1, actual=2)] * 3
        with pytest.raises(WrongExpectedVersion):
            board.retried(attempt)
        assert asked(ledger)["ledger_conflicts_total", board.host.id] == 4
        before = ledger.bytes()
        assert board.retried(lambda: "at once") == "at once"
        assert ledger.bytes() == before


def test_who_does_not_listen_is_not_told_of_other_writers():
    """`again` alone counts nothing, and tries as often."""
    tries = []

    def attempt():
        tries.append(1)
        if len(tries) < 3:
            raise WrongExpectedVersion("t_a", expected=1, actual=2)
        return len(tries)

    assert again(attempt) == 3


@on("postgresql")
def test_a_conflict_that_cannot_be_counted_is_no_fault(ledger, monkeypatch):
    """What was asked for is done by then."""
    with Board.open() as board:
        faults = [WrongExpectedVersion("t_a", expected=1, actual=2)]
        ledger.outside("DROP TABLE measures")

        def attempt():
            if faults:
                raise faults.pop()
            return "done"

        assert board.retried(attempt) == "done"


# The dashboard


def dashboard():
    """The file for Grafana."""
    return json.loads(GRAFANA.read_text(encoding="utf-8"))


def panels():
    """Its panels that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def test_grafana_shows_every_metric_and_no_other():
    """What its expressions name is what is exported, and the other way round."""
    named = {
        name for panel in panels() for each in panel["targets"] for name in re.findall(r"ledger_\w+", each["expr"])
    }
    exported = set()
    for family in FAMILIES:
        exported |= {f"{family.name}_sum", f"{family.name}_count"} if family.kind == "summary" else {family.name}
    assert named == exported


def test_grafana_asks_for_labels_that_there_are():
    """Each expression groups by labels of the metrics in it, and looks at the chosen boards alone."""
    labels = {family.name: set(family.labels) for family in FAMILIES}
    for expr in (each["expr"] for panel in panels() for each in panel["targets"]):
        names = {name.removesuffix("_sum").removesuffix("_count") for name in re.findall(r"ledger_\w+", expr)}
        (name,) = names
        by = {label.strip() for found in re.findall(r"by \(([^)]*)\)", expr) for label in found.split(",")}
        assert by <= labels[name], expr
        assert expr.count('{board=~"$board"') == expr.count("ledger_"), expr


def test_grafana_can_import_it():
    """A datasource and a board are chosen there; panels do not overlap, and have ids of their own."""
    found = dashboard()
    assert found["schemaVersion"] >= 38
    assert [(each["name"], each["type"]) for each in found["templating"]["list"]] == [
        ("datasource", "datasource"), ("board", "query"),
    ]  # fmt: skip
    assert {json.dumps(panel["datasource"]) for panel in panels()} == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    cells = [
        (x, y)
        for grid in (panel["gridPos"] for panel in found["panels"])
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
