"""Who asks for a proof: this machine since its last start, and the processes that this one may speak for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kanban.hosts import known_host
from kanban.processes import lineage, start_tick


@dataclass(frozen=True, slots=True)
class Identity:
    """A worker as a binding names it (RULES §6): host, boot and pid namespace, and its processes by pid and start.

    A run is bound to what was started for it, be it a supervisor or a shell: so a process speaks for itself, for what
    it descends from, and for the leaders of its group and session.
    """

    host: str
    boot: str
    namespace: str
    processes: frozenset[tuple[int, int]]

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Self | None:
        """This process's; none where it cannot be told, as on a machine that was never named and bound no run."""
        with suppress(OSError):
            return cls._of_process(environ)
        return None

    @classmethod
    def _of_process(cls, environ: Mapping[str, str]) -> Self | None:
        home = environ.get("LEDGER_HOME", "").strip()
        host = known_host(Path(home) if home else None)
        if host is None:
            return None
        descent = lineage(os.getpid())
        started = {(pid, process.start_tick) for pid, process in descent.items()}
        others = {os.getpgrp(), os.getsid(0)} - descent.keys()
        leaders = {(pid, tick) for pid in others if (tick := start_tick(pid)) is not None}
        return cls(host.id, host.boot, host.namespace, frozenset(started | leaders))

    def is_bound(self, binding: str) -> bool:
        """Whether the stored *binding* of a run is this worker's."""
        pid, tick, _, host, boot, namespace = json.loads(binding)
        return (pid, tick) in self.processes and (host, boot, namespace) == (self.host, self.boot, self.namespace)
