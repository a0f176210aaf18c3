"""Our own exports brought in again: the same log to the byte, on either database; whatever else is refused by name."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from kanban.export import exported
from kanban.importing import jsonl
from kanban.importing.jsonl import Gap, OtherHistory, import_jsonl
from kanban.importing.lines import BadLine
from kanban.refusals import Forbidden
from ledger.errors import InvalidInput, NewerSchema, StoreExists, StoreMissing, UnknownKind
from ledger.recorded import canonical
from ledger.upgrade import open_store
from projections.read_models import PROJECTIONS
from projections.verify import verify
from tests import given, ledgers
from tests.audits import audit, mend, outside
from tests.engines import on

ODD = ("\u2028 \x85 \x1b[31m \ufffd \u00e9 e\u0301 \U0001f600", "\\u0000 is no NUL", '"quoted" \\ and\n\ttabbed', " ")


def lines_of(store, *, after=0, until=None, board=ledgers.BOARD):
    """What `ledger export` writes of *store*."""
    events = [event for event in store.read(after=after, board=board) if until is None or event.position <= until]
    return [json.dumps(exported(event), ensure_ascii=event.position % 2 == 0).encode() + b"\n" for event in events]


@pytest.fixture
def lived_in(lived, tmp_path):
    """The lived-in log, in a store of SQLite."""
    store = ledgers.opened(ledgers.copy_of(lived, tmp_path / "source.db"))
    store.sql("DELETE FROM words WHERE position = 21")
    yield store
    store.engine.dispose()


@pytest.fixture
def elsewhere(nothing):
    """The other store, once something is there."""
    opened = []

    def look():
        opened.append(ledgers.opened(nothing))
        return opened[-1]

    yield look
    for store in opened:
        store.engine.dispose()


def bring(url, lines, **how):
    """Import *lines* into the store at *url*."""
    return import_jsonl(SimpleNamespace(url=url), iter(lines), **{"environ": {}, **how})


def refuses(url, lines, kind, said, **how):
    """It is refused as exactly *kind*, and says so."""
    with pytest.raises(kind, match=said) as caught:
        bring(url, lines, **how)
    assert caught.type is kind
    assert caught.value.remedy
    return caught.value


# The same log


def same(one, other):
    """Both stores hold the same board to the byte, and make the same of it."""
    assert other.read() == one.read()
    assert other.head() == one.head()
    for table in PROJECTIONS:
        assert other.rows(table) == one.rows(table)
    assert audit(other, strict=True).digest == audit(one).digest
    assert (audit(other).divergences, verify(other.engine, ledgers.BOARD).divergences) == ((), ())


def test_a_board_is_made_again_to_the_byte(lived_in, nothing, elsewhere):
    """RULES §10: events, words, salts, hashes and head; and what is folded of them; on whichever database."""
    made = bring(nothing, lines_of(lived_in))
    assert (made.board, made.board_id, made.lines, made.added, made.created) == ("b", "b" * 32, 23, 23, True)
    assert (made.end, made.replay.divergences) == (lived_in.head(), ())
    same(lived_in, elsewhere())
    assert lines_of(elsewhere()) == lines_of(lived_in)


@pytest.mark.parametrize("page", [1, 2, 7, 23, 1_000])
def test_a_page_may_end_anywhere(lived_in, nothing, elsewhere, monkeypatch, page):
    """Inside an append, too: what must follow comes with the next page."""
    monkeypatch.setattr(jsonl, "PAGE", page)
    bring(nothing, lines_of(lived_in))
    same(lived_in, elsewhere())


def test_every_kind_and_every_text_survives(nothing, elsewhere, tmp_path, template):
    """RULES §10: numbers, floats, deep metadata, and texts that a terminal or a reader of lines would obey."""
    source = ledgers.opened(ledgers.copy_of(template, tmp_path / "source.db"))
    for kind, event in given.EXAMPLES.items():
        if kind not in {"board_created", "redacted"}:
            source.append(event, task=f"t_{kind}")
    for text in ODD:
        metadata = {text: [text, {"deep": [None, True, 1.5, -0.0, 1e22, 10**40, {}, []]}]}
        source.append(given.completed(None, summary=text, metadata=metadata))
        source.append(given.commented(text), task="t_\u2028")
    bring(nothing, lines_of(source))
    assert elsewhere().read() == source.read()
    source.engine.dispose()


def test_texts_that_another_program_wrote_survive(lived_in, nothing, elsewhere):
    """RULES §10: facts and words are hashed as the stored bytes, however these are spaced."""
    outside(lived_in, "UPDATE events SET facts = '{ }' WHERE position = 23")
    mend(lived_in)
    bring(nothing, lines_of(lived_in))
    assert elsewhere().read() == lived_in.read()
    assert exported(lived_in.read()[22])["facts_text"] == "{ }"
    assert "facts_text" not in exported(lived_in.read()[21])


def test_a_board_beside_others(board, tmp_path, template):
    """DESIGN §3: board is the first column of every key: the others are as they were."""
    source = ledgers.opened(ledgers.copy_of(template, tmp_path / "source.db"))
    ledgers.new_board(source, "c", "c" * 32)
    source.append(given.created(), board="c")
    before = board.read()
    assert bring(board.url, lines_of(source, board="c")).created
    assert board.read() == before
    assert board.read(board="c") == source.read(board="c")
    source.engine.dispose()


def test_what_a_log_says_wrong_it_still_says(lived_in, nothing):
    """RULES §9: a replay of the copy finds what a replay of the log finds."""
    lived_in.append(given.completed(7))
    made = bring(nothing, lines_of(lived_in))
    assert [each.position for each in made.replay.divergences] == [24]
    assert made.as_json()["divergences"][0]["rule"] == "§2"


def test_open_runs_are_told_of(nothing, template, tmp_path):
    """Their workers hold the address of another store."""
    source = ledgers.opened(ledgers.copy_of(template, tmp_path / "source.db"))
    source.append(given.created(), given.claimed())
    (note,) = bring(nothing, lines_of(source)).notes
    assert note.startswith("1 run is open in it")
    source.append(given.created(), given.claimed(), task="t_b")
    assert bring(nothing, lines_of(source)).notes[0].startswith("2 runs are open in it")
    source.engine.dispose()


# What is there already


@pytest.fixture
def half(lived_in, nothing):
    """The other store after the first ten events."""
    bring(nothing, lines_of(lived_in, until=10))
    return nothing


def test_a_repeat_is_harmless(lived_in, nothing, elsewhere):
    """B62: what is there is passed over."""
    bring(nothing, lines_of(lived_in))
    again = bring(nothing, lines_of(lived_in))
    assert (again.added, again.created, again.as_json()["changed"], again.end) == (0, False, False, lived_in.head())
    same(lived_in, elsewhere())


@pytest.mark.parametrize("after", [0, 4, 9, 10])
def test_what_is_missing_is_appended(lived_in, half, elsewhere, after):
    """RULES §10: from wherever the export begins, as long as it begins before the end."""
    made = bring(half, lines_of(lived_in, after=after))
    assert (made.added, made.lines) == (13, 23 - after)
    same(lived_in, elsewhere())


def test_an_older_export_takes_nothing_back(lived_in, nothing, elsewhere):
    """B66: fresh changes are not lost to it."""
    old = lines_of(lived_in, until=10)
    bring(nothing, lines_of(lived_in))
    store = elsewhere()
    store.append(given.commented("fresh"))
    made = bring(nothing, old)
    assert (made.added, made.end.position) == (0, 24)
    assert store.read()[-1].words == {"body": "fresh"}


def test_an_export_that_begins_too_late_is_refused(lived_in, half, elsewhere):
    """RULES §2: positions have no holes; the part to ask for is named."""
    fault = refuses(half, lines_of(lived_in, after=11), Gap, "begins at position 12, board b here ends at 10")
    assert fault.remedy.endswith("ledger export --after 10")
    assert elsewhere().head().position == 10


def test_a_part_of_a_board_that_is_not_here_is_refused(lived_in, nothing):
    """RULES §2: it begins with its first event; and nothing is made."""
    refuses(nothing, lines_of(lived_in, after=1), Gap, "begins at position 2, board b here ends at 0")
    with pytest.raises(StoreMissing):
        open_store(nothing)


@pytest.mark.parametrize("after", [0, 5, 10, 11])
def test_another_history_is_refused_where_it_parts(lived_in, half, elsewhere, after):
    """B66: two copies that both went on never overwrite each other."""
    store = elsewhere()
    for _ in range(3):
        store.append(given.commented("here"), task="t_p")
    before = store.read()
    fault = refuses(half, lines_of(lived_in, after=after), OtherHistory, "part at position 11: each has its own event")
    assert fault.position == 11
    assert store.read() == before


def test_what_somebody_appends_meanwhile_is_not_written_over(lived_in, nothing, elsewhere, monkeypatch):
    """RULES §10: between two pages the board is anybody's."""
    monkeypatch.setattr(jsonl, "PAGE", 10)

    def lines():
        yield from lines_of(lived_in)[:20]
        elsewhere().append(given.commented("mine"), task="t_p")
        yield from lines_of(lived_in)[20:]

    refuses(nothing, lines(), OtherHistory, "part at position 21")
    assert elsewhere().read()[-1].words == {"body": "mine"}
    assert audit(elsewhere()).divergences == ()


def test_another_board_of_that_name_is_refused(lived_in, store):
    """RULES §2: a board is its id, not its name."""
    lived_in.sql("DELETE FROM words")
    other = [line.replace(b"b" * 32, b"a" * 32) for line in lines_of(lived_in)]
    refuses(store.url, other, StoreExists, f"b has id {'b' * 32}, the export's has {'a' * 32}")
    assert store.head().position == 1


# Words


def test_words_that_were_redacted_meanwhile_go_here_too(lived_in, half, elsewhere):
    """RULES §10: the rest of the log says that they are gone."""
    assert elsewhere().read()[4].words_text is not None
    lived_in.append(given.redacted(5))
    lived_in.sql("DELETE FROM words WHERE position = 5")
    bring(half, lines_of(lived_in))
    same(lived_in, elsewhere())
    assert elsewhere().read()[4].words_text is None


def test_words_that_were_redacted_here_do_not_come_back(lived_in, nothing, elsewhere):
    """RULES §10: an export from before still holds them."""
    bring(nothing, lines_of(lived_in))
    store = elsewhere()
    store.append(given.redacted(5))
    store.sql("DELETE FROM words WHERE position = 5")
    bring(nothing, lines_of(lived_in))
    assert store.read()[4].words_text is None


def test_words_that_are_redacted_further_on_are_missed_until_it_comes(lived_in, nothing):
    """RULES §10: of a part of a log a replay says that its words are gone, and no `redacted` names it yet."""
    lines = lines_of(lived_in)
    made = bring(nothing, lines[:21])
    assert [(each.position, each.rule) for each in made.replay.divergences] == [(21, "§10 words")]
    assert bring(nothing, lines).replay.divergences == ()


# Bad lines


def changed(line, **fields):
    """*line* with other values."""
    return json.dumps(json.loads(line) | fields).encode() + b"\n"


BAD = {
    "no JSON": (b"{\n", "Invalid JSON"),
    "no UTF-8": (b'{"board":"\xff"}\n', "line 12: "),
    "no object": (b"[]\n", "object"),
    "half a character": (b'{"board":"\\ud800"}\n', "line 12: "),
    "deep": (b"[" * 100_000 + b"\n", "line 12: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_line_that_is_no_event_is_named(lived_in, nothing, name):
    """By its number, blank lines counted."""
    bad, said = BAD[name]
    lines = lines_of(lived_in)
    fault = refuses(nothing, [*lines[:5], b"\n", *lines[5:10], bad, *lines[11:]], BadLine, said)
    assert fault.line == 12


KEYS = (
    "board", "position", "task", "version", "kind", "schema", "at", "actor", "run", "outcome", "command_id", "facts",
    "words", "salt", "words_digest", "hash",
)  # fmt: skip


def test_an_export_has_these_keys(board):
    """CLI: `events --jsonl`."""
    assert tuple(exported(board.read()[0])) == KEYS


@on("sqlite")
@pytest.mark.parametrize("key", KEYS)
def test_a_line_that_lacks_a_key_is_named(lived_in, nothing, key):
    """What is missing must not look like what is empty."""
    lines = lines_of(lived_in)
    lines[9] = json.dumps({name: value for name, value in json.loads(lines[9]).items() if name != key}).encode()
    assert refuses(nothing, lines, BadLine, f"line 10: {key}: Field required").line == 10


FORGED = {
    "board": "c", "position": 11, "task": "t_x", "version": 9, "kind": "claimed", "schema": 2, "run": 2,
    "at": "2025-06-15T15:06:41.000000Z", "actor": {"kind": "system", "name": "eve", "host": "x"}, "outcome": "ok",
    "command_id": "c-1", "facts": {}, "words": {"wish_words": {}}, "salt": "0" * 64, "words_digest": "0" * 64,
    "hash": "0" * 64,
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_a_line_in_which_anything_was_changed_is_named(lived_in, nothing, elsewhere, monkeypatch, key):
    """RULES §10: each value is covered by the hash, or by that of the words; pages before it are in and whole."""
    monkeypatch.setattr(jsonl, "PAGE", 4)
    lines = lines_of(lived_in)
    lines[9] = changed(lines[9], **{key: FORGED[key]})
    with pytest.raises((BadLine, NewerSchema), match=r"line 10|position 10") as caught:
        bring(nothing, lines)
    assert getattr(caught.value, "line", 10) == 10
    assert elsewhere().read() == lived_in.read()[:8]
    assert audit(elsewhere()).divergences == ()
    assert bring(nothing, lines_of(lived_in)).added == 15


WRONG = {
    "position": [0, -1, "10", 10.0, 2**63, None, True], "version": [0, 2**31], "run": ["1", 0, 2**31], "at": [
        "2025-06-15", "2025-13-15T15:06:41.000000Z", "2025-06-15T15:06:41.000000", "2025-06-15T15:06:41.000000+02:00",
        "0001-01-01T00:00:00.000000Z", 5], "actor": [None, {"kind": "god", "name": "x", "host": "x"}, {}],
    "task": [None, 5], "kind": ["dreamt\0"], "facts": [None, [], "{}"], "words": [[], None, "{}"],
    "salt": [None, "00", "g" * 64, "0" * 64 + "\n"], "hash": ["0", None, "A" * 64], "schema": [0, "1"],
    "facts_text": ["{", "null", 5], "words_text": ["", "{"],
}  # fmt: skip


@on("sqlite")
@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]], ids=repr)
def test_a_value_of_another_type_or_out_of_range_is_named(lived_in, nothing, key, value):
    """Garbage is refused at the border, by line; it never reaches a database."""
    lines = lines_of(lived_in)
    lines[9] = changed(lines[9], **{key: value})
    assert refuses(nothing, lines, BadLine, "line 10: ").line == 10


def test_keys_that_later_versions_add_are_passed_over(lived_in, nothing, elsewhere):
    """CLI: an export may grow keys; what it says is covered by the hash all the same."""
    bring(nothing, [changed(line, later={"a": 1}) for line in lines_of(lived_in)])
    same(lived_in, elsewhere())


@pytest.mark.parametrize(
    ("places", "line"),
    [([0, 1, 2, 4, 5], 4), ([0, 1, 3, 2, 4], 3), ([0, 1, 2, 2, 3], 4), ([0, 1, 2, 0, 1, 2], 4), ([0, 0], 2)],
)
def test_lines_that_are_missing_swapped_or_doubled_are_named(lived_in, nothing, places, line):
    """RULES §2: one position after the other."""
    lines = lines_of(lived_in)
    assert refuses(nothing, [lines[place] for place in places], BadLine, "position . follows .").line == line


def test_a_changed_line_of_what_is_here_already_is_named(lived_in, nothing):
    """RULES §10: a repeat is checked like the first time."""
    lines = lines_of(lived_in)
    bring(nothing, lines)
    lines[3] = changed(lines[3], command_id="c-1")
    refuses(nothing, lines, BadLine, "line 4: position 4: its hash is not that of its columns")


def forged(store, position, **columns):
    """The lines of *store* once an event was changed and the whole chain made anew: what a clever forger exports."""
    said = ", ".join(f"{name} = {value}" for name, value in columns.items())
    outside(store, f"UPDATE events SET {said} WHERE position = {position}")
    mend(store)
    return lines_of(store)


@pytest.mark.parametrize(
    ("position", "columns", "said"),
    [
        (20, {"facts": "'{}'"}, "line 20: scheduled: not_before: Field required"),
        (21, {"facts": "'{\"a\":1}'"}, "line 21: commented: a: Extra inputs"),
        (5, {"facts": "replace(facts, '\"priority\":2', '\"priority\":\"2\"')"}, "line 5: created: priority"),
        (21, {"run": "7"}, "line 21: commented: it has no run"),
        (21, {"outcome": "'ok'"}, "line 21: commented: it has no outcome"),
        (5, {"facts": "replace(facts, 'acme', 'a\\u0000b')"}, "line 5: facts: a NUL character"),
        (21, {"version": "99"}, "line 21: position 21: version 99 of t_a after 10"),
        (21, {"at": "5"}, "line 21: position 21: its instant is before"),
        (1, {"kind": "'resumed'", "facts": "'{\"scope\":{\"kind\":\"board\",\"name\":\"\"}}'"},
         "line 1: a log begins with board_created"),
    ],
)  # fmt: skip
def test_a_forger_who_chains_anew_is_found_by_the_shape(lived_in, nothing, position, columns, said):
    """RULES §2: nothing is folded that no event of its kind can say."""
    refuses(nothing, forged(lived_in, position, **columns), BadLine, said)


@pytest.mark.parametrize(("column", "value", "kind"), [("kind", "'dreamt'", UnknownKind), ("schema", "9", NewerSchema)])
def test_what_this_program_cannot_read_is_not_imported(lived_in, nothing, column, value, kind):
    """RULES §2: it is never skipped in silence; the remedy is a newer program."""
    refuses(nothing, forged(lived_in, 21, **{column: value}), kind, "position 21")


def test_a_nul_in_a_name_is_refused(lived_in, nothing):
    """RULES §10: whatever another store could hold."""
    lines = lines_of(lived_in)
    lines[3] = changed(lines[3], task="t_\0")
    refuses(nothing, lines, BadLine, "line 4: task: a NUL character")


@pytest.mark.parametrize("lines", [[], [b"\n", b"  \n"]])
def test_an_empty_file_is_refused(nothing, lines):
    """A pipe whose writer failed must not look like a success; nothing is made."""
    refuses(nothing, lines, BadLine, "line 1: there is no event in it")
    with pytest.raises(StoreMissing):
        open_store(nothing)


@pytest.mark.parametrize("name", ["../b", "B", ""])
def test_a_name_that_no_board_can_have_is_refused(lived_in, nothing, name):
    """It stands in paths."""
    lines = [changed(line, board=name) for line in lines_of(lived_in)]
    refuses(nothing, lines, InvalidInput, "cannot be a board's name")


def test_another_name_is_refused(lived_in, nothing):
    """RULES §10: every hash covers the board's name."""
    refuses(nothing, lines_of(lived_in), InvalidInput, "is of board b: every hash .* cannot become c", board="c")
    assert bring(nothing, lines_of(lived_in), board="b").created


def test_a_worker_imports_nothing(lived_in, nothing):
    """RULES §8: it acts on its own run."""
    environ = {"LEDGER_TASK": "t_a", "LEDGER_RUN": "1", "LEDGER_LOCK": "x"}
    refuses(nothing, lines_of(lived_in), Forbidden, "import is not a worker's", environ=environ)


# Whoever dies meanwhile


def test_a_page_is_written_whole_or_not_at_all(lived_in, nothing, elsewhere, monkeypatch):
    """RULES §7: events and projections stand together at every moment; a repeat goes on where it died."""
    monkeypatch.setattr(jsonl, "PAGE", 10)
    catch_up, pages = jsonl.catch_up, []

    def dies(tx, board, recorded):
        catch_up(tx, board, recorded)
        pages.append(len(recorded))
        if len(pages) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(jsonl, "catch_up", dies)
    with pytest.raises(KeyboardInterrupt):
        bring(nothing, lines_of(lived_in))
    assert elsewhere().read() == lived_in.read()[:10]
    assert audit(elsewhere()).divergences == ()
    assert bring(nothing, lines_of(lived_in)).added == 13
    same(lived_in, elsewhere())


# Only looking


def test_a_dry_run_says_what_would_come_of_it(lived_in, nothing):
    """CLI: `--dry-run`: nothing is made."""
    made = bring(nothing, lines_of(lived_in), dry_run=True)
    assert (made.created, made.added, made.lines, made.end.position, made.replay) == (True, 23, 23, 23, None)
    assert (made.as_json()["changed"], made.as_json()["dry_run"], made.as_json()["digest"]) == (False, True, None)
    with pytest.raises(StoreMissing):
        open_store(nothing)


def test_a_dry_run_into_a_board_writes_nothing(lived_in, half, elsewhere):
    """CLI: `--dry-run`: and says how much is missing."""
    made = bring(half, lines_of(lived_in), dry_run=True)
    assert (made.created, made.added, made.end.position) == (False, 13, 23)
    assert elsewhere().read() == lived_in.read()[:10]
    shorter = bring(half, lines_of(lived_in, until=5), dry_run=True)
    assert (shorter.added, shorter.end.position) == (0, 10)


def test_a_dry_run_refuses_what_the_real_one_would(lived_in, half, elsewhere):
    """CLI: `--dry-run`: bad lines, gaps and other histories."""
    elsewhere().append(given.commented("here"), task="t_p")
    refuses(half, lines_of(lived_in), OtherHistory, "part at position 11", dry_run=True)
    refuses(half, lines_of(lived_in, after=20), Gap, "begins at position 21", dry_run=True)
    refuses(half, [*lines_of(lived_in)[:3], b"x"], BadLine, "line 4", dry_run=True)


def test_canonical_is_what_is_stored(board):
    """RULES §10: from the values of an export the stored bytes are made again."""
    for event in board.read():
        assert canonical(json.loads(event.facts_text)) == event.facts_text
        assert canonical(event.words) == event.words_text
