"""A client of Flink's REST API: one method per request that is used, each with a deadline and a limit of bytes.

With high availability every JobManager has such an API, and each answers for the cluster: one that does not lead asks the one
that does. So several addresses are alternatives, and the one that answered last is asked first.

Figures of a job are fetched from its TaskManagers only when somebody asks, and an answer holds what the *previous* request made
Flink fetch. So ask once, wait ``PRIMING_S``, and ask again. If somebody else asks Flink every few seconds, as an open web page
does, figures are up to ``metrics.fetcher.update-interval`` old all the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, quote_plus, urlencode

import msgspec

from surescale.contracts.addresses import addresses_in, without_password
from surescale.contracts.errors import UNREADABLE
from surescale.contracts.wire import decoder
from surescale.engines.flink.answers import (
    CheckpointConfig,
    Checkpoints,
    ConfigEntry,
    Exceptions,
    JobConfig,
    JobDetail,
    JobEntry,
    Jobs,
    Metric,
    Overview,
    Requested,
    Requirements,
    Rescale,
    TaskManager,
    TaskManagers,
    VertexDetail,
)
from surescale.engines.flink.errors import FlinkUnavailable, NoSuchPath, NotAuthorized, NotFound, not_flink, problem_of
from surescale.runtime.access import Access, TokenUnreadable
from surescale.runtime.http import LARGE, NoAnswer
from surescale.runtime.http_pool import ConnectionPool

T = TypeVar("T")

ANSWER_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 32 * 2**20
PRIMING_S = 0.3
"""How long Flink takes to fetch figures; after this long they are about a tenth of a second old."""
NAMES_LETTERS_MAX = 3_500
"""Of metrics in one request. Flink refuses a line of more than 4,096, and a proxy's path may come before."""


class FlinkClient:
    """Flink's REST API. Thread-safe. Every method may raise each ``FlinkError``; those of one job, ``NotFound``."""

    def __init__(self, url: str, access: Access | None = None, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect to nothing yet.

        Args:
            url: address of the JobManager's REST API or of a proxy before it, with the proxy's path; with high availability those
                of all JobManagers, with commas between.
            access: token, authorities and certificate.
            timeout_s: how long a whole answer of one address may take.

        Raises:
            SettingsError: a certificate cannot be used.
        """
        self._access = access or Access()
        self._timeout_s = timeout_s
        self._addresses = tuple(_Address.at(each, self._access) for each in addresses_in(url))
        self._first = 0  # the one that answered last

    @property
    def url(self) -> str:
        """The address that answered last."""
        return self._addresses[self._first].url

    def close(self) -> None:
        """Close the kept connections."""
        for address in self._addresses:
            address.connections.close()

    def overview(self) -> Overview:
        """Return Flink's version and the cluster's slots."""
        return self._get("/overview", Overview)

    def configuration(self) -> dict[str, str]:
        """Return the cluster's configuration; secrets are starred by Flink itself."""
        return {entry.key: entry.value for entry in self._get("/jobmanager/config", list[ConfigEntry])}

    def jobs(self) -> tuple[JobEntry, ...]:
        """Return all jobs, also ended ones that Flink still remembers."""
        return self._get("/jobs/overview", Jobs).jobs

    def task_managers(self) -> tuple[TaskManager, ...]:
        """Return the TaskManagers with their slots."""
        return self._get("/taskmanagers", TaskManagers).taskmanagers

    def job(self, job: str) -> JobDetail:
        """Return a job's state, graph and figures summed over subtasks. Flink keeps this answer for ``web.refresh-interval``."""
        return self._get(_job(job), JobDetail)

    def vertex(self, job: str, vertex: str) -> VertexDetail:
        """Return the counters of each subtask."""
        return self._get(f"{_job(job)}/vertices/{quote(vertex, safe='')}", VertexDetail)

    def metric_names(self, job: str, vertex: str) -> frozenset[str]:
        """Return the names of a vertex' metrics."""
        return frozenset(metric.id for metric in self._get(_metrics(job, vertex), list[Metric]))

    def metrics(self, job: str, vertex: str, names: tuple[str, ...]) -> dict[str, Metric]:
        """Return metrics over all subtasks. Ask only for names that ``metric_names`` has: one unknown empties the answer."""
        found: dict[str, Metric] = {}
        for some in _lines(names):
            told = self._get(f"{_metrics(job, vertex)}?get={some}&agg=min,max,avg,sum", list[Metric])
            if not told:
                return {}
            found |= {metric.id: metric for metric in told}
        return found

    def task_manager_metric_names(self, task_manager: str) -> frozenset[str]:
        """Return the names of a TaskManager's own metrics."""
        return frozenset(metric.id for metric in self._get(_task_manager(task_manager), list[Metric]))

    def task_manager_metrics(self, task_manager: str, names: tuple[str, ...]) -> dict[str, Metric]:
        """Return metrics of a TaskManager, of names that ``task_manager_metric_names`` has."""
        query = urlencode({"get": ",".join(names)}, safe=",")
        return {metric.id: metric for metric in self._get(f"{_task_manager(task_manager)}?{query}", list[Metric])}

    def parameters(self, job: str) -> dict[str, str]:
        """Return the job's own parameters (``pipeline.global-job-parameters``), which its author set."""
        config = self._get(f"{_job(job)}/config", JobConfig).execution_config
        return config.user_config if config is not None else {}

    def checkpoint_config(self, job: str) -> CheckpointConfig:
        """Return how the job takes checkpoints; ``takes_checkpoints`` is false if it takes none."""
        try:
            return self._get(f"{_job(job)}/checkpoints/config", CheckpointConfig)
        except NotFound as problem:
            if not _says_disabled(problem):
                raise
            return CheckpointConfig()

    def checkpoints(self, job: str) -> Checkpoints:
        """Return the newest checkpoints; empty for a job that takes none."""
        try:
            return self._get(f"{_job(job)}/checkpoints", Checkpoints)
        except NotFound as problem:
            if not _says_disabled(problem):
                raise
            return Checkpoints()

    def take_checkpoint(self, job: str) -> str:
        """Request a checkpoint now and return the id of the request. It is not repeated when the connection breaks."""
        return self._call("POST", f"{_job(job)}/checkpoints", Requested, b"{}").request_id

    def exceptions(self, job: str) -> Exceptions:
        """Return the newest exceptions that made the job restart."""
        return self._get(f"{_job(job)}/exceptions?maxExceptions=20", Exceptions)

    def requirements(self, job: str) -> Requirements:
        """Return what Flink is asked for.

        Raises:
            NotAdaptive: the job's scheduler cannot be asked for anything.
        """
        return self._get(f"{_job(job)}/resource-requirements", Requirements)

    def require(self, job: str, requirements: Requirements) -> None:
        """Ask Flink for a parallelism of every vertex. Accepted is not applied: compare with what runs.

        Args:
            job: Flink's job id.
            requirements: of all vertices; Flink refuses a part.

        Raises:
            NotAdaptive: the job's scheduler cannot be asked for anything.
            FlinkRefused: more than a vertex' maximum parallelism, or a vertex is missing.
        """
        self._call("PUT", f"{_job(job)}/resource-requirements", dict[str, msgspec.Raw], msgspec.json.encode(requirements))

    def rescales(self, job: str) -> tuple[Rescale, ...]:
        """Return the rescales that Flink remembers, newest first; none before 2.3 and where it keeps no history."""
        return self._from_2_3(f"{_job(job)}/rescales/history", tuple[Rescale, ...]) or ()

    def rescale(self, job: str, rescale: str) -> Rescale | None:
        """Return a rescale with the states it went through; None before 2.3."""
        return self._from_2_3(f"{_job(job)}/rescales/details/{quote(rescale, safe='')}", Rescale)

    def _from_2_3(self, path: str, kind: type[T]) -> T | None:
        """Return an answer of a path that older versions do not have, nor jobs of other schedulers and without a history."""
        try:
            return self._get(path, kind)
        except NotFound as problem:
            if isinstance(problem, NoSuchPath) or "daptive" in problem.reason:
                return None
            raise

    def _get(self, path: str, kind: type[T]) -> T:
        return self._call("GET", path, kind)

    def _call(self, method: str, path: str, kind: type[T], body: bytes | None = None) -> T:
        """Ask the address that answered last, then the others. What may not be asked twice goes to one address alone."""
        first, away = self._first, list[FlinkUnavailable]()
        for at in (*range(first, len(self._addresses)), *range(first)):
            try:
                answer = self._ask(self._addresses[at], method, path, kind, body)
            except FlinkUnavailable as problem:
                away.append(problem)
                if method == "POST":
                    self._first = (at + 1) % len(self._addresses)
                    break
            else:
                self._first = at
                return answer
        raise away[0] if len(away) == 1 else FlinkUnavailable("; ".join(map(str, away)))

    def _ask(self, address: "_Address", method: str, path: str, kind: type[T], body: bytes | None) -> T:
        request = f"{method} {address.url}{path}"
        with LARGE.reading(self._timeout_s) as place:
            try:
                headers = self._access.headers() | ({"Content-Type": "application/json"} if body is not None else {})
                answer = address.connections.ask(
                    method, path, body, headers, timeout_s=self._timeout_s, bytes_max=ANSWER_BYTES_MAX, place=place
                )
            except TokenUnreadable as error:
                raise NotAuthorized(str(error)) from None
            except NoAnswer as error:
                raise FlinkUnavailable(f"{request}: {error}") from None
            if answer.status >= 300:
                raise problem_of(answer, request)
            try:
                return decoder(kind).decode(answer.body or b"{}")
            except UNREADABLE:
                raise not_flink(answer, request) from None


@dataclass(frozen=True, slots=True)
class _Address:
    """One address; ``url`` is how it is shown."""

    url: str
    connections: ConnectionPool

    @classmethod
    def at(cls, url: str, access: Access) -> "_Address":
        """Return the address. Nothing is connected yet."""
        is_secure = url.lower().startswith("https:")
        return cls(without_password(url.rstrip("/")), ConnectionPool(url, access.context() if is_secure else None))


def _job(job: str) -> str:
    return f"/jobs/{quote(job, safe='')}"


def _metrics(job: str, vertex: str) -> str:
    return f"{_job(job)}/vertices/{quote(vertex, safe='')}/subtasks/metrics"


def _lines(names: Iterable[str]) -> Iterator[str]:
    """Yield names for requests, in as few as Flink reads: those of 26 partitions are too many for one."""
    line = ""
    for name in map(quote_plus, names):
        if line and len(line) + len(name) >= NAMES_LETTERS_MAX:
            yield line
            line = ""
        line = f"{line},{name}" if line else name
    yield line


def _task_manager(task_manager: str) -> str:
    return f"/taskmanagers/{quote(task_manager, safe='')}/metrics"


def _says_disabled(problem: NotFound) -> bool:
    """Say whether the job is there and takes no checkpoints."""
    return "heckpointing" in problem.reason and "enabled" in problem.reason
