"""Cards that are placed on a host, as people say and read it."""

import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.engines import on


def test_create_places_a_card_and_show_says_where(ledger):
    """`--host`: a host's id or node name, as it was typed."""
    card = ledger.create("train it", "--host", "gpu1")
    assert ledger.json("show", card)["task"]["host"] == "gpu1"
    assert ["host", "gpu1"] in [line.split() for line in ledger.ok("show", card).out.splitlines()]


@pytest.mark.parametrize("host", ["", " ", "a\tb"])
def test_a_host_without_a_name_is_refused(ledger, host):
    """It could match none, and the card would wait for ever."""
    assert ledger("create", "train it", "--host", host, "--json").error["code"] == "invalid_input"


def test_a_key_tells_another_placement_from_the_same(ledger):
    """§8: the same request again is one card; on another host it is another request."""
    first = ledger.json("create", "train it", "--host", "gpu1", "--key", "k")
    again = ledger.json("create", "train it", "--host", "gpu1", "--key", "k")
    assert (again["task"]["id"], again["replayed"]) == (first["task"]["id"], True)
    assert ledger("create", "train it", "--host", "gpu2", "--key", "k", "--json").error["code"] == "conflict"


@pytest.mark.parametrize("host", ["name", "id"])
def test_doctor_tells_what_to_write_and_that_starts_here(fleet, host):
    """This host by either of its names."""
    (finding,) = (each for each in fleet.json("doctor")["findings"] if each["check"] == "host")
    name = os.uname().nodename
    id_ = finding["text"].partition("its id is ")[2].partition(":")[0]
    assert finding["text"].startswith(f"this is {name}, its id is {id_}: ")
    card = fleet.create("here", "--assignee", "builder", "--host", {"name": name, "id": id_}[host])
    fleet.create("there", "--assignee", "builder", "--host", "gpu1")
    assert [each["task"] for each in fleet.json("sweep")["claimed"]] == [card]


def test_the_log_keeps_the_placement(ledger):
    """§9: a replay refolds what `created` said."""
    card = ledger.create("train it", "--host", "gpu1")
    (created,) = ledger.ok("events", card, "--jsonl").out.splitlines()
    assert json.loads(created)["facts"]["host"] == "gpu1"
    assert ledger.json("replay")["divergences"] == []


@on("postgresql")
def test_a_relative_time_counts_from_the_stores_clock(ledger, monkeypatch):
    """`+2h` on a host whose clock is ten minutes ahead is two hours from now, wherever the card waits."""
    card = ledger.create("later")
    wall = time.time_ns
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time_ns", lambda: wall() + 600 * 10**9)
        said = ledger.json("schedule", card, "+2h")
    understood = datetime.fromisoformat(said["understood"])
    assert abs(understood - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=1)
