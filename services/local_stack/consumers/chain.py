"""The groups file of the demo: for each policy a chain of three consumer groups on one input topic."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from contracts.job_settings import Mode
from services.local_stack.comparison.load import TOPIC


@dataclass(frozen=True, slots=True)
class Stage:
    """One group: work of the processor for each record, and waiting."""

    task: str
    rounds: int
    wait_ms: float


OWNER = "owner"
"""File in the workers' folder, held by the demo as long as it lives."""
STAGES = (Stage("parse", 500, 12.0), Stage("enrich", 500, 28.0), Stage("deliver", 500, 12.0))
"""About 12.3, 28.3 and 12.3 ms a record: the one in the middle is the bottleneck."""


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


def worker_command(bootstrap: str, group: str, reads: str, writes: str, stage: Stage, folder: Path) -> list[str]:
    """Return the command of a worker, with ``{index}`` and ``{port}`` in it; it ends by itself when nobody holds `OWNER`."""
    command = [sys.executable, "-P", "-m", "services.local_stack.consumers.worker", "--bootstrap", bootstrap]
    command += ["--group", group, "--from", reads, "--to", writes, "--while", str(folder / OWNER)]
    return [*command, "--rounds", str(stage.rounds), "--wait-ms", str(stage.wait_ms), "--index", "{index}", "--port", "{port}"]


def _job(job: str, mode: Mode, bootstrap: str, folder: Path) -> dict[str, Any]:
    groups = {}
    for stage, (group, reads) in zip(STAGES, inputs_of(job), strict=True):
        writes = output_of(job, stage.task)
        groups[stage.task] = {
            "group": group,
            "reads": [reads],
            "writes": [writes],
            "metrics": "http://127.0.0.1:{number}/metrics",
            "busy": "worker_busy_seconds_total",
            "workers": {
                "command": worker_command(bootstrap, group, reads, writes, stage, folder),
                "health": "http://127.0.0.1:{port}/metrics",
                "drain_s": 15.0,
            },
        }
    return {"mode": mode, "groups": groups}
