"""Placement in its plainest form: figures pair by pair, and the algorithms as lists, loops and exact fractions."""

from fractions import Fraction
from math import sqrt

from surescale.rescaler.placement import Subtask
from surescale.rescaler.placement.greedy import split_mix_64
from surescale.rescaler.placement.order import twelve_digits
from surescale.rescaler.placement.problem import problem_of

EPSILON = 1e-9


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
