"""`ledger metrics`, what is written down for it, and the Grafana dashboard that shows it."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli import metrics
from kanban.board import Board
from kanban.desk import again
from ledger.errors import WrongExpectedVersion
from projections.measured import FAMILIES, PHASES
from tests.engines import on, once

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
    assert ledger.ok("metrics", "--output", str(file)).out == ""
    assert told(file.read_text())["ledger_events_total",] == 2
    assert file.stat().st_ino != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(file.parent.iterdir()) == [file]
    said = ledger("metrics", "--output", str(tmp_path / "nowhere" / "x.prom"))
    assert said.code == 1
    assert "nowhere" in said.err


@once
def test_without_the_library_it_says_what_to_install(ledger, monkeypatch):
    """And it has no JSON: that is what `stats` is for."""
    monkeypatch.setattr(metrics, "find_spec", lambda name: None if name == "prometheus_client" else find_spec(name))
    said = ledger("metrics")
    assert (said.code, said.out) == (1, "")
    assert "pip install 'kanban-ledger[dashboard]'" in said.err
    assert ledger("metrics", "--json").code == 2


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
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
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


def test_a_replay_writes_what_it_found(ledger):
    """How much, up to where and when; a report on one card says nothing of the log."""
    card = ledger.create("Mend it")
    ledger.ok("replay", "--task", card)
    assert not [key for key in asked(ledger) if key[0].startswith("ledger_replay")]
    ledger.ok("replay")
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


def test_a_store_that_cannot_be_written_is_replayed_all_the_same(ledger, monkeypatch):
    """The verdict is the answer; that it was not written down is a note."""
    from ledger.errors import StoreFull

    ledger.create("Mend it")

    def full(*_given, **_more):
        raise StoreFull("the store is read-only")

    monkeypatch.setattr("kanban.measures.put", full)
    said = ledger.ok("replay")
    assert "no divergence" in said.out
    assert said.err == "note: that the log was replayed was not written down: the store is read-only\n"
    assert ledger.json("replay")["divergences"] == []


@once
def test_a_worker_that_replays_writes_nothing_down(worker):
    """Its role on a server may not be let."""
    ledger, _ = worker
    ledger.ok("replay")
    assert not [key for key in asked(ledger) if key[0].startswith("ledger_replay")]


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
