"""A server that answers like Prometheus what a test has written down: series by expression, each with its age.

with fake_prometheus() as prometheus:
    prometheus.series["jobs_done_total"] = [({"task": "parse", "subtask": "0"}, 12.0)]
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.stub_server import StubRequest, StubResponse, answering

DATES = " or label_replace(timestamp("
Written = list[tuple[dict[str, str], float]]


@dataclass(slots=True)
class FakePrometheus:
    """What the server answers.

    Attributes:
        series: by expression, with labels and value.
        age_s: of every series at the time asked for.
        ahead_s: of its clock before ours.
        only_before_s: no series is shown from this time on, if it is not None.
        instead: an answer in place of the usual one, if it is not None.
        queries: that were asked, with the time asked for.
    """

    url: str = ""
    series: dict[str, Written] = field(default_factory=dict)
    age_s: float = 5.0
    ahead_s: float = 0.0
    only_before_s: float | None = None
    now_s: Callable[[], float] = time.time
    instead: Callable[[str], StubResponse | None] = lambda _: None
    queries: list[tuple[str, float | None]] = field(default_factory=list)
    asked: list[StubRequest] = field(default_factory=list)

    def answer(self, asked: StubRequest) -> StubResponse:
        """Return what to answer."""
        self.asked.append(asked)
        parameters = parse_qs(urlsplit(asked.path).query)
        query, at_s = parameters["query"][0], float(parameters["time"][0]) if "time" in parameters else None
        self.queries.append((query, at_s))
        instead = self.instead(query)
        if instead is not None:
            return instead
        if query == "time()":
            return success("scalar", [self.now_s(), str(self.now_s() + self.ahead_s)])
        assert at_s is not None, "only the clock is asked for without a time"
        expression, _, dates = query.partition(DATES)
        if not dates:
            return success("vector", [entry(labels, value, at_s) for labels, value in self.series.get(query, [])])
        written = self.series.get(expression.removeprefix("(").removesuffix(")"), [])
        if self.only_before_s is not None and at_s >= self.only_before_s:
            written = []
        found = [entry(labels, value, at_s) for labels, value in written]
        found += [entry({**labels, "surescale_at": "1"}, at_s - self.age_s, at_s) for labels, _ in written]
        return success("vector", found)


def success(kind: str, result: Any) -> StubResponse:
    """Return the answer to a query that could be evaluated."""
    return StubResponse(body=json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode())


def entry(labels: dict[str, str], value: float, at_s: float) -> dict[str, Any]:
    """Return one series as Prometheus writes it."""
    number = {float("inf"): "+Inf", float("-inf"): "-Inf"}.get(value, "NaN" if value != value else repr(value))
    return {"metric": labels, "value": [at_s, number]}


@contextmanager
def fake_prometheus() -> Iterator[FakePrometheus]:
    """Answer until the block is left."""
    prometheus = FakePrometheus()
    with answering(prometheus.answer) as server:
        prometheus.url = server.url
        yield prometheus
