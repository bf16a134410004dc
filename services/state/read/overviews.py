"""The overviews of all jobs. Redis is asked for many jobs in one round trip, and only for what an overview shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from contracts.clock import MINUTE_MS
from contracts.decisions import FeatureDrift, PolicyUsed
from contracts.ids import cluster_of
from contracts.minute_figures import JobMinute
from contracts.modes import mode_in_force
from services.state import keys
from services.state.connection import TextReader
from services.state.documents import JobOverview
from services.state.keys import Keys
from services.state.read.rent import Prices
from services.state.read.status import status_of
from services.state.read.stored import Documents
from services.state.read.verdicts import is_at_limit, outcome_in_words
from services.state.record_documents import (
    GateDocument,
    HostsDocument,
    SettingsDocument,
    TaskDecisionDocument,
    TopologyDocument,
    WindowDocument,
)

JOBS_AT_ONCE = 500  # their answers are held in memory together
_FIELDS = ("topology", "settings", "gate")


class _Decided(msgspec.Struct, frozen=True):
    """The part of a decision that an overview shows."""

    action: Literal["act", "hold"]
    policy: PolicyUsed
    span_end_ms: int
    tasks: tuple[TaskDecisionDocument, ...] = ()
    drift: FeatureDrift | None = None


class _Status(msgspec.Struct, frozen=True):
    """The part of an outcome that an overview shows."""

    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Bodies:
    """One job's documents as they lie in Redis."""

    topology: str | None
    settings: str | None
    gate: str | None
    window: str | None
    decision: str | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class _Place:
    """The cluster of a job; a part that is not known is None."""

    hosts: HostsDocument | None
    prices: Prices | None
    newest_window_ms: int | None


class Overviews:
    """Reads the overviews of one pipeline's jobs."""

    def __init__(self, client: TextReader, key: Keys) -> None:
        self._client, self._key = client, key

    def of(self, jobs: Sequence[str], is_late: Callable[[WindowDocument | None], bool]) -> list[JobOverview]:
        """Return the overview of each job; ``is_late`` says whether its newest window is."""
        windows = self.newest_windows(jobs)
        newest: dict[str, int] = {}
        for job, (_, end_ms) in windows.items():
            newest[cluster_of(job)] = max(end_ms, newest.get(cluster_of(job), end_ms))
        hosts = self._hosts(sorted({cluster_of(job) for job in jobs}))
        prices = {cluster: Prices(each.hosts) for cluster, each in hosts.items() if each.engine.places == "commanded"}
        found = []
        for few in in_parts(jobs):
            for job, bodies in zip(few, self._bodies(few, windows), strict=True):
                cluster = cluster_of(job)
                place = _Place(hosts.get(cluster), prices.get(cluster), newest.get(cluster))
                found.append(_overview(job, bodies, place, is_late))
        return found

    def newest_windows(self, jobs: Iterable[str]) -> dict[str, tuple[str, int]]:
        """Return id and end of the newest window of each job that has one."""
        found: dict[str, tuple[str, int]] = {}
        for few in in_parts(list(jobs)):
            with self._client.pipeline(transaction=False) as pipe:
                for job in few:
                    pipe.zrevrange(self._key(keys.timeline("windows", job)), 0, 0, withscores=True)
                answers: list[list[tuple[str, float]]] = pipe.execute()
            found |= {job: (newest[0][0], round(newest[0][1])) for job, newest in zip(few, answers, strict=True) if newest}
        return found

    def _hosts(self, clusters: Sequence[str]) -> dict[str, HostsDocument]:
        with self._client.pipeline(transaction=False) as pipe:
            for cluster in clusters:
                pipe.hget(self._key(keys.cluster(cluster)), "topology")
            bodies: list[str | None] = pipe.execute()
        found = {cluster: Documents().one("hosts", body, HostsDocument) for cluster, body in zip(clusters, bodies, strict=True)}
        return {cluster: hosts for cluster, hosts in found.items() if hosts}

    def _bodies(self, jobs: Sequence[str], windows: Mapping[str, tuple[str, int]]) -> list[_Bodies]:
        with self._client.pipeline(transaction=False) as pipe:
            for job in jobs:
                pipe.hmget(self._key(keys.job(job)), _FIELDS)
                pipe.zrevrange(self._key(keys.timeline("decisions", job)), 0, 0)
            answers: list[Any] = pipe.execute()
        fields, decisions = answers[::2], answers[1::2]
        with self._client.pipeline(transaction=False) as pipe:
            for job, decision in zip(jobs, decisions, strict=True):
                # No identity is empty, so an empty one finds nothing.
                of = decision[0] if decision else ""
                pipe.hget(self._key(keys.bodies("windows", job)), windows[job][0] if job in windows else "")
                pipe.hget(self._key(keys.bodies("decisions", job)), of)
                pipe.hget(self._key(keys.bodies("outcomes", job)), of)
            newest: list[str | None] = pipe.execute()
        return [_Bodies(*fields[at], *newest[3 * at : 3 * at + 3]) for at in range(len(jobs))]


def minutes_behind(window: WindowDocument | None, newest_window_ms: int | None) -> int | None:
    """Return by how many minutes a job's newest window is older than the newest of its cluster; None if either is missing."""
    if window is None or newest_window_ms is None:
        return None
    return (newest_window_ms - window.window_end_ms) // MINUTE_MS


def in_parts(jobs: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return the jobs in parts whose answers are read in one round trip."""
    return (jobs[at : at + JOBS_AT_ONCE] for at in range(0, len(jobs), JOBS_AT_ONCE))


def _overview(job: str, bodies: _Bodies, place: _Place, is_late: Callable[[WindowDocument | None], bool]) -> JobOverview:
    read = Documents()
    topology = read.one("topology", bodies.topology, TopologyDocument)
    settings = read.one("settings", bodies.settings, SettingsDocument)
    window = read.one("window", bodies.window, WindowDocument)
    decision = read.part("decision", bodies.decision, _Decided)
    outcome = read.part("outcome", bodies.outcome, _Status)
    gate = read.one("gate", bodies.gate, GateDocument)
    tasks = topology.tasks if topology else ()
    configured = [task.configured_parallelism for task in tasks if task.scalable]
    mode = mode_in_force(settings, topology, place.hosts.engine if place.hosts else None).mode
    silent_minutes = minutes_behind(window, place.newest_window_ms)
    minute = window.minute if window and window.minute else JobMinute()
    return JobOverview(
        job=job,
        state=topology.state if topology else None,
        generation=topology.generation if topology else None,
        tasks=len(tasks),
        parallelism=sum(task.parallelism for task in tasks if task.scalable),
        mode=mode,
        window_end_ms=window.window_end_ms if window else None,
        completeness=window.completeness if window else None,
        load_records_per_minute=window.load_records_per_minute if window else None,
        silent_minutes=silent_minutes,
        action=decision.action if decision else None,
        outcome=outcome.status if decision and outcome else None,
        gate_phase=gate.phase if gate else None,
        wake_up_ms=gate.wake_up_ms if gate else None,
        rent_per_day=place.prices.per_day(topology) if place.prices and topology else None,
        status=status_of(topology, gate, window, mode=mode, silent_minutes=silent_minutes, late=is_late(window)),
        utilisation=minute.utilisation,
        backlog_records=minute.backlog,
        latency_ms=minute.latency_ms,
        overloaded_tasks=minute.overloaded if window and window.minute else None,
        configured_parallelism=sum(filter(None, configured)) if configured and None not in configured else None,
        scalable_tasks=sum(task.scalable for task in tasks),
        ran=minute.ran,
        is_at_limit=is_at_limit(decision.tasks, tasks) if decision else False,
        decided_ms=decision.span_end_ms if decision else None,
        came=outcome_in_words(decision.action, outcome) if decision else None,
        fallback_reason=decision.policy.fallback_reason if decision else None,
        applied_generation=gate.applied_generation if gate else None,
        feature_drift=decision.drift.outside if decision and decision.drift else None,
        feature_drift_usual=decision.drift.usual if decision and decision.drift else None,
        restarts=window.restarts if window else None,
        seen_ms=topology.at_ms if topology else None,
        began_ms=topology.began_ms if topology else None,
        unreadable=read.unreadable,
    )
