"""One rival as a process: scales one chain of the demo through the same requirement that surescale's actuator writes.

    python -m benchmarks.rivals.run --rival keda-100 --bootstrap HOST:PORT --workers FOLDER

The workers are started and drained by the reconciler of the actuator `processes`, no matter who asked for them.
"""

import argparse
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.rivals import cpu_request
from benchmarks.rivals.cpu import CpuMeter
from benchmarks.rivals.horizontal import SYNC_S, Autoscaler, replicas_by_average_value, replicas_by_cpu
from benchmarks.rivals.lag import LAG_THRESHOLD, total_lag
from surescale.contracts.errors import SurescaleError
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.processes import ProcessesSettings
from surescale.engines.processes.worker_store import Requirement, WorkerStore
from surescale.engines.settings import ClusterSettings
from surescale.services.local_stack.comparison.comparison_pipeline import KEDA
from surescale.services.local_stack.consumers.consumers_pipeline import STAGES, group_of, inputs_of
from surescale.services.local_stack.errors import Say
from surescale.services.local_stack.supervisor import Supervisor


def lag_threshold(rival: str) -> int | None:
    """Return the records that ``keda`` (its default) or ``keda-N`` accepts for each replica; None: it is another name."""
    name, _, number = rival.partition("-")
    if name != KEDA:
        return None
    if rival == KEDA:
        return LAG_THRESHOLD
    return int(number) if number.isascii() and number.isdigit() and int(number) > 0 else None


def topics(rival: str) -> list[str]:
    """Return the topics that exist before a rival is started."""
    return [] if lag_threshold(rival) is not None else [cpu_request.TOPIC, cpu_request.OUTPUT]


def command(
    rival: str, settings: ClusterSettings, supervisor: Supervisor, speed: float, replicas_max: int, say: Say
) -> list[str]:
    """Return the command that scales the chain of a rival's name; for `hpa-cpu`, measure first what a busy worker uses.

    Raises:
        TimeoutError: those workers did not get to work in time.
    """
    folder = settings.part(ProcessesSettings).workers_folder
    started = [sys.executable, "-P", "-m", "benchmarks.rivals.run", "--rival", rival, "--bootstrap", settings.bootstrap]
    started += ["--workers", folder, "--cluster", settings.cluster]
    started += ["--speed", str(speed), "--replicas-max", str(replicas_max)]
    if lag_threshold(rival) is None:
        requests = cpu_request.busy_cores(settings, Path(folder), supervisor)
        words = ", ".join(f"{task} {cores:.3f}" for task, cores in requests.items())
        say(f"{rival}: a busy worker uses so many cores, which is its pod's request: {words}")
        started += [part for task, cores in requests.items() for part in ("--request", f"{task}={cores}")]
    return started


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rival works: brokers, the workers' folder and cluster, its chain, and how fast the demo's clock runs.

    ``requests``: for `hpa-cpu`, the cores that a pod of each group requests.
    """

    bootstrap: str
    workers: str
    cluster: str
    rival: str
    speed: float
    replicas_max: int
    requests: Mapping[str, float] = field(default_factory=dict)


class Rival(ABC):
    """Scales the chain of its own name."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._store = WorkerStore(Path(place.workers), place.cluster)
        self._autoscalers = {stage.task: Autoscaler(place.replicas_max) for stage in STAGES}

    def run(self) -> None:
        """Decide once in a sync period, until this process is ended."""
        while True:
            began_s = time.monotonic()
            self.step(began_s * self._place.speed)
            time.sleep(max(0.0, SYNC_S / self._place.speed - (time.monotonic() - began_s)))

    def step(self, now_s: float) -> None:
        """Look, decide, and ask for other numbers of workers, once. What cannot be read now is left for the next time."""
        chain = self._place.rival
        required = self._store.requirement(chain)
        if required is None:
            return
        try:
            proposals = self._proposals(required)
        except (GroupsUnavailable, OffsetsUnavailable) as unknown:
            print(unknown, file=sys.stderr, flush=True)
            return
        wanted = {
            task: self._autoscalers[task].decide(now_s, required.counts[task], proposal) for task, proposal in proposals.items()
        }
        if wanted and wanted != {task: required.counts[task] for task in wanted}:
            self._store.change(chain, required, wanted)

    @abstractmethod
    def _proposals(self, required: Requirement) -> Mapping[str, int]:
        """Return the replicas that each task should have by the metric; a task with none is switched off, so it is left out."""


class ByLag(Rival):
    """KEDA."""

    def __init__(self, place: Place, threshold: int) -> None:
        super().__init__(place)
        self._threshold = threshold
        self._groups = GroupReader(PipelineSettings(bootstrap=place.bootstrap))
        self._topics = TopicOffsets(PipelineSettings(bootstrap=place.bootstrap))

    def _proposals(self, required: Requirement) -> Mapping[str, int]:
        chain = self._place.rival
        reads = dict(inputs_of(chain))
        seen = self._groups.look(list(reads))
        ends = self._topics.ends(list(reads.values()))
        proposals = {}
        for stage in STAGES:
            replicas, group = required.counts.get(stage.task, 0), group_of(chain, stage.task)
            if replicas:
                of_topic = {partition: end for partition, end in ends.items() if partition[0] == reads[group]}
                total = total_lag(of_topic, seen[group].committed, self._threshold)
                proposals[stage.task] = replicas_by_average_value(total, self._threshold, replicas)
        return proposals


class ByCpu(Rival):
    """HorizontalPodAutoscaler. It reads the CPU at the moment it decides; a metrics server's figure is up to 15 s older."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._meter = CpuMeter()

    def _proposals(self, required: Requirement) -> Mapping[str, int]:
        # A worker that drains is no longer one of the pods, as one that is being deleted.
        staying = [each for each in self._store.workers(self._place.rival) if each.draining_ms is None and each.pid]
        cores = self._meter.cores(each.pid for each in staying)
        proposals = {}
        for stage in STAGES:
            replicas = required.counts.get(stage.task, 0)
            if replicas:
                found = [cores.get(each.pid) for each in staying if each.task == stage.task]
                usages = [each for each in found if each is not None and math.isfinite(each)]
                proposals[stage.task] = replicas_by_cpu(
                    usages, len(found) - len(usages), self._place.requests[stage.task], replicas
                )
        return proposals


def rival_of(place: Place) -> Rival:
    """Return the rival that goes by a name."""
    threshold = lag_threshold(place.rival)
    return ByCpu(place) if threshold is None else ByLag(place, threshold)


def _request(text: str) -> tuple[str, float]:
    task, _, cores = text.rpartition("=")
    return task, float(cores)


def main() -> None:
    """Run one rival."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bootstrap", "workers", "cluster", "rival"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--speed", type=float, required=True)
    parser.add_argument("--replicas-max", type=int, required=True)
    parser.add_argument("--request", dest="requests", action="append", default=[], metavar="TASK=CORES", type=_request)
    options = vars(parser.parse_args())
    try:
        rival_of(Place(**options | {"requests": dict(options["requests"])})).run()
    except SurescaleError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
