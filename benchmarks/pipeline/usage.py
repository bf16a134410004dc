"""Processor time and memory of the processes that a benchmark has started, by kind of process."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

# The kind of a process, by words of its command line; the first match counts.
_KINDS = (
    ("kafka.Kafka", "broker"),
    ("org.apache.spark.executor", "spark_executors"),
    ("org.apache.spark", "spark_jvm"),
    ("worker_daemon", "spark_workers"),
    ("surescale.services.cli run spark", "spark_driver"),
    ("surescale.services.cli run agent", "agent"),
    ("surescale.services.cli run state-service", "projector"),
    ("surescale.services.cli run monitor", "monitor"),
    ("surescale.services.cli run engine", "engine"),
    ("surescale.services.cli run rescaler", "rescaler"),
    ("redis-server", "redis"),
)


def processor_s() -> dict[str, float]:
    """Return the processor seconds used so far, by kind of process; ``generator`` is this process."""
    import psutil

    used = {"generator": _seconds(psutil.Process())}
    for kind, process in _processes():
        with contextlib.suppress(psutil.Error):
            used[kind] = used.get(kind, 0.0) + _seconds(process)
    return used


def memory_mb() -> dict[str, float]:
    """Return the memory in use, by kind of process; a page that several processes share counts once, in parts.

    Where the system does not tell that (only Linux does), what each process has to itself.
    """
    import psutil

    used: dict[str, float] = {}
    for kind, process in _processes():
        with contextlib.suppress(psutil.Error):
            found = process.memory_full_info()
            used[kind] = used.get(kind, 0.0) + getattr(found, "pss", found.uss) / 1e6
    return {kind: round(megabytes, 1) for kind, megabytes in sorted(used.items())}


def cores_used(before: Mapping[str, float], after: Mapping[str, float], wall_s: float) -> dict[str, float]:
    """Return how many cores each kind of process kept busy between two readings."""
    shares = {kind: (after[kind] - before.get(kind, 0.0)) / wall_s for kind in after}
    return {kind: round(share, 2) for kind, share in sorted(shares.items(), key=lambda pair: -pair[1]) if share >= 0.005}


def _processes() -> Iterator[tuple[str, "psutil.Process"]]:
    """Yield the children of this process that are of a kind, and what these have started themselves."""
    import psutil

    kinds: dict[int, str] = {}
    for process in psutil.Process().children(recursive=True):  # parents come first
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if "process_group.py" in words:  # only waits for the role that it has started
                continue
            own = next((kind for word, kind in _KINDS if word in words), None)
            if (kind := own or kinds.get(process.ppid())) is not None:
                kinds[process.pid] = kind
                yield kind, process


def _seconds(process: "psutil.Process") -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
