"""Runs a scenario: starts a pipeline, hurts it, waits for its recovery each time, lets it settle, checks what it left behind."""

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from surescale.services.local_stack.errors import Say
from tests.support.faults.brokers import small_disks
from tests.support.faults.catalogue import NotStruck, Scenario
from tests.support.faults.check import checked
from tests.support.faults.control import check_in_time
from tests.support.faults.findings import Findings, Violation
from tests.support.faults.growth import BLOCKS, Growth, Slope, check_growth, slope
from tests.support.faults.pipeline import SERVICES, FaultOptions, FaultPipeline
from tests.support.faults.recording import LiveTopics, Recording
from tests.support.faults.view import check_views, dumped

RECOVER_WITHIN_S = 240.0
SETTLE_WITHIN_S = 300.0
RECOVERS = "the pipeline recovers"
STRUCK = "the fault came about"
RESERVE_S = 60.0  # of the trace after the last fault, so that it too meets a pipeline at work, and what it held up still ends


@dataclass(slots=True)
class FaultResults:
    """One kind of fault in one pipeline."""

    seconds: list[float] = field(default_factory=list)
    ended: int = 0
    """Roles that ended by themselves meanwhile."""


@dataclass(slots=True)
class Report:
    """What a scenario did to a pipeline, and what the checker found."""

    scenario: str
    faults: dict[str, FaultResults]
    left_out: int
    findings: Findings
    growth: dict[str, Growth]
    behind: Slope | None
    """Growth of the lag behind the clock, event minutes an hour."""
    behind_at_most: float
    wall_s: float
    recording: Recording | None = None


def trace_minutes(seconds: float, speed: float) -> int:
    """Return the length of a trace that leaves this time for faults."""
    return round((seconds + RESERVE_S) * speed / 60)


def run(scenario: Scenario, options: FaultOptions, say: Say, *, record: bool = False) -> Report:
    """Run one scenario and return its report; faults for which the trace has no time left are counted as left out."""
    began_s, random = time.monotonic(), Random(options.seed)
    findings = Findings()
    results: dict[str, FaultResults] = defaultdict(FaultResults)
    with contextlib.ExitStack() as stack:
        options = replace(options, brokers=scenario.brokers, clocks_jump=scenario.clocks_jump, fleet=scenario.fleet)
        if scenario.on_small_disks:
            disks = stack.enter_context(small_disks())
            options = replace(options, broker_folder=disks["kafka"], checkpoint_folder=disks["checkpoint"])
        pipeline = stack.enter_context(FaultPipeline(options, say))
        pipeline.start()
        findings.expect(pipeline.await_current(RECOVER_WITHIN_S), RECOVERS, "start", "the pipeline never became ready")
        left_out = _strike(pipeline, scenario, random, results, findings, say)
        findings.expect(pipeline.settle(SETTLE_WITHIN_S + _left_s(pipeline)), RECOVERS, "end", "the pipeline did not settle")
        topics = LiveTopics(pipeline.settings.bootstrap)
        found, recording = checked(topics), Recording.of(topics) if record else None
        if not scenario.faults:
            check_in_time(topics, found)
        findings.expect(pipeline.end_writers(), RECOVERS, "end", "records came although every role had ended")
        grown, lag = dumped(pipeline.redis.url), list(pipeline.behind)  # a view that is being rebuilt lags behind on purpose
        rebuilt = pipeline.rebuild_view(SETTLE_WITHIN_S)
        findings.expect(rebuilt, RECOVERS, "view", f"not rebuilt within {SETTLE_WITHIN_S:g} s")
        if rebuilt:
            check_views(grown, dumped(pipeline.redis.url), findings)
        lives = {name: life for name, life in pipeline.lives.items() if name.partition("/")[0] in SERVICES}
        growth = check_growth(lives, findings)
    behind = slope(*zip(*lag, strict=True)) if len(lag) >= 2 * BLOCKS else None
    behind_at_most = max((minutes for _, minutes in lag), default=0.0)
    findings.looked_at.update(found.looked_at)
    findings.violations += found.violations
    return Report(
        scenario.name, dict(results), left_out, findings, growth, behind, behind_at_most, time.monotonic() - began_s, recording
    )


def _strike(
    pipeline: FaultPipeline, scenario: Scenario, random: Random, results: dict[str, FaultResults], findings: Findings, say: Say
) -> int:
    """Strike with one fault after the other; return how many the trace had no time for."""
    for number, fault in enumerate(scenario.faults):
        pipeline.rest(random.uniform(0, scenario.pause_s_max))
        if number and _left_s(pipeline) <= 0:
            return len(scenario.faults) - number
        say(f"fault {number + 1} of {len(scenario.faults)}: {fault.name}")
        ended = len(pipeline.ended)
        try:
            fault.strike(pipeline, random)
        except NotStruck as reason:
            findings.expect(False, STRUCK, fault.name, str(reason))
            continue
        over_s = time.monotonic()
        recovered = pipeline.await_current(RECOVER_WITHIN_S)
        findings.expect(recovered, RECOVERS, fault.name, f"not within {RECOVER_WITHIN_S:g} s")
        this = results[fault.name]
        this.seconds.append(time.monotonic() - over_s)
        this.ended += len(pipeline.ended) - ended
    return 0


def _left_s(pipeline: FaultPipeline) -> float:
    """Return how long faults may still be struck, in seconds."""
    progress = pipeline.progress()
    left_ms = progress["end_ms"] - progress["now_ms"]
    return float(left_ms) / 1000 / pipeline.options.speed - RESERVE_S


def table(reports: Sequence[Report]) -> list[str]:
    """Return the report as lines of Markdown: faults first, then invariants, then violations."""
    lines = [
        "| fault | times | recovered after, s: median (most) | roles that ended by themselves |",
        "| --- | --- | --- | --- |",
    ]
    for report in reports:
        for name, this in sorted(report.faults.items()):
            seconds = f"{statistics.median(this.seconds):.1f} ({max(this.seconds):.1f})"
            lines.append(f"| {name} | {len(this.seconds)} | {seconds} | {this.ended} |")
    lines += ["", "| scenario | faults (left out) | invariant | looked at | violations |", "| --- | --- | --- | --- | --- |"]
    for report in reports:
        faults = f"{sum(len(this.seconds) for this in report.faults.values())} ({report.left_out})"
        for invariant, count in sorted(report.findings.looked_at.items()):
            wrong = sum(violation.invariant == invariant for violation in report.findings.violations)
            lines.append(f"| {report.scenario} | {faults} | {invariant} | {count} | {wrong} |")
    for report in reports:
        lines += ["", *(f"- {report.scenario}: {violation}" for violation in first_of_each(report.findings.violations))]
        if report.behind is not None:
            lines.append(f"- {report.scenario}: lag {report.behind} minutes an hour, {report.behind_at_most:.1f} at most")
        lines += [f"- {report.scenario}: {name}: {growth}" for name, growth in report.growth.items()]
    return lines


def first_of_each(violations: Sequence[Violation], each: int = 5) -> list[Violation]:
    """Return the first few violations of each invariant."""
    kept: dict[str, list[Violation]] = defaultdict(list)
    for violation in violations:
        kept[violation.invariant].append(violation)
    return [violation for found in kept.values() for violation in found[:each]]
