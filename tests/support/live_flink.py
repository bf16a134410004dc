"""A real Flink cluster with real jobs: what the fixture ``flink`` gives.

def test_something(flink: LiveFlink) -> None:
    with flink.job(parse_wait_micros=0) as job:            # topics, submitted, all vertices running
        job.send(3000)                                     # records KEY,NUMBER into its topic
        wait_until(lambda: len(job.output()) == 3000)
        job.require(parse=3)                               # PUT, as anybody else may do it
        wait_until(lambda: job.parallelism()["parse"] == 3)
"""

import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request

import numpy as np
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.engines.flink.identity import JOB_LABEL
from surescale.runtime.http import ask
from surescale.services.local_stack.comparison.watch import read_to_end
from surescale.services.local_stack.flink.cluster import FlinkCluster, short_name
from surescale.services.local_stack.flink.scaled_job import JobOptions, submit
from tests.support.waiting import wait_until

PARTITIONS = 8
KEYS = 97
ZIPF_EXPONENT = 1.2
RUNNING_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Result:
    """One record of the job's output: the key, the number of the input record, how often the key had been seen."""

    key: str
    number: int
    count: int


class LiveFlink:
    """A session cluster, the compiled job, and a broker."""

    def __init__(self, cluster: FlinkCluster, jar: Path, bootstrap: str) -> None:
        self.cluster = cluster
        self.jar = jar
        self.bootstrap = bootstrap

    @property
    def rest_url(self) -> str:
        """The address of the REST API."""
        return self.cluster.rest_url

    @property
    def version(self) -> str:
        """Flink's version."""
        return self.cluster.flink.version

    @contextlib.contextmanager
    def job(self, *, savepoint: str | None = None, **options: Any) -> Iterator["LiveJob"]:
        """Run a job (options as in ``JobOptions``) until the block ends; its topics are new unless named."""
        own = f"t{uuid.uuid4().hex[:8]}"
        named = {"name": own, "from_topic": f"{own}-in", "to_topic": f"{own}-out"} | options
        chosen = JobOptions(bootstrap=self.bootstrap, **named)
        self.create_topics(chosen.from_topic, chosen.to_topic)
        job = LiveJob(self, submit(self.rest_url, self.jar, chosen, savepoint=savepoint), chosen)
        try:
            job.wait_running()
            yield job
        finally:
            job.cancel()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the REST API; return the answer's document."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        answer = ask(Request(f"{self.rest_url}{path}", data=data, headers=headers, method=method), timeout_s=30.0)
        return json.loads(answer) if answer.strip() else {}

    def create_topics(self, *names: str) -> None:
        """Create topics that are not there yet."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        known = admin.list_topics(timeout=10).topics
        wanted = [NewTopic(name, PARTITIONS, 1) for name in names if name not in known]
        for created in admin.create_topics(wanted).values() if wanted else ():
            created.result(30)


class LiveJob:
    """One job on the cluster, with its topics."""

    def __init__(self, flink: LiveFlink, job_id: str, options: JobOptions) -> None:
        self.flink = flink
        self.job_id = job_id
        self.options = options
        self._sent = 0
        # Each record to a partition drawn for it: by default those of 10 ms share one, and few records leave partitions empty.
        self._producer = Producer({"bootstrap.servers": flink.bootstrap, "linger.ms": 20, "sticky.partitioning.linger.ms": 0})

    @property
    def name(self) -> str:
        """The job's name."""
        return self.options.name

    @property
    def known_as(self) -> str:
        """The name that we know it by."""
        return self.options.labels.get(JOB_LABEL, self.options.name)

    def detail(self) -> Any:
        """Return Flink's document of the job."""
        return self.flink.request("GET", f"/jobs/{self.job_id}")

    def state(self) -> str:
        """Return the job's state as Flink names it."""
        return str(self.detail()["state"])

    def vertices(self) -> dict[str, str]:
        """Return the vertex ids by what the vertex does: source, parse, count, sink."""
        return {short_name(vertex["name"]): vertex["id"] for vertex in self.detail()["vertices"]}

    def parallelism(self) -> dict[str, int]:
        """Return the running parallelism by what the vertex does; nothing while some vertex does not run."""
        return self.flink.cluster.parallelism(self.job_id)

    def wait_running(self) -> None:
        """Wait until every vertex runs."""
        wait_until(self.parallelism, RUNNING_TIMEOUT_S, f"job {self.name} to run")

    def requirements(self) -> dict[str, int]:
        """Return the required parallelism by what the vertex does."""
        found = self.flink.request("GET", f"/jobs/{self.job_id}/resource-requirements")
        return {role: found[vertex]["parallelism"]["upperBound"] for role, vertex in self.vertices().items()}

    def require(self, **targets: int) -> None:
        """Require other parallelisms, as another owner of the job would."""
        path = f"/jobs/{self.job_id}/resource-requirements"
        wanted = self.flink.request("GET", path)
        ids = self.vertices()
        for role, count in targets.items():
            wanted[ids[role]]["parallelism"] = {"lowerBound": 1, "upperBound": count}
        self.flink.request("PUT", path, wanted)

    def checkpoints(self) -> int:
        """Return how many checkpoints have completed."""
        return int(self.flink.request("GET", f"/jobs/{self.job_id}/checkpoints")["counts"]["completed"])

    def stop_with_savepoint(self) -> str:
        """Stop the job; return where its savepoint lies."""
        asked = self.flink.request("POST", f"/jobs/{self.job_id}/stop", {"drain": False})
        path = f"/jobs/{self.job_id}/savepoints/{asked['request-id']}"

        def made() -> str:
            found = self.flink.request("GET", path)
            return str(found["operation"]["location"]) if found["status"]["id"] == "COMPLETED" else ""

        return wait_until(made, 60.0, "the savepoint")

    def cancel(self) -> None:
        """Cancel the job, and wait until it has ended."""
        ended = ("CANCELED", "FINISHED", "FAILED")
        if self.state() not in ended:
            self.flink.request("PATCH", f"/jobs/{self.job_id}")
            wait_until(lambda: self.state() in ended, 60.0, f"job {self.name} to end")

    def send(self, count: int, keys: Sequence[str] | None = None) -> None:
        """Append so many records, numbered on from the last; keys are drawn by Zipf's law (seeded) unless given."""
        drawn = keys or zipf_keys(count, seed=self._sent)
        for number, key in zip(range(self._sent, self._sent + count), drawn, strict=True):
            self._produce(f"{key},{number}")
            self._producer.poll(0)
        assert self._producer.flush(30) == 0
        self._sent += count

    def _produce(self, record: str) -> None:
        while True:
            try:
                return self._producer.produce(self.options.from_topic, record, on_delivery=_raise)
            except BufferError:  # a busy broker takes longer than we do: its answers make room
                self._producer.poll(1.0)

    @property
    def sent(self) -> int:
        """How many records were sent."""
        return self._sent

    def output(self) -> list[Result]:
        """Return all committed results so far."""
        return [_result(record) for record in read_to_end(self.flink.bootstrap, self.options.to_topic)]


def zipf_keys(count: int, seed: int) -> list[str]:
    """Draw keys by Zipf's law: the k-th most frequent has a weight of k to the power of minus ``ZIPF_EXPONENT``."""
    weights = np.arange(1, KEYS + 1, dtype=float) ** -ZIPF_EXPONENT
    drawn = np.random.default_rng(seed).choice(KEYS, size=count, p=weights / weights.sum())
    return [f"k{number}" for number in drawn]


def problems_of(results: Sequence[Result], sent: int) -> list[str]:
    """Return in words what is wrong with a whole output: records lost or doubled, state lost or doubled. Empty if nothing is."""
    times = Counter(result.number for result in results)
    missing, doubled = sent - len(times), sum(count - 1 for count in times.values())
    counts: dict[str, list[int]] = {}
    for result in results:
        counts.setdefault(result.key, []).append(result.count)
    wrong = [key for key, found in counts.items() if sorted(found) != list(range(1, len(found) + 1))]
    said = {f"{missing} records missing": missing, f"{doubled} records doubled": doubled, f"state wrong for {wrong}": wrong}
    return [words for words, is_wrong in said.items() if is_wrong]


def _result(record: Message) -> Result:
    key, number, count = (record.value() or b"").decode().split(",")
    return Result(key, int(number), int(count))


def _raise(error: Any, _record: Any) -> None:
    assert error is None, error
