"""The conditions a figure was taken under: seed, processor, cores, load, Python. Also the peak memory of this process."""

import os
import platform
import resource
from pathlib import Path
from typing import TypedDict


class Conditions(TypedDict):
    """What a figure depends on besides the code."""

    seed: int | None
    processor: str
    cores: int | None
    load_average: list[float]
    python: str


def conditions(seed: int | None = None) -> Conditions:
    """Return the conditions now; ``seed`` is None where nothing is random."""
    return {
        "seed": seed,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
    }


def conditions_line(found: Conditions) -> str:
    """Return the conditions as one line of text."""
    seed = "no randomness" if found["seed"] is None else f"seed {found['seed']}"
    load = " ".join(f"{value:.2f}" for value in found["load_average"])
    return f"{found['processor']}, {found['cores']} cores, load average {load}, Python {found['python']}, {seed}"


def peak_mebibytes() -> float:
    """Return the peak memory of this process.

    Reads /proc where it can: the maximum of getrusage is inherited from the parent process.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
