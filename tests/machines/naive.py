"""RULES §3 and §4 told once more, by hand and without the folds: what each event makes of a card."""

from __future__ import annotations

from typing import Any

from ledger.recorded import Recorded

BLANK = {"lane": "work", "failures": 0, "streak": 0, "spent": 0, "neutral": 0, "runs": 0, "run": None, "hold": None,
         "not_before": None, "scheduled": None, "outcome": None, "archived": False}  # fmt: skip
ENDS = {"exited", "completed", "blocked", "review_requested", "changes_requested"}


class Naive:
    """Every card as a dict, and the links."""

    def __init__(self) -> None:
        self.cards: dict[str, dict[str, Any]] = {}

    def tell(self, event: Recorded) -> None:
        card = self.cards.setdefault(event.task, {**BLANK, "parents": {}, "names": {}, "last": {}})
        facts, kind, how = event.facts, event.kind, event.outcome
        if kind in ENDS and event.run is not None:
            card["run"] = None
        fresh = kind in {"completed", "reopened"} or (kind == "unblocked" and facts["cause"] == "operator")
        if kind == "created":
            card |= {"lane": facts["lane"], "parents": {p["task"]: p["require"] for p in facts["parents"]}}
            card["names"], card["last"] = {"assignee": facts["assignee"]}, {"assignee": facts["assignee"]}
        elif kind == "claimed":
            card |= {"run": event.run, "runs": card["runs"] + 1, "scheduled": None}
        elif kind == "exited" and how in {"rate_limited", "interrupted", "lost"}:
            card |= {"neutral": card["neutral"] + 1, "not_before": facts["not_before"]}
        elif kind == "exited":
            counts = ("streak", card["streak"] + 1) if how == "clean" else ("failures", card["failures"] + 1)
            card |= {"neutral": 0, "streak": 0, "spent": card["spent"] + 1, counts[0]: counts[1]}
            card["hold"] = ("config", True) if how == "config" else card["hold"]
        elif kind == "blocked":
            card |= {} if event.run is None else {"streak": 0, "neutral": 0}
            card["hold"] = (facts["cause"], facts["sticky"]) if facts["hold"] else card["hold"]
        elif kind in {"review_requested", "changes_requested"}:
            card |= {"streak": 0, "neutral": 0, "lane": "review" if kind == "review_requested" else "work"}
            name = facts["reviewer"] if kind == "review_requested" else None
            card["names"]["reviewer"] = name or card["names"].get("reviewer")
            card["last"]["reviewer"] = card["names"]["reviewer"] or card["last"].get("reviewer")
        elif kind == "assigned":
            to, role = facts["to"], facts["role"]
            fresh = to is not None and to != card["last"].get(role)
            card["names"][role], card["last"][role] = to, to or card["last"].get(role)
        elif kind == "edited":
            card["lane"] = facts["values"].get("lane", card["lane"])
        elif kind in {"linked", "unlinked"}:
            card["parents"].pop(facts["parent"], None)
            card["parents"] |= {facts["parent"]: facts["require"]} if kind == "linked" else {}
        elif kind == "scheduled":
            card["scheduled"] = facts["not_before"]
        card["outcome"] = how if kind == "completed" else None if kind == "reopened" else card["outcome"]
        card["archived"] = kind == "archived" or (card["archived"] and kind != "reopened")
        card |= dict.fromkeys(("failures", "streak", "spent", "neutral", "runs"), 0) if fresh else {}
        card["hold"] = None if kind in {"completed", "reopened", "unblocked"} else card["hold"]
        card["not_before"] = None if fresh and kind != "completed" else card["not_before"]
        card |= {"lane": "work", "scheduled": None} if kind == "reopened" else {}

    def status(self, task: str) -> str:
        card = self.cards[task]
        outcomes = ((self.cards[name]["outcome"], require) for name, require in card["parents"].items())
        waits = any(outcome is None or (outcome, require) == ("fail", "ok") for outcome, require in outcomes)
        told = {"archived": card["archived"], "done": card["outcome"], "running": card["run"], "blocked": card["hold"],
                "triage": card["lane"] == "triage", "todo": waits, "scheduled": card["scheduled"] is not None,
                "review": card["lane"] == "review"}  # fmt: skip
        return next((name for name, true in told.items() if true), "ready")
