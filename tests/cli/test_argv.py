"""Global options may stand anywhere before `--`."""

import pytest

from cli.argv import asks_for, first_word, hoist
from cli.errors import UsageError
from tests.engines import once

pytestmark = once


@pytest.mark.parametrize(
    ("line", "hoisted"),
    [
        ("list --json", "--json list"),
        ("--json list", "--json list"),
        ("list --board b --status done", "--board b list --status done"),
        ("list --board=b", "--board=b list"),
        ("db status --database sqlite:////x --quiet", "--database sqlite:////x --quiet db status"),
        ("show t_a --verbose --actor dana --config f", "--verbose --actor dana --config f show t_a"),
        ("comment t_a -- --json", "comment t_a -- --json"),
        ("pause --host h", "pause --host h"),
        ("", ""),
    ],
)
def test_global_options_come_first(line, hoisted):
    """Their values come along; everything else keeps its order; what follows `--` stays."""
    assert hoist(line.split()) == hoisted.split()


@pytest.mark.parametrize("line", ["list --board", "list --board --json", "list --board -- x"])
def test_an_option_without_its_value_is_a_usage_error(line):
    """The next option is not taken for it."""
    with pytest.raises(UsageError):
        hoist(line.split())


def test_a_switch_is_seen_before_the_line_is_parsed():
    """So that usage errors are JSON where JSON was asked for, and text after `--` asks for nothing."""
    assert asks_for("--json", ["nonsense", "--json"])
    assert not asks_for("--json", ["comment", "t_a", "--", "--json"])


@pytest.mark.parametrize("argv", [("list", "--json"), ("--json", "list"), ("list", "--json", "--board", "default")])
def test_both_orders_are_the_same(ledger, argv):
    """`ledger list --json` and `ledger --json list`."""
    assert ledger(*argv).json["tasks"] == []


def test_the_last_of_two_wins(ledger):
    """As with every other option."""
    assert ledger("--board", "nowhere", "list", "--board", "default").code == 0


def test_a_text_after_two_dashes_is_a_text(ledger):
    """A comment may say --json."""
    card = ledger.create()
    ledger.ok("comment", card, "--", "--json")
    assert ledger.json("show", card)["comments"][0]["body"] == "--json"


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["list"], "list"), (["--json", "list", "--board", "x"], "list"), (["--board", "list", "show"], "show"),
        (["--board=list", "show"], "show"), (["--board", "list"], None), ([], None), (["--", "list"], "--"),
        (["--version", "list"], "--version"), (["--bogus", "list"], "--bogus"), (["-h"], "-h"),
    ],
)  # fmt: skip
def test_the_first_word(argv, word):
    """The name of the command, wherever the global options stand; what is neither may be anything."""
    assert first_word(hoist(argv)) == word
