"""Under which conditions figures were taken: seed, processor, cores, load, Python; and the greatest memory of this process."""

import os
import platform
import resource
from pathlib import Path
from typing import Any


def conditions(seed: int | None = None) -> dict[str, Any]:
    """Return what figures depend on beside the code, for a report in JSON. ``seed`` is None where nothing is drawn."""
    return {
        "seed": seed,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
    }


def conditions_line(found: dict[str, Any]) -> str:
    """Return the same as one line for people."""
    seed = "no randomness" if found["seed"] is None else f"seed {found['seed']}"
    load = " ".join(f"{value:.2f}" for value in found["load_average"])
    return f"{found['processor']}, {found['cores']} cores, load average {load}, Python {found['python']}, {seed}"


def peak_mebibytes() -> float:
    """Return the greatest memory that this process has held.

    Not getrusage's maximum where that can be helped: a child inherits that of the process which started it.
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
