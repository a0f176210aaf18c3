"""Pages out of templates: everything is escaped, whoever wrote it, and a page of a refusal says what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard import pictures
from dashboard.acts import fresh_command
from dashboard.tiles import Tile
from ledger.clock import instant, moment, rfc3339, show_age
from ledger.errors import InvalidInput, LedgerError, NotFound, StoreFault, UnknownTask
from ledger.events import NEUTRAL
from ledger.recorded import Recorded
from projections.budgets import Budget
from projections.sentences import said, sentence

TEMPLATES: Final = Path(__file__).parent / "templates"
COUNTERS: Final = {
    "violation_budget": "streak",
    "neutral_budget": "neutral",
    "run_budget": "runs",
    "failure_budget": "failures",
    "attempt_budget": "attempts",
}
"""What a page calls that which each budget counts (RULES §5)."""
_ENDS: Final = {"ok": "completed", "fail": "completed as failed", None: "handed on"}
_HELD_BY: Final = {"operator": "blocked by a person", "worker": "its worker asks", "config": "broken configuration"}
_ON_TILES: Final = ("failure_budget", "violation_budget", "neutral_budget")


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of *template*; *values* are what it shows."""
    return HTMLResponse(rendered(request, template, **values), status_code=status)


def rendered(request: Request, template: str, **values: Any) -> str:
    """*template* with *values*, and with what every page knows: its board, and whether it may act."""
    at = values.setdefault("at", None)
    shared = {
        "board": request.app.state.source.board,
        "can_write": getattr(request.state, "can_write", False),
        "csrf": getattr(request.state, "csrf", ""),
        "here": _here(request),
        "said": request.query_params.get("said"),
        "fresh": fresh_command,
        "link": lambda path, then=at: address(path, {"at": then}),
        "page": None,
    }
    return _ENVIRONMENT.get_template(template).render(shared | values)


def _here(request: Request) -> str:
    """Where the visitor is, on this server, without what came of an act."""
    asked = request.query_params
    return address(f"/{request.url.path.lstrip('/')}", {name: asked[name] for name in asked if name != "said"})


def address(path: str, given: Mapping[str, Any]) -> str:
    """*path* with what is *given* behind it; none and empty text are left out."""
    kept = {name: value for name, value in given.items() if value not in {None, ""}}
    return f"{path}?{urlencode(kept)}" if kept else path


def refusal(request: Request, error: LedgerError, code: int) -> HTMLResponse:
    """The page that names what is wrong and what to do about it."""
    title = next(words for kind, words in _REFUSALS.items() if isinstance(error, kind))
    return page(request, "word.html", status=code, title=title, lines=[_sentence(error.message)], remedy=error.remedy)


_REFUSALS: Final[Mapping[type[LedgerError], str]] = {
    UnknownTask: "There is no such card",
    NotFound: "That is not there",
    StoreFault: "The store cannot be read just now",
    InvalidInput: "That cannot be understood",
    LedgerError: "That cannot be done",
}


def unauthorised(request: Request) -> HTMLResponse:
    """The page for whoever has no token; it loads nothing, for nothing is served without one."""
    return page(request, "unauthorised.html", status=401)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


def _gauge(budget: Budget) -> Markup:
    return pictures.gauge(budget.count, budget.limit, f"{COUNTERS[budget.cause]}: {budget.count} of {budget.limit}")


def _counted(tile: Tile) -> list[Budget]:
    """The budgets that a tile has gauges for: those that have counted anything."""
    return [budget for cause in _ON_TILES if (budget := tile.budget(cause)).count]


def _until(tile: Tile, now: int) -> int | None:
    """The time before which a card is not started, as far as it is still to come."""
    if tile.status in {"done", "archived", "running"}:
        return None
    latest = max(tile.scheduled or 0, tile.not_before or 0)
    return latest if latest > now else None


def _mark(event: Recorded) -> str:
    """The class of the mark beside an event in a card's story."""
    if event.kind == "violation" or (event.kind == "exited" and event.outcome not in NEUTRAL):
        return "bad"
    if event.kind == "completed":
        return "good" if event.outcome == "ok" else "bad"
    if event.kind == "blocked" and event.facts["hold"]:
        return "bad"
    if event.actor_kind == "operator":
        return "person"
    return "run" if event.kind in {"claimed", "worker_bound", "progressed"} else ""


def _by(event: Recorded) -> str:
    """Whose doing an event is."""
    return "" if event.actor_kind in {"sweep", "system"} else f"by {event.actor_name}"


def _ended(run: dict[str, Any]) -> str:
    """How a run ended, in a word or two."""
    if run["ended_at"] is None:
        return "running"
    return {"ok": "completed", "fail": "completed as failed", None: "handed on"}.get(run["outcome"]) or plain(
        run["outcome"]
    )


def _tone(run: dict[str, Any]) -> str:
    if run["ended_at"] is None or run["outcome"] is None or run["outcome"] in NEUTRAL:
        return ""
    return "good" if run["outcome"] == "ok" else "bad"


def plain(name: str) -> str:
    """A name of the store as people read it."""
    return name.replace("_", " ")


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,  # every template, whatever its name
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "age": show_age,
        "iso": rfc3339,
        "clock": lambda at: moment(at).strftime("%H:%M:%S"),
        "moment": lambda at: moment(at).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "day": lambda at: moment(at).strftime("%A, %-d %B %Y"),
        "plain": plain,
        "many": "{:,}".format,
        "held_by": lambda cause: _HELD_BY.get(cause) or plain(cause),
        "instant": lambda text: instant(datetime.fromisoformat(text)),
        "mark": _mark,
        "by": _by,
        "ended": _ended,
        "tone": _tone,
        "gauge": _gauge,
        "counter": lambda budget: COUNTERS[budget.cause],
        "counted": _counted,
        "until": _until,
        "sentence": sentence,
        "said": said,
    }
    return made


_ENVIRONMENT: Final = _environment()
