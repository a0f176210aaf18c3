"""`ledger serve` as a process: where it may listen, what it prints, who it lets in, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI

from cli import serve as serving
from cli.app import run
from dashboard import api
from dashboard.app import make_app
from dashboard.serving import AT_ONCE, listen, server_of, url_of
from dashboard.source import Source
from kanban.board import Board
from ledger.errors import InvalidInput
from tests.cli import homes
from tests.dashboard.conftest import READ, TOKENS
from tests.engines import once

SCRIPT: Final = Path(sys.executable).with_name("ledger")
LONG: Final = 60.0  # seconds that anything may take on the most loaded machine
pytestmark = once


class Served:
    """A server in a process of its own, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.said: dict[str, Any] = json.loads(process.stdout.readline())

    @property
    def url(self) -> str:
        """Its address, without a token."""
        return str(self.said["url"]).partition("?")[0]

    @property
    def token(self) -> str:
        """The one to act with."""
        return str(self.said["write_url"]).partition("token=")[2]

    def ended_by(self, signum: int) -> tuple[int, str]:
        """Exit code, and all that was said on stderr."""
        self.process.send_signal(signum)
        _, err = self.process.communicate(timeout=LONG)
        return self.process.returncode, err


@contextmanager
def served(face: Board, *argv: str, **environ: str) -> Iterator[Served]:
    """The server of the board of *face*."""
    whole = {**os.environ, **homes.variables(face.home), **environ}
    process = subprocess.Popen(
        [SCRIPT, "serve", "--port", "0", "--json", *argv],
        env=whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Served(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def asked(
    face: Board, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, dict[str, Any]]]:
    """`ledger serve` in this process: exit code and the JSON of its error."""
    for name in [name for name in os.environ if name.startswith("LEDGER_")]:
        monkeypatch.delenv(name)
    for name, value in homes.variables(face.home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("dashboard.serving.serve", lambda *_, **__: pytest.fail("that was to be refused"))

    def said(*argv: str) -> tuple[int, dict[str, Any]]:
        code = run(["serve", "--json", *argv])
        return code, json.loads(capsys.readouterr().out)["error"]

    return said


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(face: Board, signum: int) -> None:
    """It prints two addresses, to look and to act; it ends with 0, at once and without a word, streams or not."""
    card = face.create("a card").task["id"]
    with served(face) as server:
        assert server.said.keys() == {"schema", "url", "write_url", "board"}
        assert server.said["board"] == "default"
        with httpx.Client(follow_redirects=True, timeout=LONG) as browser:
            page = browser.get(server.said["url"])
            assert (page.status_code, page.url) == (200, httpx.URL(server.url))
            assert card in page.text
            assert httpx.get(f"{server.url}api/board").status_code == 401
            with browser.stream("GET", f"{server.url}live", params={"after": "1"}) as stream:
                lines = stream.iter_lines()
                assert next(lines).startswith("retry")
                begun = time.monotonic()
                assert server.ended_by(signum) == (0, "")
                assert time.monotonic() - begun < LONG
                assert [line for line in lines if line.startswith("event: trouble")] == []


def test_a_page_hears_what_another_process_does(face: Board) -> None:
    """Over a real connection; and what a page that vanished had open is let go."""
    face.create("first")
    bearer = {"headers": {"authorization": "Bearer TOKEN"}, "timeout": LONG}
    with served(face) as server:
        bearer["headers"] = {"authorization": f"Bearer {server.token}"}
        with httpx.stream("GET", f"{server.url}live", params={"after": face.stats()["position"]}, **bearer) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            card = face.create("second").task["id"]
            heard = json.loads(next(line for line in lines if line.startswith("data: ")).removeprefix("data: "))
            assert [tile["id"] for tile in heard["cards"]] == [card]
        answer = httpx.post(f"{server.url}api/tasks/{card}/block", json={"reason": "wait"}, **bearer)
        assert answer.json()["task"]["status"] == "blocked"
        assert server.ended_by(signal.SIGTERM) == (0, "")
    assert face.show(card)["events"][-1]["actor"]["name"] == "ada"


@contextmanager
def in_a_thread(app: FastAPI) -> Iterator[httpx.Client]:
    """A server of *app* in this process, and a reader at it."""
    started = Event()
    server = server_of(app, started.set)
    with listen("127.0.0.1", 0, guarded=False) as door:
        thread = Thread(target=server.run, args=([door],), daemon=True)
        thread.start()
        started.wait(LONG)
        with httpx.Client(base_url=url_of(door), headers={"authorization": f"Bearer {READ}"}, timeout=LONG) as reader:
            yield reader
        server.should_exit = True
        thread.join(LONG)
    assert not thread.is_alive()


def test_nothing_is_left_of_a_page_whose_browser_is_gone(face: Board) -> None:
    """Its connection is seen to be closed, also where nothing happens on the board that it could be told."""
    app = make_app(Source.of(face), TOKENS)
    with in_a_thread(app) as reader:
        with reader.stream("GET", "/live") as stream:
            lines = stream.iter_lines()
            next(lines)
            until(lambda: app.state.live.clients == 1)
        until(lambda: app.state.live.clients == 0)


def test_a_crowd_is_served_a_few_at_a_time(face: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits holds no connection to the store meanwhile, so there are always enough."""
    inside, most, lock, plain = [0], [0], Lock(), api.counts

    def counts(*about: Any) -> Any:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.01)  # the others come in meanwhile
        with lock:
            inside[0] -= 1
        return plain(*about)

    monkeypatch.setattr(api, "counts", counts)
    with in_a_thread(make_app(Source.of(face), TOKENS)) as reader, ThreadPoolExecutor(40) as crowd:
        answers = list(crowd.map(lambda _: reader.get("/api/counts").status_code, range(80)))
    assert answers == [200] * 80
    assert 1 < most[0] <= AT_ONCE


def until(holds: Callable[[], bool]) -> None:
    """Wait for it, at most as long as anything may take."""
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_tokens_that_were_set_are_not_printed(face: Board, tmp_path: Path) -> None:
    """Neither those of a file nor those of the environment; nor does the process's line name one."""
    file = tmp_path / "tokens.toml"
    file.write_text('[write]\ndana = "a-token-of-danas-own"\n')
    file.chmod(0o600)
    for argv, environ, token in (
        (("--tokens", str(file)), {}, "a-token-of-danas-own"),
        ((), {"LEDGER_READ_TOKEN": "a-token-of-the-wall"}, "a-token-of-the-wall"),
    ):
        with served(face, *argv, **environ) as server:
            assert server.said["write_url"] is None
            assert token not in json.dumps(server.said)
            line = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
            assert token.encode() not in line
            assert httpx.get(f"{server.url}?token={token}").status_code == 303
            assert server.ended_by(signal.SIGINT) == (0, "")


def test_people_are_told_where_to_look(face: Board) -> None:
    """Two lines with addresses; how to end it is told beside them."""
    process = subprocess.Popen(
        [SCRIPT, "serve", "--port", "0"], env={**os.environ, **homes.variables(face.home)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=LONG)
    assert [line.split(":", 1)[0] for line in lines] == ["to look", "to act"]
    assert all("http://127.0.0.1:" in line and "?token=" in line for line in lines)
    assert err == "INT or TERM ends it\n"
    assert process.returncode == 0


# What it refuses


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_are_let_near_only_with_tokens(asked: Callable[..., Any], host: str) -> None:
    """A fresh pair that scrolled by on some terminal is not enough: exit code 4, and what to do."""
    code, error = asked("--host", host)
    assert (code, error["code"]) == (4, "unguarded")
    assert "--tokens" in error["try"]


def test_with_tokens_every_address_can_be_listened_on(face: Board) -> None:
    """The printed one is this machine's own."""
    with served(face, "--host", "0.0.0.0", LEDGER_READ_TOKEN="a-token-of-the-wall") as server:
        assert server.url.startswith("http://127.0.0.1:")
        bearer = {"authorization": "Bearer a-token-of-the-wall"}
        assert httpx.get(f"{server.url}api/board", headers=bearer).status_code == 200
        named = bearer | {"host": "wall.example"}
        assert httpx.get(f"{server.url}api/board", headers=named).status_code == 421
    with served(face, "--name", "wall.example", LEDGER_READ_TOKEN="a-token-of-the-wall") as server:
        assert httpx.get(f"{server.url}api/board", headers=named).status_code == 200


def test_a_port_that_is_taken_is_named(asked: Callable[..., Any]) -> None:
    """With what to do about it, and no trace."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, error = asked("--port", str(port))
    assert (code, error["code"]) == (1, "address_taken")
    assert f"127.0.0.1:{port} is taken" in error["message"]
    assert error["try"] == "ledger serve --port 0"


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a b", "é" * 70])
def test_an_address_that_is_none_is_refused(asked: Callable[..., Any], host: str) -> None:
    """It says which."""
    code, error = asked("--host", host)
    assert (code, error["code"]) == (2, "invalid_input")
    assert repr(host) in error["message"]


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    """Also with tokens."""
    with pytest.raises(InvalidInput, match=r"nothing can listen on 192\.0\.2\.1:8420"):
        listen("192.0.2.1", 8420, guarded=True)


def test_the_page_can_be_called_by_the_address_of_its_socket() -> None:
    """IPv6 in brackets."""
    for host, begins in (("127.0.0.1", "http://127.0.0.1:"), ("localhost", "http://")):
        with listen(host, 0, guarded=False) as door:
            assert url_of(door).startswith(begins)
    if socket.has_ipv6:
        try:
            door = listen("::1", 0, guarded=False)
        except InvalidInput:  # this machine has none
            return
        with door:
            assert url_of(door).startswith("http://[::1]:")


def test_a_missing_extra_is_one_line(asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name == "fastapi" else name)
    code, error = asked()
    assert (code, error["code"]) == (1, "page_missing")
    assert error["message"] == "the page needs fastapi, which is not installed"
    assert error["try"] == "pip install 'kanban-ledger[dashboard]'"


def test_a_bad_file_of_tokens_is_refused_before_anything_listens(asked: Callable[..., Any], tmp_path: Path) -> None:
    """Exit code 2, and how to mend it."""
    file = tmp_path / "tokens.toml"
    file.write_text('[read]\nwall = "a-token-of-the-wall"\n')
    file.chmod(0o644)
    code, error = asked("--tokens", str(file))
    assert (code, error["code"], error["try"]) == (2, "invalid_input", f"chmod 600 {file}")


def test_a_worker_serves_nothing(asked: Callable[..., Any], face: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page acts as an operator, and a worker is none."""
    granted = face.claim(face.create("mine", assignee="ann").task["id"])
    for name, value in {"TASK": granted.task, "RUN": str(granted.run), "LOCK": granted.lock}.items():
        monkeypatch.setenv(f"LEDGER_{name}", value)
    code, error = asked()
    assert (code, error["code"]) == (4, "forbidden")


def test_no_store_no_page(asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says how to make one."""
    monkeypatch.setenv("LEDGER_HOME", str(tmp_path / "nowhere"))
    code, error = asked("--port", "0")
    assert (code, error["code"], error["try"]) == (8, "store_missing", "ledger init")
