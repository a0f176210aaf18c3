"""Old shapes of events are read through upcasters: pure, dict → dict, chained. Stored bytes never change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ledger.errors import NewerSchema, UnknownKind
from ledger.events import SCHEMAS

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes the facts of schema *n* into those of schema *n + 1*."""

UPCASTERS: Final[dict[tuple[str, int], Upcaster]] = {}
"""(kind, schema) → the step to the next schema. Empty as long as no released shape has changed."""


def upcast(
    kind: str,
    schema: int,
    facts: dict[str, Any],
    *,
    position: int,
    known: Mapping[str, int] = SCHEMAS,
    steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
) -> dict[str, Any]:
    """*facts* in the newest shape of *kind*. Raises `UnknownKind` or `NewerSchema`, naming the position."""
    for step in range(schema, check_readable(kind, schema, position=position, known=known)):
        facts = steps[kind, step](facts)
    return facts


def check_readable(kind: str, schema: int, *, position: int, known: Mapping[str, int] = SCHEMAS) -> int:
    """The newest schema of *kind*. Raises `UnknownKind` or `NewerSchema`: folds call it where they read no facts."""
    newest = known.get(kind)
    if newest is None:
        raise UnknownKind(kind, position)
    if not 1 <= schema <= newest:
        raise NewerSchema(kind, schema, position, newest)
    return newest


def check_steps(known: Mapping[str, int] = SCHEMAS, steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS) -> list[str]:
    """What is wrong with a table of steps: gaps between schema 1 and the newest, or steps that lead nowhere."""
    wanted = {(kind, schema) for kind, newest in known.items() for schema in range(1, newest)}
    gaps = [f"{kind}: no step from schema {schema}" for kind, schema in sorted(wanted - set(steps))]
    strays = [f"{kind}: a step from schema {schema} leads nowhere" for kind, schema in sorted(set(steps) - wanted)]
    return gaps + strays
