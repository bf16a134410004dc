"""A road with two chains of three consumer groups: surescale scales one, nobody scales the other.

The pipeline's clock runs several times as fast as the wall's, so that it decides every few seconds; all else happens as it does.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.clock import MINUTE_MS
from contracts.job_settings import JobSettings, Mode
from contracts.messages import ClockSegment
from contracts.settings import RoadSettings
from contracts.topics import CLOCK
from engines.processes.workforce import Workforce
from policies.registry import check_policy, load_policy, policy_names
from runtime.whole_topics import send
from services.local_stack.compared.load import PARTITIONS
from services.local_stack.compared.road import STATIC, ComparedRoad, LoadOptions, Report
from services.local_stack.consumers.chain import outputs, write_groups_file
from services.local_stack.consumers.watch import ChainFigures, ChainWatch
from services.local_stack.errors import Say, silent

CLUSTER: Final = "consumers"
SCALED: Final = "scaled"
MODES: Final[Mapping[str, Mode]] = {SCALED: "act", STATIC: "observe"}
CATCH_UP_MINUTES: Final = 1.0
WORKERS_MAX: Final = 24
_STARTED_WITHIN_S: Final = 60.0
_STOPPED_WITHIN_S: Final = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumersRoadOptions(LoadOptions):
    """What runs on the road.

    Attributes:
        speed: minutes of the pipeline in one minute.
    """

    seconds: int = 105
    mean: float = 55.0
    policy: str = "target-utilisation"
    speed: float = 6.0


class ConsumersReport(Report, frozen=True, kw_only=True):
    """Everything a run came to, by chain."""

    jobs: dict[str, ChainFigures]
    policy: str
    speed: float


class ConsumersRoad(ComparedRoad):
    """The workers end by themselves when the supervisor's folder vanishes."""

    options: ConsumersRoadOptions
    drain_s_max = 15.0

    def __init__(self, options: ConsumersRoadOptions, say: Say = silent) -> None:
        """Check what this machine provides before anything starts.

        Raises:
            StackError: no Java, or a download failed.
            SurescaleError: there is no such policy or trace.
        """
        check_policy(options.policy, policy_names())
        load_policy(options.policy)
        super().__init__(options, say)
        self.jobs = list(MODES)

    def _make_ready(self) -> RoadSettings:
        folder = self.supervisor.folder / "workers"
        folder.mkdir()
        groups_file = folder / "groups.json"
        write_groups_file(groups_file, self._broker.bootstrap, MODES)
        return RoadSettings(
            bootstrap=self._broker.bootstrap,
            redis_url=self._redis.url,
            cluster=CLUSTER,
            engine="kafka",
            actuator="processes",
            groups_file=str(groups_file),
            workers_folder=str(folder),
            workers_max=WORKERS_MAX,
            policy=self.options.policy,
            seed=self.options.seed,
            span_minutes=1,
            road_clock=True,
        )

    def start(self) -> None:
        """Bring up servers, roles and workers, then start the load."""
        self._start_servers()
        self._create_topics(outputs(self.jobs))
        self._publish_clock()
        limits = JobSettings(
            job=f"{CLUSTER}/{SCALED}",
            version=1,
            mode="act",
            parallelism_max=PARTITIONS,
            policy=self.options.policy,
            minutes_known_min=1,
            catch_up_minutes=CATCH_UP_MINUTES,
            set_by="demo-consumers",
        )
        self._publish([limits])
        self.supervisor.start_together(self._roles(SURESCALE_COOLDOWN_MS="60000", SURESCALE_STABILIZATION_MS="1000"))
        self._watches = {job: ChainWatch(self.settings.bootstrap, job) for job in self.jobs}
        self.supervisor.wait(self._all_joined, timeout_s=_STARTED_WITHIN_S, what="the workers to join their groups", poll_s=0.5)
        self._start_load()

    def stop_jobs(self) -> None:
        """Let every worker finish what it has in hand, commit, and end."""
        workforce = Workforce(Path(self.settings.workers_folder), CLUSTER)
        for job in self.jobs:
            workforce.stop(job)
        self.supervisor.wait(
            lambda: not any(map(workforce.workers, self.jobs)), timeout_s=_STOPPED_WITHIN_S, what="the workers to end"
        )

    def report(self) -> ConsumersReport:
        """Return the figures of chains that have stopped."""
        return ConsumersReport(**self._ran(), policy=self.options.policy, speed=self.options.speed)

    def _publish_clock(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        clock = ClockSegment(
            road=self.settings.road,
            sequence=1,
            e0_ms=now_ms // MINUTE_MS * MINUTE_MS,
            w0_ms=now_ms,
            speed=self.options.speed,
            until_ms=2**52,
        )
        send(self.settings, CLOCK, clock.road, clock)

    def _all_joined(self) -> bool:
        for watch in self._watches.values():
            watch.look()
        return all(min(watch.sizes.values(), default=0) > 0 for watch in self._watches.values())
