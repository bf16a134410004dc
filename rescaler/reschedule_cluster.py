"""Workers, parallel units and the fragments that occupy them (after RisingWave's RFC on fine-grained scaling).

A unit belongs to one worker and holds at most one actor of each fragment; different fragments may share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from contracts.vnodes import DEFAULT_VNODES, uniform_mapping
from rescaler.refusals import Refused


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
