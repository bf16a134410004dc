"""Every role as a consumer of hostile records: what it reads, how good records reach it, what shows that they were handled."""

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Outcome, Progress
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment, DeadLetter, MinuteMarker
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.windows import decode_window
from surescale.rescaler.service.loop import NEEDED
from surescale.rescaler.service.pipeline_view import VIEWED
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.ports import free_port
from surescale.runtime.topic_records import parsed
from surescale.services.local_stack.artifacts import SPARK_KAFKA, fetch
from surescale.services.state.write.projections import PROJECTED
from surescale.spark_streaming.settings import SparkSettings
from tests.support import controller_world
from tests.support.agent_pipeline import windows
from tests.support.attacked_consumer import GOOD_WITHIN_S, Consumer
from tests.support.builders import JOB, topology
from tests.support.engine_stub import EngineStub
from tests.support.fake_engine import FakeEngine
from tests.support.rescaler_pipeline import served
from tests.support.view_pipeline import a_pipeline, get
from tests.support.waiting import wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec


class MonitorConsumer(Consumer):
    """Reads how far it came from the end of ``task-metrics`` when it starts."""

    role, reads, memory_mib = "monitor", (topics.TASK_METRICS,), 384
    reads_again = False  # it does so in the second round

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
        super().__init__(settings, folder)
        self._engine = self._opened.enter_context(EngineStub())

    def environment(self) -> dict[str, str]:
        """Return where the engine is."""
        return {"SURESCALE_ENGINE_URL": self._engine.url}

    def send_good(self) -> None:
        """The engine finishes a minute; after the attack, the monitor starts again."""
        self._engine.add_minutes(JOB, range(self.rounds, self.rounds + 1))
        if self.rounds == 2:
            self.kill()
            self.start()

    def has_handled(self) -> bool:
        """Each minute is marked once, in order."""
        markers = [each for each in parsed(self.records(topics.TASK_METRICS), MinuteMarker) if each.job == JOB]
        return [each.minute_end_ms // MINUTE_MS for each in markers] == list(range(1, self.rounds + 1))

    def refused(self) -> int:
        """The monitor passes what is no marker of its own in silence: Spark, whose input it is, refuses it."""
        return sys.maxsize


class SparkConsumer(Consumer):
    """Assembles windows from ``task-metrics``, by the clock of its pipeline."""

    role, reads, memory_mib = "spark", (topics.TASK_METRICS, topics.CLOCK), 2_500
    any_time = False  # Spark's own source overflows at a record from the year 292278994; the topics' LogAppendTime prevents it
    reads_again = False  # from its checkpoint on

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
        jars = ",".join(map(str, fetch(SPARK_KAFKA)))
        own = SparkSettings(
            bootstrap=settings.bootstrap,
            topic_prefix=settings.topic_prefix,
            pipeline_clock=True,
            window_minutes=5,
            spark_master="local[1]",
            spark_checkpoint=str(folder / "checkpoint"),
            spark_jars=jars,
        )
        super().__init__(own, folder)

    def send_good(self) -> None:
        """A minute of one sample, and where the clock stands."""
        end_ms = (10 + self.rounds) * MINUTE_MS
        segment = ClockSegment(pipeline="main", sequence=self.rounds, e0_ms=0, w0_ms=0, speed=1e6, until_ms=end_ms)
        self.send(topics.CLOCK, "main", segment)
        chain = graph(spec("map"), job=JOB)
        self.send(topics.TASK_METRICS, JOB, sample(end_ms, 5, job=JOB, task="map"))
        self.send(topics.TASK_METRICS, JOB, marker(10 + self.rounds, chain))

    def has_handled(self) -> bool:
        """The minute's window is there."""
        windows = [decode_window(record.value()) for record in self.records(topics.SNAPSHOTS)]
        return (10 + self.rounds) * MINUTE_MS in {window.window_end_ms for window in windows if window.job == JOB}

    def refused(self) -> int:
        """Dead letters, which outlive the process."""
        return len(parsed(self.records(topics.DEAD_LETTERS), DeadLetter))


class AgentConsumer(Consumer):
    """Decides on windows, with the settings and releases that hold for them."""

    role, reads, memory_mib = "agent", (topics.SNAPSHOTS, topics.JOB_SETTINGS, topics.POLICY_RELEASES), 768

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
        super().__init__(replace(settings, policy="target-utilisation"), folder)

    def send_good(self) -> None:
        """New settings, and the window that ends the next span."""
        self.send(topics.JOB_SETTINGS, JOB, JobSettings(job=JOB, version=self.rounds))
        self.send(topics.SNAPSHOTS, JOB, windows(600 + 10 * self.rounds, 600 + 10 * self.rounds)[0])

    def has_handled(self) -> bool:
        """The span has a decision made with these settings."""
        wanted = (JOB, (600 + 10 * self.rounds) * MINUTE_MS, self.rounds)
        made = parsed(self.records(topics.DECISIONS), Decision)
        return wanted in {(each.job, each.span_end_ms, each.settings_version) for each in made}

    def refused(self) -> int:
        """Windows in dead letters, and settings and releases that it counted."""
        return len(parsed(self.records(topics.DEAD_LETTERS), DeadLetter)) + int(self.health()["rejected"])


class RescalerConsumer(Consumer):
    """Answers decisions, by what it sees of the world; its actuator carries out its commands."""

    role, memory_mib = "rescaler", 384
    reads = (*VIEWED, topics.DECISIONS, topics.RESCHEDULE_COMMANDS, topics.RESCALER_STATE)

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
        assert {*self.reads, topics.RESCHEDULE_EVENTS, topics.DEAD_LETTERS} == set(NEEDED)
        self._engine = FakeEngine(jobs={JOB})
        opened = contextlib.ExitStack()
        url = opened.enter_context(served(self._engine))
        own = RescalerSettings(
            bootstrap=settings.bootstrap, topic_prefix=settings.topic_prefix, engine_url=url, pipeline_clock=True
        )
        super().__init__(own, folder)
        self._opened.push(opened)
        self.send(topics.CLUSTER_TOPOLOGY, "sim", controller_world.cluster())
        self.send(topics.JOB_TOPOLOGY, JOB, controller_world.job())
        self._clocks = 0

    def send_good(self) -> None:
        """A decision to act; once it is commanded the clock moves on to the end of the rescale."""
        at_ms = self._at_ms()
        self._clock(at_ms)
        self.send(topics.DECISIONS, "sim", controller_world.decision(at_ms, {"map": 3 + self.rounds % 2}))
        wait_until(self._is_commanded, GOOD_WITHIN_S, f"the command of round {self.rounds}")
        self._clock(at_ms + MINUTE_MS)

    def has_handled(self) -> bool:
        """The command of this round was applied; each look moves the clock on by a minute, for the steps of a rescale."""
        if len(self._applied()) >= self.rounds:
            return True
        self._clock(self._engine.now_ms + MINUTE_MS)
        return False

    def refused(self) -> int:
        """What it counted as unreadable or unknown, and dead letters."""
        told = self.health()
        return int(told.get("rejected", 0)) + int(told.get("unknown_commands", 0)) + len(self.records(topics.DEAD_LETTERS))

    def _at_ms(self) -> int:
        return controller_world.START_MS + self.rounds * 60 * MINUTE_MS

    def _is_commanded(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()[-4_000:]
        of = decision_id(JOB, self._at_ms(), "rule")
        outcomes = parsed(self.records(topics.RESCHEDULE_EVENTS), Outcome)
        return ("commanded", of) in {(outcome.status, outcome.decision_id) for outcome in outcomes}

    def _applied(self) -> set[int]:
        """Return the generations of commands that brought the job to its new size."""
        reports = parsed(self.records(topics.RESCHEDULE_EVENTS), Progress)
        return {each.desired_generation for each in reports if each.job == JOB and each.status == "applied"}

    def _clock(self, until_ms: int) -> None:
        self._clocks += 1
        self._engine.now_ms = until_ms
        segment = ClockSegment(pipeline="main", sequence=self._clocks, e0_ms=0, w0_ms=0, speed=1e6, until_ms=until_ms)
        self.send(topics.CLOCK, "main", segment)


class StateConsumer(Consumer):
    """Projects every topic into the view, and answers HTTP from it."""

    role, reads, memory_mib = "state-service", PROJECTED, 384

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
        super().__init__(settings, folder)
        self._api = f"http://127.0.0.1:{free_port()}"

    def environment(self) -> dict[str, str]:
        """The port of its API."""
        return {"SURESCALE_HTTP_PORT": self._api.rpartition(":")[2]}

    def send_good(self) -> None:
        """A whole pipeline at first; then the job's graph changes."""
        for topic, key, message in a_pipeline() if self.rounds == 1 else ():
            self.send(topic, key, message)
        self.send(topics.JOB_TOPOLOGY, JOB, topology(10 + self.rounds))

    def has_handled(self) -> bool:
        """The view shows the graph, and every page answers."""
        status, shown = get(f"{self._api}/jobs/{JOB}")
        if status != 200 or shown["topology"] is None or shown["topology"]["record"]["version"] != 10 + self.rounds:
            return False
        pages = ("jobs", "counts", "clocks", "dead-letters", "clusters/sim", "clusters/sim/info", f"jobs/{JOB}/decisions")
        assert {page: get(f"{self._api}/{page}")[0] for page in pages} == dict.fromkeys(pages, 200)
        return True

    def refused(self) -> int:
        """What the view counts as unreadable."""
        return sum(get(f"{self._api}/counts")[1]["unreadable"].values())


CONSUMERS: tuple[type[Consumer], ...] = (MonitorConsumer, SparkConsumer, AgentConsumer, RescalerConsumer, StateConsumer)
