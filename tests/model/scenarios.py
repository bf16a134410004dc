"""The pipelines that are explored. All have three hosts and jobs of two or three subtasks."""

from __future__ import annotations

from surescale.contracts.decisions import Decision
from surescale.rescaler.control.settings import Balancing, ControlSettings, PlacingSettings
from surescale.rescaler.gate_settings import GateSettings
from tests.model.canonical import BEGINS_MS, MINUTE_MS
from tests.model.pipeline import Pipeline
from tests.support.controller_world import JOB, OTHER_JOB, cluster, decision, job

QUICK = ControlSettings(
    gate=GateSettings(cooldown_ms=30_000, executing_stabilization_ms=0),
    placing=PlacingSettings("spread"),
    balancing=Balancing(version="off"),
    apply_ms_max=120_000,
    warm_up_ms_max=120_000,
    preparations_max=2,
)


def wants(at_ms: int, width: int, of: str = JOB) -> Decision:
    """A decision for both scalable tasks of a job."""
    return decision(at_ms, {"map": width, "join": width}, of=of)


def grow(faults_max: int = 2) -> Pipeline:
    """One job grows by a subtask on the third host; the decision arrives twice."""
    act = wants(BEGINS_MS, 3)
    return Pipeline(hosts=cluster(3, 1), jobs=(job(units=(0, 1)),), script=(act, act), settings=QUICK, faults_max=faults_max)


def compete(faults_max: int = 2) -> Pipeline:
    """Two jobs want the one free unit: three hosts, three subtasks."""
    script = (wants(BEGINS_MS, 2), wants(BEGINS_MS, 2, OTHER_JOB))
    jobs = (job(units=(0,)), job(OTHER_JOB, (1,)))
    return Pipeline(hosts=cluster(3, 1), jobs=jobs, script=script, settings=QUICK, faults_max=faults_max)


def reverse(faults_max: int = 2) -> Pipeline:
    """One job grows and is to shrink again before that has ended; then an older decision comes late."""
    script = (wants(BEGINS_MS, 3), wants(BEGINS_MS + MINUTE_MS, 2), wants(BEGINS_MS - MINUTE_MS, 3))
    return Pipeline(hosts=cluster(3, 1), jobs=(job(units=(0, 1)),), script=script, settings=QUICK, faults_max=faults_max)


def lose(faults_max: int = 2) -> Pipeline:
    """One job grows to another host, and the job's own second host or the new one may die meanwhile."""
    return Pipeline(
        hosts=cluster(3, 2),
        jobs=(job(units=(0, 2)),),
        script=(wants(BEGINS_MS, 3),),
        settings=QUICK,
        faults_max=faults_max,
        mortal_hosts=("h1", "h2"),
    )


TIMELESS = ("grow", "compete")
"""Scenarios that can end while no time passes; in the others something rests first."""
TO_THE_END = (("grow", 0, True), *((name, faults, False) for faults in (1, 2) for name in ("grow", "compete")))
"""What is explored to the end within minutes: scenario, faults, and whether time passes."""
SCENARIOS = {each.__name__: each for each in (grow, compete, reverse, lose)}
