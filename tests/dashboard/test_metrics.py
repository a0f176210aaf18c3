"""What a monitoring system is told: metrics in the text that Prometheus reads, and whether the server works."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_metrics

from ledger.database import writing
from projections import measured
from projections.measured import FAMILIES
from tests.dashboard.conftest import READ
from tests.engines import on

HOSTILE = 'a"b\\c{}<script>'


def scrape(site, accept="text/plain", **more):
    """What Prometheus gets, and the answer itself."""
    headers = {"authorization": f"Bearer {READ}", "accept": accept, **more}
    answer = site.browser().get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    parse = open_metrics if "openmetrics" in answer.headers["content-type"] else plain_metrics
    return {family.name: family for family in parse(answer.text)}, answer


def value(families, family, **labels):
    """The one value with these labels."""
    (found,) = [s.value for s in families[family].samples if labels.items() <= s.labels.items()]
    return found


def test_every_metric_is_told_and_says_what_it_is(site):
    """With a help text, and a type, whether it has a value or not."""
    families, answer = scrape(site)
    assert {family.name.removesuffix("_total") for family in FAMILIES} == set(families)
    assert all(family.documentation and family.type != "unknown" for family in families.values())
    assert answer.headers["content-type"].startswith("text/plain")


def test_the_values_are_those_of_the_board(site):
    """Labels are quoted, whatever a worker is called."""
    card = site.create("Mend it", assignee=HOSTILE)
    lock = site.board.claim(card)
    site.board.block(card, "cannot", run=lock.run, lock=lock.lock)
    families, _ = scrape(site)
    assert value(families, "ledger_events", board="default") == site.board.stats()["position"]
    assert value(families, "ledger_cards", board="default", status="blocked") == 1
    assert value(families, "ledger_blocked_cards", cause="worker") == 1
    assert value(families, "ledger_runs_ended", outcome="blocked", worker=HOSTILE) == 1
    assert value(families, "ledger_last_sweep_age_seconds") > 0
    site.board.sweep()
    families, _ = scrape(site)
    assert value(families, "ledger_runs_ended", outcome="blocked", worker=HOSTILE) == 1
    counted = [s for s in families["ledger_sweep_phase_seconds"].samples if s.name.endswith("_count")]
    assert {s.labels["phase"]: s.value for s in counted} == {"observe": 1, "plan": 1}


def test_newer_formats_are_spoken_where_they_are_asked_for(site):
    """OpenMetrics, as Prometheus prefers it."""
    families, answer = scrape(site, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert value(families, "ledger_events") == 2
    assert answer.text.endswith("# EOF\n")


def test_a_scrape_of_a_board_that_stands_still_counts_nothing(site, monkeypatch):
    """What only events move is kept between two scrapes, and read again once the log has grown."""
    scrape(site)
    read = []
    monkeypatch.setattr(measured, "counted", lambda *given: read.append(given) or measured.Counted(given[2]))
    scrape(site)
    assert read == []
    site.create()
    scrape(site)
    assert len(read) == 1


def test_metrics_want_a_token_and_health_does_not(site):
    """Titles are not in them, but workers' names are; whether the server works is no secret of this machine."""
    for path, code in (("/metrics", 401), ("/healthz", 200), ("/readyz", 200)):
        assert site.nobody.get(path).status_code == code
    assert (site.nobody.get("/healthz").text, site.nobody.get("/readyz").text) == ("ok\n", "ok\n")


@pytest.mark.parametrize("revision", ["0001", "9999"])
def test_a_store_of_another_revision_is_not_ready(site, revision):
    """It answers 503 with the reason in one line; the process itself lives."""
    with writing(site.board.engine) as tx:
        tx.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    answer = site.nobody.get("/readyz")
    assert answer.status_code == 503
    (line,) = answer.text.splitlines()
    assert f"is at revision {revision}" in line
    assert site.nobody.get("/healthz").status_code == 200


def test_a_board_that_is_not_there_is_not_ready(site):
    """As where another store was put in the place of this one."""
    site.app.state.source = replace(site.app.state.source, board="elsewhere")
    answer = site.nobody.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "no board 'elsewhere' in this store\n")
    assert site.reader.get("/metrics").status_code == 404


@on("sqlite")
def test_a_store_that_is_removed_is_not_ready(site):
    """Whatever was read of it before; nothing is made in its place."""
    assert site.nobody.get("/readyz").status_code == 200
    for file in site.board.home.glob("ledger.db*"):
        file.unlink()
    answer = site.nobody.get("/readyz")
    assert answer.status_code == 503
    assert len(answer.text.splitlines()) == 1
    assert not list(site.board.home.glob("ledger.db"))


@on("postgresql")
def test_a_password_is_never_told(site, monkeypatch):
    """The reason names the store, without what is secret in its address."""
    url = site.board.engine.url.set(password="hunter2")
    monkeypatch.setattr(site.board.engine, "url", url)
    with writing(site.board.engine) as tx:
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    answer = site.nobody.get("/readyz")
    assert "is at revision 9999" in answer.text
    assert "hunter2" not in answer.text
