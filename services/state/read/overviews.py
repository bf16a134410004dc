"""The overviews of all jobs. Redis is asked for many jobs in one round trip, and only for what an overview shows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import structs

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import FeatureDrift, PolicyUsed, TaskDecision
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, JobTopology
from surescale.contracts.modes import mode_in_force
from surescale.contracts.rescaler_state import JobControl
from surescale.contracts.summaries import JobMinute, WindowSummary
from surescale.contracts.topology import RESTING
from surescale.services.state import keys
from surescale.services.state.documents import JobFigures, JobOverview
from surescale.services.state.keys import Keys
from surescale.services.state.read.rent import Prices
from surescale.services.state.read.staleness import Present, Signs, stale_of
from surescale.services.state.read.status import status_of
from surescale.services.state.read.stored import Documents
from surescale.services.state.read.words import is_at_limit, outcome_in_words, policy_in_words
from surescale.services.state.text_reader import TextReader

JOBS_AT_ONCE = 500  # their answers are held in memory together
DECISIONS_LOOKED_AT = 4  # how far apart they are says how long a span is
_FIELDS = ("topology", "settings", "gate")
_TIMELINES = ("windows", "decisions", "outcomes")


class _Decided(msgspec.Struct, frozen=True):
    """The part of a decision that an overview shows."""

    action: Literal["act", "hold"]
    policy: PolicyUsed
    span_end_ms: int
    tasks: tuple[TaskDecision, ...] = ()
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
    signs: Signs


@dataclass(frozen=True, slots=True)
class _Place:
    """The cluster of a job; a part that is not known is None."""

    hosts: ClusterTopology | None
    prices: Prices | None


class Overviews:
    """Reads the overviews of one pipeline's jobs."""

    def __init__(self, client: TextReader, key: Keys) -> None:
        self._client, self._key = client, key

    def of(self, jobs: Sequence[str], now: Present, span_minutes: int) -> list[JobOverview]:
        """Return the overview of each job; ``span_minutes``: from one decision to the next, at least."""
        hosts = self._hosts(sorted({cluster_of(job) for job in jobs}))
        prices = {cluster: Prices(each) for cluster, each in hosts.items()}
        found = []
        for few in in_parts(jobs):
            for job, bodies in zip(few, self._bodies(few), strict=True):
                cluster = cluster_of(job)
                place = _Place(hosts.get(cluster), prices.get(cluster))
                found.append(_overview(job, bodies, place, now, span_minutes))
        return found

    def signs(self, job: str) -> Signs:
        """Return the newest signs of life about a job."""
        return self._bodies([job])[0].signs

    def _hosts(self, clusters: Sequence[str]) -> dict[str, ClusterTopology]:
        with self._client.pipeline(transaction=False) as pipe:
            for cluster in clusters:
                pipe.hget(self._key(keys.cluster(cluster)), "topology")
            bodies: list[str | None] = pipe.execute()
        found = {
            cluster: Documents().part("hosts", body, ClusterTopology) for cluster, body in zip(clusters, bodies, strict=True)
        }
        return {cluster: hosts for cluster, hosts in found.items() if hosts}

    def _bodies(self, jobs: Sequence[str]) -> list[_Bodies]:
        with self._client.pipeline(transaction=False) as pipe:
            for job in jobs:
                windows, decisions, outcomes = (self._key(keys.timeline(name, job)) for name in _TIMELINES)
                pipe.hmget(self._key(keys.job(job)), _FIELDS)
                pipe.zrevrange(windows, 0, 0, withscores=True)
                pipe.zrange(windows, 0, 0, withscores=True)
                pipe.zrevrange(decisions, 0, DECISIONS_LOOKED_AT - 1, withscores=True)
                pipe.zrevrange(outcomes, 0, 0, withscores=True)
            answers: list[Any] = pipe.execute()
        first = [answers[at : at + 5] for at in range(0, len(answers), 5)]
        with self._client.pipeline(transaction=False) as pipe:
            for job, (_, window, _, decided, answered) in zip(jobs, first, strict=True):
                # No identity is empty, so an empty one finds nothing.
                of = decided[0][0] if decided else ""
                pipe.hget(self._key(keys.bodies("windows", job)), window[0][0] if window else "")
                pipe.hget(self._key(keys.bodies("decisions", job)), of)
                pipe.hget(self._key(keys.bodies("outcomes", job)), of)
                after = f"({answered[0][1]:.0f}" if answered else "-inf"
                pipe.zrangebyscore(self._key(keys.timeline("decisions", job)), after, "+inf", 0, 1, withscores=True)
            second: list[Any] = pipe.execute()
        found = []
        for at, ((topology, settings, gate), window, oldest, decided, _) in enumerate(first):
            window_body, decision, outcome, unanswered = second[4 * at : 4 * at + 4]
            signs = Signs(_newest(window), _newest(oldest), tuple(round(score) for _, score in decided), _newest(unanswered))
            found.append(_Bodies(topology, settings, gate, window_body, decision, outcome, signs))
        return found


def _newest(scored: Sequence[tuple[str, float]]) -> int | None:
    return round(scored[0][1]) if scored else None


def figures_of(window: WindowSummary | None, parallelism: int | None, rent_per_day: float | None) -> JobFigures:
    """Return the figures of a window's newest minute, beside the size and the rent that the job had."""
    minute = window.minute if window else JobMinute()
    load = window.load_records_per_minute if window else None
    return JobFigures(
        parallelism=parallelism,
        load_records_per_minute=load,
        utilisation=minute.utilisation,
        backlog_records=minute.backlog,
        backlog_ms=backlog_ms(minute.backlog, load),
        latency_ms=minute.latency_ms,
        rent_per_day=rent_per_day,
    )


def backlog_ms(backlog_records: float | None, load_records_per_minute: float | None) -> float | None:
    """Return how long it takes until as many records have come as wait now; None if either is unknown, or nothing comes."""
    if backlog_records is None or not load_records_per_minute:
        return 0.0 if backlog_records == 0 else None
    return backlog_records / load_records_per_minute * MINUTE_MS


def in_parts(jobs: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return the jobs in parts whose answers are read in one round trip."""
    return (jobs[at : at + JOBS_AT_ONCE] for at in range(0, len(jobs), JOBS_AT_ONCE))


def _overview(job: str, bodies: _Bodies, place: _Place, now: Present, span_minutes: int) -> JobOverview:
    read = Documents()
    topology = read.part("topology", bodies.topology, JobTopology)
    settings = read.part("settings", bodies.settings, JobSettings)
    window = read.part("window", bodies.window, WindowSummary)
    decision = read.part("decision", bodies.decision, _Decided)
    outcome = read.part("outcome", bodies.outcome, _Status)
    gate = read.part("gate", bodies.gate, JobControl)
    tasks = topology.tasks if topology else ()
    configured = [task.configured_parallelism for task in tasks if task.scalable]
    mode = mode_in_force(settings, topology, place.hosts.engine if place.hosts else None).mode
    stale = stale_of(topology, bodies.signs, now, span_minutes, gate)
    minute = window.minute if window else JobMinute()
    rests = topology is not None and topology.state == RESTING
    parallelism = sum(task.parallelism for task in tasks if task.scalable and not rests) if topology else None
    rent = place.prices.per_day(topology) if place.prices and topology else None
    return JobOverview(
        **structs.asdict(figures_of(window, parallelism, rent)),
        job=job,
        state=topology.state if topology else None,
        generation=topology.generation if topology else None,
        tasks=len(tasks),
        mode=mode,
        window_end_ms=window.window_end_ms if window else None,
        completeness=window.completeness if window else None,
        age_minutes=now.minutes_since(window.window_end_ms) if window else None,
        action=decision.action if decision else None,
        outcome=outcome.status if decision and outcome else None,
        gate_phase=gate.phase if gate else None,
        wake_up_ms=gate.wakes_up_ms if gate else None,
        status=status_of(topology, gate, window, mode=mode, stale=stale),
        overloaded_tasks=minute.overloaded if window else None,
        configured_parallelism=sum(filter(None, configured)) if configured and None not in configured else None,
        scalable_tasks=sum(task.scalable for task in tasks),
        ran=minute.ran,
        saved_per_day=place.prices.saved_per_day(topology) if place.prices and topology else None,
        is_at_limit=is_at_limit(decision.tasks, tasks) if decision else False,
        decided_ms=decision.span_end_ms if decision else None,
        came=outcome_in_words(decision.action, outcome) if decision else None,
        policy_in_use=policy_in_words(decision.policy) if decision else None,
        fallback_reason=decision.policy.fallback_reason if decision else None,
        applied_generation=gate.applied_generation if gate else None,
        feature_drift=decision.drift.outside if decision and decision.drift else None,
        feature_drift_usual=decision.drift.usual if decision and decision.drift else None,
        restarts=window.restarts if window else None,
        seen_ms=topology.at_ms if topology else None,
        began_ms=topology.began_ms if topology else None,
        stale=stale,
        unreadable=read.unreadable,
    )
