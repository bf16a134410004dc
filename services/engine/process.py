"""The engine process: HTTP, Kafka and clock in one asyncio loop, until told to stop."""

import asyncio
import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING

from surescale.contracts.commands import EventRecord
from surescale.contracts.messages import ClockSegment
from surescale.runtime.backoff import Stopped
from surescale.runtime.listen import HalfRequests, listen, runner_of
from surescale.runtime.watchdog import Watchdog
from surescale.services.engine.api import application, refused
from surescale.services.engine.clock_driver import ClockDriver
from surescale.services.engine.settings import EngineSettings
from surescale.simulation.engine.cluster import SimulatedCluster

if TYPE_CHECKING:
    from surescale.services.engine.pipeline_client import PipelineClient

_log = logging.getLogger("surescale.engine")


def serve(cluster: SimulatedCluster, settings: EngineSettings, port: int) -> None:
    """Serve a cluster at ``settings.engine_host`` and a port (0: a free one) until SIGTERM or SIGINT.

    Raises:
        SettingsError: the port is taken.
    """
    process = _Process(cluster, settings, port)
    with process.watchdog:
        asyncio.run(process.run())


class _Process:
    def __init__(self, cluster: SimulatedCluster, settings: EngineSettings, port: int) -> None:
        self._cluster = cluster
        self._settings = settings
        self._port = port
        self._stop = threading.Event()
        self._is_ready = False
        self.watchdog = Watchdog("engine", settings.hung_after_s, _log)

    async def run(self) -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        pipeline = self._pipeline_client()
        driver = ClockDriver(self._cluster, self._settings, pipeline.publish if pipeline else _nobody_listens)
        half_requests = HalfRequests()
        app = application(driver, lambda: self._is_ready, self.watchdog)
        app.middlewares.insert(0, half_requests.middleware)
        runner = runner_of(app)
        await runner.setup()
        pulse = asyncio.create_task(self.watchdog.pulse("the event loop"))
        try:
            where = (self._settings.engine_host, self._port)
            await listen(runner, *where, option="--port", half_requests=half_requests, refused=refused)
            ends_late = asyncio.create_task(half_requests.end_late(runner))
            _log.info("the engine listens on http://%s:%d", *runner.addresses[0][:2])
            await self._work_until(stopped, driver, pipeline)
            ends_late.cancel()
        finally:
            self._stop.set()
            pulse.cancel()
            await runner.cleanup()

    async def _work_until(self, stopped: asyncio.Event, driver: ClockDriver, pipeline: "PipelineClient | None") -> None:
        work = asyncio.create_task(self._work(driver, pipeline))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
        self._stop.set()
        if work.done():
            work.result()  # it never ends by itself: this raises what ended it
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Stopped):
            await work

    async def _work(self, driver: ClockDriver, pipeline: "PipelineClient | None") -> None:
        loop = asyncio.get_running_loop()
        if pipeline is None:
            self._is_ready = True
            await asyncio.gather(driver.run(), asyncio.Event().wait())
            return
        await loop.run_in_executor(None, pipeline.connect)

        def hand_on(records: list[EventRecord]) -> None:
            loop.call_soon_threadsafe(driver.on_records, records)

        following = loop.run_in_executor(None, pipeline.follow, hand_on)
        self._is_ready = True
        await asyncio.gather(driver.run(), following)

    def _pipeline_client(self) -> "PipelineClient | None":
        if not self._settings.use_kafka:
            return None
        from surescale.services.engine.pipeline_client import PipelineClient

        return PipelineClient(self._settings, self._stop)


def _nobody_listens(_segment: ClockSegment) -> None:
    """Do nothing: without Kafka, the clock is available over HTTP only."""
