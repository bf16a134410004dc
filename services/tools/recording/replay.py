"""Decides again on every window of a source, with one policy or several.

This is an open loop: all policies see what the pipeline saw, and what a policy would have changed does not affect later windows.
Nothing is sent anywhere.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected, SettingsError, SurescaleError
from surescale.contracts.job_settings import JobSettings, newer
from surescale.contracts.settings import SPAN_MINUTES
from surescale.contracts.topics import DECISIONS, JOB_SETTINGS, SNAPSHOTS
from surescale.contracts.windows import Window, decode_window
from surescale.contracts.wire import decode
from surescale.policies.decide import decide_if_due
from surescale.policies.policy import Policy
from surescale.services.tools.recording.diff import (
    Agreement,
    KeptDecision,
    PolicyTally,
    SpanDiff,
    asked_policy,
    minute_load,
    span_diff,
)

if TYPE_CHECKING:
    from surescale.services.tools.recording.sources import Source

AS_IT_RAN = "as it ran"

SpanKey = tuple[str, int, str]  # job, span end, policy asked


@dataclass(slots=True)
class _Spans:
    """The time between the decisions of rules: the greatest that divides all times between two decisions of a job."""

    minutes: int = 0  # 0: not known yet
    _ends: dict[tuple[str, str], int] = field(default_factory=dict)

    def take(self, decision: Decision) -> None:
        """Take one decision; those of packages, and of rules in their place, do not count: a package states its own span.

        Nor do emergencies, which wait for the end of no span.
        """
        if decision.policy.sha256 or decision.policy.fallback_reason or decision.emergency is not None:
            return
        end = decision.span_end_ms // MINUTE_MS
        before = self._ends.setdefault((decision.job, decision.policy.name), end)
        self._ends[decision.job, decision.policy.name] = end
        self.minutes = math.gcd(self.minutes, end - before)


@dataclass(slots=True)
class Known:
    """Settings and decisions of a source. Of a repeated decision, the first in partition order counts."""

    decisions: dict[SpanKey, KeptDecision] = field(default_factory=dict)
    settings: dict[str, list[tuple[int, JobSettings]]] = field(default_factory=dict)  # with the append time
    asked: Counter[str] = field(default_factory=Counter)  # how often each policy was asked, over the jobs wanted
    asked_elsewhere: Counter[str] = field(default_factory=Counter)  # and over all other jobs
    spans: _Spans = field(default_factory=_Spans)

    def seed(self, default: int) -> int:
        """Return the seed of the recorded decisions, or the default if there are none."""
        return next((kept.seed for kept in self.decisions.values()), default)

    def window_minutes(self, default: int) -> int:
        """Return the length of the recorded decisions' windows, or the default if there are none."""
        for kept in self.decisions.values():
            found = re.search(r"/(\d+)m/v\d+\Z", decode(kept.encoded(), Decision).window_id)
            if found:
                return int(found.group(1))
        return default

    def span_minutes(self, default: int) -> int:
        """Return how often rules decided, or the default if that cannot be told: no rule decided on two spans of a job."""
        return self.spans.minutes or default

    def policy(self) -> str | None:
        """Return the policy asked most often for these jobs (else for any job), None if nothing was decided."""
        asked = self.asked or self.asked_elsewhere
        return min(asked, key=lambda name: (-asked[name], name), default=None)

    def recorded(self, job: str, span_end_ms: int, asked: str) -> KeptDecision | None:
        """Return the recorded decision of a span."""
        return self.decisions.get((job, span_end_ms, asked))

    def settings_of(self, job: str, recorded: KeptDecision | None, append_ms: int) -> JobSettings:
        """Return the settings that a recorded decision names, else those in force at an append time."""
        history = self.settings.get(job, [])
        if recorded is not None:
            named = [(at_ms, each) for at_ms, each in history if each.version == recorded.settings_version]
            before = [each for at_ms, each in named if at_ms <= recorded.append_ms]  # a version may have been used twice
            return before[-1] if before else named[0][1] if named else JobSettings(job=job)
        in_force = JobSettings(job=job)
        for at_ms, each in history:
            if at_ms <= append_ms:
                in_force = newer(in_force, each)
        return in_force


@dataclass(slots=True)
class Replayed:
    """The result of a replay. ``refused`` counts windows that do not parse or cannot be decided on."""

    policies: list[PolicyTally]
    ran: PolicyTally
    jobs: list[str] = field(default_factory=list)
    spans: list[SpanDiff] = field(default_factory=list)
    windows: int = 0
    refused: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """What an agent decided, compared with the recorded decisions and with the same windows decided directly."""

    decisions: int
    recorded: Agreement
    directly: Agreement


def learn(source: "Source", jobs: frozenset[str] = frozenset()) -> Known:
    """Read the settings and decisions of a source (of these jobs; none named: of all)."""
    known = Known()
    for record in source.records((JOB_SETTINGS, DECISIONS)):
        try:
            if record.topic == JOB_SETTINGS:
                settings = decode(record.value, JobSettings)
                known.settings.setdefault(settings.job, []).append((record.append_ms, settings))
                continue
            decision = decode(record.value, Decision)
        except RecordRejected:
            continue  # it was not in force in the pipeline either
        known.spans.take(decision)
        if jobs and decision.job not in jobs:
            known.asked_elsewhere[asked_policy(decision)] += 1
        else:
            known.asked[asked_policy(decision)] += 1
            key = decision.job, decision.span_end_ms, asked_policy(decision)
            known.decisions.setdefault(key, KeptDecision.of(decision, record.append_ms))
    return known


def chosen_policies(asked: Sequence[str], known: Known, folder: str, span_minutes: int = SPAN_MINUTES) -> list[Policy]:
    """Load the policies asked for, or the one that made the recorded decisions; rules decide every ``span_minutes``.

    Raises:
        SettingsError: there is no such policy, or none was named and no decision was recorded.
    """
    from surescale.policies.registry import check_policy, load_policy, policy_names
    from surescale.runtime.limited_graphs import opener_for

    names = list(dict.fromkeys(asked)) or [name for name in [known.policy()] if name]
    if not names:
        raise SettingsError("--policy: no decision is recorded there, so name the policy to ask")
    for name in names:
        check_policy(name, policy_names(folder))
    return [load_policy(name, folder, span_minutes=span_minutes, opener=opener_for(folder)) for name in names]


def replay(
    source: "Source",
    policies: Sequence[Policy],
    known: Known,
    *,
    seed: int,
    jobs: frozenset[str] = frozenset(),
    made_again: bool = False,
) -> Replayed:
    """Decide again on the windows of a source (of these jobs; none named: of all).

    ``made_again``: the windows were not recorded but made from recorded metrics. Then their append times do not show which
    settings were in force; those of the records that closed them do.

    Raises:
        SurescaleError: a job asked for has no window, or no window can be read.
        RecordingRejected: the file is damaged.
    """
    loop, why = OpenLoop(policies, known, seed=seed), ""
    for record in source.records((SNAPSHOTS,)):
        try:
            window = decode_window(record.value)
            if not jobs or window.job in jobs:
                loop.take(window, (made_again and window.closed_append_ms) or record.append_ms)
        except RecordRejected as error:
            loop.refused += 1
            why = why or str(error)
    found = loop.result()
    if found.refused and not found.windows:
        raise SurescaleError(
            f"{source.name}: its {found.refused} windows cannot be read or decided on, the first because: {why}; "
            "a recording by another version must be read by that version"
        )
    missing = sorted(jobs - set(found.jobs)) if found.windows else [*sorted(jobs), "any job"]
    if missing:
        raise SurescaleError(f"{source.name} has no windows of {missing[0]}: record topic {SNAPSHOTS}, or replay --through spark")
    return found


class OpenLoop:
    """Takes windows one after the other, each job's in order of time, and asks each policy at the ends of its spans."""

    def __init__(self, policies: Sequence[Policy], known: Known, *, seed: int) -> None:
        self._policies, self._known, self._seed = policies, known, seed
        self._tallies = [PolicyTally(policy.name, policy.sha256) for policy in policies]
        self._ran = PolicyTally(AS_IT_RAN)
        self._ends: dict[str, int] = {}
        self._first_ms: int | None = None
        self._wanted: list[dict[str, dict[str, int]]] = [{} for _ in policies]  # by policy: job -> task -> parallelism
        self._running: dict[str, dict[str, int]] = {}
        self._unmatched = [self._recorded_of(policy.name) for policy in policies]
        self._spans: list[SpanDiff] = []
        self._windows = 0
        self.refused = 0

    def take(self, window: Window, append_ms: int) -> None:
        """Count the window's newest minute and decide where a span ends. A window seen before changes nothing.

        Raises:
            RecordRejected: the topology has a cycle.
        """
        if window.window_end_ms <= self._ends.get(window.job, -1):
            return
        self._ends[window.job] = window.window_end_ms
        self._first_ms = min(window.window_end_ms, self._first_ms or window.window_end_ms)
        self._measure(window)
        self._windows += 1
        decisions = [self._decide(index, window, append_ms) for index in range(len(self._policies))]
        if any(decision is not None for decision in decisions):
            self._spans.append(span_diff(window, decisions))

    def result(self) -> Replayed:
        """Return the result over the windows taken."""
        for tally, unmatched in zip(self._tallies, self._unmatched, strict=True):
            tally.recorded.unmatched = len(unmatched)
        return Replayed(
            policies=self._tallies,
            ran=self._ran,
            jobs=sorted(self._ends),
            spans=sorted(self._spans, key=lambda span: (span.job, span.span_end_ms)),
            windows=self._windows,
            refused=self.refused,
            first_ms=self._first_ms,
            last_ms=max(self._ends.values(), default=None),
        )

    def _measure(self, window: Window) -> None:
        load = minute_load(window)
        runs = {spec.task: spec.parallelism for spec in window.topology.tasks}
        before = self._running.get(window.job)
        self._ran.rescales += before is not None and before != runs
        self._running[window.job] = runs
        if load is None:
            return
        if any(window.job in wanted for wanted in self._wanted):
            self._ran.measured(load, runs)
        for tally, wanted in zip(self._tallies, self._wanted, strict=True):
            if window.job in wanted:
                tally.measured(load, wanted[window.job])

    def _decide(self, index: int, window: Window, append_ms: int) -> Decision | None:
        policy, tally = self._policies[index], self._tallies[index]
        recorded = self._known.recorded(window.job, window.window_end_ms, policy.name)
        settings = self._known.settings_of(window.job, recorded, append_ms)
        seed = self._seed if recorded is None else recorded.seed
        decision = decide_if_due(window, policy, settings, seed=seed, asked=policy.name)
        if decision is None:
            return None
        tally.decided(decision, self._wanted[index].get(window.job, {}))
        self._wanted[index][window.job] = {task.task: task.desired for task in decision.tasks}
        if recorded is not None:
            tally.recorded.take(decision, recorded)
            self._unmatched[index].discard((window.job, window.window_end_ms, policy.name))
        return decision

    def _recorded_of(self, name: str) -> set[SpanKey]:
        return {key for key in self._known.decisions if key[2] == name}


def agreement(before: Known, again: Known, asked: str) -> Agreement:
    """Compare the decisions of one policy in two sources."""
    found = Agreement()
    for key, recorded in sorted(before.decisions.items()):
        if key[2] != asked:
            continue
        other = again.decisions.get(key)
        if other is None:
            found.unmatched += 1
        else:
            found.take(decode(other.encoded(), Decision), recorded)
    return found
