"""How a worker ended, as the files of its run say it (RULES §6), and where those files lie (DESIGN §4)."""

import json
import os
import stat
import threading
import time

import pytest

from kanban import evidence, folders
from kanban.evidence import (
    NO_EVIDENCE,
    Owned,
    owner_result,
    read_evidence,
    redact,
    summary_of,
    wants_quota,
    write_exit_record,
    write_owner_result,
)
from ledger.errors import InvalidInput
from tests.fleets import at_once

RUN = 3
EXIT = "[kanban-worker-exit]"
OWNED = Owned("t_1", RUN, "its hash", 4242, 777)
"""The owner that took the run's turns, as its binding in the log and the claim name it."""


def record(**changes):
    said = {"schema": 1, "task": "t_1", "run": RUN, "code": 0, "signal": None, "ended_at": 1_700_000_000_000_000}
    return json.dumps({**said, **changes})


def owner_record(**changes):
    """What the owner of the turns writes."""
    return record(**{**OWNED._asdict(), **changes})


def as_of_owner(text):
    """The record *text*, if it is one, with all that an owner's result names besides."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(OWNED._asdict() | said) if isinstance(said, dict) else text


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def of_log(folder):
    """The evidence of a run whose folder holds this log alone."""

    def read(log, run=RUN):
        (folder / "log").write_bytes(log if isinstance(log, bytes) else log.encode())
        return read_evidence(folder, run)

    return read


def witness(found):
    return found.witness, found.code, found.signal


def test_an_empty_folder_says_nothing(folder):
    """RULES §6: the last witness is none."""
    assert read_evidence(folder, RUN) == NO_EVIDENCE
    assert read_evidence(folder / "missing", RUN) == NO_EVIDENCE


def test_the_witnesses_are_heard_in_order(folder):
    """RULES §6: exit record, then owner result, then trailer, then none."""
    (folder / "log").write_text(f"{EXIT} rc=3 run={RUN}\n")
    (folder / "owner.json").write_text(owner_record(code=2))
    (folder / "exit.json").write_text(record(code=1))
    heard = []
    for file in ("exit.json", "owner.json", "log"):
        heard.append(witness(read_evidence(folder, RUN, OWNED)))
        (folder / file).unlink()
    assert heard == [("exit_record", 1, None), ("owner_result", 2, None), ("trailer", 3, None)]
    assert witness(read_evidence(folder, RUN, OWNED)) == ("none", None, None)


def test_an_owners_result_is_read_as_it_was_written(folder):
    """RULES §6: it names card, run, the hash of the lock, and the process that took the turns."""
    write_owner_result(folder, OWNED, 75, "the wall", 1_800_000_000.5)
    assert witness(read_evidence(folder, RUN, OWNED)) == ("owner_result", 75, None)
    wrote = owner_result(folder, "t_1", RUN, "its hash")
    assert (wrote["reply"], wrote["resets_at"]) == ("the wall", 1_800_000_000.5)
    assert (folder / "owner.json").stat().st_mode & 0o777 == 0o600
    write_owner_result(folder, OWNED, 0, "x" * 100_000, None)
    assert owner_result(folder, "t_1", RUN, "its hash")["reply"] == "x" * 2_000


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "t_2"}, {"task": None}, {"run": RUN + 1}, {"lock_hash": "another's"}, {"lock_hash": None},
        {"pid": 4243}, {"pid": "4242"}, {"start_tick": 778}, {"start_tick": True}, {"schema": 2}, {"code": 256},
    ],
)  # fmt: skip
def test_the_result_of_another_owner_or_claim_is_no_evidence(folder, changes):
    """RULES §6: junk and what is foreign bears no witness; the next one is heard."""
    (folder / "owner.json").write_text(owner_record(**changes))
    (folder / "log").write_text(f"{EXIT} rc=75\n")
    assert witness(read_evidence(folder, RUN, OWNED)) == ("trailer", 75, None)


def test_a_run_whose_turns_no_owner_took_has_no_owners_result(folder):
    """RULES §6: whatever lies in its folder."""
    (folder / "owner.json").write_text(owner_record())
    assert read_evidence(folder, RUN) == NO_EVIDENCE


def test_a_record_says_a_code_or_a_signal(folder):
    """RULES §6: signals HUP, INT and TERM are asked for; the record keeps them apart from codes."""
    (folder / "exit.json").write_text(record(code=None, signal=9))
    assert witness(read_evidence(folder, RUN)) == ("exit_record", None, 9)


@pytest.mark.parametrize("file", ["exit.json", "owner.json"])
@pytest.mark.parametrize(
    "text",
    [
        record()[:-9],
        "",
        "\0" * 40,
        "[" * 100_000,
        "[]",
        "null",
        record(run=2),
        record(run=None),
        record(run="3"),
        record(schema=2),
        record(code=None),
        record(code=1, signal=9),
        record(code=True),
        record(code="0"),
        record(code=0.0),
        record(code=256),
        record(code=-9),
        record(code=None, signal=0),
        record(code=None, signal="9"),
    ],
)
def test_a_record_that_is_torn_foreign_or_newer_is_no_evidence(folder, file, text):
    """RULES §6: only a whole record of this run counts; the next witness is heard instead."""
    (folder / file).write_text(as_of_owner(text) if file == "owner.json" else text)
    (folder / "log").write_text(f"{EXIT} rc=75\n")
    assert witness(read_evidence(folder, RUN, OWNED)) == ("trailer", 75, None)


def test_run_one_is_not_true(folder):
    """RULES §6: a record names its run by number."""
    (folder / "exit.json").write_text(record(run=True))
    assert read_evidence(folder, 1) == NO_EVIDENCE


def test_bytes_that_are_no_utf8_are_no_record(folder):
    """RULES §6: garbage is no evidence and raises nothing."""
    (folder / "exit.json").write_bytes(b"\xff\xfe" + record().encode())
    assert read_evidence(folder, RUN) == NO_EVIDENCE


@pytest.mark.parametrize("file", ["exit.json", "owner.json", "log", "result", "ending"])
@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to(path)])
def test_what_is_no_file_is_no_evidence_and_nobody_waits(folder, file, put):
    """RULES §7: a worker that leaves a pipe in its folder does not stop the sweep."""
    put(folder / file)
    found = read_evidence(folder, RUN, OWNED)
    assert found == NO_EVIDENCE
    assert summary_of(folder, found, "file") is None
    assert folders.read_ending(folder) is None


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (f"{EXIT} rc=0", 0),
        (f"hello\n{EXIT} rc=75\n", 75),
        (f"hello\n{EXIT} rc=75 run=3\n", 75),
        (f"hello\r\n{EXIT} rc=75\r\n", 75),
        (f"{EXIT} rc=75\nlater output of a child\n", 75),
        (f"{EXIT} rc=1\n{EXIT} rc=0\n", 0),
        (f"{EXIT} rc=1 run=3\n{EXIT} rc=0 run=2\n", 1),
        (f"{EXIT} rc=0 run=33\n", None),
        (f"{EXIT} rc=0 run=03\n", None),
        (f"{EXIT} rc=0 run=\n", None),
        (f"{EXIT} rc=0  run=3\n", None),
        (f"{EXIT} rc=0 \n", None),
        (f" {EXIT} rc=0\n", None),
        (f"it said {EXIT} rc=0\n", None),
        (f"{EXIT} rc=0 and more\n", None),
        (f"progress\r{EXIT} rc=0\n", None),
        (f"line\u2028{EXIT} rc=0\n", None),
        (f"line\x0b{EXIT} rc=0\n", None),
        (f"{EXIT} rc=\n", None),
        (f"{EXIT} rc=-1\n", None),
        (f"{EXIT} rc=٣\n", None),
        (f"{EXIT} rc={'9' * 5000}\n", None),
        ("kanban-worker-exit rc=0\n", None),
        ("", None),
    ],
)
def test_the_trailer_is_a_whole_line_of_this_run(of_log, log, code):
    """RULES §6: a whole line, the last match; a line naming another run is no evidence."""
    assert witness(of_log(log)) == (("none", None, None) if code is None else ("trailer", code, None))


@pytest.mark.parametrize(("after", "code"), [(4000, 0), (4001, None), (3999, 0), (9000, None)])
def test_the_trailer_must_lie_whole_in_the_last_4000_bytes(of_log, after, code):
    """RULES §6: the last 4,000 bytes count, and a line that the cut left a part of is no whole line."""
    trailer = f"{EXIT} rc=0\n".encode()
    log = b"before\n" * 100 + trailer + b"x" * (after - len(trailer))
    assert of_log(log).code == code


def test_a_line_that_the_cut_makes_a_trailer_is_none(of_log):
    """RULES §6: the first partial line is dropped: it may end like a trailer."""
    trailer = f"{EXIT} rc=0\n".encode()
    assert witness(of_log(b"quoted: " + trailer + b"x" * (4000 - len(trailer)))) == ("none", None, None)


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        (f"{EXIT} rc=75\n{EXIT} reset=1700000000\n", 1_700_000_000_000_000),
        (f"{EXIT} rc=75\n{EXIT} reset=1700000000.25\n{EXIT} rc=75 run=3\n", 1_700_000_000_250_000),
        (f"{EXIT} reset=5\n{EXIT} reset=7\n", 7_000_000),
        (f"{EXIT} reset=1700000000.1234567\n", 1_700_000_000_123_456),
        (f"{EXIT} reset=\n", None),
        (f"{EXIT} reset=-5\n", None),
        (f"{EXIT} reset=soon\n", None),
        (f"then {EXIT} reset=5\n", None),
        (f"{EXIT} reset={'9' * 30}\n", None),
    ],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_reset_is_read_whatever_the_witness(folder, of_log, lines, asked, recorded):
    """RULES §6: a reset line may follow the trailer; the last one counts."""
    if recorded:
        (folder / "exit.json").write_text(record(code=75))
    assert of_log(lines).reset_asked == asked


def test_last_words_are_the_workers_own(of_log):
    """RULES §6: trailer and reset are stripped, also those that name another run."""
    log = f"one\n{EXIT} rc=1 run=2\ntwo\n\n{EXIT} rc=75\n{EXIT} reset=5\n\n{EXIT} rc=75 run=3\n"
    found = of_log(log)
    assert found.last_words == "one\ntwo"
    assert found.last_lines == ("one", "two")


def test_last_words_are_at_most_400_characters(of_log):
    """RULES §2: at most 400 characters, the last ones, of whatever script."""
    found = of_log("ä" * 3000 + "\n" + "€" * 399 + "!\n")
    assert found.last_words == "€" * 399 + "!"


@pytest.mark.parametrize("log", ["", "\n \n\t\n", f"{EXIT} rc=0 run=3\n", "\0\0\0"])
def test_no_words_are_none(of_log, log):
    """RULES §6: a worker that said nothing has no last words, not empty ones."""
    found = of_log(log)
    assert found.last_words is None
    assert found.last_lines == ()


def test_one_long_line_keeps_its_end(of_log):
    """RULES §6: agents print their result as one line of JSON, longer than what is read of the log."""
    found = of_log("x" * 9000 + "You've hit your limit\n" + f"{EXIT} rc=1 run=3\n")
    assert found.last_words.endswith("x You've hit your limit".replace(" ", "", 1))
    assert len(found.last_words) == 400
    assert wants_quota(found, ("hit your limit",))


def test_words_are_made_fit_to_store_and_to_print(of_log):
    """RULES §10: NUL cannot be stored; what a terminal would obey, and bytes that are no text, do not come along."""
    found = of_log(b"\x1b[31mred\x1b[0m\0 \xff\x1b]0;title\x07\r\n10%\r100%\x07\n")
    assert found.last_words == "red �\n10%\n100%"


@pytest.mark.parametrize(
    ("lines", "patterns", "wanted"),
    [
        ("a\nYou've hit your limit\n\n  \nb\nc\n", ("^You.ve hit your .*limit",), True),
        ("You've hit your limit\nb\nc\nd\n", ("^You.ve hit your .*limit",), False),
        ("b\nc\nlimit\n", ("nothing", "limit$"), True),
        ("b\nc\nlimit\n", (), False),
        ("\x1b[1mlimit\x1b[0m\n", ("^limit$",), True),
        ("", ("",), False),
    ],
)
@pytest.mark.parametrize("trailer", ["", f"{EXIT} rc=1 run=3\n"])
def test_quota_patterns_look_at_three_lines(of_log, lines, patterns, wanted, trailer):
    """RULES §6: a quota pattern counts on one of the last three lines that are not empty, trailer stripped."""
    assert wants_quota(of_log(lines + trailer), patterns) is wanted


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key sk-ant-api03-AbCdEf0123 ok", "key [redacted] ok"),
        ("sk_live_abcdefgh1234", "[redacted]"),
        ("ghp_" + "a1" * 18, "[redacted]"),
        ("github_pat_" + "a1" * 20, "[redacted]"),
        ("xoxb-1234567890-abc", "[redacted]"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer [redacted]"),
        ("password=hunter2 next", "password=[redacted] next"),
        ("to\u212aen=abc, pa\u017fsword=abc", "to\u212aen=[redacted], pa\u017fsword=[redacted]"),
        (
            "ap\u0131_key=abc, author\u0131zation: bas\u0131c YWRhOmFkYQ==",
            "ap\u0131_key=[redacted], author\u0131zation: bas\u0131c [redacted]",
        ),
        ('{"token": "abc", "n": 1}', '{"token": [redacted], "n": 1}'),
        ("OPENAI_API_KEY='x y' z", "OPENAI_API_KEY=[redacted] z"),
        ("api-key: abc", "api-key: [redacted]"),
        ("postgresql+psycopg://ledger:p@ss@db/x", "postgresql+psycopg://[redacted]@db/x"),
        ("LEDGER_LOCK=abc_def", "LEDGER_LOCK=[redacted]"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
        ("a\n-----BEGIN PRIVATE KEY-----\nMIIE\nnever ended", "a\n[redacted]"),
        ("MIIEabc\nabcd/+==\n-----END PRIVATE KEY-----\nb", "[redacted]\nb"),
        ("risk-averse, 500 tokens: https://example.com/a:b", "risk-averse, 500 tokens: https://example.com/a:b"),
    ],
)
def test_secrets_are_redacted(text, left):
    """RULES §2: last words are redacted before they enter a log that nobody can edit."""
    assert redact(text) == left
    assert redact(left) == left


def test_a_secret_is_redacted_before_the_cut(of_log):
    """RULES §2: a key that the 400 characters cut in two must not leave its second half."""
    found = of_log("sk-" + "a" * 200 + " " + "b" * 300 + "\n")
    assert "a" not in found.last_words.replace("[redacted]", "")


@pytest.mark.parametrize(
    ("begins", "goes_on", "ends"),
    [
        ("Bearer\n\n", "a1", ""),
        ("authorization: \nBASIC\n", "a1", ""),
        ("token\n = \n", "a1", ""),
        ("token", " \n", "= abcdefgh"),
        ("password:\n\n", "a1", ""),
        ("-----BEGIN PRIVATE KEY-----\n", "MIIE\n", "-----END PRIVATE KEY-----"),
        ("-----BEGIN PRIVATE KEY-----\n", "MIIE, \n", ""),
        ("", "MIIE\n", "-----END PRIVATE KEY-----"),
        ("sk-", "a1", ""),
        ("https://ada:", "x", "@host"),
    ],
)
def test_a_secret_is_redacted_wherever_it_begins(of_log, begins, goes_on, ends):
    """RULES §2: however far before the end, and over however many lines: no part of it is left."""
    secret = begins + (goes_on * 600)[:600] + ends
    for away in range(0, 400, 3):
        log = "a line.\n" * 200 + secret + "\n" + ("more. " * 100)[:away]
        assert of_log(log).last_words == redact(log).strip()[-400:].strip(), away


def test_redaction_stays_fast_on_hostile_output(of_log):
    """RULES §7: a worker's output cannot hold the sweep up."""
    with at_once(2):
        for line in ("abcd\n", "token", "a://", "-----BEGIN PRIVATE KEY-----", "password=", "\x1b]", "a+"):
            of_log(line * (4000 // len(line)))


@pytest.mark.parametrize(
    ("how", "summary"),
    [("last-lines", "said last"), ("file:{result_file}", "wrote this"), ("file", "wrote this"), ("none", None)],
)
def test_the_summary_is_where_the_assignee_leaves_it(folder, of_log, how, summary):
    """RULES §6: on_success takes its summary as the assignee's `result` says."""
    (folder / "result").write_text("\nwrote this\n")
    assert summary_of(folder, of_log("said last\n"), how) == summary


@pytest.mark.parametrize("content", [b"", b" \n", b"\0\0"])
def test_an_empty_result_is_none(folder, content):
    """RULES §6: no summary is better than an empty one."""
    (folder / "result").write_bytes(content)
    assert summary_of(folder, NO_EVIDENCE, "file") is None


def test_a_result_is_cut_at_64_kib(folder):
    """DESIGN §4: the result file is a summary, not a transfer."""
    (folder / "result").write_text("x" * 100_000)
    assert len(summary_of(folder, NO_EVIDENCE, "file")) == 64 * 1024


def test_the_claimers_record_reads_like_a_supervisors(folder):
    """RULES §6: the spawn itself failed: the claimer writes record 127, whole and in place of none."""
    write_exit_record(folder / "made", "t_1", RUN, 127)
    assert witness(read_evidence(folder / "made", RUN)) == ("exit_record", 127, None)
    said = json.loads((folder / "made" / "exit.json").read_text())
    assert set(said) == {"schema", "task", "run", "code", "signal", "ended_at"}
    assert abs(said["ended_at"] - time.time_ns() // 1000) < 60_000_000
    assert [file.name for file in (folder / "made").iterdir()] == ["exit.json"]


def test_a_record_that_cannot_be_finished_leaves_none(folder, monkeypatch):
    """RULES §6: a claimer killed in between leaves no torn record behind."""

    def die(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(folders.os, "fsync", die)
    with pytest.raises(KeyboardInterrupt):
        write_exit_record(folder, "t_1", RUN, 127)
    assert not (folder / "exit.json").exists()


def test_the_first_ending_wins(folder):
    """RULES §6: the first tick that sees the supervisor gone writes the time, and every tick counts from there."""
    assert folders.read_ending(folder) is None
    folders.write_ending(folder, 5_000_000)
    folders.write_ending(folder, 9_000_000)
    assert folders.read_ending(folder) == 5_000_000
    assert [file.name for file in folder.iterdir()] == ["ending"]


def test_of_many_endings_at_once_one_stays(folder):
    """RULES §6: two sweeps that see the same death count from the same instant."""
    together = threading.Barrier(8)
    seen = []

    def note(at):
        together.wait()
        folders.write_ending(folder, at)
        seen.append(folders.read_ending(folder))

    threads = [threading.Thread(target=note, args=(at,)) for at in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1


@pytest.mark.parametrize("garbage", ["", "soon", "-5", "1_000", "9" * 40, "5\0"])
def test_an_ending_that_is_garbage_is_written_again(folder, garbage):
    """RULES §6: a torn file must not keep a group from its KILL for ever."""
    (folder / "ending").write_text(garbage)
    assert folders.read_ending(folder) is None
    folders.write_ending(folder, 7_000_000)
    assert folders.read_ending(folder) == 7_000_000


def test_the_folders_are_where_the_design_says(tmp_path):
    """DESIGN §4: <home>/boards/<board>/runs/<task>/<run>, and scratch beside it."""
    assert folders.run_folder(tmp_path, "b", "t_1", 3) == tmp_path / "boards" / "b" / "runs" / "t_1" / "3"
    assert folders.scratch_folder(tmp_path, "b", "t_1") == tmp_path / "boards" / "b" / "scratch" / "t_1"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "a\\b", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    """DESIGN §4: nothing that a card is called writes outside the home folder."""
    for folder_of in (folders.run_folder, folders.scratch_folder, folders.worktree_folder):
        run = (1,) if folder_of is folders.run_folder else ()
        with pytest.raises(InvalidInput, match="cannot name a folder"):
            folder_of(tmp_path, name, "t_1", *run)
        with pytest.raises(InvalidInput, match="cannot name a folder"):
            folder_of(tmp_path, "b", name, *run)


def test_folders_are_made_private_with_their_parents(tmp_path):
    """DESIGN §4: prompts, logs and results are the operator's alone; folders that were there keep their mode."""
    tmp_path.chmod(0o755)
    made = folders.make_private(tmp_path / "a" / "b")
    assert folders.make_private(made) == made
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, tmp_path / "a", made)]
    assert modes == [0o755, 0o700, 0o700]
    made.chmod(0o755)
    folders.make_private(made)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_evidence_never_shows_raw_control_bytes():
    """RULES §10: what is stored can be stored on every engine."""
    assert evidence._printable("a\x85b\x7fc\x00\td\n") == "abc\td\n"


def test_secrets_in_a_result_file_do_not_reach_the_log(tmp_path):
    """What becomes a summary stands in the log for ever, so it is redacted before (RULES §6)."""
    (tmp_path / "result").write_text("done with sk-abcdefghijklmnopqrstuvwxyz0123456789")

    assert summary_of(tmp_path, NO_EVIDENCE, "file:{result_file}") == "done with [redacted]"
