"""Identifiers and secrets: made without coordination, so two offline stores never mint the same one."""

from __future__ import annotations

import hashlib
import hmac
import secrets

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: read aloud without mistakes


def task_id() -> str:
    """A new card's id: `t_` and 12 characters (60 random bits)."""
    return "t_" + "".join(secrets.choice(_ALPHABET) for _ in range(12))


def board_id() -> str:
    """A new board's identity: 128 random bits in hex. It stands in the store and seeds the chain."""
    return secrets.token_hex(16)


def command_id() -> str:
    """A new command's id: 80 random bits."""
    return secrets.token_hex(10)


def lock() -> str:
    """A run's fencing token: 256 random bits. Only its hash is ever written down."""
    return secrets.token_urlsafe(32)


def lock_hash(token: str) -> str:
    """SHA-256 of a lock in hex: what the log holds."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def opens(token: str, hashed: str) -> bool:
    """Whether *token* is the lock behind *hashed*, compared in constant time."""
    return hmac.compare_digest(lock_hash(token), hashed)
