"""A fake JobManager with one job of many vertices, and what a look at it costs the monitor.

python -m tests.support.wide_flink 100 400      # vertices, subtasks: requests, and seconds of the monitor's processor
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from surescale.engines.flink.client import PRIMING_S
from surescale.engines.flink.source import FlinkSource
from surescale.monitor.settings import MonitorSettings
from tests.support.fake_flink import QuickClock
from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

JOB, BEGAN_MS = "1" * 32, 10**12
_COUNTED: Final = {
    **{f"{name}-complete": True for name in ("read-bytes", "write-bytes", "read-records", "write-records")},
    "read-bytes": 10**9, "write-bytes": 10**9, "read-records": 10**6, "write-records": 10**6,
    "accumulated-busy-time": 40_000, "accumulated-idle-time": 15_000, "accumulated-backpressured-time": 5_000,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LookCost:
    """What looks at one job took, the median of those after the first.

    Attributes:
        requests: of one look.
        calls: of Python functions, the same on every machine but for what an answer's arrival in parts adds.
        cpu_s: processor time of the monitor's thread.
        wall_s: until the look was there, without the pause that Flink needs to fetch its figures.
    """

    requests: int
    calls: int
    cpu_s: float
    wall_s: float


@contextmanager
def wide_job(vertices: int, subtasks: int) -> Iterator[StubServer]:
    """Play a running job: each vertex sends to the next two, so that the graph has branches that meet again."""
    ids = [f"{number:032x}" for number in range(vertices)]
    each = subtasks // vertices
    detail = {
        "jid": JOB, "name": "wide", "state": "RUNNING", "job-type": "STREAMING", "start-time": BEGAN_MS, "now": BEGAN_MS + 60_000,
        "timestamps": {"CREATED": BEGAN_MS, "RUNNING": BEGAN_MS},
        "vertices": [
            {"id": vertex, "name": f"vertex {vertex}", "parallelism": each, "maxParallelism": 128, "status": "RUNNING",
             "slotSharingGroupId": "one", "metrics": _COUNTED}
            for vertex in ids
        ],
        "plan": {"nodes": [
            {"id": vertex, "inputs": [{"id": before, "ship_strategy": "HASH"} for before in ids[max(0, at - 2) : at]]}
            for at, vertex in enumerate(ids)
        ]},
    }  # fmt: skip
    requirements = {vertex: {"parallelism": {"lowerBound": 1, "upperBound": each}} for vertex in ids}
    own = f"/jobs/{JOB}"
    documents: dict[str, Any] = {
        "/jobs/overview": {"jobs": [{"jid": JOB, "name": "wide", "state": "RUNNING", "start-time": BEGAN_MS}]},
        own: detail,
        f"{own}/config": {"execution-config": {"user-config": {"surescale.mode": "observe"}}},
        f"{own}/resource-requirements": requirements,
        f"{own}/checkpoints": {},
        f"{own}/checkpoints/config": {"mode": "exactly_once", "interval": 10_000},
        f"{own}/exceptions": {},
        f"{own}/vertices/{ids[0]}/subtasks/metrics": [],
    }
    for vertex in ids:
        running = [{"subtask": at, "status": "RUNNING", "metrics": _COUNTED} for at in range(each)]
        documents[f"{own}/vertices/{vertex}"] = {
            "id": vertex, "name": vertex, "parallelism": each, "now": BEGAN_MS + 60_000, "subtasks": running,
        }  # fmt: skip
    answers = {path: StubResponse(200, json.dumps(document).encode()) for path, document in documents.items()}
    missing = StubResponse(404, json.dumps({"errors": ["Unable to load requested file."]}).encode())

    def give(asked: StubRequest) -> StubResponse:
        return answers.get(asked.path.partition("?")[0], missing)

    with answering(give) as server:
        yield server


def cost_of_a_look(vertices: int, subtasks: int, looks: int = 9) -> LookCost:
    """Look at such a job so many times, and once before."""
    with wide_job(vertices, subtasks) as server:
        source = FlinkSource(MonitorSettings(engine="flink", engine_url=server.url, cluster="flink"), QuickClock)
        try:
            (job,) = source.jobs()
            look = source.follow(job).look
            assert len(look().samples) == subtasks
            asked = len(server.asked)
            cpu_s, wall_s = zip(*(_measured(look) for _ in range(looks)), strict=True)
            requests = (len(server.asked) - asked) // looks
            calls = _calls_of(look)
        finally:
            source.close()
        return LookCost(requests, calls, statistics.median(cpu_s), statistics.median(wall_s) - PRIMING_S)


def _measured(look: Callable[[], object]) -> tuple[float, float]:
    cpu_s, wall_s = time.thread_time(), time.monotonic()
    look()
    return time.thread_time() - cpu_s, time.monotonic() - wall_s


def _calls_of(look: Callable[[], object]) -> int:
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        look()
    finally:
        sys.setprofile(before)
    return count


if __name__ == "__main__":
    found = cost_of_a_look(*map(int, sys.argv[1:3]))
    print(f"{found.requests} requests, {found.cpu_s:.3f} s of processor time, {found.wall_s:.3f} s in all")
