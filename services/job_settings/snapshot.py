"""The settings of one job on Kafka: read to their end, and changed by one more record with version, author and time."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from surescale.contracts.capabilities import UNKNOWN
from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.ids import cluster_of, split_job
from surescale.contracts.job_limits import is_over
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.limits_in_words import period_in_words
from surescale.contracts.messages import ClusterTopology, JobTopology
from surescale.contracts.modes import ModeInForce, mode_in_force
from surescale.contracts.pauses import Pauses, all_jobs_of, is_of_all_jobs, pauses_of
from surescale.contracts.plurals import listed
from surescale.contracts.releases import Release, Releases
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.suggestions import near
from surescale.contracts.topics import CLOCK, CLUSTER_TOPOLOGY, JOB_SETTINGS, JOB_TOPOLOGY, POLICY_RELEASES
from surescale.runtime.kafka_clock import KAFKA_CLOCK
from surescale.runtime.topic_records import append_ms, parsed, pipeline_now_ms, read_topics, send, send_all
from surescale.services.job_settings.changes import Recorded, applied_to, changed, differences, newest, without_effect

ATTEMPTS_MAX = 5
NOTHING_ACTS = "nothing can act on it, so act is no more than advise: set SURESCALE_ACTUATOR of monitor and rescaler"

Wanted = Callable[["SettingsSnapshot"], Mapping[str, object]]


class UnknownName(SettingsError):
    """No topology has named the job, or the cluster."""


class VersionConflict(SettingsError):
    """The settings are no longer those that the change was meant for."""


class RequestReused(SettingsError):
    """Another change was made under the same request."""


@dataclass(frozen=True, slots=True)
class SettingsSnapshot:
    """What Kafka knows about one job's settings at one instant."""

    job: str
    known: JobTopology | None  # None: the settings are for all jobs of a cluster
    history: tuple[Recorded, ...]
    now_ms: int
    release: Release | None
    hosts: ClusterTopology | None = None
    of_all_jobs: JobSettings | None = None
    others: tuple[str, ...] = ()  # jobs that are known

    @property
    def topology(self) -> JobTopology:
        """Return the job's topology."""
        assert self.known is not None, f"{self.job} is not a single job"
        return self.known

    @property
    def mode(self) -> ModeInForce:
        """Return the mode in force, and what decided it."""
        return mode_in_force(self.settings, self.topology, self.hosts.engine if self.hosts else None)

    @property
    def pauses(self) -> Pauses:
        """Return what is paused now, for the job or its cluster."""
        shared = {all_jobs_of(cluster_of(self.job)): self.of_all_jobs} if self.of_all_jobs else {}
        return pauses_of(self.job, {**shared, self.job: self.settings}, self.now_ms)

    @property
    def settings(self) -> JobSettings:
        """Return the settings in force."""
        return newest(self.history, self.job)


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The settings before and after.

    ``overtaken_by`` is the user who changed them at the same time and wrote last; ``note`` says what of it has no effect; the
    change ``was_made`` before if the same request comes again.
    """

    before: JobSettings
    after: JobSettings
    overtaken_by: str | None = None
    note: str | None = None
    was_made: bool = False

    @property
    def differences(self) -> dict[str, tuple[object, object]]:
        """Return the fields that differ."""
        return differences(self.before, self.after)


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """What Kafka knows about all jobs' settings at one instant."""

    topologies: Mapping[str, JobTopology]
    hosts: Mapping[str, ClusterTopology]
    records: Mapping[str, tuple[Recorded, ...]]
    releases: Releases
    now_ms: int

    @property
    def names(self) -> set[str]:
        """Return every single job that has a topology, or settings."""
        return {job for job in (*self.topologies, *self.records) if not is_of_all_jobs(job)}

    def of(self, job: str, *, may_be_new: bool = False) -> SettingsSnapshot:
        """Return what is known about one job, or about all jobs of a cluster (``CLUSTER/*``).

        ``may_be_new``: the job need not be known yet.

        Raises:
            UnknownName: no topology has named the job, or the cluster; or none could have that name.
        """
        if is_of_all_jobs(job):
            clusters = {*self.hosts, *map(cluster_of, self.topologies)}
            _require("CLUSTER", "cluster", job.rpartition("/")[0], clusters)
        elif may_be_new and job not in self.topologies:
            _check_name(job)
        else:
            _require("JOB", "job", job, self.topologies)
        cluster, every = cluster_of(job), all_jobs_of(cluster_of(job))
        return SettingsSnapshot(
            job=job,
            known=self.topologies.get(job),
            history=self.records.get(job, ()),
            now_ms=self.now_ms,
            release=self.releases.serving(job, self.now_ms),
            hosts=self.hosts.get(cluster),
            of_all_jobs=newest(self.records.get(every, ()), every),
            others=tuple(sorted(self.topologies)),
        )


def read_jobs(settings: PipelineSettings) -> KnownJobs:
    """Read everything about the settings of all jobs.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    found = read_topics(settings, [JOB_SETTINGS, JOB_TOPOLOGY, CLUSTER_TOPOLOGY, CLOCK, POLICY_RELEASES])
    records: dict[str, list[Recorded]] = {}
    for record in found[JOB_SETTINGS]:
        for each in parsed([record], JobSettings):
            records.setdefault(each.job, []).append(Recorded(each, append_ms(record)))
    return KnownJobs(
        topologies={topology.job: topology for topology in parsed(found[JOB_TOPOLOGY], JobTopology)},
        hosts={topology.cluster: topology for topology in parsed(found[CLUSTER_TOPOLOGY], ClusterTopology)},
        records={job: tuple(history) for job, history in records.items()},
        releases=Releases(parsed(found[POLICY_RELEASES], Release)),
        now_ms=pipeline_now_ms(settings, found[CLOCK]),
    )


def read_snapshot(settings: PipelineSettings, job: str, *, may_be_new: bool = False) -> SettingsSnapshot:
    """Read everything about a job's settings; see `KnownJobs.of`.

    Raises:
        UnknownName: no topology has named the job, or the cluster; or none could have that name.
        ConnectionError: Kafka does not answer.
    """
    if may_be_new and not is_of_all_jobs(job):
        _check_name(job)  # at once, whether Kafka answers or not
    return read_jobs(settings).of(job, may_be_new=may_be_new)


def made_by(snapshot: SettingsSnapshot, request: str) -> JobSettings | None:
    """Return the settings that a request has made already; None if it has made none, or is none.

    A request is ``KEY#WHAT``: its sender chooses the key, and uses it again only to repeat the same.

    Raises:
        RequestReused: the key has made something else.
    """
    key = request.partition("#")[0]
    for settings in (recorded.settings for recorded in snapshot.history) if key else ():
        if settings.request == request:
            return settings
        if settings.request is not None and settings.request.partition("#")[0] == key:
            raise RequestReused(f"the key {key!r} was used for another change of {snapshot.job}; take a new one")
    return None


def _check_name(job: str) -> None:
    try:
        split_job(job)
    except RecordRejected:
        raise UnknownName(f"JOB: {job!r} is no name of a job; write CLUSTER/NAME") from None


def note(before: JobSettings, after: JobSettings, snapshot: SettingsSnapshot) -> str | None:
    """Return in words what of a change has no effect, none yet, or not for long."""
    if snapshot.known is not None or is_of_all_jobs(snapshot.job):
        effect = without_effect(before, after, snapshot.known)
    else:
        like = near(snapshot.job, snapshot.others)
        some = f"; known: {', '.join(like)}" if like else ""
        effect = f"no job {snapshot.job} is known yet: this holds from the moment that there is one{some}"
    applied = applied_to(snapshot.history, snapshot.job)
    owned = applied.by_hand(after).keys() & differences(before, after).keys() if applied and after.applied_from is None else ()
    again = f"{applied.name} sets this job: the next `surescale job apply` takes the change back" if applied and owned else None
    engine = (_no_actuator(before, after, snapshot), _cannot_rest(before, after, snapshot))
    return "; ".join(filter(None, (effect, _over(before, after), *engine, again))) or None


def _over(before: JobSettings, after: JobSettings) -> str | None:
    """Return the new periods whose last day has passed; None where there is none."""
    new = (*(after.excluded or ()), *(each.period for each in after.minimum_within or ()))
    known = (*(before.excluded or ()), *(each.period for each in before.minimum_within or ()))
    past = [period_in_words(each) for each in new if each not in known and is_over(each, after.set_at_ms)]
    return f"{listed(map(repr, past))} {'is' if len(past) == 1 else 'are'} over, so nothing comes of it" if past else None


def _no_actuator(before: JobSettings, after: JobSettings, snapshot: SettingsSnapshot) -> str | None:
    """Return that nothing can act on a job that is to be acted on from now on; None where something can, or nobody knows."""
    engine = snapshot.hosts.engine if snapshot.hosts else None
    if after.mode != "act" or before.mode == "act" or engine is None or engine.acts != "none":
        return None
    more = ", or give Flink the adaptive scheduler" if engine.engine == "flink" else ""
    return f"{NOTHING_ACTS}{more}"


def _cannot_rest(before: JobSettings, after: JobSettings, snapshot: SettingsSnapshot) -> str | None:
    """Return that a job's engine cannot take it to no subtasks, as was just asked for; None where it can, or nobody knows."""
    engine, minutes = snapshot.hosts.engine if snapshot.hosts else None, after.idle_to_zero_minutes
    if not minutes or minutes == before.idle_to_zero_minutes or engine is None or engine == UNKNOWN or engine.can_rest:
        return None
    if engine.engine == "kafka" and engine.acts == "none":
        why = "nothing starts and stops its workers; set SURESCALE_ACTUATOR of monitor and rescaler"
    else:
        why = "its engine keeps at least one subtask of each task; only consumer groups on processes or Kubernetes can go to none"
    return f"--idle-to-zero {minutes} has no effect: {why}"


def _require(option: str, kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        like = near(name, sorted(known))
        some = f"; known: {', '.join(like)}" if like else " and no other yet"
        raise UnknownName(f"{option}: there is no {kind} {name!r}{some}")


def change(
    settings: PipelineSettings,
    job: str,
    wanted: Wanted,
    by: str,
    *,
    request: str = "",
    version: int | None = None,
    may_be_new: bool = False,
) -> ChangeResult:
    """Write the next version of a job's settings, or nothing if they already are as wanted.

    Two users who write at the same time may choose the same version. Then the later record wins. If another record with a higher
    version came first, ours is written again with a version of its own.

    Args:
        settings: how to reach Kafka.
        job: the job, or all jobs of a cluster (``CLUSTER/*``).
        wanted: returns the fields to change, given what Kafka knows.
        by: who changes them.
        request: what a repeated request is known by: the topic remembers it, and nothing is written twice.
        version: the version that the change was meant for; None: any.
        may_be_new: the job need not be known yet.

    Raises:
        UnknownName: there is no such job or cluster.
        VersionConflict: the settings have another version; nothing was written.
        RequestReused: the request has made another change; nothing was written.
        SettingsError: the wanted settings contradict themselves; nothing was written.
        ConnectionError: Kafka does not answer.
    """
    snapshot = read_snapshot(settings, job, may_be_new=may_be_new)
    before = snapshot.settings
    made = made_by(snapshot, request)
    if made is not None:
        return ChangeResult(made, made, was_made=True)
    if version not in (None, before.version):
        raise VersionConflict(
            f"{job}: its settings have version {before.version}, set by {before.set_by}, not {version}; look again"
        )
    for _ in range(ATTEMPTS_MAX):
        after = changed(snapshot.settings, wanted(snapshot), snapshot.known, by=by, at_ms=snapshot.now_ms, request=request)
        if not differences(snapshot.settings, after):
            return ChangeResult(snapshot.settings, snapshot.settings)
        was_on_time = not KAFKA_CLOCK.apart_in_words()
        send(settings, JOB_SETTINGS, job, after)
        snapshot = read_snapshot(settings, job, may_be_new=may_be_new)
        if was_on_time and KAFKA_CLOCK.apart_in_words():
            continue  # only now is it known that times were reckoned from a wrong clock: once more, by Kafka's
        if snapshot.settings == after:
            return ChangeResult(before, after, note=note(before, after, snapshot))
        if _follows(snapshot.history, after):
            return ChangeResult(before, after, overtaken_by=snapshot.settings.set_by)
    raise ConnectionError(f"{job}: others keep changing its settings; try again")


def write_all(settings: PipelineSettings, versions: Collection[JobSettings]) -> None:
    """Write the next versions of several jobs' settings.

    Raises:
        SettingsError: somebody else changed a job at the same time, and wrote last.
        ConnectionError: Kafka did not take all of them.
    """
    if not versions:
        return
    send_all(settings, JOB_SETTINGS, [(after.job.encode(), after) for after in versions])
    records = read_jobs(settings).records
    for after in versions:
        now = newest(records[after.job], after.job)
        if now != after:
            raise SettingsError(f"{now.job}: {now.set_by} changed its settings at the same time; apply the file again")


def _follows(history: tuple[Recorded, ...], ours: JobSettings) -> bool:
    """Return whether the settings in force were written after ours."""
    records = [recorded.settings for recorded in history]
    at = max(index for index, record in enumerate(records) if record == ours)
    return any(record.version >= ours.version for record in records[at + 1 :])
