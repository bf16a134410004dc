"""Placement on random clusters and jobs: validity, determinism, figures, naive twins, optimum, and garbage in."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import inf, isclose, isfinite, sqrt

from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescaler.commands.place import command
from rescaler.placement import (
    ALGORITHMS,
    Edge,
    History,
    Host,
    Network,
    Params,
    PlaceRequest,
    RequestError,
    Subtask,
    Task,
    document,
    parse_json,
    parse_request,
    place,
    to_json,
)
from rescaler.placement.baselines import split_mix_64
from rescaler.placement.exact import brute_force, countable
from rescaler.placement.gap import at_delta
from rescaler.placement.order import twelve_digits
from rescaler.placement.problem import problem_of

EPSILON = 1e-9
quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

amounts = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0, 1.3, 2.0, 3.5])


@st.composite
def hosts(draw, most=7):
    """Some hosts, with background use, history, zones, drained ones among them."""
    found = []
    for at in range(draw(st.integers(1, most))):
        history = History(
            cost=draw(st.none() | st.floats(0, 10)),
            tuples=draw(st.none() | st.sampled_from([0.0, 1.0, 100.0])),
            busy=tuple(draw(st.lists(st.floats(0, 1), max_size=2))),
        )
        cpu, memory = draw(st.sampled_from([1.0, 2.0, 4.0, 8.0])), draw(st.sampled_from([2.0, 4.0, 8.0]))
        found.append(
            Host(f"h{at}", cpu, memory, draw(st.integers(0, 5)), draw(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0])),
                 zone=draw(st.sampled_from("xy")), used_cpu=draw(st.sampled_from([0.0, 0.5, 3.0])),
                 used_slots=draw(st.integers(0, 1)), history=history)
        )  # fmt: skip
    return tuple(found)


@st.composite
def requests(draw, most_hosts=7, most_tasks=4, most_width=6):
    """A whole request: hosts, a DAG, options, and sometimes a placement that runs already."""
    count = draw(st.integers(1, most_tasks))
    tasks = tuple(Task(f"t{at}", draw(st.integers(0, most_width)), draw(amounts), draw(amounts)) for at in range(count))
    edges = []
    for left in range(count):
        for right in range(left + 1, count):
            if draw(st.booleans()):
                same = tasks[left].parallelism == tasks[right].parallelism
                pattern = draw(st.sampled_from(["all", "forward"] if same else ["all"]))
                edges.append(Edge(f"t{left}", f"t{right}", draw(st.sampled_from([0.0, 1e4, 1e6])), 200.0, pattern))
    cluster = draw(hosts(most_hosts))
    names = [host.id for host in cluster] + ["gone"]
    running = draw(
        st.dictionaries(st.builds(Subtask, st.sampled_from([task.id for task in tasks]), st.integers(0, 8)),
                        st.sampled_from(names), max_size=10)
    )  # fmt: skip
    params = Params(
        threshold=draw(st.sampled_from([0.5, 0.8, 1.0])),
        threshold_scope=draw(st.sampled_from(["lba-ce", "all"])),
        order=draw(st.sampled_from(["interleaved", "topological"])),
        lba_pick=draw(st.sampled_from(["first", "spread"])),
        cold_start=draw(st.sampled_from(["estimate", "rr"])),
        mode=draw(st.sampled_from([None, "fresh", "incremental"])),
    )
    algorithm, seed = draw(st.sampled_from(ALGORITHMS)), draw(st.integers(0, 2**64 - 1))
    return PlaceRequest(algorithm, cluster, tasks, tuple(edges), Network(0.1, 0.5, 2.0), seed, params, running)


def is_complete(answer):
    """Every subtask is placed once or listed as unplaced."""
    wanted = {Subtask(task.id, at) for task in answer.request.tasks for at in range(task.parallelism)}
    return set(answer.assignment) | set(answer.unplaced) == wanted and not set(answer.assignment) & set(answer.unplaced)


def is_within_capacity(answer, delta):
    """No host that the job uses is above delta of its capacity, or above its slots."""
    return all(
        not use.subtasks
        or (use.cpu <= delta * host.cpu + 1e-6 and use.memory <= delta * host.memory + 1e-6 and use.slots <= host.slots)
        for host, use in zip(answer.request.hosts, answer.hosts, strict=True)
    )


@quick
@given(requests())
def test_every_answer_is_complete_and_within_capacity(request):
    """Fresh answers respect the threshold, incremental ones the full capacity (the threshold does not evict)."""
    answer = place(request)
    assert is_complete(answer)
    assert is_within_capacity(answer, 1.0 if request.incremental else request.delta)


@quick
@given(requests())
def test_equal_requests_give_equal_bytes(request):
    """The order in which the running placement was given does not matter, nor does asking twice."""
    turned = replace(request, placement=dict(reversed(list(request.placement.items()))))
    assert to_json(document(place(turned))) == to_json(document(place(request)))


@quick
@given(requests())
def test_reported_figures_equal_a_recomputation(request):
    """Rent, loads, deviations and traffic again from the assignment, pair by pair."""
    answer = place(request)
    host_of = {host.id: host for host in request.hosts}
    used = set(answer.assignment.values())
    assert isclose(answer.cost.resource_per_s, sum(host_of[name].price for name in used), rel_tol=1e-12)
    loads = {host.id: naive_load(request, answer, host) for host in request.hosts}
    assert all(isclose(use.load, load, abs_tol=1e-12) for use, load in zip(answer.hosts, loads.values(), strict=True))
    assert isclose(answer.load.std, naive_std(loads.values()), abs_tol=1e-9)
    assert isclose(answer.load.std_used, naive_std([loads[name] for name in sorted(used)]), abs_tol=1e-9)
    assert isclose(answer.cost.communication_per_s, naive_communication(request, answer), rel_tol=1e-9, abs_tol=1e-15)


def naive_load(request, answer, host):
    """Load of one host, subtask by subtask."""
    task_of = {task.id: task for task in request.tasks}
    here = [task_of[sub.task] for sub, name in answer.assignment.items() if name == host.id]
    cpu = (host.used_cpu + sum(task.cpu for task in here)) / host.cpu
    memory = (host.used_memory + sum(task.memory for task in here)) / host.memory
    return 0.8 * cpu + 0.2 * memory


def naive_std(values):
    """Population deviation."""
    values = list(values)
    mean = sum(values) / len(values) if values else 0.0
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values)) if values else 0.0


def naive_communication(request, answer):
    """Every pair on its own."""
    zone_of = {host.id: host.zone for host in request.hosts}
    width_of = {task.id: task.parallelism for task in request.tasks}
    total = 0.0
    for edge in request.edges:
        for left in range(width_of[edge.source]):
            for right in range(width_of[edge.target]):
                ends = [answer.assignment.get(Subtask(edge.source, left)), answer.assignment.get(Subtask(edge.target, right))]
                if (edge.pattern == "forward" and left != right) or None in ends or ends[0] == ends[1]:
                    continue
                pairs = width_of[edge.source] * (1 if edge.pattern == "forward" else width_of[edge.target])
                distance = 0.5 if zone_of[ends[0]] == zone_of[ends[1]] else 2.0
                total += 0.1 * distance * edge.records_per_s * edge.bytes_per_record / 1e9 / pairs
    return total


class Naive:
    """The algorithms in their plainest form: lists, loops, exact fractions; fresh placements only."""

    def __init__(self, request):
        self.request, self.delta = request, request.delta
        self.own = [[] for _ in request.hosts]
        self.npl = problem_of(request).by_efficiency

    def stl(self):
        """The subtask list by exact fractions."""
        problem = problem_of(self.request)
        subs = [(at, index) for at, task in enumerate(self.request.tasks) for index in range(task.parallelism)]
        share = self.request.params.order == "interleaved"
        return sorted(subs, key=lambda sub: (
            Fraction(sub[1], self.request.tasks[sub[0]].parallelism) if share else 0, problem.ranks[sub[0]], sub[1]
        ))  # fmt: skip

    def left(self, at):
        """Free cores, GB, slots of a host."""
        host, own = self.request.hosts[at], self.own[at]
        return (
            self.delta * host.cpu - host.used_cpu - sum(task.cpu for task in own),
            self.delta * host.memory - host.used_memory - sum(task.memory for task in own),
            host.slots - host.used_slots - len(own),
        )

    def fits(self, at, task):
        """The rule of admission."""
        cpu, memory, slots = self.left(at)
        return slots > 0 and task.cpu <= cpu + EPSILON and task.memory <= memory + EPSILON

    def first(self, order, task):
        """First fitting host of an order."""
        return next((at for at in order if self.fits(at, task)), None)

    def run(self):
        """The assignment as the response prints it."""
        found = {}
        for sub, at in getattr(self, self.request.algorithm.replace("-", "_"))():
            found[Subtask(self.request.tasks[sub[0]].id, sub[1])] = self.request.hosts[at].id
        return found

    def _each(self, choose, subs=None):
        for sub in subs or self.stl():
            task = self.request.tasks[sub[0]]
            at = choose(task)
            if at is not None:
                self.own[at].append(task)
                yield sub, at

    def cetsa(self):
        """First fit by cost efficiency."""
        return self._each(lambda task: self.first(self.npl, task))

    def ff(self):
        """First fit."""
        return self._each(lambda task: self.first(range(len(self.own)), task))

    def rr(self):
        """Round robin."""
        pointer = 0

        def choose(task):
            nonlocal pointer
            count = len(self.own)
            at = self.first([(pointer + step) % count for step in range(count)], task)
            pointer = pointer if at is None else (at + 1) % count
            return at

        return self._each(choose)

    def default(self):
        """A list of all free slots of fitting hosts, one drawn."""
        draws = split_mix_64(self.request.seed)

        def choose(task):
            slots = [at for at in range(len(self.own)) if self.fits(at, task) for _ in range(self.left(at)[2])]
            return slots[next(draws) % len(slots)] if slots else None

        return self._each(choose)

    def gs_bfd(self):
        """Best fit decreasing."""
        hosts, tasks = self.request.hosts, self.request.tasks
        cpu_max, memory_max = max(host.cpu for host in hosts), max(host.memory for host in hosts)
        sizes = [twelve_digits(max(task.cpu / cpu_max, task.memory / memory_max)) for task in tasks]

        def residual(at, task):
            cpu, memory, _ = self.left(at)
            return round(0.8 * (cpu - task.cpu) / cpu_max + 0.2 * (memory - task.memory) / memory_max, 9)

        def choose(task):
            fitting = [at for at in range(len(hosts)) if self.fits(at, task)]
            used = [at for at in fitting if self.own[at]]
            if used:
                return min(used, key=lambda at: residual(at, task))
            return min(fitting, key=lambda at: (hosts[at].price, residual(at, task)), default=None)

        return self._each(choose, sorted(self.stl(), key=lambda sub: -sizes[sub[0]]))


@quick
@given(requests(), st.sampled_from(["cetsa", "ff", "rr", "default", "gs-bfd"]))
def test_fast_algorithms_equal_their_naive_twins(request, algorithm):
    """Segment trees and columns give what plain loops give."""
    params = replace(request.params, cold_start="estimate", mode="fresh")
    fresh = replace(request, algorithm=algorithm, params=params, placement={})
    naive = Naive(fresh)
    assert place(fresh).assignment == (naive.run() if naive.stl() else {})


@quick
@given(requests(most_hosts=3, most_tasks=3, most_width=3))
def test_no_answer_beats_the_true_optimum(request):
    """Rent plus communication of a fresh placement is never below the optimum at the same share of the hosts."""
    answer = place(replace(request, placement={}))
    problem = problem_of(at_delta(answer.request, request.delta))
    if not answer.feasible or not countable(problem):
        return
    assert answer.cost.total_per_s >= brute_force(problem).total_per_s * (1 - 1e-9)


@quick
@given(requests(most_hosts=3, most_tasks=2, most_width=3))
def test_a_proof_of_infeasibility_is_true(request):
    """Where a reason is given, the enumeration finds no placement either."""
    answer = place(replace(request, placement={}))
    problem = problem_of(at_delta(answer.request, request.delta))
    if answer.infeasible_proof is not None and countable(problem):
        assert brute_force(problem) is None


@quick
@given(requests(), st.integers(0, 8))
def test_pure_rescaling_of_a_settled_job_moves_nothing(request, width):
    """Place a job, then give its first task any parallelism: nothing moves, what stays keeps its host."""
    settled = place(replace(request, placement={}))
    if not settled.feasible or not settled.assignment:
        return
    tasks = (replace(request.tasks[0], parallelism=width), *request.tasks[1:])
    params = replace(request.params, mode="incremental")
    again = place(replace(request, tasks=tasks, edges=(), params=params, placement=settled.assignment))
    before, after = (Counter((sub.task, host) for sub, host in each.assignment.items()) for each in (settled, again))
    grows = width >= request.tasks[0].parallelism
    assert again.rescale.moves == 0
    assert not (before - after if grows else after - before)


@quick
@given(requests(), st.sampled_from([each for each in ALGORITHMS if each != "lba-ce"]), st.integers(0, 100))
def test_a_host_without_slots_changes_no_assignment(request, algorithm, which):
    """One more host of an existing size on which nothing may run leaves every choice as it was (lba-ce: but for its average)."""
    plain = replace(request, algorithm=algorithm)
    one = request.hosts[which % len(request.hosts)]
    drained = replace(one, id="drained", slots=0, used_slots=0, history=History())
    assert place(replace(plain, hosts=(*request.hosts, drained))).assignment == place(plain).assignment


@quick
@given(requests(), st.sampled_from(ALGORITHMS))
def test_prices_times_eight_leave_the_assignment(request, algorithm):
    """Costs scale, choices do not (histories hold costs too)."""
    dear = tuple(
        replace(host, price=host.price * 8, history=replace(host.history, cost=host.history.cost and host.history.cost * 8))
        for host in request.hosts
    )
    network = replace(request.network, price_per_gb=request.network.price_per_gb * 8)
    plain = place(replace(request, algorithm=algorithm))
    scaled = place(replace(request, algorithm=algorithm, hosts=dear, network=network))
    assert scaled.assignment == plain.assignment
    assert scaled.cost.total_per_s == plain.cost.total_per_s * 8


wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([inf, -inf, 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

SOUND = {
    "schema": "place/1",
    "algorithm": "lba-ce",
    "seed": 1,
    "params": {"lba_pick": "spread", "exec_time_s": 5, "wec_weights": [0.2, 0.3, 0.5]},
    "cluster": {
        "hosts": [
            {"id": "a", "cpu": 4, "memory": 8, "slots": 4, "price": 1, "zone": "x", "used": {"cpu": 1, "slots": 1},
             "history": {"cost": 3, "tuples": 7, "busy": [0.2, 0.4]}},
            {"id": "b", "cpu": 8, "memory": 8, "slots": 4, "price": 2},
        ],
        "network": {"price_per_gb": 0.01, "distance": {"same_zone": 1, "cross_zone": 2}},
    },
    "job": {
        "tasks": [
            {"id": "s", "parallelism": 2, "rho_cpu": 0.001, "memory": 1, "source_rate": 100},
            {"id": "t", "parallelism": 2, "cpu": 1, "memory": 1},
        ],
        "edges": [{"from": "s", "to": "t", "records_per_s": 10, "pattern": "forward"}],
    },
    "placement": {"s/0": "a", "t/5": "gone"},
}  # fmt: skip


def places_of(value, path=()):
    """Every path into a JSON document."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for step, child in steps for inner in places_of(child, (*path, step)))]


def with_change(path, value):
    """The sound request with one place, of any kind, replaced."""
    if not path:
        return value
    changed = json.loads(json.dumps(SOUND))
    at = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return changed


def is_strict_json(text):
    """Parses, and holds no NaN or infinity."""
    json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    return True


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(places_of(SOUND)), wild)
def test_any_one_wild_value_is_answered_or_refused(path, value):
    """Whatever stands in one place: a strict JSON answer, or an error that names a path; never a crash."""
    document_or_complaints = read(with_change(path, value))
    if isinstance(document_or_complaints, PlaceRequest):
        answer = place(document_or_complaints)
        assert is_strict_json(to_json(document(answer)))
        assert isfinite(answer.load.std)
    else:
        assert all(": " in complaint for complaint in document_or_complaints)


def read(value):
    """The request, or the complaints about it."""
    try:
        return parse_request(value)
    except RequestError as error:
        return error.complaints


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")) | wild.map(
    lambda value: json.dumps(value).encode()
))  # fmt: skip
def test_any_bytes_are_a_bad_request(data):
    """Garbage on standard input: exit status 2, one JSON object out, one line of explanation."""
    outcome = CliRunner().invoke(command, ["-"], input=data)
    assert outcome.exit_code == 2
    assert json.loads(outcome.stdout)["status"] == "error"
    assert outcome.stderr.startswith("surescale: ")


@quick
@given(requests())
def test_any_sound_request_survives_the_wire(request):
    """A request written as JSON is read back as it was."""
    assert parse_json(json.dumps(on_the_wire(request))) == request


def on_the_wire(request):
    """The JSON document of a request."""
    return {
        "schema": "place/1",
        "algorithm": request.algorithm,
        "seed": request.seed,
        "params": {name: getattr(request.params, name) for name in Params.__dataclass_fields__},
        "cluster": {
            "hosts": [
                {"id": host.id, "cpu": host.cpu, "memory": host.memory, "slots": host.slots, "price": host.price,
                 "zone": host.zone, "used": {"cpu": host.used_cpu, "slots": host.used_slots},
                 "history": {"cost": host.history.cost, "tuples": host.history.tuples, "busy": host.history.busy}}
                for host in request.hosts
            ],
            "network": {"price_per_gb": 0.1, "distance": {"same_zone": 0.5, "cross_zone": 2.0}},
        },
        "job": {
            "tasks": [
                {"id": task.id, "parallelism": task.parallelism, "cpu": task.cpu, "memory": task.memory}
                for task in request.tasks
            ],
            "edges": [
                {"from": edge.source, "to": edge.target, "records_per_s": edge.records_per_s,
                 "bytes_per_record": edge.bytes_per_record, "pattern": edge.pattern}
                for edge in request.edges
            ],
        },
        "placement": {str(sub): host for sub, host in request.placement.items()},
    }  # fmt: skip
