"""Who may look and who may act: tokens, read from a file or the environment, or made for one run of the server.

A token is compared in constant time. A browser keeps a cookie that is made from it, not the token itself, and forms
carry a second value made from it (CSRF); both can be told from the token alone, so they outlive a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from ledger.errors import InvalidInput

READ_TOKEN: Final = "LEDGER_READ_TOKEN"  # noqa: S105 – the name of a variable
WRITE_TOKEN: Final = "LEDGER_WRITE_TOKEN"  # noqa: S105 – as above
SHORTEST: Final = 16
"""Characters of a token that is not laughable."""
Role = Literal["read", "write"]


@dataclass(frozen=True)
class Grant:
    """What one token allows, and whose it is (none: nobody's in particular)."""

    role: Role
    token: str
    name: str | None = None

    @property
    def may_write(self) -> bool:
        """Whether its bearer may act."""
        return self.role == "write"

    @cached_property
    def cookie(self) -> str:
        """What a browser keeps instead of the token."""
        return self._made("cookie")

    @cached_property
    def csrf(self) -> str:
        """What a form of this bearer's pages carries."""
        return self._made("csrf")

    def _made(self, what: str) -> str:
        return hmac.new(self.token.encode(), what.encode(), hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return f"Grant(role={self.role!r}, name={self.name!r})"


@dataclass(frozen=True)
class Tokens:
    """The grants of a server: with none of them nobody is let in."""

    grants: tuple[Grant, ...]

    @classmethod
    def fresh(cls) -> Tokens:
        """One to read and one to write, made now, for this run of the server alone."""
        return cls((Grant("read", secrets.token_urlsafe(32)), Grant("write", secrets.token_urlsafe(32))))

    @cached_property
    def cookie_name(self) -> str:
        """Of its own for each server: browsers send the cookies of one port to all others of the host."""
        said = " ".join(grant.cookie for grant in self.grants)
        return f"ledger-{hashlib.sha256(said.encode()).hexdigest()[:12]}"

    def of_token(self, given: str) -> Grant | None:
        """The grant of that token."""
        return _same(given, [(grant.token, grant) for grant in self.grants])

    def of_cookie(self, given: str) -> Grant | None:
        """The grant of that cookie."""
        return _same(given, [(grant.cookie, grant) for grant in self.grants])

    def token_for(self, role: Role) -> str | None:
        """The first token of *role*, or none."""
        return next((grant.token for grant in self.grants if grant.role == role), None)


def same(given: str, wanted: str) -> bool:
    """Whether both are equal, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _same(given: str, known: Sequence[tuple[str, Grant]]) -> Grant | None:
    """Every one is compared, whichever it is."""
    found = [grant for secret, grant in known if same(given, secret)]
    return found[0] if found else None


def configured(file: Path | None, environ: Mapping[str, str]) -> Tokens | None:
    """The tokens of *file*, else of `LEDGER_READ_TOKEN` and `LEDGER_WRITE_TOKEN`; none where nobody set any.

    A file is TOML: tables `[read]` and `[write]`, each with names and their tokens; an act with a write token is its
    name's. Raises `InvalidInput` for a file that others can read, and for tokens that are short, equal or no text.
    """
    grants = _of_environment(environ) if file is None else _of_file(file)
    for grant in grants:
        _check(grant)
    if len({grant.token for grant in grants}) < len(grants):
        raise InvalidInput("two tokens are equal: which of the two was meant could not be told", remedy=_MAKE)
    return Tokens(tuple(grants)) if grants else None


_MAKE: Final = "make each with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"


def _of_environment(environ: Mapping[str, str]) -> list[Grant]:
    named: list[tuple[Role, str]] = [("read", READ_TOKEN), ("write", WRITE_TOKEN)]
    return [Grant(role, environ[name]) for role, name in named if environ.get(name)]


def _of_file(file: Path) -> list[Grant]:
    told = _parsed(file)
    unknown = sorted(set(told) - {"read", "write"})
    if unknown or not told:
        said = f"knows no table {unknown[0]!r}" if unknown else "holds no token"
        raise InvalidInput(f"{file}: a file of tokens {said}", remedy='write [read] or [write], then NAME = "TOKEN"')
    roles: tuple[Role, ...] = ("read", "write")
    return [Grant(role, token, name) for role in roles for name, token in _table(file, told.get(role, {}), role)]


def _parsed(file: Path) -> dict[str, Any]:
    try:
        mode = file.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidInput(f"{file}: others than you can read these tokens", remedy=f"chmod 600 {file}")
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as fault:
        raise InvalidInput(f"{file}: {fault.strerror}", remedy="name a file of tokens that can be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise InvalidInput(f"{file}: that is no TOML", remedy='write [write], then NAME = "TOKEN"') from None


def _table(file: Path, told: Any, role: str) -> list[tuple[str, str]]:
    if not isinstance(told, dict) or not all(isinstance(token, str) for token in told.values()):
        raise InvalidInput(f"{file}: [{role}] is no table of names and tokens", remedy=f'[{role}], then NAME = "TOKEN"')
    return list(told.items())


def _check(grant: Grant) -> None:
    whose = f"the {grant.role} token{'' if grant.name is None else ' of ' + grant.name}"
    if grant.name is not None and not (grant.name.strip() and grant.name.isprintable()):
        raise InvalidInput(f"{whose}: that is no name", remedy="name whoever acts with it")
    if len(grant.token) < SHORTEST:
        raise InvalidInput(f"{whose} has less than {SHORTEST} characters", remedy=_MAKE)
    if not (grant.token.isascii() and grant.token.isprintable() and " " not in grant.token):
        raise InvalidInput(f"{whose} holds what no header can carry", remedy=_MAKE)
