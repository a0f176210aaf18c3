"""When garbage is looked for: not among what start-up makes, which is much and no garbage, and not at the end."""

from __future__ import annotations

import gc

_USUAL = gc.get_threshold()
_MANY = 200_000  # more objects than start-up makes


def postpone() -> None:
    """Look for no garbage while modules are loaded."""
    gc.set_threshold(_MANY)


def resume() -> None:
    """Look for it as usual from here on, where it was postponed; what is there already is never looked at again."""
    if gc.get_threshold()[0] == _MANY:
        gc.freeze()
        gc.set_threshold(*_USUAL)


def give_up() -> None:
    """The process ends, and all its memory with it: the interpreter would look once more, for a fifth of the time."""
    gc.freeze()
