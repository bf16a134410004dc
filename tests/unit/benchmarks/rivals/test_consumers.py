"""The rivals of the consumers' demo: Kubernetes' arithmetic, KEDA's lag, CPU of processes, and the loop around them."""

import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rivals.cpu import CpuMeter
from benchmarks.rivals.horizontal import Autoscaler, replicas_by_average_value, replicas_by_cpu
from benchmarks.rivals.lag import total_lag
from benchmarks.rivals.run import ByLag, Place, Rival, lag_threshold, rival_of
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader
from surescale.engines.processes.worker_store import Requirement, WorkerStore
from surescale.services.local_stack.comparison.comparison_pipeline import is_rival
from tests.support.waiting import wait_until

counts = st.integers(1, 50)


@pytest.mark.parametrize(
    ("total", "replicas", "wanted"),
    [
        (0, 3, 0),  # the bounds make it one
        (100, 10, 10),
        (109, 10, 10),  # within the tolerance
        (111, 10, 12),
        (89, 10, 9),
        (1, 1, 1),
    ],
)
def test_replicas_for_a_total_are_the_total_over_the_target(total: int, replicas: int, wanted: int) -> None:
    """Unless the ratio is within a tenth of one."""
    assert replicas_by_average_value(total, 10, replicas) == wanted


@pytest.mark.parametrize(
    ("usages", "unready", "replicas", "wanted"),
    [
        ([0.8, 0.8], 0, 2, 2),
        ([0.87, 0.87], 0, 2, 2),  # 8 % above the target
        ([0.9, 0.9], 0, 2, 3),
        ([1.0, 1.0, 1.0, 1.0], 0, 4, 5),
        ([0.2, 0.2, 0.2], 0, 3, 1),
        ([1.6], 1, 2, 2),  # with the new pod at nothing the target is met
        ([1.6, 1.6], 1, 3, 4),  # 133 % of the target over three
        ([0.1], 3, 4, 1),  # downward, a pod without a measurement does not count at all
        ([], 2, 2, 2),  # nothing is known
    ],
)
def test_replicas_for_cpu(usages: list[float], unready: int, replicas: int, wanted: int) -> None:
    """The mean utilisation over the target of 80 %, by the pods that are measured; new ones only dampen."""
    assert replicas_by_cpu(usages, unready, 1.0, replicas) == wanted


@given(usages=st.lists(st.floats(0, 4), min_size=1, max_size=9), unready=st.integers(0, 9))
def test_new_pods_never_ask_for_more(usages: list[float], unready: int) -> None:
    """A pod that has just started drives the number up no further than what is used needs, nor turns growth into shrinking."""
    replicas = len(usages) + unready
    found = replicas_by_cpu(usages, unready, 1.0, replicas)
    assert found <= max(replicas, math.ceil(sum(usages) / 0.8))
    if unready and sum(usages) / len(usages) > 0.81:
        assert found >= replicas


def test_a_peak_holds_for_the_window_and_no_longer() -> None:
    """Proposals of 8, then of 2: the 8 stands until it is 300 seconds old."""
    autoscaler, replicas = Autoscaler(8), 8
    replicas = autoscaler.decide(0, replicas, 8)
    seen = {}
    for second in range(15, 331, 15):
        replicas = autoscaler.decide(second, replicas, 2)
        seen[second] = replicas
    assert {second for second, found in seen.items() if found == 8} == set(range(15, 300, 15))
    assert seen[300] == 2


def test_scaling_up_doubles_or_adds_four_in_fifteen_seconds() -> None:
    """Whichever is more, counted from the beginning of the period."""
    autoscaler = Autoscaler(100)
    assert autoscaler.decide(0, 1, 50) == 5
    assert autoscaler.decide(5, 5, 50) == 5  # the four were added just now
    assert autoscaler.decide(15, 5, 50) == 10
    assert autoscaler.decide(30, 10, 50) == 20


@given(st.lists(st.tuples(st.floats(0, 60), st.integers(0, 40)), max_size=30), counts, counts)
def test_the_bounds_hold_whatever_is_proposed(steps: list[tuple[float, int]], start: int, most: int) -> None:
    """At least one, at most the maximum."""
    autoscaler, now_s, replicas = Autoscaler(most), 0.0, min(start, most)
    for passed_s, proposal in steps:
        now_s += passed_s
        before, replicas = replicas, autoscaler.decide(now_s, replicas, proposal)
        assert 1 <= replicas <= most
        assert (replicas - before) * (proposal - before) >= 0  # never against the proposal


def test_lag_counts_at_most_a_threshold_a_partition() -> None:
    """More members than partitions would idle; a partition without a commit waits as a whole, and one set back counts none."""
    ends = {("orders", 0): 100, ("orders", 1): 40, ("orders", 2): 10}
    committed = {("orders", 0): 95, ("orders", 2): 12, ("else", 0): 0}
    assert total_lag(ends, committed, 1_000) == 45
    assert total_lag(ends, committed, 10) == 30


def test_cpu_is_the_mean_between_two_looks() -> None:
    """None at the first look; a process that works all the time uses most of a core, one that sleeps nothing."""
    programs = ["while True: pass", "import time; time.sleep(60)"]
    processes = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        pids = [process.pid for process in processes]
        meter = CpuMeter()
        assert meter.cores(pids) == dict.fromkeys(pids)

        def one_works() -> bool:
            works, sleeps = (each or 0.0 for each in meter.cores(pids).values())
            return works >= 0.1 and sleeps < 0.02  # however little a busy machine gives

        wait_until(one_works, timeout_s=30, what="one process to work and the other one to sleep")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert meter.cores(pids) == {}  # gone


class Proposing(Rival):
    """A rival whose metric is set."""

    proposals: Mapping[str, int] = {}

    def _proposals(self, required: Requirement) -> Mapping[str, int]:
        return {task: count for task, count in self.proposals.items() if required.counts[task]}


@pytest.fixture
def rival(tmp_path: Path) -> Proposing:
    """One on a chain for which two members each are asked for."""
    place = Place("127.0.0.1:1", str(tmp_path), "consumers", "keda", 6.0, 8)
    store = WorkerStore(tmp_path, "consumers")
    with store._locked("keda"):
        store._write("keda", Requirement("epoch", 1, {"parse": 2, "enrich": 2, "deliver": 2}))
    return Proposing(place)


def test_a_rival_changes_the_requirement_that_workers_are_kept_at(rival: Proposing, tmp_path: Path) -> None:
    """What it proposes is asked for, within the bounds; what stays as it is makes no revision."""
    store = WorkerStore(tmp_path, "consumers")
    rival.proposals = {"parse": 2, "enrich": 5, "deliver": 20}
    rival.step(0.0)
    assert store.requirement("keda") == Requirement("epoch", 2, {"parse": 2, "enrich": 5, "deliver": 6})
    rival.proposals = {"parse": 2, "enrich": 5, "deliver": 6}
    rival.step(1.0)
    assert store.requirement("keda") == Requirement("epoch", 2, {"parse": 2, "enrich": 5, "deliver": 6})


def test_a_chain_that_was_stopped_stays_stopped(rival: Proposing, tmp_path: Path) -> None:
    """As a workload with no replicas, which Kubernetes does not scale."""
    store = WorkerStore(tmp_path, "consumers")
    store.stop("keda")
    rival.proposals = {"parse": 4, "enrich": 4, "deliver": 4}
    rival.step(0.0)
    now = store.requirement("keda")
    assert now is not None
    assert set(now.counts.values()) == {0}


def test_rivals_go_by_their_names() -> None:
    """KEDA with its default, or with a threshold; anything else is a policy of ours or an error."""
    assert [lag_threshold(name) for name in ("keda", "keda-100", "keda-0", "keda-", "keda-x", "kedas")] == [10, 100] + [None] * 4
    assert [is_rival(name) for name in ("keda", "keda-7", "hpa-cpu", "hpa", "sure", "static")] == [True] * 3 + [False] * 3


def test_a_rival_whose_broker_is_away_tries_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says so and changes nothing."""
    store = WorkerStore(tmp_path, "consumers")
    with store._locked("keda"):
        store._write("keda", Requirement("epoch", 1, {"parse": 2, "enrich": 2, "deliver": 2}))
    rival = rival_of(Place("127.0.0.1:1", str(tmp_path), "consumers", "keda", 6.0, 8))
    assert isinstance(rival, ByLag)
    rival._groups = GroupReader(PipelineSettings(bootstrap="127.0.0.1:1"), timeout_s=0.2)
    rival.step(0.0)
    assert "does not answer" in capsys.readouterr().err
    assert store.requirement("keda") == Requirement("epoch", 1, {"parse": 2, "enrich": 2, "deliver": 2})
