"""Under which conditions figures were taken: seed, processor, cores, load, Python. Measures nothing itself."""

import os
import platform
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


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
