"""A task shrinks only on the newest figures, whole and known, and never while it is busy all the time or falls behind."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, Saturation, TaskSpec
from surescale.contracts.saturation import SEEN_MINUTES, remembered
from surescale.contracts.windows import FIGURE, Window, blank_figures, unknown_hours
from surescale.policies.decide import decide
from surescale.policies.policy import Policy
from surescale.policies.registry import load_policy
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.conftest import END_MS, MINUTE_MS

POLICIES = ("target-utilisation", "flink", "sure", "ds2", "hpa", "threshold")


def real_window(
    load: float = 1_000.0,
    busy: float = 0.2,
    subtasks: int = 8,
    minutes: int = 60,
    tasks: tuple[str, ...] = ("a", "b"),
    **spec: Any,
) -> Window:
    """Return a window of a job on a real engine: a source and tasks behind it, all as busy as this, under a known load.

    Whatever its policy, it wants fewer subtasks of each where ``busy`` is small.
    """
    names = [*tasks]
    specs = tuple(
        TaskSpec(task=name, upstream=tuple(names[at - 1 : at]) if at else (), parallelism=subtasks, max_parallelism=128, **spec)
        for at, name in enumerate(names)
    )
    figures = blank_figures(minutes, len(specs))
    time = subtasks * MINUTE_MS
    figures[..., FIGURE["records_in"]] = figures[..., FIGURE["records_out"]] = load
    figures[..., FIGURE["busy_ms"]], figures[..., FIGURE["idle_ms"]] = busy * time, (1.0 - busy) * time
    figures[..., FIGURE["busy_ms_max"]] = busy * MINUTE_MS
    figures[..., FIGURE["parallelism"]], figures[..., FIGURE["coverage"]] = subtasks, 1.0
    figures[:, 0, FIGURE["arrived"]] = load
    figures[:, 1:, FIGURE["queued_records_last"]] = np.nan
    topology = JobTopology(job="prod/job", version=1, at_ms=0, tasks=specs, engine="flink", restart_ms=1_000)
    return Window("prod/job", END_MS, figures, topology, unknown_hours())


def written(window: Window, figure: str, values: object, *, task: int | slice = slice(None), last: int = 1) -> Window:
    """Return a window in whose last minutes a figure of some tasks has these values."""
    figures = window.figures.copy()
    figures[-last:, task, FIGURE[figure]] = values
    return replace(window, figures=figures)


def policy_named(name: str) -> Policy:
    """Return a policy that ships."""
    policy = load_policy(name)
    assert not isinstance(policy, str)
    return policy  # type: ignore[return-value]


def decided(window: Window, policy: Policy | str = "target-utilisation") -> Decision:
    """Return what is decided on a window, without a bound on growth."""
    asked = policy_named(policy) if isinstance(policy, str) else policy
    settings = JobSettings(job=window.job, parallelism_max=1_000, total_limit=10_000)
    return decide(window, asked, settings, seed=0)


def sizes(decision: Decision) -> list[int]:
    """Return the desired sizes."""
    return [task.desired for task in decision.tasks]


def held_by(decision: Decision, task: int = 0) -> list[str]:
    """Return the guardrails that changed a task."""
    return [amendment.rule for amendment in decision.tasks[task].amendments]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_task_shrinks_on_whole_and_known_figures(policy: str) -> None:
    """A fifth busy, nothing waiting: every policy wants fewer, and gets them."""
    decision = decided(real_window(), policy)
    assert max(sizes(decision)) < 8, decision.reason


def down(window: Window) -> Window:
    """Return a window whose newest minute the job spent half down."""
    return written(written(window, "busy_ms", 30_000.0), "idle_ms", 200_000.0)


def skipping(window: Window) -> Window:
    """Return a window in which the source got through far more than arrived: its position was moved."""
    return written(window, "records_in", 50_000.0, task=0)


def growing(window: Window) -> Window:
    """Return a window in whose last minutes ever more waits at the source, although it is hardly busy."""
    return written(window, "queued_records_last", np.linspace(200, 1_000, 5), task=0, last=5)


def flagged(window: Window) -> Window:
    """Return a window of a job that does not know all of its backlog."""
    tasks = tuple(msgspec.structs.replace(spec, backlog_partly_unknown="one partition") for spec in window.topology.tasks[:1])
    topology = msgspec.structs.replace(window.topology, tasks=(*tasks, *window.topology.tasks[1:]))
    return replace(window, topology=topology)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("bent", "why"),
    [
        (lambda window: written(window, "coverage", 0.25), "only a part of the subtasks report"),
        (lambda window: written(window, "coverage", 0.25, task=0, last=2), "only a part of the subtasks report"),
        (lambda window: written(window, "restarts", 1.0), "the job restarted within the last minutes"),
        (lambda window: written(window, "restarts", [[1.0] * 2, [0.0] * 2], last=2), "the job restarted within the last minutes"),
        (down, "the job ran for a part of the newest minute only"),
        (lambda window: written(window, "busy_ms", np.nan), "its busy time in the newest minute is unknown"),
        (skipping, "more was got through than arrived, so records wait"),
        (growing, "its backlog grows"),
        (flagged, "nobody knows how many records wait for it"),
        (lambda window: written(window, "queued_records_last", np.nan, task=0), "nobody knows how many records wait for it"),
        (lambda window: written(window, "arrived", np.nan, task=0), None),
        (lambda window: replace(window, figures=_masked(window, -1, slice(None))), "its newest minute is unknown"),
        (lambda window: replace(window, figures=_masked(window, -1, 0)), "its newest minute is unknown"),
    ],
)
def test_nothing_shrinks_on_figures_that_prove_nothing(bent: Any, why: str | None, policy: str) -> None:
    """A part of the subtasks, a restart, a minute that is not whole, a backlog that grows or is unknown: sizes stay, and why."""
    decision = decided(bent(real_window()), policy)
    if why is None:  # nothing arrived is known, but the queue says it: that is enough
        return
    assert min(sizes(decision)) == 8, decision.reason
    if any("unproven" in held_by(decision, task) for task in range(2)):
        assert why in decision.reason


def _masked(window: Window, minute: int, task: object) -> np.ndarray:
    figures = window.figures.copy()
    figures[minute, task] = np.nan  # type: ignore[index]
    return figures


LOAD, DOWN = 1_000.0, 4  # records and minutes


def draining(since: int, faster: float) -> Window:
    """Return a window of a job that a restart stopped, up to so many minutes ago, and what is remembered of it minute by minute.

    Since then it gets through a little more than comes, and its counters show a fifth of its time, as while it waits for others.
    """
    window = real_window(load=LOAD)
    figures = written(window, "queued_records_last", 0.0, task=0, last=60).figures
    stopped, waiting = len(figures) - since - DOWN, 0.0
    known: tuple[Saturation, ...] = ()
    for minute in range(stopped, len(figures)):
        is_down = minute < stopped + DOWN
        done = 0.0 if is_down else min(LOAD * faster, LOAD + waiting)
        waiting += LOAD - done
        now = figures[minute]
        for name in ("records_in", "records_out"):
            now[:, FIGURE[name]] = done
        now[0, FIGURE["queued_records_last"]] = waiting
        if is_down:
            now[:, [FIGURE[name] for name in ("busy_ms", "busy_ms_max", "idle_ms")]] = 0.0
            now[:, FIGURE["restarts"]] = 1.0
        end_ms = window.window_end_ms - (len(figures) - 1 - minute) * MINUTE_MS
        known = remembered(known, figures[: minute + 1][-SEEN_MINUTES:], window.topology, end_ms)
    return replace(window, figures=figures, saturations=known)


@pytest.mark.parametrize("policy", [*POLICIES, "forecast", "ds2-gate", "drs", "lag"])
@pytest.mark.parametrize("faster", [1.01, 1.05, 1.2])
def test_a_task_that_drains_slowly_after_a_restart_does_not_shrink(faster: float, policy: str) -> None:
    """At any time of it, whatever its counters say: with fewer it would fall behind."""
    for since in (1, 3, 5, 10, 15, 19):
        decision = decided(draining(since, faster), policy)
        assert sizes(decision)[0] >= 8, (since, decision.reason)


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure"])
def test_a_task_that_is_busy_all_the_time_keeps_its_size_whatever_is_known_of_its_backlog(policy: str) -> None:
    """A group of four, all busy, of which one idle partition has no commit: the backlog is unknown, and the load looks small."""
    window = real_window(load=1_000.0, busy=1.0, subtasks=4, tasks=("group",))
    window = written(window, "queued_records_last", np.nan, last=60)
    window = written(window, "records_in", 2_500.0, last=60)
    window = written(window, "records_out", 2_500.0, last=60)
    decision = decided(window, policy)
    assert sizes(decision)[0] >= 4
    assert "group keeps its subtasks: it was busy all the time." in decision.reason or held_by(decision) == []


@pytest.mark.parametrize("policy", [*POLICIES, "forecast", "ds2-gate", "drs", "lag"])
def test_a_task_at_work_does_not_shrink_because_nothing_comes_to_its_job(policy: str) -> None:
    """Its only source has finished, and it works off what that sent; a few records, as of a timer, are no work."""
    window = real_window(busy=0.9, tasks=("ref", "op", "sink"))
    tasks = (msgspec.structs.replace(window.topology.tasks[0], state="finished"), *window.topology.tasks[1:])
    window = replace(window, topology=msgspec.structs.replace(window.topology, tasks=tasks))
    figures = window.figures.copy()
    figures[:, 0] = np.nan
    decision = decided(replace(window, figures=figures), policy)
    assert sizes(decision)[1] >= 8, decision.reason
    figures[:, 1:, FIGURE["busy_ms"]], figures[:, 1:, FIGURE["idle_ms"]] = 0.04 * 8 * MINUTE_MS, 0.96 * 8 * MINUTE_MS
    figures[:, 1:, FIGURE["busy_ms_max"]] = 0.04 * MINUTE_MS
    assert sizes(decided(replace(window, figures=figures), policy))[1] < 8


def test_one_task_that_never_rests_does_not_hold_the_others() -> None:
    """Only what hides the load of others, a source's backlog for one, holds the whole job."""
    window = written(written(real_window(), "busy_ms", 8 * MINUTE_MS, task=1, last=60), "idle_ms", 0.0, task=1, last=60)
    decision = decided(window, "hpa")
    assert sizes(decision)[0] < 8 <= sizes(decision)[1]


def test_a_finished_task_is_left_alone() -> None:
    """A restart to make it smaller would be for nothing."""
    window = real_window()
    tasks = (msgspec.structs.replace(window.topology.tasks[0], state="finished"), window.topology.tasks[1])
    window = replace(window, topology=msgspec.structs.replace(window.topology, tasks=tasks))
    assert sizes(decided(window, "hpa"))[0] == 8


def test_a_persons_choice_is_no_guess() -> None:
    """Policies that stand for one are held back by no figure."""
    window = written(real_window(), "coverage", 0.25)
    tasks = tuple(msgspec.structs.replace(spec, configured_parallelism=5) for spec in window.topology.tasks)
    window = replace(window, topology=msgspec.structs.replace(window.topology, tasks=tasks))
    assert sizes(decided(window, "static")) == [5, 5]


def test_the_simulated_engine_shrinks_as_before_unless_figures_are_missing() -> None:
    """Its figures are exact, and its published decisions stay; but no engine shrinks on a minute that nobody saw."""
    window = real_window()
    simulated = replace(window, topology=msgspec.structs.replace(window.topology, engine="simulated"))
    assert max(sizes(decided(growing(simulated), TargetUtilisation()))) < 8
    unseen = replace(simulated, figures=_masked(simulated, -1, 1))
    decision = decided(unseen, TargetUtilisation())
    assert sizes(decision)[1] == 8
    assert "b keeps its subtasks: its newest minute is unknown." in decision.reason
