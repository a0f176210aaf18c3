"""The chain: each event's hash covers the one before, so the first forged byte is named (RULES §10)."""

from __future__ import annotations

from hashlib import sha256
from json.encoder import encode_basestring as _quote


def first_hash(board_id: str) -> bytes:
    """hash(0): what the board's first event is chained to."""
    return sha256(board_id.encode()).digest()


def envelope(
    *,
    board: str,
    position: int,
    task: str,
    version: int,
    kind: str,
    schema: int,
    at: int,
    actor_kind: str,
    actor_name: str,
    actor_host: str,
    run: int | None,
    outcome: str | None,
    command_id: str | None,
) -> str:
    """The envelope as canonical JSON: UTF-8, keys sorted, no spaces, integers only.

    Written by a template, since it is written a million times; a test compares it with `json.dumps`.
    """
    return (
        f'{{"actor":{{"host":{_quote(actor_host)},"kind":{_quote(actor_kind)},"name":{_quote(actor_name)}}}'
        f',"at":{at},"board":{_quote(board)}'
        f',"command_id":{"null" if command_id is None else _quote(command_id)}'
        f',"kind":{_quote(kind)},"outcome":{"null" if outcome is None else _quote(outcome)}'
        f',"position":{position},"run":{"null" if run is None else run}'
        f',"schema":{schema},"task":{_quote(task)},"version":{version}}}'
    )


def words_digest(salt: bytes, words: str) -> bytes:
    """SHA-256(salt ‖ words): what stays in the event's row when the words are redacted."""
    return sha256(salt + words.encode()).digest()


def next_hash(previous: bytes, envelope_text: str, facts: str, digest: bytes) -> bytes:
    """hash(n) from hash(n−1), the envelope, the facts as stored and the digest of the words."""
    return sha256(previous + envelope_text.encode() + sha256(facts.encode()).digest() + digest).digest()
