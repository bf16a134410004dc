"""What every query on the view needs: jobs and clusters by name, newest documents, pages. Writes nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from surescale.contracts.errors import SurescaleError
from surescale.contracts.figures import known_count
from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import ClockSegment
from surescale.contracts.settings import SPAN_MINUTES
from surescale.contracts.suggestions import near
from surescale.runtime.kafka_clock import wall_ms as wall_now_ms
from surescale.services.state import keys
from surescale.services.state.keys import Keys
from surescale.services.state.read.overviews import Overviews, in_parts
from surescale.services.state.read.staleness import Present
from surescale.services.state.read.stored import Documents
from surescale.services.state.record_documents import Appended
from surescale.services.state.text_reader import TextReader, as_text

if TYPE_CHECKING:
    import redis


class NotFound(SurescaleError):
    """The view holds nothing of that name; ``near`` lists similar names, or else the first few."""

    def __init__(self, what: str, name: str, near: Iterable[str] = ()) -> None:
        self.near = tuple(near)
        hint = f"; known: {', '.join(self.near)}" if self.near else ""
        super().__init__(f"no {what} {name!r} is known{hint}")


class StaleCursor(SurescaleError):
    """A page was to begin after something that is no longer in the view."""

    def __init__(self, cursor: str) -> None:
        super().__init__(f"cursor: {cursor!r} is not in the view, or no longer; ask again without it")


class View:
    """Reads the view of one pipeline.

    Every method raises redis.RedisError when Redis is away, or RedisRefused if a `QuickReader` reads. An answer about several
    documents leaves out those that cannot be read and names them; a question for one raises UnreadableView.
    """

    span_minutes = SPAN_MINUTES
    """From one decision on a job to the next; a policy's own span shows in its decisions."""

    def __init__(self, client: "redis.Redis | TextReader", prefix: str, wall_ms: Callable[[], int] = wall_now_ms) -> None:
        """``wall_ms`` tells the wall's time, which says whether figures are new."""
        self._client, self._key, self._wall_ms = as_text(client), Keys(prefix), wall_ms
        self._overviews = Overviews(self._client, self._key)
        self._prefix = prefix

    def prefix_of(self, _job: str) -> str:
        """Return the topic prefix of the pipeline that has a job: of the only one."""
        return self._prefix

    def knowing(self, _cluster: str) -> list[str]:
        """Return the topic prefixes of the pipelines that know a cluster: that of the only one."""
        return [self._prefix]

    def job_ids(self) -> list[str]:
        """Return the ids of all jobs that any topic has named."""
        return sorted(self._client.smembers(self._key(keys.JOBS)))

    def clocks(self) -> dict[str, Appended[ClockSegment]]:
        """Return the current segment of each pipeline's clock."""
        stored = sorted(self._client.hgetall(self._key(keys.CLOCKS)).items())
        read = Documents()
        return {pipeline: clock for pipeline, body in stored if (clock := read.one(pipeline, body, Appended[ClockSegment]))}

    def _now(self) -> Present:
        clocks = tuple(clock.record for clock in self.clocks().values())
        return Present(clocks, self._wall_ms(), known_count(self._client.get(self._key(keys.KEPT)) or ""))

    def _clusters(self) -> list[str]:
        return sorted(self._client.smembers(self._key(keys.CLUSTERS)))

    def _jobs_of(self, cluster: str) -> list[str]:
        return [job for job in self.job_ids() if cluster_of(job) == cluster]

    def has(self, job: str) -> bool:
        """Say whether any topic has named a job."""
        return bool(self._client.sismember(self._key(keys.JOBS), job))

    def _require_job(self, job: str) -> None:
        if not self.has(job):
            raise NotFound("job", job, near(job, self.job_ids()))

    def _require_cluster(self, cluster: str) -> None:
        clusters = self._clusters()
        if cluster not in clusters:
            raise NotFound("cluster", cluster, near(cluster, clusters))

    def _fields_of(self, jobs: Sequence[str], *fields: str) -> Iterator[tuple[str, list[str | None]]]:
        """Yield each job with fields of its hash, read for many jobs in one round trip."""
        for few in in_parts(jobs):
            with self._client.pipeline(transaction=False) as pipe:
                for job in few:
                    pipe.hmget(self._key(keys.job(job)), fields)
                answers: list[list[str | None]] = pipe.execute()
            yield from zip(few, answers, strict=True)

    def _newest_of_each(self, timeline: str, jobs: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
        """Yield the newest document of each job that has one, of all or of these, read for many jobs in one round trip."""
        for few in in_parts(self.job_ids() if jobs is None else jobs):
            with self._client.pipeline(transaction=False) as pipe:
                for job in few:
                    pipe.zrevrange(self._key(keys.timeline(timeline, job)), 0, 0)
                ids: list[list[str]] = pipe.execute()
                for job, newest in zip(few, ids, strict=True):
                    pipe.hget(self._key(keys.bodies(timeline, job)), newest[0] if newest else "")
                bodies: list[str | None] = pipe.execute()
            yield from ((job, body) for job, body in zip(few, bodies, strict=True) if body is not None)

    def _all_of_each(self, timeline: str) -> Iterator[tuple[str, str]]:
        """Yield every document of a timeline with its job, read for many jobs in one round trip."""
        for few in in_parts(self.job_ids()):
            with self._client.pipeline(transaction=False) as pipe:
                for job in few:
                    pipe.hvals(self._key(keys.bodies(timeline, job)))
                answers: list[list[str]] = pipe.execute()
            yield from ((job, body) for job, bodies in zip(few, answers, strict=True) for body in bodies)

    def _newest(self, timeline: str, job: str) -> str | None:
        ids = self._client.zrevrange(self._key(keys.timeline(timeline, job)), 0, 0)
        return self._body(timeline, job, ids[0]) if ids else None

    def _latest(self, timeline: str, owner: str, limit: int) -> list[str | None]:
        ids = self._client.zrevrange(self._key(keys.timeline(timeline, owner)), 0, limit - 1)
        return self._bodies(timeline, owner, ids)

    def _body(self, timeline: str, job: str, of: str) -> str | None:
        return self._client.hget(self._key(keys.bodies(timeline, job)), of)

    def _bodies(self, timeline: str, owner: str, ids: Sequence[str]) -> list[str | None]:
        return self._client.hmget(self._key(keys.bodies(timeline, owner)), ids) if ids else []

    def _page(self, timeline: str, job: str, after: str, limit: int) -> list[str]:
        """Return the newest identities of a timeline, or those before the one named ``after``."""
        key = self._key(keys.timeline(timeline, job))
        begin = 0
        if after:
            rank = self._client.zrevrank(key, after)
            if rank is None:
                raise StaleCursor(after)
            begin = rank + 1
        return self._client.zrevrange(key, begin, begin + limit - 1)
