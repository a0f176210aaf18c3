"""Tokens: where they come from, what is refused, and what a browser keeps of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.tokens import Grant, Tokens, configured, same
from ledger.errors import InvalidInput

LONG = "a-token-that-is-long-enough"


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    """A file of tokens."""
    file = folder / "tokens.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_file_gives_named_tokens_to_read_and_to_write(tmp_path: Path) -> None:
    """Each token of a file has its role and its name."""
    found = configured(written(tmp_path, f'[read]\nwall = "{LONG}"\n[write]\ndana = "{LONG}-2"\n'), {})
    assert found == Tokens((Grant("read", LONG, "wall"), Grant("write", f"{LONG}-2", "dana")))


def test_the_environment_gives_one_of_each(tmp_path: Path) -> None:
    """Without a file the two variables count, and with one they do not."""
    environ = {"LEDGER_READ_TOKEN": LONG, "LEDGER_WRITE_TOKEN": f"{LONG}-2"}
    assert configured(None, environ) == Tokens((Grant("read", LONG), Grant("write", f"{LONG}-2")))
    file = written(tmp_path, f'[read]\nwall = "{LONG}-3"\n')
    assert configured(file, environ) == Tokens((Grant("read", f"{LONG}-3", "wall"),))


def test_nobody_set_a_token() -> None:
    """Neither a file nor a variable: the caller makes a fresh pair, or refuses to be reached from elsewhere."""
    assert configured(None, {"LEDGER_READ_TOKEN": ""}) is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A secret that the group or everybody can read is none."""
    with pytest.raises(InvalidInput, match="others than you can read"):
        configured(written(tmp_path, f'[read]\nwall = "{LONG}"\n', mode), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no token"),
        ("[admin]\n", "knows no table 'admin'"),
        ("[read", "no TOML"),
        ("[read]\nwall = 5\n", "no table of names and tokens"),
        ("read = 5\n", "no table of names and tokens"),
        ('[read]\nwall = "short"\n', "less than 16 characters"),
        ('[read]\nwall = "a token with blanks in it"\n', "no header can carry"),
        ('[read]\nwall = "ein-tökén-mit-akzenten"\n', "no header can carry"),
        (f'[read]\n" " = "{LONG}"\n', "that is no name"),
        (f'[read]\nwall = "{LONG}"\n[write]\ndana = "{LONG}"\n', "two tokens are equal"),
    ],
)
def test_what_cannot_be_a_file_of_tokens_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """Each fault is named, and no token is repeated in the message."""
    with pytest.raises(InvalidInput, match=said) as fault:
        configured(written(tmp_path, text), {})
    assert LONG not in fault.value.message
    assert fault.value.remedy


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message has the path."""
    with pytest.raises(InvalidInput, match=r"nowhere\.toml: No such file"):
        configured(tmp_path / "nowhere.toml", {})


def test_fresh_tokens_are_never_the_same_twice() -> None:
    """Two runs of a server have four tokens between them, and browsers keep their cookies apart."""
    one, other = Tokens.fresh(), Tokens.fresh()
    assert len({grant.token for grant in (*one.grants, *other.grants)}) == 4
    assert [grant.role for grant in one.grants] == ["read", "write"]
    assert one.cookie_name != other.cookie_name


def test_neither_cookie_nor_form_tells_the_token() -> None:
    """What a browser keeps and what a page shows are made from the token, each its own way."""
    grant = Grant("write", LONG)
    assert len({grant.cookie, grant.csrf, grant.token}) == 3
    assert LONG not in grant.cookie + grant.csrf + repr(grant)


def test_a_cookie_is_no_token_and_a_token_no_cookie() -> None:
    """Each is looked for where it belongs."""
    tokens = Tokens.fresh()
    grant = tokens.grants[1]
    assert (tokens.of_token(grant.token), tokens.of_cookie(grant.cookie)) == (grant, grant)
    assert (tokens.of_token(grant.cookie), tokens.of_cookie(grant.token)) == (None, None)
    assert tokens.of_token("") is None
    assert Tokens(()).of_token("") is None


def test_every_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind the one that fits, and by `compare_digest`: how long it takes tells nothing."""
    seen: list[str] = []
    monkeypatch.setattr("dashboard.tokens.hmac.compare_digest", lambda _, wanted: seen.append(wanted) is None)
    Tokens((Grant("read", LONG), Grant("write", f"{LONG}-2"))).of_token(LONG)
    assert seen == [LONG.encode(), f"{LONG}-2".encode()]


def test_text_that_no_encoding_knows_equals_nothing() -> None:
    """A lone surrogate is compared like any other text."""
    assert not same("\ud800", "?" * 16)
