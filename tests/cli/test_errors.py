"""Every class of error has its exit code and its JSON; the table is the one of DESIGN §6."""

import importlib
import json

import pytest

from cli import errors
from cli.output import Out
from kanban import refusals as r
from ledger import errors as e
from tests.engines import once

pytestmark = once

for module in (
    "board", "spawn", "workspaces", "hosts", "config", "founding", "backup", "restore", "soundness",
    "worker.owner", "worker.client", "worker.admitting", "importing.jsonl", "foreign.faults",
):  # fmt: skip
    importlib.import_module(f"kanban.{module}")
for module in ("projections.checkpoint", "cli.serve", "dashboard.faults", "dashboard.serving"):
    importlib.import_module(module)

CODES = {
    "LedgerError": 1, "HostUnknown": 1, "SpawnFailed": 1, "WorkspaceFault": 1, "CopyThere": 1, "RestoreRefused": 1,
    "ClockBroken": 1, "ExtraMissing": 1, "OwnerUnsupported": 1, "OwnerAbsent": 1, "OwnerRefused": 1,
    "ReceiptUnknown": 1, "PageMissing": 1, "AddressTaken": 1, "Broken": 1,
    "InvalidInput": 2, "InvalidText": 2, "ConfigFault": 2, "ChoiceNeeded": 2,
    "BadCheckpoint": 2, "OtherCheckpoint": 2, "BadLine": 2, "Gap": 2, "DoesNotFollow": 2,
    "ForeignHost": 2, "TooLarge": 2,
    "WrongExpectedVersion": 3, "Contended": 3, "Taken": 3, "LostClaim": 3, "LiveClaim": 3, "Conflict": 3,
    "OwnerRunning": 3, "OtherHistory": 3,
    "Refusal": 4, "Ruled": 4, "NotClaimable": 4, "Forbidden": 4, "Unmet": 4, "NotDone": 4, "NotInReview": 4,
    "AlreadyDone": 4, "NoLateResult": 4, "Closed": 4, "DeadParent": 4, "Ring": 4,
    "NotNow": 4, "NoWords": 4, "Unguarded": 4, "Unauthorised": 4, "ReadOnly": 4, "StaleForm": 4, "ForeignOrigin": 4,
    "NotFound": 5, "UnknownBoard": 5, "UnknownTask": 5, "UnknownRun": 5, "UnknownPosition": 5, "NoSuchPage": 5,
    "NothingToDo": 6,
    "StoreFault": 8, "StoreMissing": 8, "StoreExists": 8, "StoreOutdated": 8, "StoreTooNew": 8, "StoreDamaged": 8,
    "StoreReplaced": 8, "StoreUnreachable": 8, "StoreDenied": 8, "StoreMoving": 8, "StoreMoved": 8,
    "StoreBusy": 8, "StoreFull": 8, "StoreUnsupported": 8, "Unreadable": 8, "UnknownKind": 8, "NewerSchema": 8,
    "CopyUnsound": 8, "Unsound": 8,
    "ForeignMissing": 8, "ForeignDamaged": 8, "ForeignBusy": 8, "NoForeignBoard": 8,
    "Paused": 9,
}  # fmt: skip


def family(root):
    """A class and all that come from it."""
    return [root, *(each for child in root.__subclasses__() for each in family(child))]


CLASSES = {kind.__name__: kind for kind in family(e.LedgerError) if kind.__module__.split(".")[0] != "tests"}


def test_no_class_is_missing():
    """Whoever adds an error says here with what the command line ends."""
    assert CLASSES.keys() == CODES.keys()


@pytest.mark.parametrize("name", CODES)
def test_a_class_has_its_exit_code(name, capsys):
    """And its name in snake_case is the code in JSON, beside message, card and remedy."""
    fault = CLASSES[name].__new__(CLASSES[name])
    e.LedgerError.__init__(fault, "it is so", task="t_a", remedy="do that")
    assert errors.tell(fault, Out(json=True)) == CODES[name]
    said = json.loads(capsys.readouterr().out)
    assert said == {
        "schema": 1,
        "error": {"code": fault.code, "message": "it is so", "task": "t_a", "try": "do that"},
    }
    assert fault.code.replace("_", "") == name.lower()


def test_in_words_a_fault_is_two_lines_on_stderr(capsys):
    """What is wrong, and what to run next; nothing on stdout."""
    assert errors.tell(e.UnknownTask("t_a"), Out()) == 5
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "error: no card 't_a' on this board\ntry: ledger list\n")


def test_control_characters_reach_no_terminal(capsys):
    """A message may quote other people's text."""
    errors.tell(e.InvalidInput("a \x1b[31mtitle\nin two lines"), Out())
    assert capsys.readouterr().err == "error: a \\x1b[31mtitle in two lines\n"


def test_a_bug_is_one_line(ledger, monkeypatch):
    """Exit code 1, no traceback; valid JSON where JSON was asked for."""
    monkeypatch.setattr("kanban.questions.Questions.stats", lambda _: 1 // 0)
    said = ledger("stats")
    assert (said.code, said.out) == (1, "")
    assert said.err == "internal error: ZeroDivisionError: integer division or modulo by zero\n"
    assert ledger("stats", "--json").error["code"] == "internal"


def test_a_bug_has_its_traceback_with_verbose(ledger, monkeypatch):
    """On stderr, so that JSON stays valid."""
    monkeypatch.setattr("kanban.questions.Questions.stats", lambda _: 1 // 0)
    said = ledger("stats", "--json", "--verbose")
    assert "Traceback" in said.err
    assert said.error["code"] == "internal"


@pytest.mark.parametrize(
    ("raised", "code"),
    [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141), (OSError(28, "No space left on device", "/x"), 1)],
)
def test_what_is_no_ledger_error(ledger, monkeypatch, raised, code):
    """Ctrl-C, a reader that went away, and a system that says no."""

    def fail(_board):
        raise raised

    monkeypatch.setattr("kanban.questions.Questions.stats", fail)
    said = ledger("stats")
    assert said.code == code
    assert "Traceback" not in said.err
    assert ("No space left" in said.err) is (code == 1)


@pytest.mark.parametrize(
    "argv",
    [
        ("nonsense",), ("list", "--bogus"), ("create",), ("create", "a", "b"), ("claim",), ("claim", "t_a", "--next"),
        ("edit", "t_a"), ("list", "--limit", "0"), ("list", "--limit", "many"), ("list", "--sort", "colour"),
        ("list", "--status", "asleep"), ("why", "t_a", "weather"), ("unblock",), ("unblock", "--all"),
        ("unblock", "t_a", "--all", "--cause", "config"), ("unblock", "--cause", "config"),
        ("archive", "t_a", "--keep", "--unlink"), ("archive", "t_a", "--dry-run"), ("block", "t_a"), ("changes", "t_a"),
        ("sweep", "--every", "0"), ("sweep", "--every", "soon"), ("sweep", "--dry-run", "--every", "5s"),
        ("sweep", "--dry-run", "--until-idle"), ("sweep", "--max", "-1"),
        ("pause", "--assignee", "a", "--host", "h"), ("events", "--kind", "claimd"), ("events", "--after", "-1"),
        ("policy", "--failure-limit", "0"), ("policy", "--failure-limit", "none"), ("policy", "--lease", "0"),
        ("policy", "--lease", "forever"), ("policy", "--max-running", "-2"), ("create", "x", "--max-runtime", "0"),
        ("create", "x", "--max-retries", "0"), ("create", "x", "--workspace", "dir:relative"),
        ("create", "x", "--workspace", "elsewhere"), ("create", " "), ("schedule", "t_a", "someday"),
        ("log", "t_a", "--follow", "--json"), ("events", "--follow", "--json"), ("config",), ("db",), ("db", "nope"),
        ("--board",), ("accept", "t_a"), ("accept", "t_a", "0"), ("link", "t_a", "t_b", "--require", "luck"),
        ("complete", "t_a", "--outcome", "maybe"), ("complete", "t_a", "--metadata", "{"),
        ("complete", "t_a", "--metadata", "NaN"), ("complete", "t_a", "--result", "/no/such/file"),
        ("progress", "t_a", "--cost", "much"), ("progress", "t_a", "--cost", "-1"), ("heartbeat",), ("complete",),
        ("complete", "t_a", "--run", "1"), ("list", "--label", ""), ("show", ""), ("edit", "t_a", "--max-retries", "0"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_meant_is_usage(ledger, argv):
    """Exit code 2, in words and in JSON, and nothing is written."""
    before = ledger.position()
    said = ledger(*argv, "--json")
    assert (said.code, said.error["code"] in {"usage", "invalid_input"}) == (2, True), said
    if "--json" not in argv and argv not in {("config",), ("db",)}:
        in_words = ledger(*argv)
        assert in_words.code == 2
        assert in_words.out == ""
        assert "error: " in in_words.err
    assert ledger.position() == before


def test_the_remedy_of_a_usage_error_is_its_help(ledger):
    """The help of the very command."""
    assert ledger("db", "upgrade", "--bogus", "--json").error["try"] == "ledger db upgrade --help"


@pytest.mark.parametrize("kind", [r.Taken, r.Paused, r.NothingToDo])
def test_every_concrete_refusal_says_what_to_run_next(kind):
    """A remedy is part of the message."""
    made = {
        r.Taken: lambda: r.Taken("t_a", 1, "b"),
        r.Paused: lambda: r.Paused("board", "", 3),
        r.NothingToDo: r.NothingToDo,
    }
    assert made[kind]().remedy.startswith("ledger ")
