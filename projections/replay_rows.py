"""What is digested of a part's rows, until its turn comes: in files that have no name, so that no memory is taken."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Final, Self

from projections.compared import SHAPES

_CHUNK: Final = 1 << 16
"""Bytes that are read together."""


class Rows:
    """The bytes of each table, by its number in `SHAPES`; gone once it is closed, or its process is."""

    def __init__(self) -> None:
        with ExitStack() as ending:
            self._files: list[IO[bytes]] = [ending.enter_context(tempfile.TemporaryFile()) for _ in SHAPES]
            self._ending = ending.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def add(self, table: int, data: bytes) -> None:
        """More of one table. Raises `OSError` where there is no room."""
        self._files[table].write(data)

    def of(self, table: int) -> Iterator[bytes]:
        """All of one table."""
        self._files[table].seek(0)
        while data := self._files[table].read(_CHUNK):
            yield data
