"""The first sentence of a decision: what happened and what is done, in figures that an operator knows. Decides nothing."""

from collections.abc import Sequence

import numpy as np

from surescale.contracts.decisions import LoadOutlook
from surescale.contracts.plurals import counted
from surescale.policies.answer import Float64
from surescale.policies.graph import Bool, Int64

LOAD_CHANGES = 0.1  # share of the present load by which the expected one must differ to be called another
AS_BUSY = 0.05  # of its time; tasks that are less busy by more are not named with the busiest
NAME_MAX = 40  # letters of a task's name; SQL makes names of a hundred and more


def headline(
    names: Sequence[str],
    scalable: Bool,
    sizes: tuple[Int64, Int64],
    figures: tuple[Float64, Float64],
    load: float,
    outlook: LoadOutlook | None,
) -> str:
    """Return who is how busy, what waits, where the load goes, and the subtasks before and after; each unknown one as such.

    ``names``: [N], for people. ``sizes``: the present and the desired ones, [N]. ``figures``: the share of its time that each
    task [N] was busy, and how many records wait for it. ``load``: records a minute now. NaN or infinite: unknown.
    """
    current, desired = sizes
    busy, waiting = (np.where(np.isfinite(each), each, np.nan) for each in figures)
    load = load if np.isfinite(load) else np.nan
    names = [name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1].rstrip()}…" for name in names]
    grows = scalable & (desired > current)
    meant = grows if grows.any() else scalable
    words = _busy(names, meant, busy) if grows.any() else _busiest(names, meant, busy)
    return f"{words}, {_waiting(waiting[meant])}, {_load(load, outlook)}: {_subtasks(scalable, current, desired)}."


def _busy(names: Sequence[str], grows: Bool, busy: Float64) -> str:
    order = [int(at) for at in np.argsort(-np.nan_to_num(busy, nan=-1.0), kind="stable") if grows[at]]
    order = [at for at in order if busy[at] >= busy[order[0]] - AS_BUSY] or order  # all of them where none is known
    known = [float(busy[at]) for at in order if not np.isnan(busy[at])]
    more = f" and {len(order) - 1} more" if len(order) > 1 else ""
    if not known:
        return f"Nobody knows how busy {names[order[0]]}{more} {'are' if more else 'is'}"
    low, high = f"{min(known):.0%}", f"{max(known):.0%}"
    share = high if low == high else f"{low[:-1]}-{high}"
    return f"{names[order[0]]}{more} {'are' if more else 'is'} {share} busy"


def _busiest(names: Sequence[str], scalable: Bool, busy: Float64) -> str:
    tasks = int(scalable.sum())
    if not tasks:
        return "No task can have another size"
    known = scalable & ~np.isnan(busy)
    if not known.any():
        only = names[int(np.argmax(scalable))]
        return f"Nobody knows how busy {only if tasks == 1 else 'the tasks'} {'is' if tasks == 1 else 'are'}"
    busiest = int(np.argmax(np.where(known, busy, -1.0)))
    which = "" if tasks == 1 else f", the busiest of {tasks} tasks," if known.sum() == tasks else ", the busiest that is known,"
    return f"{names[busiest]}{which} is {busy[busiest]:.0%} busy"


def _waiting(waiting: Float64) -> str:
    """Return the most records that are known to wait for one of the tasks."""
    if not len(waiting) or np.isnan(waiting).all():
        return "how many records wait is unknown"
    most = round(float(np.nanmax(waiting)))
    if most == 0:
        return "no record waits" if not np.isnan(waiting).any() else "no record is known to wait"
    return f"{most:,} record{' waits' if most == 1 else 's wait'}"


def _load(load: float, outlook: LoadOutlook | None) -> str:
    if np.isnan(load):
        return "the load is unknown"
    if outlook is None:
        return f"{_rate(load)} record{' comes' if load == 1 else 's come'} a minute"
    low, high, hours = min(outlook.means), max(outlook.means), len(outlook.means) * outlook.stage_minutes / 60.0
    within = f"within {hours:g} hour{'s' * (hours != 1)}"
    if high > (1.0 + LOAD_CHANGES) * load:
        return f"load rises from {_rate(load)} to about {_rate(high)} a minute {within}"
    if low < (1.0 - LOAD_CHANGES) * load:
        return f"load falls from {_rate(load)} to about {_rate(low)} a minute {within}"
    return f"load stays about {_rate(load)} a minute"


def _rate(load: float) -> str:
    return f"{load:,.0f}" if load >= 10.0 or load == 0.0 else f"{load:.2g}"


def _subtasks(scalable: Bool, current: Int64, desired: Int64) -> str:
    before, after, tasks = int(current[scalable].sum()), int(desired[scalable].sum()), int(scalable.sum())
    changed = int((scalable & (desired != current)).sum())
    if not changed:
        return f"{counted(before, 'subtask')} stay{'s' * (before == 1)}"
    return f"{before} -> {counted(after, 'subtask')}" + (f" in {changed} of {tasks} tasks" if changed < tasks else "")
