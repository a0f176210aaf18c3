"""The frame: all that one submission to an owner says. What the owner's own environment says takes no part in it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final, Self

from kanban.worker.carrier import Carrier, carrier_of
from ledger.errors import InvalidInput

PREFIX: Final = "LEDGER_"
"""How the variables begin that a client hands on: its claim, its files, and how its turns are to be taken."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A text, and the variables of the worker that it is for; without a claim it asks for one turn, no more.

    *over* is set once nobody waits for the turns any more: an agent written in Python should then stop.
    """

    text: str = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    claim: Carrier | None
    over: Event = field(default_factory=Event, repr=False, compare=False)

    @classmethod
    def of(cls, text: str, environment: Mapping[str, str]) -> Self:
        """The frame of *text* for the worker whose variables these are. Raises `Forbidden` for a part of a claim."""
        return cls(text, environment, carrier_of(environment))

    @classmethod
    def read(cls, said: object) -> Self:
        """The frame in a JSON value. Raises `InvalidInput` where that is none, `Forbidden` for a part of a claim."""
        match said:
            case {"text": str(text), "environment": dict(environment)} if all(map(_is_variable, environment.items())):
                return cls.of(text, environment)
            case _:
                raise InvalidInput("that is no frame", remedy='send {"text": "…", "environment": {"LEDGER_…": "…"}}')


Agent = Callable[[str, Frame], object]
"""Takes one turn on a text, in the conversation of that frame, and answers what `result_of` understands."""


def read_json(data: bytes) -> Any:
    """The JSON value in *data*, with null for every number that is none or too large. Raises ValueError."""
    return json.loads(data, parse_constant=lambda _: None, parse_float=_finite)


def variables_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of *environ* that a frame carries."""
    return {name: value for name, value in environ.items() if name.startswith(PREFIX)}


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _is_variable(item: tuple[Any, Any]) -> bool:
    name, value = item
    return isinstance(name, str) and name.startswith(PREFIX) and isinstance(value, str)
