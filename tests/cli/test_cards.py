"""Commands on cards, in words and in JSON."""

import json

import pytest

TASK = {
    "id", "title", "status", "assignee", "priority", "labels", "tenant", "parents", "run", "failures", "streak",
    "spent", "neutral", "runs_used", "lane", "reviewer", "outcome", "hold", "not_before", "scheduled", "max_retries",
    "max_runtime", "version", "created_at", "updated_at", "position",
}  # fmt: skip
"""The fields of a task in the contract."""


def test_create_answers_with_the_card(ledger):
    """The task, its position, and that the key was not seen before."""
    said = ledger.json("create", "Mend the parser")
    assert said["task"].keys() >= TASK
    assert (said["schema"], said["position"], said["replayed"], said["changed"]) == (1, 3, False, True)


def test_create_in_words_is_one_line(ledger):
    """Id, status, assignee, title; the id alone with --quiet."""
    said = ledger.ok("create", "Mend the parser", "--assignee", "ann")
    card = said.out.split()[0]
    assert said.out == f"{card}  ready  ann  Mend the parser\n"
    assert ledger.ok("create", "other", "--quiet").out.startswith("t_")
    assert len(ledger.ok("create", "other", "--quiet").out.split()) == 1


def test_create_takes_every_field(ledger):
    """All flags of the contract at once."""
    parent = ledger.create("first")
    card = ledger.create(
        "second", "--body", "at length", "--assignee", "ann", "--parent", f"{parent}:any", "--priority", "-5",
        "--max-retries", "4", "--max-runtime", "5m", "--workspace", "dir:/tmp", "--label", "a", "--label", "b",
        "--tenant", "acme", "--key", "k1",
    )  # fmt: skip
    found = ledger.json("show", card)
    wanted = {
        "assignee": "ann", "priority": -5, "max_retries": 4, "max_runtime": 300, "labels": ["a", "b"],
        "tenant": "acme", "key": "k1", "body": "at length", "status": "todo", "workspace": "dir:/tmp",
    }  # fmt: skip
    assert {name: found["task"][name] for name in wanted} == wanted
    assert found["parents"] == [{"task": parent, "require": "any", "status": "ready", "outcome": None}]


def test_create_can_park_a_card(ledger):
    """In triage, or blocked from the start; nobody is the assignee none."""
    assert ledger.json("create", "a", "--triage")["task"]["status"] == "triage"
    assert ledger.json("create", "a", "--blocked", "wait for legal")["task"]["hold"]["reason"] == "wait for legal"
    assert ledger.json("create", "a", "--assignee", "none")["task"]["assignee"] is None


def test_a_key_makes_create_safe_to_repeat(ledger):
    """The first answer again, marked; another request under that key is a conflict."""
    first = ledger.json("create", "a", "--key", "k")
    again = ledger.json("create", "a", "--key", "k")
    assert (again["task"]["id"], again["replayed"], again["changed"]) == (first["task"]["id"], True, False)
    assert ledger("create", "b", "--key", "k", "--json").error["code"] == "conflict"
    assert ledger("create", "b", "--key", "k").code == 3


def test_an_assignee_that_nobody_configured_is_accepted_and_told(fleet):
    """On stderr, and in JSON; with the nearest name; silently where nothing is configured."""
    said = fleet.ok("create", "a", "--assignee", "bilder")
    assert "no assignee 'bilder' is configured on this host; the nearest is 'builder'" in said.err
    card = fleet.create("b", "--assignee", "builder")
    assert fleet.json("assign", card, "crashr")["notes"] != []
    assert fleet.json("assign", card, "dana")["notes"] == []


def test_without_assignees_every_name_is_welcome(ledger):
    """A board whose workers claim by hand has no configuration."""
    assert ledger.json("create", "a", "--assignee", "anybody")["notes"] == []


def test_edit_changes_what_is_given(ledger):
    """And nothing else; the same again changes nothing."""
    card = ledger.create("a", "--label", "x", "--tenant", "acme", "--max-retries", "2", "--max-runtime", "5m")
    flags = (
        "--title", "b", "--body", "more", "--priority", "7", "--label", "y", "--tenant", "none", "--max-retries",
        "none", "--max-runtime", "1h", "--workspace", "scratch", "--lane", "triage",
    )  # fmt: skip
    said = ledger.json("edit", card, *flags)
    wanted = {
        "title": "b", "priority": 7, "labels": ["y"], "tenant": None, "max_retries": None, "max_runtime": 3600,
        "status": "triage",
    }  # fmt: skip
    assert {name: said["task"][name] for name in wanted} == wanted
    assert ledger.json("edit", card, *flags)["changed"] is False
    assert ledger.json("edit", card, "--label", "none")["task"]["labels"] == []


@pytest.mark.parametrize(
    ("flags", "turns"),
    [(["--goal"], 20), (["--goal", "--goal-max-turns", "7"], 7), (["--goal-max-turns", "0", "--goal"], 20),
     (["--goal", "--goal-max-turns", "-3"], 20), ([], None)],
)  # fmt: skip
def test_a_card_can_have_a_goal(ledger, flags, turns):
    """At birth or later; a number below 1 is the default."""
    edited = ledger.create("b")
    if flags:
        assert [ledger.json("edit", edited, *flags)["changed"] for _ in range(2)] == [True, False]
    for card in (ledger.create("a", *flags), edited):
        shown = ledger.json("show", card)["task"]
        assert (shown["goal"], shown["goal_max_turns"]) == (turns is not None, turns)
        said = f"goes on until a judge agrees, {turns} turns a run at most"
        assert (said in ledger.ok("show", card).out) == (turns is not None)


def test_a_goal_can_be_taken_away(ledger):
    """And then the card is as one that never had one."""
    card = ledger.create("a", "--goal")
    assert ledger.json("edit", card, "--no-goal")["task"]["goal_max_turns"] is None
    assert ledger.json("edit", card, "--no-goal")["changed"] is False


@pytest.mark.parametrize("argv", [["create", "a"], ["edit", "CARD"], ["edit", "CARD", "--no-goal"]])
def test_turns_go_with_a_goal(ledger, argv):
    """A number without one is a slip."""
    card = ledger.create("a", "--goal")
    said = ledger(*[word.replace("CARD", card) for word in argv], "--goal-max-turns", "3")
    assert (said.code, "--goal-max-turns goes with --goal" in said.err) == (2, True)


def test_assign_gives_and_takes(ledger):
    """To somebody, to nobody, and to the same again."""
    card = ledger.create()
    assert ledger.json("assign", card, "ann")["task"]["assignee"] == "ann"
    assert "(nothing changed)" in ledger.ok("assign", card, "ann").out
    assert ledger.json("assign", card, "none")["task"]["assignee"] is None


def test_link_and_unlink(ledger):
    """A ring and a dead parent are refused; the ring is printed whole."""
    a, b = ledger.create("a"), ledger.create("b")
    assert ledger.json("link", b, a)["task"]["status"] == "todo"
    ring = ledger("link", a, b, "--json")
    assert (ring.code, ring.error["code"]) == (4, "ring")
    assert any(whole in ring.error["message"] for whole in (f"{a} → {b} → {a}", f"{b} → {a} → {b}"))
    assert ledger.json("unlink", b, a)["task"]["status"] == "ready"
    ledger.ok("complete", a, "--outcome", "fail")
    assert ledger("link", b, a, "--json").error["code"] == "dead_parent"
    assert ledger.json("link", b, a, "--require", "any")["changed"] is True


def test_comment(ledger):
    """Open or closed, every comment is a new one."""
    card = ledger.create()
    ledger.ok("complete", card)
    assert ledger.json("comment", card, "well done")["changed"] is True
    assert "ada said" in ledger.ok("show", card).out


def test_schedule_says_what_it_understood(ledger):
    """In UTC and in the caller's zone; several words need no quotes; a time that is over is told."""
    card = ledger.create()
    said = ledger.json("schedule", card, "2126-07-24T09:00")
    assert said["understood"] == said["task"]["scheduled"] == "2126-07-24T07:00:00.000000Z"
    told = ledger.ok("schedule", card, "tomorrow", "09:00", "--reason", "later").err
    assert "understood as" in told
    assert "(Europe/Berlin)" in told
    assert any("past" in note for note in ledger.json("schedule", card, "2020-01-01")["notes"])


def test_archive_asks_what_becomes_of_children(ledger):
    """ChoiceNeeded is a usage error; each of the choices works."""
    parent, child = ledger.create("p"), ledger.create("c")
    ledger.ok("link", child, parent)
    said = ledger("archive", parent, "--json")
    assert (said.code, said.error["code"], said.error["task"]) == (2, "choice_needed", parent)
    before = ledger.position()
    dry = ledger.json("archive", parent, "--cascade", "--dry-run")
    assert dry["would"] == [{"task": parent, "kind": "archived"}, {"task": child, "kind": "archived"}]
    assert ledger.ok("archive", parent, "--cascade", "--dry-run").out.count("archived") == 2
    assert ledger.position() == before
    assert ledger.json("archive", parent, "--unlink")["task"]["status"] == "archived"
    assert ledger.json("show", child)["task"]["status"] == "ready"


@pytest.mark.parametrize("choice", ["--keep", "--cascade"])
def test_archive_keeps_or_cascades(ledger, choice):
    """Keep leaves children waiting; cascade puts away what waits only for it."""
    parent, child = ledger.create("p"), ledger.create("c")
    ledger.ok("link", child, parent)
    ledger.ok("archive", parent, choice)
    assert ledger.json("show", child)["task"]["status"] == ("todo" if choice == "--keep" else "archived")


def test_reopen(ledger):
    """Only what is done or archived; a closed card says so to other acts."""
    card = ledger.create()
    assert ledger("reopen", card, "--json").error["code"] == "not_done"
    ledger.ok("complete", card)
    assert ledger("assign", card, "ann", "--json").error["code"] == "closed"
    assert ledger("assign", card, "ann").code == 4
    assert ledger.json("reopen", card, "--reason", "not quite")["task"]["status"] == "ready"


@pytest.mark.parametrize("verb", ["assign", "schedule", "archive", "complete", "block"])
def test_a_running_card_needs_force(ledger, verb):
    """LiveClaim without it; with it the run is asked to stop and the wish is kept."""
    rest = {"assign": ["bob"], "schedule": ["+1h"], "block": ["no"]}.get(verb, [])
    card = ledger.create("a", "--assignee", "ann")
    ledger.claim(card)
    said = ledger(verb, card, *rest, "--json")
    assert (said.code, said.error["code"], said.error["task"]) == (3, "live_claim", card)
    assert ledger.json(verb, card, *rest, "--force")["task"]["status"] == "running"
    last = ledger.json("events", card)["events"][-1]
    assert (last["kind"], last["facts"]["wish"]["verb"]) == ("stop_requested", verb)


def test_titles_of_others_cannot_move_the_cursor(ledger):
    """Control characters are printed as escapes; JSON keeps them."""
    title = "red \x1b[31m and\ttwo\nlines"
    card = ledger.create(title)
    assert "\x1b" not in ledger.ok("list").out + ledger.ok("show", card).out + ledger.ok("board").out
    assert ledger.json("show", card)["task"]["title"] == title


def test_json_is_one_line_and_utf8(ledger):
    """Umlauts and emoji come through."""
    said = ledger.ok("create", "größer 🚀", "--json")
    assert json.loads(said.out)["task"]["title"] == "größer 🚀"
    assert said.out.count("\n") == 1
