"""The views of several pipelines on one Redis, as one: each job is read from that of the pipeline that has it. Writes nothing."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from surescale.runtime.kafka_clock import wall_ms as wall_now_ms
from surescale.services.state.documents import HistoryDocument, JobDocument, JobOverview, TaskHistoryDocument
from surescale.services.state.fleet_documents import PipelineDocument, StoredAnswer
from surescale.services.state.keys import Keys
from surescale.services.state.read.overviews import Overviews
from surescale.services.state.read.queries import NO_VIEW, Queries
from surescale.services.state.read.stored import Documents
from surescale.services.state.record_documents import Appended, CommandDocument, DecisionDocument
from surescale.services.state.text_reader import TextReader

if TYPE_CHECKING:
    import redis


_NO_JOB = "its pipeline knows no job yet"


class _KeysOfAll(Keys):
    """Full keys: of a job or a cluster under the prefix of its pipeline, of all else under that of the first one."""

    def __init__(self, prefix: str, prefix_of: Callable[[str], str]) -> None:
        super().__init__(prefix)
        self._prefix_of = prefix_of

    def __call__(self, name: str) -> str:
        _, colon, owner = name.partition(":")
        return Keys(self._prefix_of(owner))(name) if colon else super().__call__(name)


class _Part(Queries):
    """Queries on the view of one of the pipelines: of its jobs, those that it has now."""

    def __init__(self, client: TextReader, prefix: str, wall_ms: Callable[[], int], prefix_of: Callable[[str], str]) -> None:
        super().__init__(client, prefix, wall_ms)
        self._owner_of = prefix_of

    def job_ids(self) -> list[str]:
        return [job for job in super().job_ids() if self._owner_of(job) == self._prefix]


class Together(Queries):
    """Queries on the views of several pipelines.

    Jobs, and what is known of each, are those of all. Clusters have the jobs of all; what else is told of a cluster is what the
    first pipeline that knows it tells. The pipeline, its refused records, counts and clocks are the first one's.
    """

    def __init__(
        self,
        client: "redis.Redis | TextReader",
        prefixes: Sequence[str],
        span_minutes: int,
        wall_ms: Callable[[], int] = wall_now_ms,
    ) -> None:
        super().__init__(client, prefixes[0], wall_ms)
        self._views = {prefix: Queries(self._client, prefix, wall_ms) for prefix in prefixes}
        self._parts = {prefix: _Part(self._client, prefix, wall_ms, self._known) for prefix in prefixes}
        for each in (self, *self._parts.values()):
            each.span_minutes = span_minutes
        self._owners = dict[str, str]()
        self._key = _KeysOfAll(self._prefix, self._known)
        self._overviews = Overviews(self._client, self._key)

    def prefix_of(self, job: str) -> str:
        """Return the prefix of the pipeline that has a job now; the first one's if none does."""
        self._owners |= self._who_has({prefix: [job] for prefix, view in self._views.items() if view.has(job)})
        return self._owners.get(job, self._prefix)

    def _known(self, name: str) -> str:
        """Return the prefix of the pipeline that had a job, or knew a cluster, at the last look."""
        if name not in self._owners:
            self._look()
        return self._owners.get(name, self._prefix)

    def knowing(self, cluster: str) -> list[str]:
        """Return the prefixes of the pipelines that know a cluster; that of the first one if none does."""
        return [prefix for prefix, view in self._views.items() if cluster in view._clusters()] or [self._prefix]

    def _look(self) -> set[str]:
        """Find out anew who has what, and return the jobs."""
        of_jobs = self._who_has({prefix: view.job_ids() for prefix, view in self._views.items()})
        owners: dict[str, str] = {}
        for prefix, view in self._views.items():
            for cluster in view._clusters():
                owners.setdefault(cluster, prefix)
        self._owners = owners | of_jobs
        return set(of_jobs)

    def _who_has(self, known: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the prefix by job, of the jobs that each pipeline knows. One that was moved belongs where it was seen last."""
        times = Counter(job for jobs in known.values() for job in jobs)
        owners, seen_ms = dict[str, str](), dict[str, int]()
        for prefix, jobs in known.items():
            twice = [job for job in jobs if times[job] > 1]
            at_ms = {each.record.job: each.appended_ms for each in self._views[prefix]._topologies(twice, Documents())}
            for job in jobs:
                if job not in owners or at_ms.get(job, -1) > seen_ms[job]:
                    owners[job], seen_ms[job] = prefix, at_ms.get(job, -1)
        return owners

    def job_ids(self) -> list[str]:
        """Return the ids of the jobs of all pipelines."""
        return sorted(self._look())

    def _clusters(self) -> list[str]:
        return sorted({cluster for view in self._views.values() for cluster in view._clusters()})

    def silent(self) -> dict[str, str]:
        """Return why nothing is shown of a pipeline, by prefix of those of which no job is known."""
        lacking = {prefix: view for prefix, view in self._views.items() if not view.job_ids()}
        return {prefix: _NO_JOB if view.positions() else NO_VIEW for prefix, view in lacking.items()}

    def _name(self, prefix: str) -> str | UnsetType:
        return prefix if len(self._parts) > 1 else UNSET

    def _part(self, job: str) -> Queries:
        return self._parts[self.prefix_of(job)]

    def jobs(self, *, after: str = "", limit: int | None = None) -> list[JobOverview]:
        """As of one pipeline; the figures of each job are as old as its own pipeline's clock says."""
        self._look()
        found = [
            replace(each, pipeline=self._name(prefix))
            for prefix, part in self._parts.items()
            for each in part.jobs(after=after, limit=limit)
        ]
        return sorted(found, key=lambda each: each.job)[:limit]

    def overview(self, job: str) -> JobOverview:
        """As of one pipeline."""
        prefix = self.prefix_of(job)
        return replace(self._parts[prefix].overview(job), pipeline=self._name(prefix))

    def is_at_rest(self, job: str) -> bool:
        """As of one pipeline."""
        return self._part(job).is_at_rest(job)

    def job(self, job: str) -> JobDocument:
        """As of one pipeline."""
        prefix = self.prefix_of(job)
        return replace(self._parts[prefix].job(job), pipeline=self._name(prefix))

    def history(self, job: str, minutes: int) -> HistoryDocument:
        """As of one pipeline."""
        return self._part(job).history(job, minutes)

    def task_history(self, job: str, task: str, minutes: int) -> TaskHistoryDocument:
        """As of one pipeline."""
        return self._part(job).task_history(job, task, minutes)

    def commands(self, job: str, limit: int, *, after: str = "") -> list[CommandDocument]:
        """As of one pipeline."""
        return self._part(job).commands(job, limit, after=after)

    def decisions(self, job: str, limit: int, *, after: str = "") -> list[DecisionDocument]:
        """As of one pipeline."""
        return self._part(job).decisions(job, limit, after=after)

    def shadow_answers(self, job: str, limit: int, *, after: str = "") -> list[Appended[StoredAnswer]]:
        """As of one pipeline."""
        return self._part(job).shadow_answers(job, limit, after=after)

    def decision(self, of: str) -> DecisionDocument:
        """As of one pipeline."""
        return self._part(of.rpartition("@")[0]).decision(of)

    def command(self, of: str) -> CommandDocument:
        """As of one pipeline."""
        return self._part(of.rpartition("#")[0]).command(of)

    def pipeline(self) -> PipelineDocument:
        """As of the first pipeline: the roles of another one, or its clock, say nothing of this one's."""
        self._look()
        first = self._parts[self._prefix]
        first.clock_apart = self.clock_apart
        return first.pipeline()

    def all_positions(self) -> Mapping[str, int]:
        """Return the sums of the offsets that the views stand for, by ``topic/partition``."""
        found: dict[str, int] = {}
        for view in self._views.values():
            for place, offset in view.positions().items():
                found[place] = found.get(place, 0) + offset
        return found
