"""Holds the tournament of one job on a recording of its last days."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_labels import in_force
from surescale.contracts.topics import DECISIONS, SNAPSHOTS
from surescale.contracts.windows import Window, decode_window
from surescale.contracts.wire import decode
from surescale.policies.departure import why_left
from surescale.policies.policy import Policy
from surescale.policies.registry import FORECAST, FORECAST_PACKAGE, Unavailable, load_policy
from surescale.policies.released_policy import released_policy
from surescale.policies.tuned import tuned_policy
from surescale.services.tools.recording.format import RawRecord, Recording, event_ms, job_of
from surescale.services.tools.recording.sources import settings_of
from surescale.services.tools.tournament.tournament_report import NoTournament, PolicyVersion, TournamentReport, report_of
from surescale.services.tools.what_if.variants import DRAWS_LEAST, OnProgress, TimeLimitReached, play_all
from surescale.simulation.calibration.fit import PRIOR_RESTART_S, fit
from surescale.simulation.calibration.recorded import Recorded, put_together
from surescale.simulation.tournament.candidates import CALIBRATED, Candidate, candidates, first_half_hours
from surescale.simulation.tournament.score import Aim, Scored, TwinError
from surescale.simulation.tournament.verdict import expectation, verdict
from surescale.simulation.what_if.compare import check
from surescale.simulation.what_if.play import Variant
from surescale.simulation.what_if.scenario import scenario_of

DAY_MINUTES = 24 * 60
DAYS_LEAST = 3
KNOWN_LEAST = 0.9
"""Share of the minutes of these days that must have figures."""
EVERY_MINUTES = 10
"""Of the windows, which overlap, one in so many minutes is enough."""
MISFIT_MOST = 0.3
"""Relative error of the busy time from which a twin is none of this job."""
LEFT_MOST = 0.1
"""Share of a day's decisions that may have left the former winner out."""
CHECK_DRAWS = 3
PLAYED_AGAIN_S = 15.0
"""Beyond the time allowed, for the winner alone."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What a tournament is held on: a recording of one job, what serves the job now, and what would without a tournament."""

    recording: str
    job: str
    days: int
    draws: int
    folder: str
    span_minutes: int
    seed: int
    serving: PolicyVersion
    own: PolicyVersion
    seconds: float
    memory_mb: int
    checks_who_decided: bool = True


def is_needed(record: RawRecord) -> bool:
    """Return whether a recording for a tournament keeps a record: of windows those on whole ten minutes."""
    if record.topic != SNAPSHOTS:
        return True
    end_ms = event_ms(record)
    return end_ms is None or end_ms // MINUTE_MS % EVERY_MINUTES == 0


def _labelled(candidate: Candidate) -> list[tuple[str, Policy]]:
    """Return the policies to play, named for the progress shown: one that is calibrated is judged on each half of the days."""
    judged = candidate.judged
    return [(candidate.name + (f", half {at}" if len(judged) > 1 else ""), policy) for at, policy in enumerate(judged, start=1)]


def hold(asked: Ask, told: OnProgress) -> TournamentReport:
    """Return the outcome of a tournament.

    Raises:
        NoTournament: too few days are known, the twin does not fit, a policy that serves the job is not here, or the time is up.
        CalibrationError, WhatIfError, JobError: no twin can be made of the recording.
    """
    until_s = time.monotonic() + asked.seconds
    too_short = f"{asked.job}: {asked.seconds:g} s are too few for {DRAWS_LEAST} draws; allow more with --time-limit"

    def in_time(stage: str, share: float) -> None:
        told(stage, share)
        if time.monotonic() > until_s:
            raise NoTournament(too_short)

    opened = Recording(Path(asked.recording))
    recorded = _last_days(opened, asked.job, asked.days)
    if asked.checks_who_decided:
        _check_it_decided(opened, asked)
    settings = in_force(settings_of(opened, asked.job), recorded.topology.labels)
    own, serving = (_candidate(version, asked) for version in (asked.own, asked.serving))
    ground = scenario_of(recorded, fit(recorded))
    aim = Aim.of(settings, ground.job.path_minutes)
    checked = check(recorded, PRIOR_RESTART_S, draws=CHECK_DRAWS, told=lambda share: in_time("checks the fitted world", share))
    error = TwinError.of(checked)
    if error.working > MISFIT_MOST:
        raise NoTournament(
            f"{asked.job}: the world fitted to its first days predicts the busy time of the last ones with an error of "
            f"{error.working:.0%}, so nothing is changed"
        )
    tried = candidates(ground, settings, aim, _shipped(asked), (serving, own), in_time)
    variants = [Variant(label, policy, settings, None) for each in tried for label, policy in _labelled(each)]
    try:
        played = play_all(ground, variants, draws=asked.draws, seed=asked.seed, limit_s=_left_s(until_s), told=told)
    except TimeLimitReached:
        raise NoTournament(too_short) from None
    hours = iter([Scored.of(draws, ground, aim) for _, draws in played])
    scored = [(each, _judged([next(hours) for _ in each.judged], ground.hours)) for each in tried]
    places = [each.version for each in tried]
    at_own = places.index(own.version)
    found = verdict(
        scored,
        aim,
        error,
        serving=places.index(serving.version),
        own=at_own,
        seed=asked.seed,
        has_left="" if serving.version == own.version else _reason_left_out(opened, asked.job, recorded.last_ms),
    )
    draws = len(played[0][1])
    expected = None
    if found.change == "wins":
        winner = [Variant("the winner", found.winner.candidate.policy, settings, None)]
        ((_, won),) = play_all(ground, winner, draws=draws, seed=asked.seed, limit_s=_left_s(until_s) + PLAYED_AGAIN_S, told=told)
        expected = expectation(won, ground, error)
    return report_of(
        found,
        expected,
        error,
        job=asked.job,
        from_ms=ground.first_ms,
        until_ms=recorded.last_ms,
        known_minutes=recorded.known_minutes,
        draws=draws,
        late_seconds=aim.late_seconds,
    )


def _judged(parts: list[Scored], hours: int) -> Scored:
    """Return a candidate's hours: of one that was calibrated on these days, each half by what was calibrated on the other."""
    return parts[0] if len(parts) == 1 else parts[0].then(parts[1], first_half_hours(hours))


def _left_s(until_s: float) -> float:
    return max(1.0, until_s - time.monotonic())


def _last_days(opened: Recording, job: str, days: int) -> Recorded:
    """Return the last days of a job."""
    ends = [at for record in opened.records() if record.topic == SNAPSHOTS and job_of(record) == job if (at := event_ms(record))]
    last_ms = max(ends, default=0)

    def windows() -> Iterator[Window]:
        for record in opened.records():
            if record.topic != SNAPSHOTS or job_of(record) != job or not is_needed(record):
                continue
            end_ms = event_ms(record)
            if end_ms is None or end_ms <= last_ms - days * DAY_MINUTES * MINUTE_MS:
                continue
            with suppress(RecordRejected):  # in the pipeline it is none either
                yield decode_window(record.value)

    if not ends:
        raise NoTournament(f"{job}: no window of it is known")
    recorded = put_together(job, windows())
    if recorded.known_minutes < KNOWN_LEAST * DAYS_LEAST * DAY_MINUTES:
        raise NoTournament(
            f"{job}: {recorded.known_minutes / DAY_MINUTES:.1f} days of it are known since its tasks last changed; "
            f"a tournament needs {DAYS_LEAST}"
        )
    return recorded


def _check_it_decided(opened: Recording, asked: Ask) -> None:
    """Refuse a tournament if somebody else decided last than what is taken for serving the job.

    Raises:
        NoTournament: says who did.
    """
    made = [each for each in _decisions(opened, asked.job) if not why_left(each)]
    newest = max(made, key=lambda each: each.span_end_ms, default=None)
    name = None if newest is None else newest.policy.asked or newest.policy.name
    if name not in (None, asked.serving.policy):
        raise NoTournament(
            f"{asked.job}: {name} decided last, and not {asked.serving.policy}; name the agents' own policy in SURESCALE_POLICY"
        )


def _decisions(opened: Recording, job: str) -> Iterator[Decision]:
    for record in opened.records():
        if record.topic == DECISIONS:
            with suppress(RecordRejected):
                decision = decode(record.value, Decision)
                if decision.job == job:
                    yield decision


def _candidate(version: PolicyVersion, asked: Ask) -> Candidate:
    """Return what serves the job, with its constants.

    Raises:
        NoTournament: it is not here.
    """
    served = policy_of(version, asked.folder, asked.span_minutes)
    if isinstance(served, Unavailable):
        raise NoTournament(f"{asked.job}: what serves it cannot be played here: {served.reason}")
    return Candidate(served.name, served.sha256, version.tuned, served)


def policy_of(version: PolicyVersion, folder: str, span_minutes: int) -> Policy:
    """Return a policy with its constants; one that is missing answers every window with the reason."""
    if version.sha256:
        policy = released_policy(version.policy, version.sha256, folder, span_minutes=span_minutes)
    else:
        policy = load_policy(version.policy, folder, span_minutes=span_minutes)
    return tuned_policy(policy, version.tuned)


def _shipped(asked: Ask) -> list[Policy]:
    """Return the policies that take part, as far as they are here."""
    names = (FORECAST_PACKAGE, FORECAST, *CALIBRATED)
    found = [load_policy(name, asked.folder, span_minutes=asked.span_minutes) for name in dict.fromkeys(names)]
    return [policy for policy in found if not isinstance(policy, Unavailable)]


def _reason_left_out(opened: Recording, job: str, last_ms: int) -> str:
    """Return why the former winner was left out on more than a few decisions of the last day; empty: it was not."""
    first_ms = last_ms - DAY_MINUTES * MINUTE_MS
    reasons = [why_left(decision) for decision in _decisions(opened, job) if decision.span_end_ms > first_ms]
    left = [reason for reason in reasons if reason]
    return left[-1] if len(left) > LEFT_MOST * len(reasons) else ""
