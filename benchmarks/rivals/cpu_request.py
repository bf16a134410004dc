"""How much CPU a worker of each group uses while records wait all the time: what its pod would request.

To set up a HorizontalPodAutoscaler, one has to know this, or its target means nothing. It differs from machine to machine, so it
is measured on this one before the load starts, with one worker of each group side by side.
"""

import subprocess
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benchmarks.rivals.cpu import CpuMeter
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.runtime.ports import free_ports
from surescale.services.local_stack.consumers.consumers_pipeline import STAGES, worker_command
from surescale.services.local_stack.supervisor import Supervisor

TOPIC, OUTPUT = "load-test", "load-test-out"
RECORDS: Final = 1_000
"""Enough for the fastest group to be at work from its start to the end of the window."""
WINDOW_S: Final = 5.0
_AT_WORK_WITHIN_S: Final = 60.0
_ENDS_WITHIN_S: Final = 10.0


def busy_cores(settings: PipelineSettings, folder: Path, supervisor: Supervisor) -> dict[str, float]:
    """Return the cores that a worker of each group uses when it is never idle; the topics exist.

    Raises:
        TimeoutError: the workers did not get to work in time.
    """
    producer = Producer({"bootstrap.servers": settings.bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, f"k{number},{number}")
    producer.flush()
    reader = GroupReader(settings)
    groups = {stage.task: f"load-test-{stage.task}" for stage in STAGES}
    workers = {}

    def are_at_work() -> bool:
        try:
            return all(seen.committed for seen in reader.look(list(groups.values())).values())
        except GroupsUnavailable:  # a busy machine
            return False

    try:
        for stage, port in zip(STAGES, free_ports(len(STAGES)), strict=True):
            command = worker_command(settings.bootstrap, groups[stage.task], TOPIC, OUTPUT, stage, folder)
            workers[stage.task] = subprocess.Popen(
                [part.format(index=0, port=port) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        supervisor.wait(are_at_work, timeout_s=_AT_WORK_WITHIN_S, what="the workers of the load test to work", poll_s=0.5)
        meter, began_s = CpuMeter(), time.monotonic()
        meter.cores(worker.pid for worker in workers.values())
        supervisor.wait(lambda: time.monotonic() - began_s >= WINDOW_S)
        used = meter.cores(worker.pid for worker in workers.values())
        return {task: used.get(worker.pid) or 0.0 for task, worker in workers.items()}
    finally:
        for worker in workers.values():
            worker.terminate()
        for worker in workers.values():
            try:
                worker.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
