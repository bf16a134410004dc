"""The groups file of the demo: for each policy a chain of three consumer groups on one input topic."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from contracts.job_settings import Mode
from services.local_stack.compared.load import TOPIC


@dataclass(frozen=True, slots=True)
class Stage:
    """One group: work of the processor for each record, and waiting.

    ``cpu_request`` are the cores that a worker uses while records wait all the time, so that it is 100 % of a pod's request: what
    a load test of one worker would tell whoever sets up a HorizontalPodAutoscaler.
    """

    task: str
    rounds: int
    wait_ms: float
    cpu_request: float


STAGES = (Stage("parse", 500, 6.0, 0.048), Stage("enrich", 500, 14.0, 0.027), Stage("deliver", 500, 6.0, 0.048))
"""About 6.3, 14.3 and 6.3 ms a record: the one in the middle is the bottleneck."""


def output_of(job: str, task: str) -> str:
    """Return the topic that a group writes."""
    return f"{job}-{task}d" if task.endswith("e") else f"{job}-{task}ed"


def last_output(job: str) -> str:
    """Return the topic in which a chain ends."""
    return output_of(job, STAGES[-1].task)


def inputs_of(job: str) -> list[tuple[str, str]]:
    """Return each group of a chain with the topic that it reads."""
    reads = [TOPIC, *(output_of(job, stage.task) for stage in STAGES[:-1])]
    return [(group_of(job, stage.task), topic) for stage, topic in zip(STAGES, reads, strict=True)]


def outputs(jobs: Iterable[str]) -> list[str]:
    """Return all topics that the demo's chains write."""
    return [output_of(job, stage.task) for job in jobs for stage in STAGES]


def group_of(job: str, task: str) -> str:
    """Return the id of a consumer group."""
    return f"{job}-{task}"


def write_groups_file(path: Path, bootstrap: str, jobs: Mapping[str, Mode]) -> None:
    """Write the file that says which groups form a job and how their workers are started."""
    path.write_bytes(msgspec.json.encode({job: _job(job, mode, bootstrap, path.parent) for job, mode in jobs.items()}))


def _job(job: str, mode: Mode, bootstrap: str, folder: Path) -> dict[str, Any]:
    groups = {}
    for stage, (group, reads) in zip(STAGES, inputs_of(job), strict=True):
        writes = output_of(job, stage.task)
        command = [sys.executable, "-m", "services.local_stack.consumers.worker", "--bootstrap", bootstrap]
        command += ["--group", group, "--from", reads, "--to", writes, "--while", str(folder)]
        command += ["--rounds", str(stage.rounds), "--wait-ms", str(stage.wait_ms), "--index", "{index}", "--port", "{port}"]
        groups[stage.task] = {
            "group": group,
            "reads": [reads],
            "writes": [writes],
            "metrics": "http://127.0.0.1:{number}/metrics",
            "busy": "worker_busy_seconds_total",
            "workers": {"command": command, "health": "http://127.0.0.1:{port}/metrics", "drain_s": 15.0},
        }
    return {"mode": mode, "groups": groups}
