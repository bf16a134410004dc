"""How old what is known of a job is, and which role is behind. The one place that says so. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mode
from typing import Literal, Protocol

from surescale.contracts.clock import MINUTE_MS, pipeline_time_ms, wall_time_ms
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_limits import is_simulated, minutes_known_min
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment, JobTopology
from surescale.contracts.plurals import counted
from surescale.contracts.rescaler_state import JobControl
from surescale.contracts.topology import RESTING, has_ended
from surescale.runtime.instants import to_the_minute, to_the_second
from surescale.services.state.record_documents import ViewDocument

_MEASURED = ("running", RESTING)  # states in which each minute has a window
FRESH_MINUTES = 2
"""What is older says nothing about now."""
DUE_MS = 15_000
"""After its end a minute's window comes so soon: the monitor looks for up to ten seconds. A later look is for the next one."""
GIVEN_UP_MINUTES = 24 * 60
"""A job of which its monitor has told nothing for longer may be gone for good."""
WHO = "`surescale doctor` says who is at fault: engine, monitor, Spark or Kafka"
_NOT_KEPT = "view not updated for"


class Stale(ViewDocument, frozen=True, kw_only=True):
    """What has not come although it is due."""

    role: Literal["monitor", "spark", "agent", "rescaler", "state"]
    """The role at fault; monitor: or the engine that it asks; state: nobody keeps the view, or who answers has a wrong clock."""
    minutes: int
    """For how long, by the pipeline's clock; by the wall's where that runs slower."""
    words: str
    """Both for people."""


@dataclass(frozen=True, slots=True)
class Present:
    """The present time, by the clocks of the pipelines of a view.

    Attributes:
        clocks: the present segment of each pipeline; without any, the clock is the wall's.
        wall_ms: the wall's time.
        kept_ms: when the view last held all that Kafka had, by the wall's clock; None: nobody has said so, as of one that is
            being built.
    """

    clocks: Collection[ClockSegment]
    wall_ms: int
    kept_ms: int | None = None

    def minutes_unkept(self) -> int:
        """Return for how many whole minutes nobody has brought the view up to date, by the wall's clock."""
        return 0 if self.kept_ms is None else max(0, (self.wall_ms - self.kept_ms) // MINUTE_MS)

    def minutes_since(self, event_ms: int) -> int:
        """Return how many whole minutes ago an instant of the pipeline's clock was; 0 for one that is still to come.

        Where that clock runs faster than the wall's, the wall's minutes count, and while it stands before its trace has ended
        the wall's are added. A view holds several only if pipelines share their topics: then the least counts, since nothing
        tells whose the instant is.
        """
        return max(0, int(self._age_ms(event_ms) // MINUTE_MS))

    def minutes_until(self, event_ms: int) -> int:
        """Return in how many whole minutes an instant of the pipeline's clock will be; 0 for one that was."""
        return max(0, int(-self._age_ms(event_ms) // MINUTE_MS))

    def _age_ms(self, event_ms: int) -> float:
        return min(_age_ms(each, event_ms, self.wall_ms) for each in self.clocks or (None,))


def _age_ms(clock: ClockSegment | None, event_ms: int, wall_ms: int) -> float:
    event_age_ms = pipeline_time_ms(clock, wall_ms) - event_ms
    if clock is None:
        return event_age_ms
    has_more = clock.end_ms is None or clock.until_ms < clock.end_ms
    stands_ms = max(0, wall_ms - wall_time_ms(clock, clock.until_ms)) if has_more else 0
    return event_age_ms / max(1.0, clock.speed) + stands_ms


@dataclass(frozen=True, slots=True)
class Signs:
    """The newest signs of life about a job, as instants of the pipeline's clock in milliseconds; None: there is none.

    Attributes:
        window_end_ms: end of the newest window.
        first_window_end_ms: end of the oldest window that the view keeps.
        decided_ms: ends of the spans of the newest decisions, newest first.
        unanswered_ms: the end of the span of the oldest decision that the rescaler has not answered.
    """

    window_end_ms: int | None = None
    first_window_end_ms: int | None = None
    decided_ms: tuple[int, ...] = ()
    unanswered_ms: int | None = None


def stale_of(
    topology: JobTopology | None, signs: Signs, now: Present, span_minutes: int, gate: JobControl | None = None
) -> Stale | None:
    """Return what is due and has not come, for a job that should run, or is at rest; None if nothing is.

    A view that nobody keeps says nothing about the roles. Of these one later on the way is judged only while those before it are
    at work. A job at rest has its minutes, too, and the rescaler, which answers each decision, wakes it. None is due on it.

    Args:
        topology: of the job.
        signs: of life about it.
        now: the present time.
        span_minutes: from one decision to the next, at least.
        gate: the rescaler's control of the job, which knows since when it runs.
    """
    if topology is None or has_ended(topology):
        return None
    if signs.window_end_ms is not None and (behind := now.minutes_until(signs.window_end_ms)) > FRESH_MINUTES:
        words = f"the clock of the machine that answers is {_long(behind)} behind; set it right (NTP)"
        return Stale(role="state", minutes=behind, words=words)
    if (unkept := now.minutes_unkept()) > FRESH_MINUTES:
        return _stale("state", _NOT_KEPT, unkept)
    if topology.state not in _MEASURED or signs.window_end_ms is None:
        return _before_figures(topology, now, gate)
    silent = now.minutes_since(signs.window_end_ms)
    if now.minutes_since(signs.window_end_ms + DUE_MS) >= FRESH_MINUTES:  # one minute alone is left out by a rebalance, too
        is_seen = topology.at_ms > signs.window_end_ms + DUE_MS
        return _stale("spark" if is_seen else "monitor", "no figures for", silent)
    if signs.unanswered_ms is not None and (waits := now.minutes_since(signs.unanswered_ms)) > FRESH_MINUTES:
        return _stale("rescaler", "no answer for", waits)
    if topology.state == RESTING:
        return None
    # A policy may have a span of its own, which only its decisions tell; those of emergencies come between.
    gaps = (after - before for after, before in pairwise(signs.decided_ms))
    span_ms = max(span_minutes * MINUTE_MS, *gaps, 0)
    since_ms = signs.decided_ms[0] if signs.decided_ms else signs.first_window_end_ms
    if since_ms is None or now.minutes_since(since_ms + span_ms) <= FRESH_MINUTES:
        return None
    if not signs.decided_ms:
        return Stale(role="agent", minutes=now.minutes_since(since_ms), words="no decision yet")
    return _stale("agent", "no decision for", now.minutes_since(since_ms))


def _before_figures(topology: JobTopology, now: Present, gate: JobControl | None) -> Stale | None:
    """Return what is due of a job without figures: of a real engine the monitor tells of the job every minute.

    The first window is that of the first whole minute in which the job runs. A view that is being built may lack it.
    """
    unseen = 0 if is_simulated(topology.engine) else now.minutes_since(topology.at_ms)
    if unseen > FRESH_MINUTES:
        return _stale("monitor", "no figures for", unseen)
    runs = [each.last_transition_ms for each in gate.conditions if each.type == "Available" and each.status] if gate else []
    if not runs or topology.state not in _MEASURED or now.kept_ms is None:
        return None
    waited = now.minutes_since(runs[0])
    return _stale("spark", "no figures yet after", waited) if waited > FRESH_MINUTES + 1 else None


def _stale(role: Literal["monitor", "spark", "agent", "rescaler", "state"], what: str, minutes: int) -> Stale:
    return Stale(role=role, minutes=minutes, words=f"{what} {_long(minutes)}")


def _long(minutes: int) -> str:
    """Return minutes as people say them.

    >>> _long(25), _long(90), _long(3 * 24 * 60)
    ('25 min', '1 h 30 min', '3 days')
    """
    hours = minutes // 60
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


class Overview(Protocol):
    """What is told of each job."""

    @property
    def job(self) -> str:
        """Its id."""

    @property
    def stale(self) -> Stale | None:
        """What is due and has not come."""

    @property
    def state(self) -> str | None:
        """Its state by its engine."""

    @property
    def window_end_ms(self) -> int | None:
        """End of its newest window."""

    @property
    def seen_ms(self) -> int | None:
        """When the monitor last told its topology."""


def at_fault(jobs: Iterable[Overview]) -> list[tuple[str, Stale]]:
    """Return cluster and what has not come, for each cluster of which all jobs that should run lack something.

    The words name the cluster, and what to do. A single job that lacks something among others is its own trouble.
    """
    found = []
    for cluster, every in _due(jobs):
        lacking = [job.stale for job in every if job.stale is not None]
        if len(lacking) == len(every):
            least = min(lacking, key=lambda each: each.minutes)
            seen = max((job.seen_ms for job in every if job.seen_ms is not None), default=None)
            why = why_stale(least, max((job.window_end_ms for job in every if job.window_end_ms is not None), default=None), seen)
            found.append((cluster, Stale(role=least.role, minutes=least.minutes, words=f"{cluster}: {least.words}: {why}")))
    return found


def single(jobs: Iterable[Overview]) -> Iterator[Stale]:
    """Yield for each cluster and role which jobs lack what others of the cluster have: the words name the first of them."""
    for cluster, every in _due(jobs):
        lacking = [(job.job, job.stale) for job in every if job.stale is not None]
        if len(lacking) == len(every):
            continue
        for role in dict.fromkeys(stale.role for _, stale in lacking):
            (job, stale), *others = [each for each in lacking if each[1].role == role]
            more = f" and {counted(len(others), 'more job')} of {cluster}" if others else ""
            yield Stale(role=role, minutes=stale.minutes, words=f"{job}{more}: {stale.words}")


def _due(jobs: Iterable[Overview]) -> list[tuple[str, list[Overview]]]:
    """Return the jobs of each cluster that should have figures."""
    by_cluster: dict[str, list[Overview]] = {}
    for job in jobs:
        if job.stale is not None or (job.state in _MEASURED and job.window_end_ms is not None):
            by_cluster.setdefault(cluster_of(job.job), []).append(job)
    return sorted(by_cluster.items())


def unkept_in_words(now: Present) -> str:
    """Return that nobody keeps the view, and what to do; empty while somebody does."""
    minutes = now.minutes_unkept()
    if minutes <= FRESH_MINUTES:
        return ""
    stale = _stale("state", _NOT_KEPT, minutes)
    return f"{stale.words}: {why_stale(stale, None, None)}"


def given_up(stale: Stale | None) -> bool:
    """Say whether a job may be gone for good: its cluster has another name now, or its monitor no longer watches it."""
    return stale is not None and stale.role == "monitor" and stale.minutes > GIVEN_UP_MINUTES


def why_stale(stale: Stale, window_end_ms: int | None, seen_ms: int | None) -> str:
    """Return what is known of the cause, and what to do.

    Args:
        stale: what has not come.
        window_end_ms: end of the newest window; None: there is none.
        seen_ms: when the monitor last saw the engine; None: unknown.
    """
    if stale.role == "state" and stale.words.startswith(_NOT_KEPT):
        return (
            "it has not been updated from Kafka since; see whether `surescale run state-service` runs and reaches Kafka "
            "(`surescale doctor`)"
        )
    if stale.role == "state":
        newest = minute_of(window_end_ms or 0)
        return f"the newest minute ends at {newest} UTC, which has not come yet by its clock: nobody can say what is new"
    if stale.role == "agent":
        return "figures arrive, but nothing decides on them; see whether `surescale run agent` runs (`surescale doctor`)"
    if stale.role == "rescaler":
        return "decisions are made, but nothing carries them out; see whether `surescale run rescaler` runs (`surescale doctor`)"
    if stale.role == "spark":
        none = "no window has come" if window_end_ms is None else f"no window is newer than {minute_of(window_end_ms)}"
        return f"the engine was seen at {_time(seen_ms or 0)} UTC, but {none}; {WHO}"
    gone = "; if it is gone for good, `surescale job forget JOB` ends this" if given_up(stale) else ""
    return f"the engine has not answered since {_time(max(seen_ms or 0, window_end_ms or 0))} UTC, or nobody asks it; {WHO}{gone}"


def minute_of(at_ms: int) -> str:
    """Return hours and minutes of an instant, UTC."""
    return to_the_minute(at_ms)[-len("00:00") :]


def _time(at_ms: int) -> str:
    return to_the_second(at_ms)[-len("00:00:00") :]


class NextDecision(ViewDocument, frozen=True, kw_only=True):
    """The next regular decision. One on an emergency comes as soon as that shows."""

    at_ms: int
    """End of the first span that can end with an answer of the policy."""
    minutes_missing: int
    """Minutes of figures that must be known until then before the policy is asked; 0: none."""
    words: str
    """Both for people, in the pipeline's time, UTC."""


def next_decision(
    topology: JobTopology | None,
    settings: JobSettings | None,
    window_end_ms: int | None,
    minutes_known: int,
    decided_ms: Sequence[int],
    span_minutes: int,
) -> NextDecision | None:
    """Return when a running job is decided on next; None before its first window, and for a job that does not run.

    Args:
        topology: of the job.
        settings: of the job, before its labels; None: nobody set any.
        window_end_ms: end of its newest window.
        minutes_known: in it.
        decided_ms: ends of the spans of its newest decisions, newest first, in milliseconds.
        span_minutes: from one decision to the next, as long as no decisions say otherwise.
    """
    if topology is None or topology.state != "running" or window_end_ms is None:
        return None
    allowed = in_force(settings or JobSettings(job=topology.job), topology.labels)
    missing = max(0, minutes_known_min(allowed) - minutes_known)
    span_ms = _span_ms(decided_ms, span_minutes)
    earliest_ms = window_end_ms + max(1, missing) * MINUTE_MS
    at_ms = -(-earliest_ms // span_ms) * span_ms
    return NextDecision(at_ms=at_ms, minutes_missing=missing, words=_in_words(at_ms, window_end_ms, missing))


def next_in_words(topology: JobTopology | None, stale: Stale | None, due: NextDecision | None) -> str:
    """Return when the next decision is due and what it waits for, or why none is; empty while nobody knows the job.

    >>> next_in_words(JobTopology(job="shop/orders", version=1, at_ms=0, tasks=(), state="suspended"), None, None)
    'none while the job does not run (suspended)'
    """
    if topology is None:
        return ""
    if topology.state != "running":
        return f"none while the job does not run ({topology.state})"
    if stale is not None:
        return f"held up: {stale.words}"
    return due.words if due else "due once its first minute of figures is known"


def _span_ms(decided_ms: Sequence[int], span_minutes: int) -> int:
    """Return how far decisions are apart as a rule: those of emergencies come between, and some are missing."""
    gaps = [after - before for after, before in pairwise(decided_ms) if after > before]
    return mode(gaps) if len(gaps) > 1 else span_minutes * MINUTE_MS


def _in_words(at_ms: int, window_end_ms: int, missing: int) -> str:
    """Return the sentence.

    >>> _in_words(600_000, 480_000, 0)
    'due at 1970-01-01 00:10 UTC, after 2 more minutes of figures'
    >>> _in_words(600_000, 540_000, 1)
    'due at 1970-01-01 00:10 UTC, after 1 more minute of figures, which must be known'
    """
    minutes = (at_ms - window_end_ms) // MINUTE_MS
    needed = ""
    if missing:
        needed = f", {'which' if missing == minutes else f'{missing} of which'} must be known"
    return f"due at {to_the_minute(at_ms)} UTC, after {counted(minutes, 'more minute')} of figures{needed}"
