"""What a Flink cluster can do, from its version and configuration."""

import re
from collections.abc import Mapping

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.figures import known_count
from surescale.engines.flink.answers import Overview
from surescale.engines.flink.requirements import grows

ADAPTIVE = "jobmanager.adaptive-scheduler."
COOLDOWN_KEYS = (ADAPTIVE + "executing.cooldown-after-rescaling", ADAPTIVE + "scaling-interval.min")
"""The newer name first; Flink reads both."""
STABILIZATION_KEYS = (ADAPTIVE + "executing.resource-stabilization-timeout",)
OLD_STABILIZATION_KEYS = (ADAPTIVE + "resource-stabilization-timeout",)
COOLDOWN_MS = 30_000
STABILIZATION_MS = 60_000
OLD_STABILIZATION_MS = 10_000
"""Flink's defaults; the last before 2.0."""
_DURATION = re.compile(r"(\d+)\s*([a-zµ]*)")
_UNITS_MS: Mapping[str, float] = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 0.001),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 0.000_001),
}


def is_adaptive(configuration: Mapping[str, str]) -> bool:
    """Say whether jobs run under the adaptive scheduler, which can change their parallelism while they run."""
    return configuration.get("jobmanager.scheduler", "").lower() == "adaptive" or is_reactive(configuration)


def is_reactive(configuration: Mapping[str, str]) -> bool:
    """Say whether Flink uses all slots there are, and nobody may ask for less."""
    return configuration.get("scheduler-mode", "").lower() == "reactive"


def capabilities_of(overview: Overview, configuration: Mapping[str, str]) -> Capabilities:
    """Return what a cluster can do. In reactive mode, and without the adaptive scheduler, it can only be watched."""
    can_act = is_adaptive(configuration) and not is_reactive(configuration)
    return Capabilities(
        engine="flink",
        version=overview.flink_version,
        acts="counts" if can_act else "none",
        scope="task",
        places="itself",
        takes_part="as many as fit",
        grows_hosts=grows(configuration),
        takes_effect="restart" if is_before_2(overview.flink_version) else "checkpoint",
        cooldown_ms=_first_ms(configuration, COOLDOWN_KEYS, COOLDOWN_MS),
        stabilization_ms=_stabilization_ms(overview.flink_version, configuration),
        remembers="requirement",
        can_withdraw=can_act,
        can_checkpoint_now=True,
    )


def is_before_2(version: str) -> bool:
    """Say whether a version rescales at once, and not at the next checkpoint (FLIP-461, FLIP-472)."""
    return version.startswith("1.")


def duration_ms(text: str) -> int | None:
    """Return a duration as Flink writes it (``30 s``, ``1min``, ``500``) in milliseconds; None if it is none."""
    found = _DURATION.fullmatch(text.strip().lower())
    unit, number = (_UNITS_MS.get(found[2]), known_count(found[1])) if found else (None, None)
    return None if number is None or unit is None else known_count(number * unit)


def _stabilization_ms(version: str, configuration: Mapping[str, str]) -> int:
    if is_before_2(version):
        return _first_ms(configuration, OLD_STABILIZATION_KEYS, OLD_STABILIZATION_MS)
    return _first_ms(configuration, STABILIZATION_KEYS, STABILIZATION_MS)


def _first_ms(configuration: Mapping[str, str], keys: tuple[str, ...], default_ms: int) -> int:
    known = (duration_ms(configuration[key]) for key in keys if key in configuration)
    return next((each for each in known if each is not None), default_ms)
