"""The record of shadow policies: how their answers compare with the decisions that were made. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from msgspec import UNSET

from surescale.contracts.decisions import Verdict
from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import Host
from surescale.services.state.fleet_documents import ShadowSummary, StoredAnswer

MINUTES_A_DAY = 1_440


def dollars_per_unit_minute(hosts: Iterable[Host]) -> float | None:
    """Return the mean price of one parallel unit for a minute; None while no host has units and a price."""
    priced = [(host.price_per_s, len(host.units) or host.slots or 0) for host in hosts if host.price_per_s > 0]
    units = sum(count for _, count in priced)
    return 60 * sum(price for price, _ in priced) / units if units else None


def summaries(answers: Iterable[StoredAnswer], unit_minute: Mapping[str, float | None]) -> tuple[ShadowSummary, ...]:
    """Return the record of each shadow policy, by cluster, name and hash.

    ``answers`` have each identity once, in any order. ``unit_minute``: dollars for a unit and minute, by cluster.
    """
    groups: dict[tuple[str, str, str], list[StoredAnswer]] = {}
    for answer in sorted(answers, key=lambda each: (each.span_end_ms, each.shadow_id)):
        groups.setdefault((cluster_of(answer.job), answer.policy, answer.sha256), []).append(answer)
    return tuple(_summary(*group, found, unit_minute.get(group[0])) for group, found in sorted(groups.items()))


def _summary(cluster: str, policy: str, sha256: str, answers: Sequence[StoredAnswer], unit_minute: float | None) -> ShadowSummary:
    """Return the record of one policy; ``answers`` are by span."""
    statuses = Counter(answer.status for answer in answers)
    compared = [answer.comparison for answer in answers if answer.comparison is not None]
    minutes = _subtask_minutes_per_day(answers)
    tasks = sum(each.tasks for each in compared)
    newest = answers[-1]
    return ShadowSummary(
        cluster=cluster,
        policy=policy,
        sha256=sha256,
        beside=tuple(sorted({answer.served.policy for answer in answers})),
        jobs=tuple(sorted({answer.job for answer in answers})),
        from_ms=answers[0].span_end_ms,
        to_ms=newest.span_end_ms,
        answered=statuses["answered"],
        failed=statuses["failed"],
        late=statuses["late"],
        skipped=statuses["skipped"],
        decisions_equal=_mean([not each.differing for each in compared]),
        tasks_equal=1 - sum(each.differing for each in compared) / tasks if tasks else None,
        acts=sum(each.shadow.action == "act" for each in compared),
        served_acts=sum(each.served.action == "act" for each in compared),
        subtasks_difference=_mean([each.shadow.subtasks - each.served.subtasks for each in compared]),
        subtask_minutes_per_day=minutes,
        dollars_per_day=None if minutes is None or unit_minute is None else minutes * unit_minute,
        utilisation=_mean(_utilisations(each.shadow for each in compared)),
        served_utilisation=_mean(_utilisations(each.served for each in compared)),
        overloaded=_mean([each > 1 for each in _utilisations(each.shadow for each in compared)]),
        served_overloaded=_mean([each > 1 for each in _utilisations(each.served for each in compared)]),
        took_ms=_mean([each.took_ms for each in compared]),
        took_ms_max=max((each.took_ms for each in compared), default=None),
        served_took_ms=_mean([answer.served.took_ms for answer in answers if answer.comparison is not None]),
        newest_problem=UNSET if newest.status == "answered" else newest.reason,
    )


def _subtask_minutes_per_day(answers: Iterable[StoredAnswer]) -> float | None:
    """Return the sum over jobs of the mean difference in subtasks, for a day; None: no job has two answers to a window."""
    by_job: dict[str, list[int]] = {}
    for answer in answers:
        if (found := answer.comparison) is not None:
            by_job.setdefault(answer.job, []).append(found.shadow.subtasks - found.served.subtasks)
    return sum(fmean(each) for each in by_job.values()) * MINUTES_A_DAY if by_job else None


def _utilisations(verdicts: Iterable[Verdict]) -> list[float]:
    return [each.utilisation for each in verdicts if each.utilisation is not None]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
