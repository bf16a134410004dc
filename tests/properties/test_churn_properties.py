"""Hosts that join, leave and die while learners warm up and jobs are rescaled: all comes to rest, within a bound with reasons."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.archive import load_job
from surescale.contracts.commands import Progress
from surescale.contracts.decisions import Decision, PolicyUsed, TaskDecision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import Window
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.twin import InProcessRescaler
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.episode import run_episode
from surescale.simulation.engine.hosts import NewHost
from surescale.simulation.engine.learners import Held
from surescale.simulation.load.workload import load_workload
from surescale.simulation.model.costs import with_learners

JOBS = ("j_2521346", "j_756953")
CHURN_MINUTES = 60
WARM_UP_MINUTES = 5
# A rescale: three preparations of five minutes, then a restart that restores three times 64 MiB at half a MiB/s, nine minutes.
# At most one is under way when it gets quiet, and one act waits behind it, after a back-off of ten minutes at most.
BOUND_MINUTES = 2 * (3 * WARM_UP_MINUTES + 9) + 10
SETTINGS = ControlSettings(warm_up_ms_max=WARM_UP_MINUTES * 60_000)


class Churn(InProcessRescaler):
    """The rescaler's controller in a cluster whose hosts come and go until it gets quiet."""

    def __init__(self, seed: int) -> None:
        super().__init__("sim", SETTINGS, {f"sim/{name}": JobSettings(job=f"sim/{name}") for name in JOBS})
        self.draw = np.random.default_rng(seed)
        self.happened = 0
        self.rest_minute = 0

    def minute_ended(self, cluster: SimulatedCluster) -> None:
        """Let something happen to a host, then time pass."""
        if cluster.minutes_done < CHURN_MINUTES and self.draw.random() < 0.4:
            self.strike(cluster)
        if cluster.minutes_done == CHURN_MINUTES:
            cluster.host_joins(NewHost("last", 12))
        super().minute_ended(cluster)
        self.see_that_all_is_sound(cluster)
        if not self.is_at_rest(cluster):
            self.rest_minute = cluster.minutes_done + 1

    def progressed(self, progress: Progress, cluster: SimulatedCluster) -> None:
        """Check the cluster as it is at every report."""
        self.see_that_all_is_sound(cluster)
        super().progressed(progress, cluster)

    def strike(self, cluster: SimulatedCluster) -> None:
        """A host joins, leaves or dies; never the last two."""
        self.happened += 1
        names = [host.host for host in cluster.topology().hosts]
        what = self.draw.choice(["join", "leave", "die"], p=[0.4, 0.2, 0.4])
        if what == "join" or len(names) <= 2:
            cluster.host_joins(NewHost(f"h{self.happened}", int(self.draw.integers(2, 9)), price_per_s=0.001))
        elif what == "leave":
            cluster.host_leaves(str(self.draw.choice(names)))
        else:
            cluster.host_dies(str(self.draw.choice(names)))

    def see_that_all_is_sound(self, cluster: SimulatedCluster) -> None:
        """No unit has two owners, no subtask is on a host that is gone, and every virtual node has exactly one unit."""
        alive = cluster.hosts.host_of()
        seen: set[int] = set()
        for job in cluster.jobs.values():
            units = {unit for spec in job.topology.tasks for unit in spec.units}
            assert units <= alive.keys()
            assert not units & seen
            seen |= units
            for spec in job.topology.tasks:
                if spec.stateful and not job.is_waiting:
                    see_that_each_vnode_has_one_unit(job.held[spec.task], spec.units, spec.vnodes)

    def is_at_rest(self, cluster: SimulatedCluster) -> bool:
        """Nothing waits, warms up or is on its way, and every job runs."""
        still = all(not memory.rescaling and not memory.pending for memory in self._controller.memory.values())
        return still and not any(job.is_waiting or job.preparation for job in cluster.jobs.values())


def see_that_each_vnode_has_one_unit(held: Held, units: Sequence[int], vnodes: int) -> None:
    """All virtual nodes lie on the task's units, evenly."""
    assert set(held) == set(units)
    assert sum(held.values()) == vnodes
    assert max(held.values()) - min(held.values()) <= 1


def wants(window: Window, draw: np.random.Generator, until_ms: int) -> Decision:
    """An act that wants something else for every task; a hold once it is quiet."""
    acts = window.window_end_ms <= until_ms
    tasks = tuple(
        TaskDecision(
            task=spec.task,
            current=spec.parallelism,
            ratio=1.0,
            proposed=0,
            desired=int(draw.integers(1, 9)) if acts else spec.parallelism,
        )
        for spec in window.topology.tasks
        if spec.scalable
    )
    return Decision(
        decision_id=decision_id(window.job, window.window_end_ms, "churn"),
        job=window.job,
        span_end_ms=window.window_end_ms,
        window_id="drawn",
        policy=PolicyUsed(name="churn"),
        seed=0,
        settings_version=0,
        topology_version=0,
        action="act" if acts else "hold",
        reason="as drawn",
        completeness=1.0,
        minutes_known=60,
        tasks=tasks,
    )


@pytest.mark.parametrize("seed", range(8))
def test_churn_comes_to_rest(seed: int) -> None:
    """Each act was answered, each rescale ended, and soon after the last event all jobs run and nothing moves any more."""
    load, draw, churn = load_workload("clarknet"), np.random.default_rng([seed, 1]), Churn(seed)
    jobs = [load_job(name, load) for name in JOBS]
    options = RunOptions(minutes=CHURN_MINUTES + BOUND_MINUTES, cost=with_learners(restore_bytes_per_s=2**19))
    until_ms = load.minute_start_ms(load.default_start_minute + CHURN_MINUTES)
    hosts = [NewHost(f"first{index}", 6, price_per_s=0.001) for index in range(3)]
    episode = run_episode(
        jobs, load, lambda window: wants(window, draw, until_ms), churn, options=options, hosts=hosts, span_minutes=3
    )
    assert churn.happened > 10
    assert churn.rest_minute < CHURN_MINUTES + BOUND_MINUTES
    made = {(command.job, command.desired_generation, command.step) for command in episode.commands}
    assert len(made) == len(episode.commands)
    assert {command.action for command in episode.commands} >= {"prepare", "commit"}
    said = [outcome for effects in churn.effects for outcome in effects.outcomes]
    last = {outcome.decision_id for outcome in said if outcome.status != "pending"}
    assert {outcome.decision_id for outcome in said} == last
