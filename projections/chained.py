"""Holes, the chain and the words of a log, event by event, as its rows are stored (RULES §2, §9, §10). Pure."""

from __future__ import annotations

from typing import Any

from ledger.chain import envelope, next_hash, words_digest
from ledger.recorded import Recorded
from ledger.standing import Head
from projections.divergence import Divergence

SALT = 32  # bytes


class Chain:
    """The log so far: its last position, instant and hash, and what was found wrong with it.

    *first* is what the first event is chained to; none: only order is looked at, neither hashes nor words.
    After a hash that differs the chain goes on from the stored one, or, where that is the forged one, from the
    recomputed one: so one forged event is one divergence, and the first forged byte is the one that is named.
    """

    def __init__(self, first: bytes | None) -> None:
        self.found: list[Divergence] = []
        self.position = 0
        self.at = 0
        self.hash = first or b""
        self.worded = 0
        """How many events had their words."""
        self.wordless: dict[int, str] = {}
        self._unhashed = first is None
        self._instead: bytes | None = None
        self._versions: dict[str, int] = {}

    def take(self, row: tuple[Any, ...]) -> None:
        """Check the next stored row, its columns in the order of `Recorded`."""
        (board, position, task, version, kind, schema, at, actor_kind, actor_name, actor_host, run, outcome,
         command_id, facts, digest, stored, salt, words) = row  # fmt: skip
        self.place(position, task, version, schema=schema, at=at, run=run)
        if words is None:
            self.wordless[position] = task
        else:
            self.worded += 1
            said = words_digest(salt, words)
            if said != digest or len(salt) != SALT:
                self._say(row, "§10 words", digest, said, "its words are not those that were hashed")
        text = envelope(
            board=board, position=position, task=task, version=version, kind=kind, schema=schema, at=at,
            actor_kind=actor_kind, actor_name=actor_name, actor_host=actor_host, run=run, outcome=outcome,
            command_id=command_id,
        )  # fmt: skip
        computed = next_hash(self.hash, text, facts, digest)
        if computed != stored:
            self._broken(row, computed, text)
        elif self._instead is not None:
            self._instead = None
        self.hash = stored

    def place(self, position: int, task: str, version: int, *, schema: int, at: int, run: int | None) -> None:
        """Check that the next event stands where it must, and what its numbers are: no hash, no words."""
        numbers = type(position) is type(version) is type(schema) is type(at) is int
        if not numbers or type(task) is not str or not (run is None or type(run) is int):
            raise TypeError("a column holds another type")
        last = self._last_version(task, version)
        if position != self.position + 1 or version != last + 1 or at < self.at:
            self._holes(task, last, position=position, version=version, at=at)
        self.position, self.at = position, at

    def _last_version(self, task: str, version: int) -> int:
        """What the card's version was before this one."""
        last = self._versions.get(task, 0)
        self._versions[task] = version
        return last

    def damaged(self, fault: Exception, *, position: Any, task: Any, stored: Any = None) -> None:
        """Go on after a row whose columns are not even of the right types; *stored*: its hash, where that was read."""
        self.position = position if isinstance(position, int) else self.position + 1
        text = f"its stored columns cannot be hashed: {type(fault).__name__}: {fault}"
        self.found.append(Divergence(str(task), self.position, "§10 chain", None, None, text))
        self.hash = stored if isinstance(stored, bytes) else self._instead or b""
        self._instead = None

    def end(self, head: Head | None, redacted: dict[int, int]) -> None:
        """The log is read: compare it with the board's row (none: it stands further on), missing words with redactions.

        *redacted*: the named position → the last position that names it.
        """
        self._wordless(redacted)
        if head is None:
            return
        found = (self.position, self.at, head.hash if self._unhashed else self.hash)
        if found == head[1:]:
            return
        if head.position != self.position:
            text = f"the head says that the log ends at position {head.position}, it ends at {self.position}"
            self.found.append(Divergence(None, self.position, "§9 head", head.position, self.position, text))
            return
        for name, stored, computed in zip(("at", "hash"), head[2:], found[1:], strict=True):
            if stored != computed:
                text = f"the head's {name} is not that of the last event"
                self.found.append(Divergence(None, self.position, "§9 head", stored, computed, text))

    def _wordless(self, redacted: dict[int, int]) -> None:
        for position, task in self.wordless.items():
            if redacted.get(position, 0) <= position:
                text = "its words are gone, and no later `redacted` names it"
                self.found.append(Divergence(task, position, "§10 words", None, "words", text))

    def _holes(self, task: str, last: int, *, position: int, version: int, at: int) -> None:
        numbers = (("position", position, self.position + 1), ("version", version, last + 1))
        for name, stored, expected in numbers:
            if stored != expected:
                of = f" of {task or 'the board'}" if name == "version" else ""
                text = f"{name} {stored}{of} after {expected - 1}"
                self.found.append(Divergence(task, position, f"§2 {name}", stored, expected, text))
        if at < self.at:
            text = "its instant is before that of the event before it"
            self.found.append(Divergence(task, position, "§2 at", at, self.at, text))

    def _broken(self, row: tuple[Any, ...], computed: bytes, text: str) -> None:
        event = Recorded._make(row)
        instead, self._instead = self._instead, None
        if instead is not None and next_hash(instead, text, event.facts_text, event.words_digest) == event.hash:
            return
        self._instead = computed
        if not isinstance(event.hash, bytes):
            raise TypeError("a hash is no text")
        said = "its hash is not that of its columns after the event before it"
        self._say(row, "§10 chain", event.hash, computed, said)

    def _say(self, row: tuple[Any, ...], rule: str, stored: Any, computed: Any, text: str) -> None:
        event = Recorded._make(row)
        self.found.append(Divergence(event.task, event.position, rule, stored, computed, text))


class Stretch(Chain):
    """The same of the events behind one that stands at *position*: versions are looked at by whoever folds the cards.

    That event is taken as it is stored: it is the last of the stretch before this one.
    """

    def __init__(self, *, position: int, at: int, stored: bytes) -> None:
        super().__init__(stored)
        self.position, self.at = position, at

    def _last_version(self, task: str, version: int) -> int:  # noqa: ARG002 – one shape for both
        return version - 1
