"""Asks the shadow policies after the decision is made, one at a time, and never holds up the next decision."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from aiokafka.errors import KafkaError

from surescale.contracts.decisions import Decision, ShadowDecision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.releases import Release
from surescale.policies.shadow import ShadowRun
from surescale.runtime.backoff import Throttle
from surescale.services.agent.counts import LOST, AgentCounts
from surescale.services.agent.shadow_process import ShadowProcess, ShadowQuestion

WAITING_MAX = 256
WAITING_BYTES_MAX = 64 * 2**20
"""Of the windows that wait; one window may take 8 MiB."""

Send = Callable[[ShadowDecision], Awaitable[None]]


class Shadows:
    """A queue in front of the process that answers. What finds it full is skipped, and counted."""

    def __init__(self, process: ShadowProcess, send: Send, counts: AgentCounts, log: logging.Logger) -> None:
        """``send`` returns once Kafka has the record."""
        self._process, self._send, self._counts, self._log = process, send, counts, log
        self._waiting: deque[ShadowQuestion] = deque()
        self._skipped: deque[ShadowDecision] = deque(maxlen=WAITING_MAX)
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._seldom = Throttle()

    def offer(self, raw: bytes, served: Decision, took_ms: float, settings: JobSettings, releases: Iterable[Release]) -> None:
        """Let policies look at a window on which the decision is made and acknowledged. Returns at once.

        A policy that was asked for this decision anyway is not asked twice.
        """
        for release in releases:
            if release.policy == (served.policy.asked or served.policy.name) and release.sha256 in ("", served.policy.sha256):
                continue
            beside = ShadowRun(release.policy, release.sha256, served, took_ms)
            if len(self._waiting) >= WAITING_MAX or self._bytes + len(raw) > WAITING_BYTES_MAX:
                self._skipped.append(beside.unanswered("skipped", "Too many windows were waiting."))
            else:
                self._waiting.append(ShadowQuestion(raw, settings, beside))
                self._bytes += len(raw)
            self._arrived.set()
        self._counts.shadows_waiting = len(self._waiting)

    async def run(self) -> None:
        """Answer what is offered until cancelled."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while self._waiting or self._skipped:
                    try:
                        await self._next()
                    except Exception:  # a mistake of ours here must not end the agent, nor the answers that follow
                        self._log.exception("a shadow policy could not be asked")
        finally:
            self._process.close()

    async def _next(self) -> None:
        while self._skipped:
            await self._out(self._skipped.popleft())
        if not self._waiting:
            return
        question = self._waiting.popleft()
        self._bytes -= len(question.window)
        self._counts.shadows_waiting = len(self._waiting)
        answer = await asyncio.to_thread(self._process.ask, question)
        if answer is not None:
            await self._out(answer)

    async def _out(self, record: ShadowDecision) -> None:
        try:
            await self._send(record)
        except KafkaError as error:
            # It is only a comparison: the next ones arrive, and the windows they are about are not read again.
            self._counts.shadow_answered(record.policy, LOST, None)
            if self._seldom.is_time():
                self._log.warning("an answer from the shadow is lost: %s", error)
            return
        took_ms = record.comparison.took_ms if record.comparison else None
        self._counts.shadow_answered(record.policy, record.status, None if took_ms is None else took_ms / 1000)
        if record.status != "answered" and self._seldom.is_time():
            words = (record.policy, record.job, record.status, record.reason)
            self._log.warning("shadow policy %s gave no answer on %s (%s): %s", *words)
