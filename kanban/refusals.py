"""The rules' own refusals: each names the thing, and what to run next (RULES §8).

Refusal (ledger/errors.py)
├── Contended                   somebody else has it: look again
│   ├── Taken
│   ├── LostClaim
│   ├── LiveClaim
│   └── Conflict
├── Paused                      nothing is claimed until somebody resumes
├── NothingToDo                 no card can be claimed now
└── Ruled                       a rule of the board: change the wish
    ├── NotClaimable
    ├── Forbidden
    ├── Unmet
    ├── NotDone
    ├── NotInReview
    ├── AlreadyDone
    ├── NoLateResult
    ├── NoWords
    ├── Closed
    ├── DeadParent
    ├── Ring
    └── ChoiceNeeded
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.errors import Refusal


class Contended(Refusal):
    """Somebody else holds what was asked for."""


class Ruled(Refusal):
    """A rule of the board forbids it."""


class Taken(Contended):
    """The card has a run already."""

    def __init__(self, task: str, run: int, worker: str) -> None:
        super().__init__(f"{task} is taken: run {run} by {worker}", task=task, remedy=f"ledger show {task}")
        self.run = run
        self.worker = worker


class LostClaim(Contended):
    """The caller acts for a run that no longer holds the card."""

    def __init__(self, task: str, run: int, *, current: int | None, why: str = "", kept: bool = False) -> None:
        now = "nobody" if current is None else f"run {current}"
        text = f"{task}: run {run} no longer holds the claim (now: {now}){': ' + why if why else ''}"
        if kept:
            text += "; its result is kept"
        remedy = f"ledger accept {task} {run}" if kept else f"stop working on {task}: ledger show {task}"
        super().__init__(text, task=task, remedy=remedy)
        self.run = run
        self.current = current
        self.kept = kept


class LiveClaim(Contended):
    """A run is at work on the card: its worker must end first."""

    def __init__(self, task: str, run: int, verb: str) -> None:
        remedy = f"ledger {verb} {task} … --force"
        if verb in {"link", "edit", "reopen", "changes", "accept"}:
            remedy = f"ledger stop {task}"
        super().__init__(
            f"{task}: run {run} is live, {verb} would pull the card from under it", task=task, remedy=remedy
        )
        self.run = run


class Conflict(Contended):
    """The idempotency key belongs to another request."""

    def __init__(self, key: str, task: str) -> None:
        super().__init__(
            f"key {key!r} belongs to {task}, which was created otherwise",
            task=task,
            remedy=f"use another --key, or look: ledger show {task}",
        )
        self.key = key


class Paused(Refusal):
    """A pause is in force for this claim."""

    def __init__(self, scope: str, name: str, position: int, *, task: str | None = None) -> None:
        what = "the board" if scope == "board" else f"{scope} {name}"
        flag = "" if scope == "board" else f" --{scope} {name}"
        super().__init__(f"{what} is paused since position {position}", task=task, remedy=f"ledger resume{flag}")
        self.scope = scope
        self.position = position


class NothingToDo(Refusal):
    """No card can be claimed now."""

    def __init__(self, assignee: str | None = None) -> None:
        of = f" for {assignee}" if assignee else ""
        super().__init__(f"no card can be claimed now{of}", remedy="ledger stats")


class NotClaimable(Ruled):
    """The card cannot be claimed now, for a machine-readable *reason*."""

    def __init__(self, task: str, reason: str, detail: str = "") -> None:
        text = f"{task} cannot be claimed: {reason}{' (' + detail + ')' if detail else ''}"
        super().__init__(text, task=task, remedy=f"ledger why {task}")
        self.reason = reason


class Forbidden(Ruled):
    """This actor may not do that."""


class Unmet(Ruled):
    """A parent of the card is not satisfied."""

    def __init__(self, task: str, parents: Sequence[str], *, kept_run: int | None = None) -> None:
        text = f"{task} waits for {', '.join(parents)}"
        remedy = f"ledger why {task}"
        if kept_run is not None:
            text += f"; the result of run {kept_run} is kept and the run has ended"
            remedy = f"once the parents are satisfied: ledger accept {task} {kept_run}"
        super().__init__(text, task=task, remedy=remedy)
        self.parents = tuple(parents)


class NotDone(Ruled):
    """Only a done or archived card can be reopened."""

    def __init__(self, task: str, status: str) -> None:
        super().__init__(f"{task} is {status}, neither done nor archived", task=task, remedy=f"ledger show {task}")


class NotInReview(Ruled):
    """Changes can be asked only of a card in review."""

    def __init__(self, task: str, status: str) -> None:
        super().__init__(f"{task} is {status}, not in review", task=task, remedy=f"ledger show {task}")


class AlreadyDone(Ruled):
    """The card is done, otherwise than asked."""

    def __init__(self, task: str, outcome: str) -> None:
        super().__init__(f"{task} is done already ({outcome})", task=task, remedy=f"ledger reopen {task}")


class NoLateResult(Ruled):
    """That run left no late result."""

    def __init__(self, task: str, run: int) -> None:
        super().__init__(f"{task}: run {run} left no late result", task=task, remedy=f"ledger runs {task}")
        self.run = run


class NoWords(Ruled):
    """The event says nothing in words: what it holds are facts, and those stay."""

    def __init__(self, task: str, position: int, kind: str) -> None:
        where = f" {task}" if task else ""
        super().__init__(
            f"position {position}: that {kind} says nothing in words; what it holds are facts, which stay",
            task=task or None,
            remedy=f"find the position of the text: ledger events{where}",
        )
        self.position = position


class Closed(Ruled):
    """The card is done or archived."""

    def __init__(self, task: str, status: str) -> None:
        super().__init__(f"{task} is {status}", task=task, remedy=f"ledger reopen {task}")


class DeadParent(Ruled):
    """The parent can never satisfy the link by itself."""

    def __init__(self, task: str, parent: str, why: str) -> None:
        super().__init__(
            f"{parent} {why}: a child would wait for ever",
            task=task,
            remedy=f"ledger reopen {parent}, or link with --require any",
        )
        self.parent = parent


class Ring(Ruled):
    """The link would close a ring."""

    def __init__(self, ring: Sequence[str]) -> None:
        super().__init__(
            f"the link would close a ring: {' → '.join(ring)}", task=ring[0], remedy=f"ledger show {ring[0]}"
        )
        self.ring = tuple(ring)


class ChoiceNeeded(Ruled):
    """Archiving a card with open children needs to say what happens to them."""

    def __init__(self, task: str, children: Sequence[str]) -> None:
        super().__init__(
            f"{task} has open children: {', '.join(children)}",
            task=task,
            remedy=f"ledger archive {task} --keep | --unlink | --cascade",
        )
        self.children = tuple(children)
