"""Answers what a decision would have been without a task or a minute: one at a time, each within a limit of time, and kept.

Window, settings and the decision's own record come from Kafka; the policy decides in a process of its own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from surescale.contracts.errors import SurescaleError
from surescale.contracts.topics import STATE_GROUP
from surescale.runtime.kafka_errors import readable_errors
from surescale.services.recomputation.counterfactual import PolicyMissing, still_there
from surescale.services.recomputation.limited import StoppedEarly, without_in_process
from surescale.services.recomputation.records import Log, find_decision_since, find_settings, find_window
from surescale.services.state.documents import CounterfactualDocument, SizeWithout
from surescale.services.state.record_documents import DecisionDocument
from surescale.services.state.settings import StateSettings

WAITING_MAX = 8
KEPT_MAX = 256


class CounterfactualsDisabled(SurescaleError):
    """This service decides nothing again."""


class Counterfactuals:
    """Makes the answers. The newest `KEPT_MAX` are kept: a decision never changes, so neither does an answer."""

    def __init__(self, settings: StateSettings) -> None:
        self._settings = settings
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._kept: OrderedDict[tuple[str, str], CounterfactualDocument] = OrderedDict()

    async def answer(self, decision: DecisionDocument, name: str) -> CounterfactualDocument:
        """Return what would have been decided without a task or a minute.

        Raises:
            CounterfactualsDisabled: the settings say that nobody is answered.
            SettingsError: the window has no such task or minute.
            NotInKafka, CannotRecompute: what the decision was made from is gone.
            ConnectionError: Kafka does not answer, the policy is not here or takes too long, or too many wait.
        """
        if not self._settings.counterfactual_seconds:
            raise CounterfactualsDisabled("this service decides nothing again (SURESCALE_COUNTERFACTUAL_SECONDS is 0)")
        if self._waiting >= WAITING_MAX:
            raise ConnectionError(f"{WAITING_MAX} such questions wait already; ask again later")
        self._waiting += 1
        # Whoever goes away has asked all the same, and the answer is kept.
        return await asyncio.shield(asyncio.create_task(self._in_turn(decision, name)))

    async def _in_turn(self, decision: DecisionDocument, name: str) -> CounterfactualDocument:
        try:
            async with self._turn:
                asked = decision.record.decision_id, name
                if asked not in self._kept:
                    self._kept[asked] = await asyncio.to_thread(self._made, decision, name)
                self._kept.move_to_end(asked)
                while len(self._kept) > KEPT_MAX:
                    self._kept.popitem(last=False)
                return self._kept[asked]
        finally:
            self._waiting -= 1

    def _made(self, decision: DecisionDocument, name: str) -> CounterfactualDocument:
        settings = self._settings
        with readable_errors(settings):
            log = Log(settings, STATE_GROUP)
            try:
                found = find_decision_since(log, decision.record.decision_id, decision.appended_ms)
                window, in_force = still_there(found.decision, find_window(log, found), find_settings(log, found))
            finally:
                log.close()
        try:
            answer = without_in_process(
                found.decision,
                window,
                in_force,
                name,
                folder=settings.policy_folder,
                span_minutes=settings.span_minutes,
                seconds=settings.counterfactual_seconds,
            )
        except (PolicyMissing, StoppedEarly) as reason:
            raise ConnectionError(str(reason)) from None
        facts = answer.facts
        return CounterfactualDocument(
            decision_id=decision.record.decision_id,
            without=name,
            action=facts.action,
            reason=facts.reason,
            sizes=tuple(SizeWithout(task=task, decided=before, without=after) for task, (before, after) in facts.sizes.items()),
            stand_in_reason=facts.stand_in_reason,
            is_same_with_all=answer.is_same,
        )


class AllCounterfactuals:
    """Makes the answers of several pipelines. ``prefix_of`` says which one has a job."""

    def __init__(self, settings: StateSettings, prefix_of: Callable[[str], str]) -> None:
        self._prefix_of = prefix_of
        self._each = {prefix: Counterfactuals(replace(settings, topic_prefix=prefix)) for prefix in settings.prefixes}

    async def answer(self, decision: DecisionDocument, name: str) -> CounterfactualDocument:
        """As of one pipeline."""
        prefix = await asyncio.to_thread(self._prefix_of, decision.record.job)
        return await self._each[prefix].answer(decision, name)
