"""The job queues' side: no-op jobs put in, fetched, run and finished by procrastinate and by pgqueuer."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import Any

from peer_asked import serve  # first, as for the other peers

import asyncpg  # isort: skip
import procrastinate  # isort: skip
import psycopg  # isort: skip
from pgqueuer import AsyncpgDriver, Queries, QueueManager  # isort: skip
from pgqueuer.types import QueueExecutionMode  # isort: skip

logging.disable(logging.CRITICAL)


class Asked:
    """The verbs; every one begins with an empty queue."""

    def at(self, host: str, user: str) -> None:
        """Where the server is."""
        self.host, self.user = host, user

    def enqueue(self, kind: str, jobs: int) -> float:
        """Seconds a job, one a call."""
        self._fresh(kind)
        return asyncio.run(getattr(self, f"_put_in_{kind}")(jobs))  # type: ignore[no-any-return]

    def drain(self, kind: str, jobs: int, batch: int) -> float:
        """Seconds a job: all of *jobs* fetched and finished by one worker, *batch* at a time."""
        self._fresh(kind)
        return asyncio.run(getattr(self, f"_drained_by_{kind}")(jobs, batch))  # type: ignore[no-any-return]

    def live(self, kind: str, jobs: int, batch: int) -> float:
        """Seconds a job, from first to last: put in one a call, then fetched and finished."""
        return self.enqueue(kind, jobs) + self.drain(kind, jobs, batch)

    def _fresh(self, kind: str) -> None:
        with psycopg.connect(self._info("postgres"), autocommit=True) as db:
            db.execute(f"DROP DATABASE IF EXISTS {kind} WITH (FORCE)")
            db.execute(f"CREATE DATABASE {kind}")
        asyncio.run(getattr(self, f"_install_{kind}")())

    def _info(self, database: str) -> str:
        return f"host={self.host} user={self.user} dbname={database}"

    def _app(self) -> Any:
        connector = procrastinate.PsycopgConnector(conninfo=self._info("procrastinate"), min_size=1, max_size=10)
        app = procrastinate.App(connector=connector)

        @app.task(name="noop")
        async def noop(a: int) -> None:
            """Nothing."""

        return app, noop

    async def _install_procrastinate(self) -> None:
        app, _ = self._app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def _put_in_procrastinate(self, jobs: int) -> float:
        app, noop = self._app()
        async with app.open_async():
            begun = perf_counter()
            for number in range(jobs):
                await noop.defer_async(a=number)
            return (perf_counter() - begun) / jobs

    async def _drained_by_procrastinate(self, jobs: int, batch: int) -> float:
        app, noop = self._app()
        async with app.open_async():
            for start in range(0, jobs, 1_000):
                await noop.batch_defer_async(*({"a": number} for number in range(start, min(jobs, start + 1_000))))
            begun = perf_counter()
            await app.run_worker_async(
                wait=False, concurrency=batch, install_signal_handlers=False, listen_notify=False, delete_jobs="never"
            )
            return (perf_counter() - begun) / jobs

    async def _connected(self) -> Any:
        return await asyncpg.connect(host=self.host, user=self.user, database="pgqueuer")

    async def _install_pgqueuer(self) -> None:
        db = await self._connected()
        await Queries(AsyncpgDriver(db)).install()
        await db.close()

    async def _put_in_pgqueuer(self, jobs: int) -> float:
        db = await self._connected()
        queries = Queries(AsyncpgDriver(db))
        begun = perf_counter()
        for _ in range(jobs):
            await queries.enqueue("noop", b"1")
        seconds = (perf_counter() - begun) / jobs
        await db.close()
        return seconds

    async def _drained_by_pgqueuer(self, jobs: int, batch: int) -> float:
        db = await self._connected()
        queries = Queries(AsyncpgDriver(db))
        for start in range(0, jobs, 1_000):
            size = min(1_000, jobs - start)
            await queries.enqueue(["noop"] * size, [b"1"] * size, [0] * size)
        manager, done = QueueManager(queries), 0

        @manager.entrypoint("noop")
        async def noop(_job: Any) -> None:
            nonlocal done
            done += 1

        begun = perf_counter()
        await manager.run(batch_size=batch, mode=QueueExecutionMode.drain)
        seconds = (perf_counter() - begun) / jobs
        assert done == jobs, done
        await db.close()
        return seconds


asked = Asked()
serve({"at": asked.at, "enqueue": asked.enqueue, "drain": asked.drain, "live": asked.live})
