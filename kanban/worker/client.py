"""The client of an owner: it submits once, waits, and says what the owner wrote. It never runs a model itself.

A submission is asked for again only where an owner said that it had taken nothing, or where nobody was there to be
asked. Once it may have been taken only its receipt is read, and one that no owner knows is unknown: never sent again.
"""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kanban.evidence import owner_result
from kanban.folders import run_folder
from kanban.hosts import this_host
from kanban.worker.carrier import VARIABLES, Carrier
from kanban.worker.exits import FAILED
from kanban.worker.frame import read_json, variables_of
from kanban.worker.place import folder_of, knock
from ledger.errors import InvalidInput, LedgerError
from ledger.ids import lock_hash

PATIENCE: Final = 180.0
"""Seconds that an owner is waited for that starts, drains, or cannot take a turn now."""
_STEP: Final = 0.5  # seconds between two tries to find one
_HELD: Final = 20  # seconds that an owner may hold back its answer about a receipt
_TIMEOUT: Final = 120.0  # seconds for one request: more than an admission waits for a store that is busy
_READS: Final = 3  # how often a receipt that could not be read is read again
_TAKEN, _KNOWN, _NOT_NOW = 202, 200, 503
_LOST: Final = (OSError, http.client.HTTPException, ValueError)


class OwnerAbsent(LedgerError):
    """No owner took the submission in time: nothing was begun."""

    def __init__(self, assignee: str, why: str) -> None:
        remedy = f"ledger owner --assignee {assignee} -- COMMAND"
        super().__init__(f"no owner of {assignee} took the turn: {why}", remedy=remedy)


class OwnerRefused(LedgerError):
    """The owner refused the submission, and will not take it later either."""


class ReceiptUnknown(LedgerError):
    """The submission was made, and nobody knows what became of it. It is not made again."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a submission: the code to exit with, and what the agent said.

    *error* is why it failed, where it said nothing else. *session* is the agent's name of the conversation, else the
    receipt's; *resets_at* is in seconds since 1970.
    """

    code: int
    text: str | None = None
    resets_at: float | None = None
    session: str | None = None
    result: Mapping[str, Any] | None = None
    error: str | None = None


def work(claim: Carrier, assignee: str, home: Path, environ: MutableMapping[str, str], patience: float) -> Reply:
    """Have the turns of *claim* taken by the owner of *assignee*, on the card's own prompt; what it wrote of them.

    The claim is taken out of *environ*, so that nothing that is started from there speaks for it. Raises `OwnerAbsent`
    where no owner took it within *patience* seconds, `OwnerRefused`, `ReceiptUnknown`, and OSError for the prompt.
    """
    said = {"text": _prompt(environ), "environment": variables_of(environ)}
    for variable in VARIABLES.values():
        environ.pop(variable, None)
    folder = run_folder(home, claim.board, claim.task, claim.run)
    line = Line(folder_of(home, this_host(home).id, assignee), assignee)
    try:
        receipt = line.ask(said, patience)
    except ReceiptUnknown:
        receipt = {}
    wrote = owner_result(folder, claim.task, claim.run, lock_hash(claim.lock))
    if wrote is None:
        raise ReceiptUnknown(
            f"{claim.task} run {claim.run}: its owner is gone, or left it without a result", task=claim.task
        )
    resets_at = wrote.get("resets_at")
    return Reply(wrote["code"], receipt.get("reply", wrote.get("reply")), resets_at, error=receipt.get("error"))


def ask(text: str, assignee: str, home: Path, patience: float) -> Reply:
    """One turn of *assignee* on *text*, for nobody's card. Raises `OwnerAbsent`, `OwnerRefused`, `ReceiptUnknown`."""
    line = Line(folder_of(home, this_host(home).id, assignee), assignee)
    receipt = line.ask({"text": text, "environment": {}}, patience)
    result = receipt.get("result") or {}
    session = result.get("session_id")
    return Reply(
        receipt.get("code", FAILED),
        receipt.get("reply"),
        session=session if isinstance(session, str) else receipt["id"],
        result=result,
        error=receipt.get("error"),
    )


def _prompt(environ: Mapping[str, str]) -> str:
    """The card's, as the sweep wrote it."""
    path = environ.get("LEDGER_PROMPT", "").strip()
    if not path:
        raise InvalidInput("LEDGER_PROMPT is not set: there is nothing to ask", remedy="name the file of a prompt")
    return Path(path).read_text(encoding="utf-8")


class Line:
    """One submission to the owner whose door is in *folder*, and the readings of its receipt."""

    def __init__(self, folder: Path, assignee: str) -> None:
        self._folder, self._assignee = folder, assignee
        self._path = f"/turns/{secrets.token_hex(16)}"
        self._connection: _Connection | None = None

    def ask(self, frame: Mapping[str, Any], patience: float) -> Mapping[str, Any]:
        """Submit *frame* and wait for the receipt."""
        try:
            said = self._submitted(json.dumps(frame).encode(), time.monotonic() + patience)
            while said["state"] != "terminal":
                said = self._read()
            return said
        finally:
            self._hang_up()

    def _submitted(self, frame: bytes, deadline: float) -> Mapping[str, Any]:
        """What the owner that took *frame* said; nothing was taken by those that were asked before it."""
        why = "nobody is there"
        while True:
            if self._reached():
                status, said = self._sent(frame)
                if status != _NOT_NOW:
                    return said
                why = said["error"]["message"]
            if time.monotonic() >= deadline:
                raise OwnerAbsent(self._assignee, why)
            time.sleep(_STEP)

    def _reached(self) -> bool:
        """Whether somebody opened the door. Raises `OwnerRefused` where this user may not even knock."""
        self._hang_up()
        try:
            self._connection = _Connection(knock(self._folder, _TIMEOUT))
        except PermissionError as fault:
            raise OwnerRefused(f"{self._folder}: {fault.strerror}") from None
        except OSError:
            return False
        return True

    def _sent(self, frame: bytes) -> tuple[int, Mapping[str, Any]]:
        """The answer to *frame*. One that was lost may have been a yes: then the receipt is read instead."""
        try:
            status, said = self._exchanged("POST", self._path, frame)
        except _LOST:
            self._hang_up()
            return _TAKEN, self._read()
        if status == _TAKEN:
            self._path = f"/turns/{said['id']}"
        elif status != _NOT_NOW:
            raise OwnerRefused(f"the owner of {self._assignee} refused: {said['error']['message']}")
        return status, said

    def _read(self) -> Mapping[str, Any]:
        """What is known of the submission now. Raises `ReceiptUnknown`."""
        for _ in range(_READS):
            try:
                if self._connection is None and not self._reached():
                    break
                status, said = self._exchanged("GET", f"{self._path}?wait={_HELD}")
            except _LOST:
                self._hang_up()
                continue
            if status == _KNOWN:
                return said
            break
        raise ReceiptUnknown(f"the owner of {self._assignee} is gone, or does not know the turn that it was given")

    def _exchanged(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Mapping[str, Any]]:
        """One request and its answer. Raises one of `_LOST` where none came."""
        assert self._connection is not None
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        said = read_json(answer.read())
        return answer.status, said

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket that is connected already."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__("owner")
        self.sock = connected
