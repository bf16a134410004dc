"""How a job did after each step of the load: how soon nothing waited any more, at what size, with how many rescales. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

SETTLED_S: Final = 3.0
"""A job has settled once less waits than comes in so many seconds, and stays so until the next step."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A job from one step of the load to the next.

    Attributes:
        from_s: second of the run at which the load changed.
        factor: of the load, from then on.
        records_per_s: mean load.
        settled_s: from the step until the job had settled; null: it never did.
        backlog_record_seconds: the records that waited, summed over the seconds.
        size_minutes: subtasks or members, summed over the time.
        rescales: that were seen to take effect.
    """

    from_s: float
    factor: float
    records_per_s: float
    settled_s: float | None
    backlog_record_seconds: int
    size_minutes: float
    rescales: int


@dataclass(frozen=True, slots=True)
class Observation:
    """A job as it was seen at one second of the run: what waited, its size, and how often that had changed."""

    at_s: float
    backlog: int
    size: int
    changes: int


def phases_of(
    looks: Sequence[Observation], steps: Sequence[tuple[float, float]], per_second: npt.NDArray[np.float64]
) -> tuple[Phase, ...]:
    """Return a job's phases.

    Args:
        looks: by time.
        steps: second and factor of each; before the first, the factor is 1.
        per_second: records in each second of the run.
    """
    steps = [(0.0, 1.0), *steps] if not steps or steps[0][0] > 0 else list(steps)
    ends = [*(at_s for at_s, _ in steps[1:]), np.inf]
    return tuple(
        _phase([look for look in looks if at_s <= look.at_s < end_s], at_s, end_s, factor, looks, per_second)
        for (at_s, factor), end_s in zip(steps, ends, strict=True)
    )


def _phase(
    own: Sequence[Observation],
    at_s: float,
    end_s: float,
    factor: float,
    looks: Sequence[Observation],
    per_second: npt.NDArray[np.float64],
) -> Phase:
    load = per_second[int(at_s) : int(min(end_s, len(per_second)))]
    rate = float(load.mean()) if len(load) else 0.0
    waiting = [look.at_s for look in own if look.backlog > SETTLED_S * rate]
    after = next((look.at_s for look in own if not waiting or look.at_s > waiting[-1]), None)
    took_s = np.diff([look.at_s for look in own], append=own[-1].at_s) if own else np.zeros(0)
    before = next((look.changes for look in reversed(looks) if look.at_s < at_s), own[0].changes if own else 0)
    return Phase(
        from_s=round(at_s, 1),
        factor=factor,
        records_per_s=round(rate, 1),
        settled_s=None if after is None else round(after - at_s if waiting else 0.0, 1),
        backlog_record_seconds=round(float(took_s @ [look.backlog for look in own])) if own else 0,
        size_minutes=round(float(took_s @ [look.size for look in own]) / 60, 1) if own else 0.0,
        rescales=(own[-1].changes if own else before) - before,
    )
