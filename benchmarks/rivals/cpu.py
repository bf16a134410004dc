"""CPU that worker processes use, as Kubernetes' metrics server tells it of pods: the mean between two looks."""

import contextlib
import sys
import time
from collections.abc import Iterable

import psutil


class CpuMeter:
    """Looks at processes every now and then."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, float]] = {}

    def cores(self, pids: Iterable[int]) -> dict[int, float | None]:
        """Return the cores that each process has used since the last look; None: it is looked at for the first time."""
        now: dict[int, tuple[float, float]] = {}
        for pid in pids:
            with contextlib.suppress(OSError, psutil.Error):  # it ended a moment ago
                now[pid] = (time.monotonic(), _cpu_s(pid))
        found = {pid: _mean(self._before.get(pid), seen) for pid, seen in now.items()}
        self._before = now
        return found


def _mean(before: tuple[float, float] | None, now: tuple[float, float]) -> float | None:
    return None if before is None else max(0.0, now[1] - before[1]) / max(1e-9, now[0] - before[0])


def _cpu_s(pid: int) -> float:
    if sys.platform == "linux":
        # clock_getcpuclockid(3). psutil counts in ticks of 10 ms, which is coarse for workers that use a twentieth of a core.
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)
