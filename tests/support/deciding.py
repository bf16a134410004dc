"""One job from its source's minutes to commands, in this process: the product's own assembly, policy, guardrails and controller.

loop = DecidingJob("live/orders", policy, JobSettings(job="live/orders", mode="act"))
for command in loop.take(minute, cluster):     # a finished minute of its source
    ...                                        # carry it out
    loop.report(progress, cluster)
"""

from dataclasses import dataclass, field

import numpy as np

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.contracts.ids import Cluster, cluster_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, JobTopology, MinuteMarker
from surescale.engines.ports.source import FinishedMinute
from surescale.policies.decide import decide_if_due
from surescale.policies.policy import Policy
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.world import View
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from tests.support.record_columns import records_of


@dataclass
class DecidingJob:
    """A job under one policy.

    Attributes:
        job: its id.
        policy: decides.
        settings: of the job.
        rules: of the rescaler.
        commands: so far.
    """

    job: str
    policy: Policy
    settings: JobSettings
    rules: ControlSettings = field(default_factory=ControlSettings)
    commands: list[RescheduleCommand] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Know nothing yet."""
        self.control = Controller(Cluster(cluster_of(self.job)), self.rules)
        self._minutes, self._offset = Minutes(MinuteRules()), 0
        self._topology: JobTopology | None = None

    def take(self, minute: FinishedMinute, cluster: ClusterTopology) -> list[RescheduleCommand]:
        """Take the next minute in, decide at its end, and return what is commanded."""
        self._topology = minute.topology
        marker = MinuteMarker(
            job=self.job,
            minute_end_ms=minute.minute_end_ms,
            topology=minute.topology,
            age_ms=minute.age_ms,
            observer=minute.observer,
        )
        messages = [*minute.samples, marker]
        at = range(self._offset, self._offset + len(messages))
        self._offset += len(messages)
        records = records_of(
            [(Coordinates(0, each, minute.minute_end_ms), message) for each, message in zip(at, messages, strict=True)]
        )
        fed = self._minutes.feed(records, np.full(len(records.job), minute.minute_end_ms, dtype=np.int64))
        assert not fed.refused, fed.refused
        now_ms, view = minute.minute_end_ms, self._view(cluster)
        found = []
        for window in fed.windows:
            decision = decide_if_due(window, self.policy, view.settings_of(self.job), seed=0)
            if decision is not None:
                found += self._keep(self.control.on_decision(decision, view, now_ms))
        return found + self._keep(self.control.on_tick(view, now_ms))

    def report(self, progress: Progress, cluster: ClusterTopology, now_ms: int) -> list[RescheduleCommand]:
        """Take an actuator's report in."""
        return self._keep(self.control.on_progress(progress, self._view(cluster), now_ms))

    def _view(self, cluster: ClusterTopology) -> View:
        jobs = {self.job: self._topology} if self._topology is not None else {}
        return View(cluster, jobs, {self.job: self.settings})

    def _keep(self, effects: Effects) -> list[RescheduleCommand]:
        self.commands += effects.commands
        return list(effects.commands)
