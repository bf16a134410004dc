"""A small engine on a real socket, whose minutes are written by hand and whose failures can be set.

It speaks the HTTP of ``surescale run engine``, as far as the monitor reads it.
"""

import json
import threading
from collections import Counter
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from surescale.contracts.messages import ClusterTopology, EngineEvent, Host, HourlyLoad, JobTopology, TaskSample
from surescale.contracts.wire import encode
from tests.support.builders import sample
from tests.support.builders import topology as chain
from tests.support.http_server import Handler

MINUTE = 60_000
CLUSTER = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(Host(host="m1", units=(1, 2, 3)),))
EVENT = EngineEvent(cluster="sim", sequence=0, at_ms=0, kind="job_started", job="sim/clicks")
HISTORY = (HourlyLoad(hour_start_ms=0, records=600, minutes=60), HourlyLoad(hour_start_ms=3_600_000, records=60, minutes=1))


class EngineStub:
    """Serves what the fields hold, until the block is left."""

    def __init__(self, port: int = 0) -> None:
        self.minutes: dict[str, list[dict[str, Any]]] = {}
        self.failing: set[str] = set()
        """Jobs whose figures are answered with an error."""
        self.slow: dict[str, threading.Event] = {}
        """Jobs whose figures are held back until the event is set."""
        self.held: Counter[str] = Counter()
        """How often figures of each job were held back."""
        self.raw: dict[str, bytes] = {}
        """Path -> answer, in place of the usual one."""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for held in self.slow.values():
            held.set()
        self._server.shutdown()
        self._server.server_close()

    def add_minutes(self, job: str, minutes: range, topology: JobTopology | None = None, *extra: object) -> None:
        """Let minutes of a job finish: one sample each, and documents that are none."""
        used = topology or job_chain(job)
        for minute in minutes:
            samples = [json.loads(encode(sample_of(job, minute))), *extra]
            entry = {
                "minute_end_ms": minute * MINUTE,
                "samples": samples,
                "topology": json.loads(encode(used)),
                "reached_wall_ms": 7,
            }
            self.minutes.setdefault(job, []).append(entry)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and document for a path."""
        place, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        if place in self.raw:
            return 200, self.raw[place]
        if place == "/jobs":
            return 200, json.dumps({"jobs": [{"job": job, "state": "running"} for job in self.minutes]}).encode()
        if place == "/cluster":
            return 200, encode(CLUSTER)
        if place == "/events":
            return 200, msgspec.json.encode({"events": [] if query.get("after") == [EVENT.identity] else [EVENT]})
        _, _, name, what = place.split("/")
        job = f"sim/{name}"
        if job not in self.minutes:
            return 404, b'{"code":"UNKNOWN_JOB","message":"there is no such job"}'
        if what == "history":
            return 200, msgspec.json.encode({"hours": HISTORY})
        return self._figures(job, int(query["after_ms"][0]))

    def _figures(self, job: str, after_ms: int) -> tuple[int, bytes]:
        if job in self.failing:
            return 500, b'{"code":"BROKEN","message":"the figures of this job cannot be read"}'
        if job in self.slow:
            self.held[job] += 1
            self.slow[job].wait()
        return 200, json.dumps({"minutes": [each for each in self.minutes[job] if each["minute_end_ms"] > after_ms]}).encode()


def job_chain(job: str, version: int = 1) -> JobTopology:
    """Return the usual chain as the topology of a job."""
    return msgspec.structs.replace(chain(version), job=job)


def sample_of(job: str, minute: int) -> TaskSample:
    """Return the one sample of a job's minute."""
    return sample(job=job, sampled_at_ms=minute * MINUTE, records_in=100 * minute)


def _handler(engine: EngineStub) -> type[Handler]:
    class Figures(Handler):
        def do_GET(self) -> None:
            self.reply(*engine.answer(self.path))

    return Figures
