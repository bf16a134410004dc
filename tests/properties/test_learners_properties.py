"""A1 to A11: what holds for every round of learner assignment, and for rounds in a row."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from surescale.rescaler.learners import assign
from surescale.rescaler.learners_model import (
    Assignment,
    HostState,
    LearnerHost,
    LearnerLimits,
    LearnerVersion,
    Move,
    Replica,
    Round,
    StatefulTask,
    bands,
)
from tests.support.reach import reached, reaches

ACCEPTABLE = 10
NAMES = [f"h{number}" for number in range(6)]
DEAD = ["dead1", "dead2"]
Case = tuple[list[LearnerHost], list[StatefulTask], LearnerVersion, Fraction, LearnerLimits]


@st.composite
def cases(draw: st.DrawFn, in_flight: bool = True, limited: bool = True) -> Case:
    """Hosts of several kinds, and tasks with replicas anywhere, also on dead hosts."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    states = [HostState.RUNNING, *(draw(st.sampled_from([*HostState, HostState.RUNNING])) for _ in names[1:])]
    hosts = [
        LearnerHost(name, draw(st.integers(1, 3)), state, draw(st.booleans())) for name, state in zip(names, states, strict=True)
    ]
    tasks = [_task(draw, number, [*names, *DEAD], in_flight) for number in range(draw(st.integers(0, 12)))]
    limits = LearnerLimits(ACCEPTABLE, draw(st.integers(0, 2)), draw(st.none() | st.integers(1, 4)) if limited else None)
    factor = draw(st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)]))
    return hosts, tasks, draw(st.sampled_from(LearnerVersion)), factor, limits


def _task(draw: st.DrawFn, number: int, names: list[str], in_flight: bool) -> StatefulTask:
    places = draw(st.permutations(names))
    learners = draw(st.integers(0, 2)) if in_flight else 0
    standbys = draw(st.integers(0, 2))
    replicas = [Replica(place, draw(st.sampled_from([0, 3, ACCEPTABLE, 11, 50, 90]))) for place in places[1:]]
    active = places[0] if draw(st.integers(0, 9)) else None
    return StatefulTask(f"t{number:02}", active, tuple(replicas[:learners]), tuple(replicas[learners : learners + standbys]))


def decide(case: Case) -> Round:
    """One round."""
    hosts, tasks, version, factor, limits = case
    return assign(hosts, tasks, version=version, balancing_factor=factor, limits=limits)


def running(hosts: list[LearnerHost]) -> set[str]:
    """Ids of running hosts."""
    return {host.id for host in hosts if host.state is HostState.RUNNING}


def best(replicas: tuple[Replica, ...], among: set[str], lag_max: int | None = None) -> str | None:
    """The host with the least lag, then the lowest id, within ``lag_max``."""
    found = [(r.lag, r.host) for r in replicas if r.host in among and (lag_max is None or r.lag <= lag_max)]
    return min(found)[1] if found else None


def by_id(decided: Round) -> dict[str, Assignment]:
    """Assignments by task."""
    return {task.id: task for task in decided.tasks}


def kept_learner(task: StatefulTask, after: Assignment, hosts: list[LearnerHost]) -> str | None:
    """The unready learner that must survive the round."""
    if after.active in {replica.host for replica in task.learners}:
        return None
    return best(task.learners, running(hosts))


def started(case: Case, decided: Round) -> list[Assignment]:
    """Tasks whose learner began in this round."""
    tasks = {task.id: task for task in case[1]}
    return [a for a in decided.tasks if a.learners and kept_learner(tasks[a.id], a, case[0]) is None]


def projected_before_starts(case: Case, decided: Round) -> Counter[str]:
    """Projected load once actives were settled and learners kept."""
    fresh = {assignment.id for assignment in started(case, decided)}
    return Counter(a.learners[0] if a.learners and a.id not in fresh else a.active for a in decided.tasks)


@given(cases())
def test_a1_every_task_has_one_active_on_a_listed_host(case: Case) -> None:
    """A1: no task is lost, and none is owned by a dead host."""
    decided = decide(case)
    assert [task.id for task in decided.tasks] == sorted(task.id for task in case[1])
    assert {task.active for task in decided.tasks} <= {host.id for host in case[0]}


@reaches("takes over", "orphan without replicas")
@given(cases())
def test_a2_an_active_changes_only_by_the_rules(case: Case) -> None:
    """A2: a ready learner takes over; an orphan goes to its best replica; nothing else moves an active."""
    hosts, tasks, *_ = case
    after, up = by_id(decide(case)), running(hosts)
    for task in tasks:
        expected = best(task.learners, up, ACCEPTABLE)
        if expected is None and task.active in {host.id for host in hosts}:
            expected = task.active
        for replicas, lag_max in ((task.standbys, ACCEPTABLE), (task.learners, None), (task.standbys, None)):
            expected = expected or best(replicas, up, lag_max)
        if expected:
            reached("takes over")
            assert after[task.id].active == expected
        else:
            reached("orphan without replicas")
            assert after[task.id].active in up


@given(cases())
def test_a3_replicas_of_a_task_are_on_different_running_hosts(case: Case) -> None:
    """A3: no host holds two replicas of a task; learners and standbys are only where hosts stay."""
    for task in decide(case).tasks:
        replicas = [*task.learners, *task.standbys]
        assert len({task.active, *replicas}) == 1 + len(replicas)
        assert set(replicas) <= running(case[0])
        assert len(task.learners) <= 1
        assert len(task.standbys) <= case[4].num_standbys + bool(case[4].num_standbys)  # one is added before another is dropped


@reaches("unready learner")
@given(cases())
def test_a4_unready_learners_survive(case: Case) -> None:
    """A4: the best unready learner on a running host stays, whatever the balance says."""
    after = by_id(decide(case))
    for task in case[1]:
        kept = kept_learner(task, after[task.id], case[0])
        if kept is not None:
            reached("unready learner")
            assert after[task.id].learners == (kept,)


@reaches("limit")
@given(cases())
def test_a5_the_limit_of_learners_holds(case: Case) -> None:
    """A5: never more in flight than allowed, unless they were in flight already."""
    decided = decide(case)
    kept = decided.learners_in_flight - len(started(case, decided))
    assert decided.learners_in_flight == sum(len(task.learners) for task in decided.tasks)
    limit = case[4].max_learners
    if limit is not None:
        reached("limit")
        assert decided.learners_in_flight <= max(limit, kept)


@reaches("V1", "V2")
@given(cases(in_flight=False, limited=False))
def test_a6_the_fewest_learners_are_started(case: Case) -> None:
    """A6: with nothing in flight exactly max(shortages, excesses), and then V2 is balanced."""
    hosts, tasks, version, factor, _ = case
    decided = decide(case)
    load, known = projected_before_starts(case, decided), {host.id: host for host in hosts}
    wanted = bands(known, len(tasks), factor)
    leaving = sum(load[host.id] for host in hosts if host.state is HostState.LEAVING)
    reached(version.name)
    if version is LearnerVersion.V2:
        shortages = sum(max(0, wanted[host].low - load[host]) for host in known)
        excesses = sum(max(0, load[host] - wanted[host].high) for host in known)
        assert len(started(case, decided)) == max(shortages, excesses)
        assert all(load.is_in_band for load in decided.load.values())
    else:
        new = [host.id for host in hosts if host.new and host.state is HostState.RUNNING]
        shortages = sum(max(0, wanted[host].share - load[host]) for host in new)
        assert len(started(case, decided)) == max(shortages, leaving)
        assert all(decided.load[host].projected >= wanted[host].share for host in new)


@reaches("in its band")
@given(cases())
def test_a7_no_host_leaves_its_band_because_of_a_start(case: Case) -> None:
    """A7: a host that was in its band before learners were started is in it afterwards."""
    decided = decide(case)
    before = projected_before_starts(case, decided)
    for host, load in decided.load.items():
        if load.low <= before[host] <= load.high:
            reached("in its band")
            assert load.is_in_band
        assert abs(load.projected - before[host]) <= abs(before[host] - load.low) + abs(before[host] - load.high)


def observed(decided: Round, ready: float, rng: random.Random) -> list[StatefulTask]:
    """The outcome of a round as the next one sees it: each learner is ready with probability ``ready``."""
    return [
        StatefulTask(
            task.id,
            task.active,
            tuple(Replica(host, 0 if rng.random() < ready else 50) for host in task.learners),
            tuple(Replica(host, 5) for host in task.standbys),
        )
        for task in decided.tasks
    ]


@given(cases())
def test_a8_rounds_with_ready_learners_converge_in_the_bound(case: Case) -> None:
    """A8: with learners ready a round later, M learners take ceil(M / max_learners) + a few rounds, and so do standbys."""
    hosts, _, version, factor, limits = case
    decided, rng, total = decide(case), random.Random(0), 0
    total = decided.learners_in_flight
    load, known = Counter(a.learners[0] if a.learners else a.active for a in decided.tasks), {h.id: h for h in hosts}
    wanted = bands(known, len(decided.tasks), factor)
    phi = total + sum(max(0, wanted[h].share - load[h], wanted[h].low - load[h], load[h] - wanted[h].high) for h in known)
    standbys = limits.num_standbys * len(decided.tasks)
    bound = sum(-(-moved // (limits.max_learners or max(moved, 1))) + 3 for moved in (phi, standbys))
    for _ in range(bound):
        if decided.converged:
            break
        decided = decide((hosts, observed(decided, 1.0, rng), version, factor, limits))
    assert decided.converged
    assert decide((hosts, observed(decided, 1.0, rng), version, factor, limits)).moves == ()


@given(cases(), st.lists(st.sampled_from(["join", "leave", "crash", "rest"]), max_size=10), st.integers(0, 2**32))
def test_a9_churn_and_then_quiet_converges(case: Case, events: list[str], seed: int) -> None:
    """A9: hosts join, leave and die while learners restore at random; once that ends, everything settles."""
    hosts, _, version, factor, limits = case
    rng, decided = random.Random(seed), decide(case)
    for number, event in enumerate(events):
        hosts = _churned(hosts, event, number, rng)
        decided = decide((hosts, observed(decided, 0.4, rng), version, factor, limits))
    for _ in range(100):
        decided = decide((hosts, observed(decided, 0.4, rng), version, factor, limits))
    assert decided.converged
    assert decide((hosts, observed(decided, 0.0, rng), version, factor, limits)).moves == ()


def _churned(hosts: list[LearnerHost], event: str, number: int, rng: random.Random) -> list[LearnerHost]:
    if event == "join":
        return [*hosts, LearnerHost(f"new{number}", rng.randint(1, 3), new=True)]
    index = rng.randrange(len(hosts))
    others = [*hosts[:index], *hosts[index + 1 :]]
    if event == "rest" or not running(others):
        return hosts
    return others if event == "crash" else [*others, LearnerHost(hosts[index].id, hosts[index].capacity, HostState.LEAVING)]


@given(cases(), st.integers(0, 2**32))
def test_a10_the_order_of_the_input_does_not_matter(case: Case, seed: int) -> None:
    """A10: hosts, tasks and replicas in any order give the same round."""
    hosts, tasks, *rest = case
    rng = random.Random(seed)
    mixed = [
        StatefulTask(
            t.id, t.active, tuple(rng.sample(t.learners, len(t.learners))), tuple(rng.sample(t.standbys, len(t.standbys)))
        )
        for t in rng.sample(tasks, len(tasks))
    ]
    assert decide((rng.sample(hosts, len(hosts)), mixed, *rest)) == decide(case)  # type: ignore[arg-type]


def difference(task: StatefulTask, after: Assignment, alive: set[str]) -> list[Move]:
    """What a round did to one task, worked out from its input and output alone."""
    learners, standbys = {r.host for r in task.learners}, {r.host for r in task.standbys}
    gone = {after.active, *after.learners}
    moves: list[tuple[str, str | None, str | None]] = []
    if after.active != task.active:
        moves.append(("promote" if task.active in alive else "recover", task.active, after.active))
    moves += [("learn", after.active, host) for host in after.learners if host not in learners]
    moves += [("add_standby", host if host == task.active else None, host) for host in after.standbys if host not in standbys]
    moves += [("drop_learner", host, None) for host in learners - gone]
    moves += [("drop_standby", host, None) for host in standbys - gone - set(after.standbys)]
    return [Move(kind, task.id, source, destination) for kind, source, destination in moves]  # type: ignore[arg-type]


@given(cases())
def test_a11_moves_are_exactly_the_difference(case: Case) -> None:
    """A11: input plus moves is output, with no move too many and none too few."""
    decided = decide(case)
    after, alive = by_id(decided), {host.id for host in case[0]}
    expected = [move for task in case[1] for move in difference(task, after[task.id], alive)]
    assert Counter(decided.moves) == Counter(expected)


LARGE_AND_EMPTY: Case = (
    [LearnerHost(f"h{at}", capacity=1 + (at == 5)) for at in range(6)],
    [StatefulTask("t00", None, (), ())],
    LearnerVersion.V1,
    Fraction(0),
    LearnerLimits(acceptable_lag=10, num_standbys=1),
)


@example(LARGE_AND_EMPTY)
@given(cases())
def test_settled_standbys_are_even_and_none_is_lost_on_the_way(case: Case) -> None:
    """No task loses a copy while they move, no more than allowed move, and at the end no move brings two hosts nearer."""
    hosts, _, version, factor, limits = case
    decided, rng, up = decide(case), random.Random(0), running(case[0])
    for _ in range(60):
        before = {task.id: len(task.standbys) + len(task.learners) for task in decided.tasks}
        moving = sum(len(task.standbys) > limits.num_standbys for task in decided.tasks)
        decided = decide((hosts, observed(decided, 1.0, rng), version, factor, limits))
        wanted = min(limits.num_standbys, len(up) - 1)
        assert all(len(task.standbys) + len(task.learners) >= min(before[task.id], wanted) for task in decided.tasks)
        extra = sum(len(task.standbys) > limits.num_standbys for task in decided.tasks)
        assert limits.max_learners is None or extra <= max(moving, limits.max_learners)
    if not decided.under_replicated and not decided.undrained:
        size = {host.id: host.capacity for host in hosts}
        held = Counter(host for task in decided.tasks for host in (task.active, *task.standbys))
        for task in decided.tasks:
            for giver in task.standbys:
                for taker in up - {task.active, *task.standbys}:
                    assert Fraction(held[taker] + 1, size[taker]) >= Fraction(held[giver], size[giver])


@given(cases())
def test_a_standby_on_the_destination_goes_first(case: Case) -> None:
    """While a host takes a task without a standby there, no task that could have come has one there."""
    decided = decide(case)
    tasks = {task.id: task for task in case[1]}
    drained = {host.id for host in case[0] if host.state is HostState.LEAVING}
    fresh = started(case, decided)
    for cold in fresh:
        target = cold.learners[0]
        if target in {replica.host for replica in tasks[cold.id].standbys}:
            continue
        rivals = [a for a in decided.tasks if not a.learners and a.active == cold.active and cold.active not in drained]
        assert not [a for a in rivals if target in {r.host for r in tasks[a.id].standbys} and a.active != target]


@given(cases())
def test_load_and_flags_say_what_the_tasks_say(case: Case) -> None:
    """Load, balance and convergence are those of the assignment returned."""
    decided = decide(case)
    actives = Counter(task.active for task in decided.tasks)
    projected = Counter(task.learners[0] if task.learners else task.active for task in decided.tasks)
    assert {h: (load.active, load.projected) for h, load in decided.load.items()} == {
        host.id: (actives[host.id], projected[host.id]) for host in case[0]
    }
    assert not decided.balanced or all(load.is_in_band for load in decided.load.values())
    assert decided.undrained == tuple(sorted(host.id for host in case[0] if host.state is HostState.LEAVING and actives[host.id]))
