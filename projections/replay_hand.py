"""What two processes that share a replay say to each other, and the one that was started by the other.

Both ways are pipes. An order is a line of JSON. An answer is a frame: a letter, the length, and so many bytes; after
`SEEN` come the bytes of each table in turn, in frames, ended by an empty one.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO, Final

from ledger.database import connected, reading
from ledger.standing import Head, head
from ledger.together import joined
from projections.compared import SHAPES, Cards
from projections.parts import Part, Seen, look
from projections.replay_rows import Rows
from projections.uncollected import uncollected

READY, BEGUN, OTHER, DONE, SEEN, DOUBT, ROWS = b"r", b"b", b"o", b"d", b"s", b"x", b"="
_FRAME: Final = struct.Struct(">cI")
_EVERY: Final = 2_000
"""Events between two words of progress."""


class _Other(Exception):
    """Somebody wrote since the other process began to read: this one sees another board."""


def say(pipe: BinaryIO, letter: bytes, data: bytes = b"") -> None:
    """Send one frame."""
    pipe.write(_FRAME.pack(letter, len(data)))
    pipe.write(data)


def hear(pipe: BinaryIO) -> tuple[bytes, bytes]:
    """The next frame. Raises `EOFError` where the other process is gone."""
    begun = pipe.read(_FRAME.size)
    if len(begun) < _FRAME.size:
        raise EOFError
    letter, length = _FRAME.unpack(begun)
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return letter, data


def rows_heard(pipe: BinaryIO) -> Iterator[bytes]:
    """What is digested of the rows of the next table. Raises `EOFError` where the other process came to grief."""
    while (frame := hear(pipe)) != (ROWS, b""):
        if frame[0] != ROWS:
            raise EOFError
        yield frame[1]


def order(part: Part, snapshot: str | None) -> bytes:
    """The line that asks for *part*, in that *snapshot* of the store."""
    last = {**part.last._asdict(), "hash": part.last.hash.hex()}
    return json.dumps({"snapshot": snapshot, "part": {**part._asdict(), "last": last}}).encode() + b"\n"


def _ordered(line: bytes) -> tuple[Part, str | None]:
    said = json.loads(line)
    last, cards = said["part"].pop("last"), said["part"].pop("cards")
    found = Head(**{**last, "hash": bytes.fromhex(last["hash"])})
    return Part(**said["part"], last=found, cards=Cards(*cards)), said["snapshot"]


def seen(data: bytes) -> Seen:
    """What a part said."""
    return Seen(**json.loads(data))


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Answer the order that comes on one pipe on the other one, and end when either is closed."""
    lines = _lines(orders)
    try:
        url = json.loads(lines.get())
        say(answers, READY)
        answers.flush()
        _look(url, lines.get(), answers)
        answers.flush()
        lines.get()  # for ever: it is the other one who ends this
    except BrokenPipeError:
        os._exit(1)


def _lines(orders: BinaryIO) -> queue.SimpleQueue[bytes]:
    """The lines as they come, in a thread that ends the process with the pipe, whatever it is at."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def wait() -> None:
        for line in orders:
            lines.put(line)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
    return lines


def _look(url: str, line: bytes, answers: BinaryIO) -> None:
    try:
        with Rows() as rows:
            found = _seen(url, line, answers, rows)
            say(answers, SEEN, json.dumps(found._asdict()).encode())
            for table in range(len(SHAPES)):
                for data in rows.of(table):
                    say(answers, ROWS, data)
                say(answers, ROWS)
    except _Other:
        say(answers, OTHER)
    except BrokenPipeError:
        raise
    except Exception as fault:  # noqa: BLE001 – the other one looks for itself, and names what it is
        say(answers, DOUBT, str(fault).encode(errors="replace"))


def _seen(url: str, line: bytes, answers: BinaryIO, rows: Rows) -> Seen:
    part, snapshot = _ordered(line)
    said = 0

    def heard(count: int) -> None:
        nonlocal said
        if count - said >= _EVERY:
            said = count
            _tell(answers, DONE, str(count).encode())

    with connected(url) as engine, reading(engine) as tx, uncollected():
        joined(tx, snapshot)
        if head(tx, part.board) != part.last:
            raise _Other
        _tell(answers, BEGUN)
        return look(tx, engine, part, said=rows.add, heard=heard)


def _tell(answers: BinaryIO, letter: bytes, data: bytes = b"") -> None:
    say(answers, letter, data)
    answers.flush()
