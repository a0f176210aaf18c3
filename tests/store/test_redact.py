"""Words deleted for good: row, salt and traces; everything that reads the log goes on without them (RULES §2, §10)."""

from __future__ import annotations

import json
from contextlib import suppress
from types import SimpleNamespace

import pytest
from sqlalchemy import event, select

from kanban import session
from kanban.at_desk import at_desk
from kanban.board import Board
from kanban.commands import Decision
from kanban.config import Config
from kanban.desk import Desk
from kanban.endings import ending
from kanban.folders import run_folder, scratch_folder
from kanban.hosts import this_host
from kanban.prompt import compose
from kanban.refusals import Conflict, NoWords
from kanban.starting import prompt_card
from ledger import erasing
from ledger.database import reading, writing
from ledger.errors import UnknownPosition
from ledger.schema import words
from projections import goals, read_models
from projections.verify import verify
from projections.why import TOPICS
from tests import audits, given, ledgers
from tests.audits import audit, outside
from tests.engines import on

SECRET = "sk-live-0123456789"


def opened(store, home):
    """The board of *store*, as an operator opens it on this host."""
    return Board(
        store.engine, ledgers.BOARD, url=store.url, home=home, clock=store.clock, environ={"USER": "ada"},
        loaded=SimpleNamespace(config=Config()),
    )  # fmt: skip


@pytest.fixture
def office(board, tmp_path):
    """An operator at the lived-in board."""
    return opened(board, tmp_path / "home")


@pytest.fixture
def desk(store, tmp_path):
    """An operator at a board without cards."""
    return opened(store, tmp_path / "home")


def worded(store):
    """The positions that have words."""
    with reading(store.engine) as tx:
        found = tx.execute(select(words.c.position).where(words.c.board == ledgers.BOARD).order_by(words.c.position))
        return list(found.scalars())


def test_words_and_salt_are_gone_and_one_event_says_so(board, office):
    """RULES §10: both are deleted, the digest stays, and the chain holds."""
    before = board.read()[22]
    gone = office.redact(23, reason="a key")
    *_, redacted = board.read()
    assert (gone.redacted, gone.task, gone.kind, gone.changed, gone.position) == (23, "t_p", "commented", True, 24)
    said = (redacted.task, redacted.kind, redacted.facts, redacted.actor_name)
    assert said == ("t_p", "redacted", {"redacts": 23}, "ada")
    assert board.read()[22] == before._replace(salt=None, words_text=None)
    assert ledgers.faults(board) == []


def test_nothing_is_deleted_where_nothing_is_written(board, office, monkeypatch):
    """RULES §10: one transaction: whoever dies in between has deleted nothing."""

    def dies(_point):
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "reach", dies)
    before = board.read()
    with pytest.raises(KeyboardInterrupt):
        office.redact(23)
    assert board.read() == before


def test_twice_is_once(board, office):
    """RULES §8: exit 0, `changed` false, no event."""
    office.redact(23)
    again = office.redact(23)
    assert (again.changed, again.position, board.head().position) == (False, 24, 24)


def test_words_that_another_program_deleted_are_explained(board, office):
    """RULES §10: whatever else was redacted on that card: a replay has nothing to say any more."""
    outside(board, "DELETE FROM words WHERE position = 20")
    assert [each.position for each in audit(board).divergences] == [20]
    assert office.redact(20).changed
    assert audit(board).divergences == ()
    assert not office.redact(20).changed


@pytest.mark.parametrize("position", [24, 0, 2**70])
def test_a_position_where_nothing_stands_is_named(board, office, position):
    """CLI: exit 5; whatever number it is."""
    with pytest.raises(UnknownPosition):
        office.redact(position)
    assert board.head().position == 23


def test_words_that_came_back_are_named_and_go_again(board, office):
    """RULES §10: somebody put them back from a backup; a verification says so."""
    ((salt, text),) = _rows(board, 23)
    office.redact(23)
    with writing(board.engine) as tx:
        tx.execute(words.insert().values(board=ledgers.BOARD, position=23, salt=salt, words=text))
    outside(board, "DELETE FROM words WHERE position = 21")
    (back,) = verify(board.engine, ledgers.BOARD).divergences
    assert (back.position, back.rule) == (23, "§10 words")
    assert "though position 24 says that they are gone" in back.text
    assert office.redact(23).changed
    assert verify(board.engine, ledgers.BOARD).divergences == ()


def _rows(store, position):
    with reading(store.engine) as tx:
        return tx.execute(select(words.c.salt, words.c.words).where(words.c.position == position)).all()


def test_a_reason_can_go_as_well(board, office):
    """RULES §2: the `redacted` stays, what it said does not; what it redacted is still gone by it."""
    office.redact(23, reason=SECRET)
    office.redact(24)
    assert [event.words_text for event in board.read(after=22)][:2] == [None, None]
    assert audit(board).divergences == ()


def test_the_boards_own_stream_has_words_too(board, office):
    """RULES §2: the reason of a pause."""
    gone = office.redact(3)
    assert (gone.task, gone.as_json()["task"], gone.kind) == ("", None, "paused")
    assert board.read()[-1].task == ""
    assert audit(board, strict=True).divergences == ()


def test_another_boards_words_stay(board, office):
    """DESIGN §3: board is the first column of every key."""
    ledgers.new_board(board, "c", "c" * 32)
    for number in range(22):
        board.append(given.commented(str(number)), task="t_z", board="c", expected=number)
    office.redact(23)
    assert all(event.words_text for event in board.read(board="c"))


def test_folds_say_the_same_without_any_word(board, office):
    """RULES §2: words are read by no fold and no budget; status, counters, runs and holds stay."""
    before = board.world()
    for position in worded(board):
        _redact_if_it_says_something(office, position)
    after = board.world()
    assert after.runs == before.runs
    assert [card._replace(position=0, version=0, updated_at=0) for card in after.tasks.values()] == [
        card._replace(position=0, version=0, updated_at=0) for card in before.tasks.values()
    ]
    assert not any(said for event in board.read() if event.kind != "redacted" for said in event.words.values() if said)


def _redact_if_it_says_something(office, position):
    with suppress(NoWords):
        office.redact(position, thoroughly=False)


@pytest.fixture
def wordless(board, office):
    """The lived-in board without any word."""
    for position in worded(board):
        _redact_if_it_says_something(office, position)
    return board


def test_every_check_passes_without_any_word(wordless):
    """RULES §9–10: replay, strict or not, and verify."""
    assert audit(wordless, strict=True).divergences == ()
    assert verify(wordless.engine, ledgers.BOARD).divergences == ()
    assert ledgers.faults(wordless) == []


def test_every_question_is_answered_without_any_word(wordless, office):
    """RULES §2: titles, bodies, reasons and last words read as none."""
    assert [card["title"] for card in office.tasks()["tasks"]] == [None, None]
    assert {card.title for card in office.cards().cards} == {None}
    for card in ("t_a", "t_p"):
        shown = office.show(card)
        assert (shown["task"]["title"], shown["task"]["body"]) == (None, None)
        assert {comment["body"] for comment in shown["comments"]} == {None}
        assert {run["last_words"] or run["summary"] for run in shown["runs"]} == {None}
        for topic in (None, *TOPICS):
            assert "WORD" not in json.dumps(office.why(card, topic))
    assert office.columns()["columns"]["blocked"][0]["hold"]["reason"] is None
    assert "WORD" not in json.dumps([event.words for event in office.events()])


def test_a_prompt_is_made_without_any_word(wordless, office):
    """DESIGN §4: the next worker is told what is left: parents, runs and comments without their text."""
    with office.look() as desk:
        text = compose(prompt_card(desk, desk.task("t_a")))
    assert "t_p" in text
    assert "ledger complete" in text
    assert not {"WORD", "Secret", "Card\n", "Parent"} & set(text.split())


def test_a_goal_without_words_is_empty(wordless):
    """A worker's turns go on, with nothing to reach."""
    assert goals.goal_of(wordless.url, ledgers.BOARD, "t_a", 1).text == ""


def test_a_request_that_was_redacted_is_still_known_by_its_key(desk):
    """RULES §2: redacted words equal nothing, so the key is taken; RULES §8: a command's id gets its first answer."""
    first = desk.create("Secret", key="k", command_id="c-1")
    desk.redact(2)
    with pytest.raises(Conflict):
        desk.create("Secret", key="k")
    again = desk.create("Secret", key="k", command_id="c-1")
    assert (again.replayed, again.task["id"], again.task["title"]) == (True, first.task["id"], None)


def test_a_title_can_be_given_anew(desk):
    """RULES §2: redacted words equal nothing: the same title is another one."""
    card = desk.create("Secret").task["id"]
    desk.redact(2)
    assert desk.edit(card, title="Secret").changed


def test_a_wish_without_words_is_granted(store, desk):
    """RULES §2: it is applied without them, by whatever ends the run."""
    store.append(given.created(), given.claimed(by="hand"))
    desk.block("t_a", SECRET, force=True)
    (stop,) = [event for event in store.read() if event.kind == "stop_requested"]
    desk.redact(stop.position)
    with at_desk(store.engine, ledgers.BOARD, store.clock) as at:
        at.write(_ended(at))
    assert desk.show("t_a")["task"]["hold"]["reason"] is None
    assert SECRET not in json.dumps([event.words for event in store.read()])


def _ended(desk: Desk) -> Decision:
    drafts, _ = ending(desk, desk.run("t_a", 1), given.exited(1, "crashed"), given.SWEEP)
    return Decision(tuple(drafts))


# What else holds them


def test_what_says_the_same_on_that_card_is_named(store, desk):
    """A granted wish and an accepted result repeat what was said; each position is named with its command."""
    store.append(given.created(), given.claimed(), given.exited(1), given.late_result(1, summary=SECRET))
    desk.accept("t_a", 1)
    (note,) = [note for note in desk.redact(5).notes if "says the same" in note]
    assert note == "position 6 (completed) says the same: ledger redact 6"
    assert not [note for note in desk.redact(6).notes if "says the same" in note]


def test_names_of_fields_are_nothing_that_was_said(store, desk):
    """Two wishes have a reason each; they do not say the same."""
    store.append(given.created(), given.claimed())
    for reason in ("this", "that"):
        desk.block("t_a", reason, force=True)
    assert not [note for note in desk.redact(4).notes if "says the same" in note]


def test_files_of_its_runs_and_of_those_who_waited_for_it_are_named(store, desk, tmp_path):
    """DESIGN §4: prompts hold title, body, comments, and summaries of parents; workspaces hold anything."""
    workspace = tmp_path / "own"
    store.append(given.created(workspace=f"dir:{workspace}"))
    store.append(given.created(parents=["t_a"]), task="t_child")
    store.append(given.created(), task="t_other")
    folders = [run_folder(desk.home, "b", card, 1).parent for card in ("t_a", "t_child", "t_other")]
    for folder in (*folders, scratch_folder(desk.home, "b", "t_child"), workspace):
        folder.mkdir(parents=True)
    notes = " ".join(desk.redact(2).notes)
    for folder in (*folders[:2], scratch_folder(desk.home, "b", "t_child"), workspace):
        assert f"look also into {folder}" in notes
    assert str(folders[2]) not in notes
    assert "backups, exports and copies" in notes


def test_other_hosts_that_were_told_are_named(store, desk):
    """Their prompts and logs are theirs to look after."""
    here = this_host(desk.home).id
    store.append(given.created(), given.claimed(host=here), given.exited(1), given.claimed(2, host="node-8"))
    store.append(given.created(parents=["t_a"]), given.claimed(host="node-9"), task="t_child")
    notes = " ".join(desk.redact(2).notes)
    assert "on other hosts too: node-8, node-9" in notes
    assert here not in notes


# What the database keeps


def traces(store, text):
    """How often *text* stands in any of the store's files."""
    files = [path for path in store.path.parent.glob(f"{store.path.name}*") if path.suffix != ".gate"]
    return sum(path.read_bytes().count(text.encode()) for path in files)


@on("sqlite")
def test_no_page_of_the_store_keeps_a_trace(store, desk):
    """RULES §10: SQLite leaves copies behind wherever it has moved a row; the file is written anew."""
    event.listen(store.engine, "begin", lambda tx: tx.exec_driver_sql("PRAGMA secure_delete=OFF"))
    for number in range(400):
        store.append(given.commented(f"{SECRET}-{number:03} {'x' * (number % 300)}"), task=f"t_{number}")
    for number in range(0, 400, 20):
        desk.redact(2 + number, thoroughly=number == 380)
    assert traces(store, f"{SECRET}-001") > 0
    assert [number for number in range(0, 400, 20) if traces(store, f"{SECRET}-{number:03}")] == []


@on("sqlite")
def test_a_trace_that_had_to_stay_is_said(store, desk):
    """A reader keeps the write-ahead log; the words are gone from the log all the same, and the command is named."""
    store.append(given.commented(SECRET))
    store.engine.dispose()
    with ledgers.opened(store.url).engine.connect() as tx:
        tx.exec_driver_sql("PRAGMA busy_timeout=1")
        with reading(store.engine) as reader:
            reader.execute(select(words)).all()
            gone = rewritten_with_little_patience(desk, 2)
    (note,) = [note for note in gone.notes if "pages of the store" in note]
    assert "somebody is reading" in note
    assert note.endswith("ledger redact 2")
    assert desk.redact(2).notes == ("backups, exports and copies of the store that were made before keep these words",)
    assert traces(store, SECRET) == 0


def rewritten_with_little_patience(desk, position):
    """Redact with connections that wait for nobody."""
    event.listen(desk.engine, "begin", lambda tx: tx.exec_driver_sql("PRAGMA busy_timeout=1"))
    return desk.redact(position)


def test_that_the_store_was_not_written_anew_is_said(store, desk, monkeypatch):
    """Whatever kept the database from it; the words are gone from the log."""
    store.append(given.commented(SECRET))
    monkeypatch.setattr("kanban.redacting.rewrite", lambda _: "the disk is full")
    assert "pages of the store may keep a trace, since it was not written anew (the disk is full): ledger redact 2" in (
        desk.redact(2).notes
    )
    (note,) = [note for note in desk.redact(2, thoroughly=False).notes if "pages" in note]
    assert "it was not asked for" in note


def test_a_store_written_anew_is_the_same(board):
    """Nothing but traces is lost by it."""
    before = (board.read(), board.rows(read_models.TASKS), board.head())
    assert erasing.rewrite(board.engine) is None
    assert (board.read(), board.rows(read_models.TASKS), board.head()) == before
    assert audit(board).divergences == ()
    audits.act(board, "t_p", given.commented("on"))
