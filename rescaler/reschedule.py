"""Plans which parallel units run each fragment and which vnodes move, after RisingWave's RescheduleFragmentRequest.

`plan_desired` spreads a wanted parallelism over the workers; `plan_request` takes named units as they are. Both return a `Plan`;
`applied` turns it into the next generation of the cluster. Nothing here touches a running cluster.

A unit belongs to one worker and holds at most one actor of each fragment; different fragments may share it (RisingWave's RFC on
fine-grained scaling).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from surescale.contracts.vnodes import DEFAULT_VNODES, uniform_mapping
from surescale.rescaler import vnodes
from surescale.rescaler.refusals import Refused


class WorkerState(StrEnum):
    """Whether something new may be placed on a worker."""

    RUNNING = "running"
    REMOVED_SOON = "removed_soon"
    """Takes nothing new; what runs there keeps running until it is rescheduled."""


class Distribution(StrEnum):
    """How a fragment's rows find their actor."""

    HASH = "hash"
    """By vnode, each mapped to one unit."""
    SINGLE = "single"
    """One actor on one unit, no vnodes."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that offers parallel units; a crashed one is not listed."""

    id: int
    host: str
    parallel_units: tuple[int, ...]
    state: WorkerState = WorkerState.RUNNING


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a job with its own parallelism."""

    id: int
    distribution: Distribution
    parallel_units: tuple[int, ...]
    mapping: tuple[int, ...] | None = None
    """Unit per vnode; None: uniform blocks (hash) or no vnodes (single)."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One generation of the placement."""

    generation: int
    workers: tuple[Worker, ...]
    fragments: tuple[Fragment, ...]
    vnodes: int = DEFAULT_VNODES

    def mapping_of(self, fragment: Fragment) -> tuple[int, ...] | None:
        """Return the fragment's mapping, computed if it was left out; None for single."""
        if fragment.distribution is Distribution.SINGLE:
            return None
        return fragment.mapping or uniform_mapping(fragment.parallel_units, self.vnodes)

    def with_fragments(self, changed: Iterable[Fragment]) -> Cluster:
        """Return the same generation with these fragments replacing those of the same id."""
        by_id = {fragment.id: fragment for fragment in changed}
        return replace(self, fragments=tuple(by_id.get(fragment.id, fragment) for fragment in self.fragments))

    def worker_of_unit(self) -> dict[int, Worker]:
        """Return the worker of each unit."""
        return {unit: worker for worker in self.workers for unit in worker.parallel_units}

    def check(self) -> None:
        """Refuse an impossible cluster with CLUSTER_INCONSISTENT."""
        _refuse_repeated("worker", (worker.id for worker in self.workers))
        _refuse_repeated("parallel unit", (unit for worker in self.workers for unit in worker.parallel_units))
        _refuse_repeated("fragment", (fragment.id for fragment in self.fragments))
        known = set(self.worker_of_unit())
        for fragment in sorted(self.fragments, key=lambda fragment: fragment.id):
            problem = self._problem(fragment, known)
            if problem:
                _refuse(f"fragment {fragment.id} {problem}", fragment=fragment.id)

    def _problem(self, fragment: Fragment, known: set[int]) -> str | None:
        units = set(fragment.parallel_units)
        if not units:
            return "has no parallel units"
        if len(units) < len(fragment.parallel_units):
            return "names a parallel unit twice"
        if units - known:
            return f"runs on unknown parallel unit {min(units - known)}"
        if len(units) > self.vnodes:
            return f"has {len(units)} parallel units for {self.vnodes} vnodes"
        if fragment.distribution is Distribution.SINGLE:
            return self._single_problem(fragment)
        if fragment.mapping is not None and len(fragment.mapping) != self.vnodes:
            return f"maps {len(fragment.mapping)} vnodes instead of {self.vnodes}"
        if fragment.mapping is not None and set(fragment.mapping) != units:
            return "maps vnodes to parallel units that are not its own"
        return None

    def _single_problem(self, fragment: Fragment) -> str | None:
        if len(fragment.parallel_units) != 1:
            return f"is single and has {len(fragment.parallel_units)} parallel units"
        return "is single and has a mapping" if fragment.mapping is not None else None


def _refuse_repeated(what: str, ids: Iterable[int]) -> None:
    repeated = sorted(number for number, count in Counter(ids).items() if count > 1)
    if repeated:
        place = {"fragment": repeated[0]} if what == "fragment" else {}
        _refuse(f"{what} {repeated[0]} is listed more than once", **place)


def _refuse(message: str, **place: int) -> None:
    raise Refused("CLUSTER_INCONSISTENT", message, place)


class RescheduleRefusal(StrEnum):
    """Why a reschedule was refused, in the order of the checks."""

    STALE_GENERATION = "STALE_GENERATION"
    CLUSTER_INCONSISTENT = "CLUSTER_INCONSISTENT"
    FRAGMENT_NOT_FOUND = "FRAGMENT_NOT_FOUND"
    INVALID_PARALLELISM = "INVALID_PARALLELISM"
    SINGLETON_SCALE = "SINGLETON_SCALE"
    NOT_ENOUGH_PARALLEL_UNITS = "NOT_ENOUGH_PARALLEL_UNITS"
    DUPLICATE_PARALLEL_UNIT = "DUPLICATE_PARALLEL_UNIT"
    CONFLICTING_PARALLEL_UNIT = "CONFLICTING_PARALLEL_UNIT"
    UNKNOWN_PARALLEL_UNIT = "UNKNOWN_PARALLEL_UNIT"
    NOT_OCCUPIED = "NOT_OCCUPIED"
    ALREADY_OCCUPIED = "ALREADY_OCCUPIED"
    WORKER_REMOVED_SOON = "WORKER_REMOVED_SOON"
    FRAGMENT_WOULD_BE_EMPTY = "FRAGMENT_WOULD_BE_EMPTY"


Codes = RescheduleRefusal


@dataclass(frozen=True, slots=True)
class Change:
    """One fragment's part of a request: units to add and to remove, sorted."""

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked request and its result; fragments without a change are left out."""

    base_generation: int
    """The generation it was made for; it may be applied to no other."""
    changes: dict[int, Change]
    units: dict[int, tuple[int, ...]]
    """Each changed fragment's units afterwards, sorted."""
    mappings: dict[int, tuple[int, ...] | None]
    """Each changed fragment's unit per vnode afterwards; None for single."""
    moved: dict[int, int]
    """Vnodes that change their unit."""

    @property
    def is_noop(self) -> bool:
        """Whether nothing changes, not even the generation."""
        return not self.changes

    @property
    def generation(self) -> int:
        """The cluster's generation once the plan is committed."""
        return self.base_generation + (not self.is_noop)


def plan_desired(cluster: Cluster, desired: Mapping[int, object], *, expected_generation: int | None = None) -> Plan:
    """Return the plan that gives each fragment its wanted parallelism with the fewest changes, spread over running workers.

    Fragments give up all units on workers that are leaving. Raises `Refused` with the first code that holds.
    """
    _check_cluster(cluster, expected_generation)
    fragments = _by_id(cluster)
    offer = _Offer(cluster)
    changes: dict[int, Change] = {}
    for fragment_id in sorted(desired):
        fragment = _fragment(fragments, fragment_id)
        wanted = _checked_parallelism(cluster, fragment, desired[fragment_id], offer.eligible)
        changes[fragment_id] = offer.spread(fragment, wanted)
    return _plan(cluster, fragments, changes)


def plan_request(cluster: Cluster, request: Mapping[int, Change], *, expected_generation: int | None = None) -> Plan:
    """Return the plan for a request that names its units. Raises `Refused` with the first code that holds."""
    _check_cluster(cluster, expected_generation)
    fragments, worker_of = _by_id(cluster), cluster.worker_of_unit()
    for fragment_id in sorted(request):
        fragment, change = _fragment(fragments, fragment_id), request[fragment_id]
        _check_lists(fragment, change)
        _check_units(fragment, change, worker_of)
        _check_size(cluster, fragment, change)
    return _plan(cluster, fragments, request)


def applied(cluster: Cluster, plan: Plan) -> Cluster:
    """Return the cluster after the plan. Refused with STALE_GENERATION if the plan was made for another generation."""
    check_generation(cluster, plan.base_generation)
    changed = [
        replace(fragment, parallel_units=plan.units[fragment.id], mapping=plan.mappings[fragment.id])
        for fragment in cluster.fragments
        if fragment.id in plan.changes
    ]
    return replace(cluster.with_fragments(changed), generation=plan.generation)


def check_generation(cluster: Cluster, expected: int | None) -> None:
    """Refuse another generation with STALE_GENERATION."""
    if expected is not None and expected != cluster.generation:
        message = f"made for generation {expected}, but the cluster is at {cluster.generation}; read it again"
        raise Refused(Codes.STALE_GENERATION, message)


# Building a plan


def _plan(cluster: Cluster, fragments: Mapping[int, Fragment], changes: Mapping[int, Change]) -> Plan:
    plan = Plan(cluster.generation, {}, {}, {}, {})
    for fragment_id in sorted(changes):
        change = Change(tuple(sorted(changes[fragment_id].added)), tuple(sorted(changes[fragment_id].removed)))
        if change == Change():
            continue
        fragment = fragments[fragment_id]
        units = tuple(sorted((set(fragment.parallel_units) - set(change.removed)) | set(change.added)))
        before = cluster.mapping_of(fragment)
        after = None if before is None else vnodes.remapped(before, units)
        plan.changes[fragment_id] = change
        plan.units[fragment_id] = units
        plan.mappings[fragment_id] = after
        plan.moved[fragment_id] = 0 if before is None or after is None else vnodes.moved_count(before, after)
    return plan


# Spreading a wanted parallelism


class _Offer:
    """The units of running workers, with how many fragments use each. Updated after each fragment that is planned.

    Each worker's units are kept in order of use, so its best unit is found without a search.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._uses = Counter(unit for fragment in cluster.fragments for unit in fragment.parallel_units)
        running = [worker for worker in cluster.workers if worker.state is WorkerState.RUNNING]
        self._worker_of = {unit: at for at, worker in enumerate(running) for unit in worker.parallel_units}
        self._by_use = [sorted((self._uses[unit], unit) for unit in worker.parallel_units) for worker in running]
        self.eligible = len(self._worker_of)
        """Units on running workers: the most a fragment can have."""

    def spread(self, fragment: Fragment, wanted: int) -> Change:
        """Give up units on leaving workers, then add on the emptiest or remove from the fullest worker, one unit at a time.

        Ties go to the unit used by the fewest fragments, then to the lowest id (when removing, the other way round). Fragments
        planned later see these units as used.
        """
        used = set(fragment.parallel_units)
        stay = used & self._worker_of.keys()
        removed = (used - stay) | set(self._fullest(stay, len(stay) - wanted))
        added = self._emptiest(used, stay, wanted - len(stay))
        for units, difference in ((removed, -1), (added, 1)):
            for unit in units:
                self._use(unit, difference)
        return Change(tuple(sorted(added)), tuple(sorted(removed)))

    def _fullest(self, stay: set[int], count: int) -> list[int]:
        if count <= 0:
            return []
        held: dict[int, list[tuple[int, int]]] = {}
        for unit in stay:
            held.setdefault(self._worker_of[unit], []).append((self._uses[unit], unit))
        heap = []
        for units in held.values():
            units.sort()
            uses, unit = units.pop()
            heap.append((-len(units) - 1, -uses, -unit, units))
        heapq.heapify(heap)
        picked: list[int] = []
        while len(picked) < count:
            rank, _, unit, units = heap[0]
            picked.append(-unit)
            if units:
                uses, unit = units.pop()
                heapq.heapreplace(heap, (rank + 1, -uses, -unit, units))
            else:
                heapq.heappop(heap)
        return picked

    def _emptiest(self, used: set[int], stay: set[int], count: int) -> list[int]:
        if count <= 0:
            return []
        held = Counter(map(self._worker_of.__getitem__, stay))
        heap = [
            (held[at], *best, at)
            for at, units in enumerate(self._by_use)
            if (best := next((each for each in units if each[1] not in used), None)) is not None
        ]
        heapq.heapify(heap)
        picked: list[int] = []
        taken = set(used)
        while len(picked) < count:
            have, _, unit, at = heap[0]
            picked.append(unit)
            taken.add(unit)
            best = next((each for each in self._by_use[at] if each[1] not in taken), None)
            if best is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (have + 1, *best, at))
        return picked

    def _use(self, unit: int, difference: int) -> None:
        at, uses = self._worker_of.get(unit), self._uses[unit]
        self._uses[unit] = uses + difference
        if at is not None:
            units = self._by_use[at]
            del units[bisect_left(units, (uses, unit))]
            insort(units, (uses + difference, unit))


# Checks


def _check_cluster(cluster: Cluster, expected_generation: int | None) -> None:
    check_generation(cluster, expected_generation)
    cluster.check()


def _by_id(cluster: Cluster) -> dict[int, Fragment]:
    return {fragment.id: fragment for fragment in cluster.fragments}


def _fragment(fragments: Mapping[int, Fragment], fragment_id: int) -> Fragment:
    fragment = fragments.get(fragment_id)
    if fragment is None:
        raise _refused(Codes.FRAGMENT_NOT_FOUND, fragment_id, "does not exist")
    return fragment


def _checked_parallelism(cluster: Cluster, fragment: Fragment, wanted: object, eligible: int) -> int:
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise _refused(Codes.INVALID_PARALLELISM, fragment.id, f"needs an integer of at least 1, not {wanted!r}")
    if fragment.distribution is Distribution.HASH and wanted > cluster.vnodes:
        message = f"cannot have {wanted} parallel units for {cluster.vnodes} vnodes"
        raise _refused(Codes.INVALID_PARALLELISM, fragment.id, message)
    if fragment.distribution is Distribution.SINGLE and wanted != 1:
        raise _refused(Codes.SINGLETON_SCALE, fragment.id, f"is single and cannot have {wanted} parallel units")
    if wanted > eligible:
        message = f"wants {wanted} parallel units, running workers have {eligible}"
        raise _refused(Codes.NOT_ENOUGH_PARALLEL_UNITS, fragment.id, message)
    return wanted


def _check_lists(fragment: Fragment, change: Change) -> None:
    for units in (change.added, change.removed):
        twice = sorted(unit for unit, count in Counter(units).items() if count > 1)
        if twice:
            raise _refused(Codes.DUPLICATE_PARALLEL_UNIT, fragment.id, f"lists parallel unit {twice[0]} twice")
    both = set(change.added) & set(change.removed)
    if both:
        message = f"both adds and removes parallel unit {min(both)}"
        raise _refused(Codes.CONFLICTING_PARALLEL_UNIT, fragment.id, message)


def _check_units(fragment: Fragment, change: Change, worker_of: Mapping[int, Worker]) -> None:
    added, removed, used = set(change.added), set(change.removed), set(fragment.parallel_units)
    if unknown := (added | removed) - set(worker_of):
        raise _refused(Codes.UNKNOWN_PARALLEL_UNIT, fragment.id, f"names parallel unit {min(unknown)}, which no worker has")
    if foreign := removed - used:
        raise _refused(Codes.NOT_OCCUPIED, fragment.id, f"does not occupy parallel unit {min(foreign)}")
    if taken := added & used:
        raise _refused(Codes.ALREADY_OCCUPIED, fragment.id, f"already occupies parallel unit {min(taken)}")
    leaving = {unit for unit in added if worker_of[unit].state is WorkerState.REMOVED_SOON}
    if leaving:
        message = f"cannot use parallel unit {min(leaving)}: its worker is removed soon"
        raise _refused(Codes.WORKER_REMOVED_SOON, fragment.id, message)


def _check_size(cluster: Cluster, fragment: Fragment, change: Change) -> None:
    if fragment.distribution is Distribution.SINGLE and len(change.added) != len(change.removed):
        raise _refused(Codes.SINGLETON_SCALE, fragment.id, "is single: it can move, not grow or shrink")
    count = len(fragment.parallel_units) + len(change.added) - len(change.removed)
    if count == 0:
        raise _refused(Codes.FRAGMENT_WOULD_BE_EMPTY, fragment.id, "would have no parallel units left")
    if count > cluster.vnodes:
        message = f"would have {count} parallel units for {cluster.vnodes} vnodes"
        raise _refused(Codes.INVALID_PARALLELISM, fragment.id, message)


def _refused(code: RescheduleRefusal, fragment_id: int, problem: str) -> Refused:
    return Refused(code, f"fragment {fragment_id} {problem}", {"fragment": fragment_id})
