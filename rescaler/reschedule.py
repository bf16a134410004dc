"""Which parallel units shall run each fragment, and which vnodes move: from wishes to one checked plan.

`plan_desired` spreads a wanted parallelism over the workers; `plan_request` takes named units as they are. Both answer
with a `Plan`, which `applied` turns into the next generation of the cluster. After RisingWave's RescheduleFragmentRequest.
What it does not do: touch a cluster, or carry the plan out (`reschedule_steps`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from rescaler import vnodes
from rescaler.refusals import Refused
from rescaler.reschedule_cluster import Cluster, Distribution, Fragment, Worker, WorkerState


class RescheduleRefusal(StrEnum):
    """Why a reschedule was refused, in the order of the checks (after the document itself was read)."""

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
    """One fragment's part of a request: sorted units that come and go."""

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked request with what it leads to; fragments without a change are not in it."""

    base_generation: int
    """The generation it was made for, and the only one it may be applied to."""
    changes: dict[int, Change]
    units: dict[int, tuple[int, ...]]
    """Each changed fragment's sorted units afterwards."""
    mappings: dict[int, tuple[int, ...] | None]
    """Each changed fragment's unit per vnode afterwards; None for single."""
    moved: dict[int, int]
    """Vnodes that change their unit."""

    @property
    def is_noop(self) -> bool:
        """Nothing changes; the generation stays."""
        return not self.changes

    @property
    def generation(self) -> int:
        """The cluster's generation once the plan is committed."""
        return self.base_generation + (not self.is_noop)


def plan_desired(cluster: Cluster, desired: Mapping[int, object], *, expected_generation: int | None = None) -> Plan:
    """The plan that gives each fragment its wanted parallelism with the fewest changes, spread over running workers.

    All units on workers that go soon are given up. Raises `Refused` with the first code of `RescheduleRefusal` that holds.
    """
    _check_cluster(cluster, expected_generation)
    changes: dict[int, Change] = {}
    after = cluster
    for fragment_id in sorted(desired):
        fragment = _found(cluster, fragment_id)
        wanted = _checked_parallelism(cluster, fragment, desired[fragment_id])
        change = _spread(after, fragment, wanted)
        after = after.with_fragments([_changed(fragment, change)])
        changes[fragment_id] = change
    return _plan(cluster, changes)


def plan_request(cluster: Cluster, request: Mapping[int, Change], *, expected_generation: int | None = None) -> Plan:
    """The plan of a request that names its units itself. Raises `Refused` with the first code that holds."""
    _check_cluster(cluster, expected_generation)
    worker_of = cluster.worker_of_unit()
    for fragment_id in sorted(request):
        fragment, change = _found(cluster, fragment_id), request[fragment_id]
        _check_lists(fragment, change)
        _check_units(fragment, change, worker_of)
        _check_size(cluster, fragment, change)
    return _plan(cluster, request)


def applied(cluster: Cluster, plan: Plan) -> Cluster:
    """The cluster after the plan's commit. Refused with STALE_GENERATION if it was made for another generation."""
    check_generation(cluster, plan.base_generation)
    changed = [
        replace(fragment, parallel_units=plan.units[fragment.id], mapping=plan.mappings[fragment.id])
        for fragment in cluster.fragments
        if fragment.id in plan.changes
    ]
    return replace(cluster.with_fragments(changed), generation=plan.generation)


def check_generation(cluster: Cluster, expected: int | None) -> None:
    """Refuse with STALE_GENERATION what was made for another generation."""
    if expected is not None and expected != cluster.generation:
        message = f"made for generation {expected}, the cluster is at {cluster.generation}; read it again"
        raise Refused(Codes.STALE_GENERATION, message)


# Building a plan


def _plan(cluster: Cluster, changes: Mapping[int, Change]) -> Plan:
    plan = Plan(cluster.generation, {}, {}, {}, {})
    for fragment_id in sorted(changes):
        change = Change(tuple(sorted(changes[fragment_id].added)), tuple(sorted(changes[fragment_id].removed)))
        if change == Change():
            continue
        fragment = _found(cluster, fragment_id)
        units = _changed(fragment, change).parallel_units
        before = cluster.mapping_of(fragment)
        after = None if before is None else vnodes.remapped(before, units)
        plan.changes[fragment_id] = change
        plan.units[fragment_id] = units
        plan.mappings[fragment_id] = after
        plan.moved[fragment_id] = 0 if before is None or after is None else vnodes.moved_count(before, after)
    return plan


def _changed(fragment: Fragment, change: Change) -> Fragment:
    units = (set(fragment.parallel_units) - set(change.removed)) | set(change.added)
    return replace(fragment, parallel_units=tuple(sorted(units)), mapping=None)


# Spreading a wanted parallelism


def _spread(cluster: Cluster, fragment: Fragment, wanted: int) -> Change:
    """Give up what leaves soon, then add on the emptiest or remove from the fullest worker, one unit at a time."""
    used = set(fragment.parallel_units)
    running = [worker for worker in cluster.workers if worker.state is WorkerState.RUNNING]
    stay = used & {unit for worker in running for unit in worker.parallel_units}
    occupation = Counter(unit for other in cluster.fragments for unit in other.parallel_units)
    removed = _picked(running, stay, len(stay) - wanted, occupation, adding=False)
    added = _picked(running, used, wanted - len(stay), occupation, adding=True)
    return Change(tuple(sorted(added)), tuple(sorted((used - stay) | set(removed))))


_Offer = tuple[int, int, int, list[tuple[int, int]]]
"""A worker in the heap: units held, then its best unit (occupation, id), then the others; signs turned for removing."""


def _picked(running: list[Worker], used: set[int], count: int, occupation: Counter[int], *, adding: bool) -> list[int]:
    """``count`` units, each from the worker that has fewest (adding) or most (removing) units of the fragment.

    Ties go to the unit with the lowest occupation, then the lowest id (removing: the highest).
    """
    sign = 1 if adding else -1
    heap: list[_Offer] = []
    for worker in running:
        held = sum(unit in used for unit in worker.parallel_units)
        offered = [(sign * occupation[unit], sign * unit) for unit in worker.parallel_units if (unit in used) != adding]
        if offered:
            offered.sort(reverse=True)
            heap.append((sign * held, *offered.pop(), offered))
    heapq.heapify(heap)
    picked: list[int] = []
    while len(picked) < count:
        held, _, unit, offered = heapq.heappop(heap)
        picked.append(sign * unit)
        if offered:
            heapq.heappush(heap, (held + 1, *offered.pop(), offered))
    return picked


# Checks


def _check_cluster(cluster: Cluster, expected_generation: int | None) -> None:
    check_generation(cluster, expected_generation)
    cluster.check()


def _found(cluster: Cluster, fragment_id: int) -> Fragment:
    fragment = cluster.fragment(fragment_id)
    if fragment is None:
        raise _refused(Codes.FRAGMENT_NOT_FOUND, fragment_id, "does not exist")
    return fragment


def _checked_parallelism(cluster: Cluster, fragment: Fragment, wanted: object) -> int:
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise _refused(Codes.INVALID_PARALLELISM, fragment.id, f"needs an integer of at least 1, not {wanted!r}")
    if fragment.distribution is Distribution.HASH and wanted > cluster.vnodes:
        message = f"cannot have {wanted} parallel units for {cluster.vnodes} vnodes"
        raise _refused(Codes.INVALID_PARALLELISM, fragment.id, message)
    if fragment.distribution is Distribution.SINGLE and wanted != 1:
        raise _refused(Codes.SINGLETON_SCALE, fragment.id, f"is single and cannot have {wanted} parallel units")
    eligible = sum(len(w.parallel_units) for w in cluster.workers if w.state is WorkerState.RUNNING)
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
        raise _refused(Codes.UNKNOWN_PARALLEL_UNIT, fragment.id, f"names parallel unit {min(unknown)} of no worker")
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
