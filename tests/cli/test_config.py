"""ledger.toml and LEDGER_*: what wins, where it came from, what is not trusted, what a fault names."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kanban.config import FILE, TEMPLATE, Assignee, Config, ConfigFault, home_of, load, resolve_env, values
from ledger.errors import InvalidInput

BUILDER = '[assignees.builder]\ncommand = ["build", "{prompt}"]\n'


@pytest.fixture
def home(tmp_path):
    """A home without a ledger.toml."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def cwd(tmp_path):
    """A working folder without a ledger.toml."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    return folder


def written(folder: Path, text: str, name: str = FILE) -> Path:
    """A file that only its owner can write, whatever the umask."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def fault_of(home: Path, text: str) -> ConfigFault:
    """What loading *text* as the home's ledger.toml raises."""
    written(home, text)
    with pytest.raises(ConfigFault) as raised:
        load(None, {}, home, home)
    return raised.value


def without_comments(template: str) -> str:
    """A setting is commented out by # alone, prose by # and a space."""
    return re.sub(r"^#(?! |$)", "", template, flags=re.MULTILINE)


# What wins


def test_without_files_and_variables_every_setting_has_its_default(home, cwd):
    """No board, no store, no caps, 20 MiB of log, nobody to start."""
    loaded = load(None, {}, cwd, home)
    assert loaded.config == Config()
    assert loaded.config.log_limit == 20 * 1024 * 1024
    assert set(loaded.origins.values()) == {"default"}
    assert (loaded.files, loaded.assignee_file, loaded.skipped) == ((), None, None)


def test_each_source_is_stronger_than_the_next(home, cwd, tmp_path):
    """Flags > LEDGER_* > --config > home > ./ledger.toml: taking away the strongest uncovers the next."""
    named = written(tmp_path, 'board = "named"', "named.toml")
    kept = written(home, 'board = "kept"')
    here = written(cwd, 'board = "here"')
    variables = {"LEDGER_BOARD": "variable"}

    def board(explicit, environ, flags):
        loaded = load(explicit, environ, cwd, home, flags=flags)
        return loaded.config.board, loaded.origins["board"]

    assert board(named, variables, {"board": "flag"}) == ("flag", "--board")
    assert board(named, variables, {"board": None}) == ("variable", "LEDGER_BOARD")
    assert board(named, {}, {}) == ("named", str(named))
    assert board(None, {}, {}) == ("kept", str(kept))
    kept.unlink()
    assert board(None, {}, {}) == ("here", str(here))
    here.unlink()
    assert board(None, {}, {}) == (None, "default")


def test_files_are_merged_key_by_key(home, cwd, tmp_path):
    """A key that a stronger file leaves out is taken from a weaker one."""
    named = written(tmp_path, 'board = "named"', "named.toml")
    kept = written(home, 'board = "kept"\nactor = "kept"')
    here = written(cwd, 'board = "here"\nactor = "here"\nmax_running = 3')
    loaded = load(named, {}, cwd, home)
    assert (loaded.config.board, loaded.config.actor, loaded.config.max_running) == ("named", "kept", 3)
    assert loaded.files == (named, kept, here)
    assert [loaded.origins[name] for name in ("board", "actor", "max_running", "log_limit")] == [
        str(named),
        str(kept),
        str(here),
        "default",
    ]


def test_an_assignee_is_taken_whole_from_the_strongest_file_that_has_it(home, cwd):
    """Half an assignee of one file is never mixed with half of another."""
    kept = written(home, '[assignees.builder]\ncommand = ["kept"]')
    here = written(cwd, '[assignees.builder]\ncommand = ["here"]\nmax_running = 9\n[assignees.dana]\nhuman = true')
    loaded = load(None, {}, cwd, home)
    assert loaded.config.assignees == {
        "builder": Assignee(name="builder", command=("kept",)),
        "dana": Assignee(name="dana", human=True),
    }
    assert loaded.origins["assignees.builder.command"] == str(kept)
    assert loaded.origins["assignees.builder.max_running"] == "default"
    assert loaded.origins["assignees.dana.human"] == str(here)
    assert loaded.assignee_files == (kept, here)
    assert loaded.assignee_file == kept


def test_the_assignees_file_is_the_one_that_gave_them_and_not_the_strongest(home, cwd):
    """A stronger file without assignees in force is not named."""
    written(home, 'board = "kept"')
    here = written(cwd, BUILDER)
    assert load(None, {}, cwd, home).assignee_file == here


def test_a_file_whose_assignees_are_all_overridden_gave_none(home, cwd):
    """`sweep` names only files whose commands it would start."""
    kept = written(home, BUILDER)
    written(cwd, BUILDER)
    assert load(None, {}, cwd, home).assignee_files == (kept,)


def test_every_variable_gives_its_setting(home, cwd):
    """LEDGER_BOARD, LEDGER_DATABASE_URL, LEDGER_ACTOR and LEDGER_MAX_RUNNING, each named as the origin."""
    environ = {
        "LEDGER_BOARD": "b",
        "LEDGER_DATABASE_URL": "sqlite:////tmp/x.db",
        "LEDGER_ACTOR": "a",
        "LEDGER_MAX_RUNNING": "7",
    }
    loaded = load(None, environ, cwd, home)
    assert loaded.config == Config(board="b", database="sqlite:////tmp/x.db", actor="a", max_running=7)
    assert {loaded.origins[name] for name in ("board", "database", "actor", "max_running")} == set(environ)


def test_a_blank_variable_counts_as_unset(home, cwd):
    """`LEDGER_BOARD= ledger list` asks for the file's board; a blank LEDGER_CONFIG names no file."""
    written(home, 'board = "kept"')
    loaded = load(None, {"LEDGER_BOARD": " ", "LEDGER_MAX_RUNNING": "", "LEDGER_CONFIG": ""}, cwd, home)
    assert (loaded.config.board, loaded.config.max_running) == ("kept", None)


@pytest.mark.parametrize("value", ["two", "0", "-1", "1.5", "1000001", "99999999999", "٣"])
def test_a_cap_in_the_environment_that_is_no_number_names_the_variable(home, cwd, value):
    """The variable, what it holds and what is wanted."""
    with pytest.raises(ConfigFault) as raised:
        load(None, {"LEDGER_MAX_RUNNING": value}, cwd, home)
    assert raised.value.message == f'LEDGER_MAX_RUNNING is "{value}"; wanted a whole number from 1 to 1000000'


def test_a_blank_flag_is_a_fault_that_names_it(home, cwd):
    """An empty shell variable behind --board does not silently choose the default board."""
    with pytest.raises(ConfigFault, match=r"^--board is blank; wanted a text$"):
        load(None, {}, cwd, home, flags={"board": ""})


# Which files


def test_ledger_config_names_a_file_and_the_flag_replaces_it(home, cwd, tmp_path):
    """LEDGER_CONFIG stands where --config would; with both only the flag's file is read."""
    flagged = written(tmp_path, 'board = "flagged"', "flagged.toml")
    variable = written(tmp_path, 'board = "variable"\nactor = "variable"', "variable.toml")
    environ = {"LEDGER_CONFIG": str(variable)}
    assert load(None, environ, cwd, home).config.board == "variable"
    assert load(flagged, environ, cwd, home).config == Config(board="flagged")


def test_a_named_file_is_found_from_the_working_folder(home, cwd):
    """A relative --config is relative to where the user stands."""
    path = written(cwd, 'board = "x"', "mine.toml")
    loaded = load(Path("mine.toml"), {}, cwd, home)
    assert loaded.files == (path,)
    assert loaded.origins["board"] == str(path)


@pytest.mark.parametrize("by", ["--config", "LEDGER_CONFIG"])
def test_a_named_file_that_is_missing_is_a_fault(home, cwd, by):
    """The file and who named it are said; nothing weaker is used in its place."""
    missing = cwd / "missing.toml"
    explicit, environ = (missing, {}) if by == "--config" else (None, {by: str(missing)})
    with pytest.raises(ConfigFault) as raised:
        load(explicit, environ, cwd, home)
    assert raised.value.message == f"{missing}: no such file, but {by} names it"
    assert (raised.value.file, raised.value.line) == (missing, None)


def test_a_file_that_cannot_be_read_is_a_fault(home, cwd):
    """It is there, so its settings are meant: going on without them would be wrong."""
    (home / FILE).mkdir()
    with pytest.raises(ConfigFault) as raised:
        load(None, {}, cwd, home)
    assert raised.value.message == f"{home / FILE}: cannot be read: Is a directory"


def test_one_file_under_two_names_is_read_once(home):
    """Standing in the home, or naming its file, makes no second and less trusted copy of it."""
    path = written(home, BUILDER)
    path.chmod(0o666)
    assert load(None, {}, home, home).files == (path,)
    assert load(path, {}, home, home).files == (path,)
    assert load(path, {}, home, home).skipped is None


def test_a_home_that_is_a_file_holds_no_settings(cwd):
    """`init` is the one to complain about such a home."""
    assert load(None, {}, cwd, written(cwd, "", "not-a-folder")).files == ()


# ./ledger.toml defines commands


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_here_that_others_can_write_is_skipped_and_said(home, cwd, mode):
    """Whoever can write it could choose what `sweep` starts."""
    here = written(cwd, BUILDER)
    here.chmod(mode)
    loaded = load(None, {}, cwd, home)
    assert loaded.config.assignees == {}
    assert loaded.skipped == (here, "it is group- or world-writable")


def test_a_file_here_that_others_can_read_is_read(home, cwd):
    """Only writing matters."""
    here = written(cwd, BUILDER)
    here.chmod(0o644)
    assert load(None, {}, cwd, home).files == (here,)


def test_a_file_here_of_another_user_is_skipped_and_said(home, cwd, monkeypatch):
    """A stranger's ledger.toml in /tmp starts nothing."""
    here = written(cwd, BUILDER)
    monkeypatch.setattr(os, "geteuid", lambda: here.stat().st_uid + 1)
    loaded = load(None, {}, cwd, home)
    assert loaded.files == ()
    assert loaded.skipped == (here, "another user owns it")


def test_a_link_here_is_judged_by_what_it_leads_to(home, cwd, tmp_path):
    """The link is the user's own, the file behind it can be written by others."""
    behind = written(tmp_path, BUILDER, "behind.toml")
    here = cwd / FILE
    here.symlink_to(behind)
    assert load(None, {}, cwd, home).files == (here,)
    behind.chmod(0o666)
    assert load(None, {}, cwd, home).skipped == (here, "it is group- or world-writable")
    behind.unlink()
    assert load(None, {}, cwd, home).skipped == (here, "it is a link to nothing")


def test_a_link_of_another_user_is_not_followed_to_a_file_of_ones_own(home, cwd, tmp_path, monkeypatch):
    """In a shared folder a stranger must not choose which of the user's files is read."""
    here, stranger = cwd / FILE, tmp_path.stat().st_uid + 1
    here.symlink_to(written(tmp_path, BUILDER, "own.toml"))
    found = os.stat_result((*here.lstat()[:4], stranger, *here.lstat()[5:10]))
    monkeypatch.setattr(Path, "lstat", lambda _: found)
    assert load(None, {}, cwd, home).skipped == (here, "another user owns it")


def test_what_was_opened_is_judged_and_not_only_its_name(home, cwd, monkeypatch):
    """Behind a link of one's own, or swapped between the look and the opening, the file is another user's."""
    here, look = written(cwd, BUILDER), os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((*look(fd)[:4], look(fd).st_uid + 1, *look(fd)[5:10])))
    assert load(None, {}, cwd, home).skipped == (here, "another user owns it")


def test_a_file_here_that_is_trusted_and_cannot_be_read_is_a_fault(home, cwd):
    """It is the user's own and meant to be read: here a link that leads to itself."""
    (cwd / FILE).symlink_to(FILE)
    with pytest.raises(ConfigFault, match=r"ledger\.toml: cannot be read: Too many levels of symbolic links"):
        load(None, {}, cwd, home)


def test_a_folder_that_cannot_be_looked_into_is_said(home, tmp_path):
    """`sudo -u ledger` from a folder of root's still works."""
    cwd = tmp_path / ("x" * 300)
    assert load(None, {}, cwd, home).skipped == (cwd / FILE, "it cannot be looked at: File name too long")


def test_a_pipe_here_is_skipped_without_waiting_for_a_writer(home, cwd):
    """Opening it must not hang the command."""
    os.mkfifo(cwd / FILE, 0o600)
    assert load(None, {}, cwd, home).skipped == (cwd / FILE, "it is not a regular file")


def test_a_worker_does_not_read_the_file_here(home, cwd):
    """Its folder belongs to an agent; what the home says still holds."""
    here = written(cwd, 'actor = "here"')
    written(home, 'board = "kept"')
    loaded = load(None, {"LEDGER_TASK": "t_1a2b3c"}, cwd, home)
    assert loaded.config == Config(board="kept")
    assert loaded.skipped == (here, "inside a worker (LEDGER_TASK is set)")
    assert load(None, {"LEDGER_TASK": " "}, cwd, home).config.actor == "here"


def test_nothing_here_is_nothing_skipped(home, cwd):
    """A worker in a folder without a ledger.toml gets no remark about it."""
    assert load(None, {"LEDGER_TASK": "t_1a2b3c"}, cwd, home).skipped is None


# The home


def test_the_home_is_ledger_home_else_the_data_folder():
    """LEDGER_HOME, XDG_DATA_HOME, HOME, the user's entry: each when the one before is blank; always absolute."""
    environ = {"LEDGER_HOME": "/l", "XDG_DATA_HOME": "/x", "HOME": "/h"}
    assert home_of(environ) == Path("/l")
    assert home_of({**environ, "LEDGER_HOME": "here"}) == Path.cwd() / "here"
    assert home_of({**environ, "LEDGER_HOME": " "}) == Path("/x/kanban-ledger")
    assert home_of({"XDG_DATA_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/share/kanban-ledger")
    assert home_of({"HOME": "/h"}) == Path("/h/.local/share/kanban-ledger")
    assert home_of({}).is_absolute()


def test_a_user_without_a_home_folder_is_told_what_to_set(monkeypatch):
    """A container's made-up user has neither HOME nor an entry."""
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises(ConfigFault, match="HOME is not set") as raised:
        home_of({})
    assert raised.value.remedy == "export LEDGER_HOME=/path/to/folder"


# Faults


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            'board = "x"\n\n# a comment\n[assignees.builder]\n# another\n\ncomand = ["x"]\n',
            7,
            'unknown key "comand" in [assignees.builder]; did you mean "command"?',
        ),
        ('bord = "x"', 1, 'unknown key "bord"; did you mean "board"?'),
        ("\n[assignee.builder]\nhuman = true", 2, 'unknown key "assignee"; did you mean "assignees"?'),
        (
            "zzz = 1",
            1,
            'unknown key "zzz"; known are actor, assignees, board, database, log_limit, max_running',
        ),
        (
            'assignees.b = { command = ["x"], onsuccess = "review" }',
            1,
            'unknown key "onsuccess" in [assignees.b]; did you mean "on_success"?',
        ),
        (
            '[assignees.b]\ncommand = ["x"]\nname = "c"',
            3,
            'unknown key "name" in [assignees.b]; known are command, env, hosts, human, judge, max_running',
        ),
        (
            '[assignees."a.b"]\ncomand = ["x"]',
            2,
            'unknown key "comand" in [assignees."a.b"]; did you mean "command"?',
        ),
    ],
)
def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_one(home, text, line, said):
    """The file, the line, the table, the key and what was probably meant."""
    fault = fault_of(home, text)
    assert fault.message.startswith(f"{home / FILE}:{line}: {said}")
    assert (fault.file, fault.line) == (home / FILE, line)
    assert isinstance(fault, InvalidInput)


WORDS = 'wanted a list of texts, as ["claude", "-p", "{prompt}"]'
CAP = "wanted a whole number from 1 to 1000000"
NAMES = "wanted 1 to 64 characters without spaces or control characters, other than none"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("board = 1", 1, "board is 1; wanted a text"),
        ('board = " "', 1, "board is blank; wanted a text"),
        ("actor = false", 1, "actor is false; wanted a text"),
        ("actor = {}", 1, "actor is a table; wanted a text"),
        ("\nmax_running = true", 2, f"max_running is true; {CAP}"),
        ("max_running = 0", 1, f"max_running is 0; {CAP}"),
        ('max_running = "4"', 1, f'max_running is "4"; {CAP}'),
        ("max_running = 2026-01-01", 1, f"max_running is a date or time; {CAP}"),
        ('log_limit = "20MB"', 1, 'log_limit is "20MB"; wanted bytes, 1 to 1 TiB, as 20971520 or "20MiB"'),
        ("log_limit = 0", 1, 'log_limit is 0; wanted bytes, 1 to 1 TiB, as 20971520 or "20MiB"'),
        ('log_limit = "1025GiB"', 1, "log_limit is 1100585369600; wanted bytes, 1 to 1 TiB, as 20971520 or"),
        ("assignees = 3", 1, "assignees is 3; wanted a table of tables, as [assignees.builder]"),
        ("[[assignees]]\nb = 3", 1, "assignees is a list; wanted a table of tables, as [assignees.builder]"),
        ("[assignees]\nb = 3", 2, "assignees.b is 3; wanted a table, as [assignees.builder]"),
        ('\n[assignees.b]\ncommand = "x"', 3, f'assignees.b.command is "x"; {WORDS}'),
        (f'[assignees.b]\ncommand = "{"x" * 99}"', 2, f'assignees.b.command is "{"x" * 59}…"; {WORDS}'),
        ('[assignees.b]\nhuman = true\n\ncommand = [\n"x",\n3]', 4, "assignees.b.command[1] is 3; wanted a text"),
        ('assignees.b.human = true\nassignees.b.env = "x"', 2, "assignees.b.env is a text; wanted a table of texts"),
        (f"{BUILDER}env = {{ TOKEN = 12345 }}", 3, "assignees.builder.env.TOKEN is a number; wanted a text"),
        ('database = ["postgresql://u:secret@h/d"]', 1, "database is a list; wanted a text"),
        (f"{BUILDER}human = 1", 3, "assignees.builder.human is 1; wanted true or false"),
        (f'{BUILDER}reviewer = ["dana"]', 3, "assignees.builder.reviewer is a list; wanted the name of an assignee"),
        (f'{BUILDER}quota = "limit"', 3, 'assignees.builder.quota is "limit"; wanted a list of regular expressions'),
        (
            f'{BUILDER}on_success = "done"',
            3,
            'assignees.builder.on_success is "done"; wanted "complete", "review" or "violation"',
        ),
        (
            f'{BUILDER}result = "file:out"',
            3,
            'assignees.builder.result is "file:out"; wanted "last-lines", "file:{result_file}" or "none"',
        ),
    ],
)
def test_a_wrong_type_names_the_dotted_key_the_line_what_was_found_and_what_is_wanted(home, text, line, said):
    """Values that may be secret are described and not repeated."""
    fault = fault_of(home, text)
    assert fault.message.startswith(f"{home / FILE}:{line}: {said}")
    assert fault.line == line
    assert not {"secret", "12345"} & set(re.findall(r"\w+", fault.message))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            f'{BUILDER}quota = [\n"fine",\n"(oops"]',
            3,
            'assignees.builder.quota[1] is "(oops", which is no regular expression: missing ), unterminated',
        ),
        (
            f'{BUILDER}quota = ["a{{99999999999}}"]',
            3,
            'assignees.builder.quota[0] is "a{99999999999}", which is no regular expression: the repetition',
        ),
        ("[assignees.b]", 1, 'assignees.b has no command: write command = ["program", "{prompt}"], or human = true'),
        ("[assignees.b]\ncommand = []", 2, "assignees.b.command names no program"),
        ('[assignees.b]\ncommand = [" "]', 2, "assignees.b.command names no program"),
        (r'assignees.b.command = ["x\u0000"]', 1, "assignees.b.command[0] holds a NUL"),
        (
            '[assignees.d]\ncommand = ["x"]\nhuman = true\nmax_running = 1',
            1,
            "assignees.d is human, and a person has no command, max_running",
        ),
        (
            f'{BUILDER}retry = ["overloaded"]',
            1,
            'assignees.builder has retry, which means something only with resume = ["program", "{prompt}"]',
        ),
        (
            f'{BUILDER}resume = ["build", "--again"]',
            1,
            "assignees.builder has a resume without {prompt}, so the agent would not be told how to go on",
        ),
        (
            f'{BUILDER}judge = ["judge"]',
            1,
            'assignees.builder has a judge, which means something only with resume = ["program", "{prompt}"]',
        ),
        (f"{BUILDER}resume = []", 3, "assignees.builder.resume names no program"),
        (
            f'{BUILDER}resume = ["build", "{{prompt}}"]\nretry = ["(oops"]',
            4,
            'assignees.builder.retry[0] is "(oops", which is no regular expression',
        ),
        (
            f'{BUILDER}reviewer = "dana"',
            1,
            'assignees.builder has a reviewer, which means something only with on_success = "review"',
        ),
        (
            f'{BUILDER}on_success = "complete"\nreviewer = "dana"',
            1,
            'assignees.builder has a reviewer, which means something only with on_success = "review"',
        ),
        (
            f'{BUILDER}on_success = "review"\nreviewer = "none"',
            4,
            f'assignees.builder.reviewer is "none", which cannot name an assignee: {NAMES}',
        ),
        ('\n[assignees."a b"]\nhuman = true', 2, f'assignees."a b" is "a b", which cannot name an assignee: {NAMES}'),
        ('[assignees.""]\nhuman = true', 1, f'assignees."" is "", which cannot name an assignee: {NAMES}'),
        ("[assignees.none]\nhuman = true", 1, f'assignees.none is "none", which cannot name an assignee: {NAMES}'),
        ('[assignees."a\\u001b"]\nhuman = true', 1, r'assignees."a\u001b" is "a\u001b", which cannot name an'),
        ('[assignees."a\\u009b"]\nhuman = true', 1, r'assignees."a\u009b" is "a\u009b", which cannot name an'),
        (f"[assignees.{'x' * 65}]\nhuman = true", 1, f"assignees.{'x' * 65} is "),
        (f'{BUILDER}env = {{ A = "{{env:}}" }}', 3, "assignees.builder.env holds a malformed reference in A"),
        (
            f"{BUILDER}hosts = []",
            3,
            "assignees.builder.hosts names no host: leave it out where every host may start it",
        ),
        (f'{BUILDER}hosts = ["gpu1", " "]', 3, 'assignees.builder.hosts holds " ", which is no host'),
        (f'{BUILDER}hosts = ["a b"]', 3, 'assignees.builder.hosts holds "a b", which is no host'),
        (
            '[assignees.d]\nhuman = true\nhosts = ["gpu1"]',
            1,
            "assignees.d is human, and a person has no hosts",
        ),
        (f'{BUILDER}env = {{ "A=B" = "x" }}', 3, 'assignees.builder.env holds "A=B", which cannot name an environment'),
    ],
)
def test_what_cannot_be_meant_is_a_fault_that_says_why(home, text, line, said):
    """Patterns, names and pairs of keys are judged when the file is read and not when a worker is started."""
    fault = fault_of(home, text)
    assert fault.message.startswith(f"{home / FILE}:{line}: {said}")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('board = "x"\nactor = \n', 2, "not TOML: Invalid value (column 9)"),
        ('board = "x"\nboard = "y"\n', 2, "not TOML: Cannot overwrite a value (column 12)"),
        ('\nboard = """x\n\n', 2, "not TOML: Unterminated"),
        (f"max_running = 1{'0' * 5000}", 1, "not TOML: Exceeds the limit"),
    ],
)
def test_what_is_not_toml_is_a_fault_with_its_line(home, text, line, said):
    """The parser's own words, with file and line in front."""
    assert fault_of(home, text).message.startswith(f"{home / FILE}:{line}: {said}")


def test_lists_without_end_are_a_fault(home):
    """Nothing a file can hold leaves the loader as a Python error."""
    assert fault_of(home, "board = " + "[" * 20_000).message == f"{home / FILE}: is nested too deeply"


def test_a_file_that_is_no_text_is_a_fault_with_its_line(home, cwd):
    """Latin-1 from an old editor."""
    (home / FILE).write_bytes(b'board = "x"\nactor = "J\xf6rg"\n')
    with pytest.raises(ConfigFault) as raised:
        load(None, {}, cwd, home)
    assert raised.value.message == f"{home / FILE}:2: is not UTF-8 text"


def test_a_byte_order_mark_is_not_a_fault(home, cwd):
    """Some editors write one."""
    (home / FILE).write_bytes(b'\xef\xbb\xbfboard = "x"\r\n')
    assert load(None, {}, cwd, home).config.board == "x"


def test_of_several_faults_the_first_line_is_told(home):
    """People mend a file from the top."""
    assert fault_of(home, 'zzz = 1\nboard = 2\nmax_running = "x"').line == 1
    assert fault_of(home, 'max_running = "x"\nboard = 2\nzzz = 1').line == 1


def test_a_weaker_file_is_judged_too(home, cwd):
    """A fault does not hide behind a stronger file until that one is taken away."""
    written(home, 'board = "kept"')
    here = written(cwd, "board = 1")
    with pytest.raises(ConfigFault, match=re.escape(f"{here}:1: board is 1")):
        load(None, {}, cwd, home)


@given(before=st.lists(st.sampled_from(["", "# [x]", "max_running = 1", 'board = """\n[x]\nzz = 1\n"""']), unique=True))
def test_the_line_of_a_key_is_its_own_whatever_stands_before(before, tmp_path_factory):
    """Comments, blank lines and texts of several lines that look like keys do not mislead the search."""
    above = "".join(f"{statement}\n" for statement in before)
    home = tmp_path_factory.mktemp("home")
    assert fault_of(home, f"{above}\nzz = 1\n").line == above.count("\n") + 2


# Assignees


def test_an_assignee_has_the_defaults_of_the_design(home, cwd):
    """Exit 0 without a verb is a violation, the summary is the last lines, nothing means a usage limit."""
    written(home, BUILDER)
    assert load(None, {}, cwd, home).config.assignees["builder"] == Assignee(
        name="builder",
        command=("build", "{prompt}"),
        on_success="violation",
        reviewer=None,
        result="last-lines",
        quota=(),
        env={},
        max_running=None,
        human=False,
    )


def test_every_key_of_an_assignee_is_read(home, cwd):
    """The example of the design, and a name in another script."""
    written(
        home,
        """
        [assignees."строитель"]
        command = ["claude", "-p", "{prompt}"]
        on_success = "review"
        reviewer = "dana"
        result = "file:{result_file}"
        quota = ["^You.ve hit your .*limit"]
        env = { ANTHROPIC_API_KEY = "{env:ANTHROPIC_API_KEY}" }
        max_running = 2
        hosts = ["gpu1", "0123456789ab"]
        """,
    )
    assert load(None, {}, cwd, home).config.assignees == {
        "строитель": Assignee(
            name="строитель",
            command=("claude", "-p", "{prompt}"),
            on_success="review",
            reviewer="dana",
            result="file:{result_file}",
            quota=("^You.ve hit your .*limit",),
            env={"ANTHROPIC_API_KEY": "{env:ANTHROPIC_API_KEY}"},
            max_running=2,
            hosts=("gpu1", "0123456789ab"),
        )
    }


def test_a_review_may_leave_the_reviewer_to_the_card():
    """A card that has a reviewer keeps it (RULES §1)."""
    assert Assignee(name="b", command=("x",), on_success="review").reviewer is None


def test_a_pattern_that_python_warns_about_is_accepted_quietly(home, cwd):
    """The suite turns warnings into errors, so one would show here."""
    written(home, f'{BUILDER}quota = ["[[a]"]')
    assert load(None, {}, cwd, home).config.assignees["builder"].quota == ("[[a]",)


@pytest.mark.parametrize(
    ("written_as", "size"),
    [("4096", 4096), ('"512B"', 512), ('"64KiB"', 65_536), ('"20 MiB"', 20_971_520), ('"1GiB"', 1_073_741_824)],
)
def test_the_limit_of_a_log_is_bytes_or_a_size_with_its_unit(home, cwd, written_as, size):
    """Every accepted form."""
    written(home, f"log_limit = {written_as}")
    assert load(None, {}, cwd, home).config.log_limit == size


def test_settings_do_not_change_once_read():
    """What a sweep began with is what it ends with."""
    with pytest.raises(ValidationError, match="frozen"):
        Config().board = "x"
    with pytest.raises(ValidationError, match="frozen"):
        Assignee(name="b", command=("x",)).human = True


def test_references_are_filled_in_when_a_worker_is_started():
    """Whole values and parts of values; what is no reference stays as it is."""
    builder = Assignee(
        name="builder",
        command=("x",),
        env={"KEY": "{env:SECRET}", "URL": "https://{env:USER}@host/{env:EMPTY}", "MODE": "fast {x}"},
    )
    environ = {"SECRET": "{env:USER}", "USER": "dana", "EMPTY": "", "OTHER": "not passed on"}
    assert resolve_env(builder, environ) == {"KEY": "{env:USER}", "URL": "https://dana@host/", "MODE": "fast {x}"}


def test_a_reference_to_nothing_names_the_assignee_and_the_variable(home, cwd):
    """Loading does not need the variable; starting the worker does."""
    written(home, f'{BUILDER}env = {{ KEY = "{{env:MISSING_KEY}}" }}')
    builder = load(None, {}, cwd, home).config.assignees["builder"]
    with pytest.raises(ConfigFault) as raised:
        resolve_env(builder, {})
    assert raised.value.message == "assignee builder needs the environment variable MISSING_KEY, which is not set"
    assert raised.value.remedy == "export MISSING_KEY=… where ledger sweep runs"


# What is shown


def test_every_value_is_shown_with_its_origin(home, cwd):
    """Defaults, a file and a variable side by side; of a person only that it is one."""
    path = written(home, f"{BUILDER}max_running = 2\n[assignees.dana]\nhuman = true")
    shown = values(load(None, {"LEDGER_BOARD": "b"}, cwd, home))
    assert shown["board"] == {"value": "b", "origin": "LEDGER_BOARD"}
    assert shown["log_limit"] == {"value": 20_971_520, "origin": "default"}
    assert shown["assignees.builder.command"] == {"value": ["build", "{prompt}"], "origin": str(path)}
    assert {name: one for name, one in shown.items() if "dana" in name} == {
        "assignees.dana.human": {"value": True, "origin": str(path)}
    }


def test_secrets_are_masked(home, cwd):
    """A value is printed only if it is a reference and nothing else; a password never is."""
    written(
        home,
        f'database = "postgresql://u:hunter2@host/db"\n{BUILDER}'
        'env = { A = "{env:A}", B = "hunter2", C = "hunter2{env:C}" }',
    )
    shown = values(load(None, {}, cwd, home))
    assert shown["assignees.builder.env"]["value"] == {"A": "{env:A}", "B": "***", "C": "***"}
    assert shown["database"]["value"] == "postgresql://u:***@host/db"
    assert "hunter2" not in str(shown)


def test_an_address_that_is_no_url_is_masked_too(home, cwd):
    """Whatever stands before an @ may be a password."""
    shown = values(load(None, {"LEDGER_DATABASE_URL": "postgresql://u:hunter2@host:port/db"}, cwd, home))
    assert shown["database"] == {"value": "postgresql://***@host:port/db", "origin": "LEDGER_DATABASE_URL"}


# The template


def test_the_template_sets_nothing(home, cwd):
    """`ledger init` writes it and changes no behaviour."""
    written(home, TEMPLATE)
    assert load(None, {}, cwd, home).config == Config()


def test_the_template_can_be_un_commented(home, cwd):
    """Every example in it is valid, and every setting and assignee's key that it explains is there."""
    written(home, without_comments(TEMPLATE))
    loaded = load(None, {}, cwd, home)
    assert loaded.config.model_fields_set == set(Config.model_fields)
    assert loaded.config.assignees == {
        "claude": Assignee(
            name="claude",
            command=("claude", "-p", "{prompt}"),
            on_success="complete",
            quota=("^You.ve hit your .*limit", "(?i)usage limit reached"),
            resume=("claude", "--continue", "-p", "{prompt}"),
            retry=("^API Error: (Repeated 529|5[0-9][0-9])",),
            judge=("/srv/agents/judge.sh", "make", "test"),
            env={"ANTHROPIC_API_KEY": "{env:ANTHROPIC_API_KEY}"},
            max_running=2,
            hosts=("gpu1",),
        ),
        "codex": Assignee(
            name="codex",
            command=("codex", "exec", "--skip-git-repo-check", "{prompt}"),
            on_success="review",
            reviewer="dana",
            quota=("(?i)you.ve hit your usage limit",),
        ),
        "dana": Assignee(name="dana", human=True),
    }
