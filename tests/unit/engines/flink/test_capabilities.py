"""What a cluster can do, from its version and configuration."""

import pytest

from surescale.engines.flink.answers import Overview
from surescale.engines.flink.capabilities import capabilities_of, duration_ms

NEW = Overview(flink_version="2.3.0", taskmanagers=1, slots_total=4, slots_available=4)
OLD = Overview(flink_version="1.20.5", taskmanagers=1, slots_total=4, slots_available=4)
ADAPTIVE = {"jobmanager.scheduler": "adaptive"}


def test_a_cluster_with_the_adaptive_scheduler_takes_counts() -> None:
    """With Flink's defaults, which differ between versions."""
    new, old = capabilities_of(NEW, ADAPTIVE), capabilities_of(OLD, ADAPTIVE)
    assert (new.acts, new.places, new.takes_part, new.can_withdraw) == ("counts", "itself", "as many as fit", True)
    assert (new.version, new.takes_effect, new.cooldown_ms, new.stabilization_ms) == ("2.3.0", "checkpoint", 30_000, 60_000)
    assert (old.version, old.takes_effect, old.cooldown_ms, old.stabilization_ms) == ("1.20.5", "restart", 30_000, 10_000)
    assert not new.is_simulated


@pytest.mark.parametrize("configuration", [{}, {"jobmanager.scheduler": "default"}, ADAPTIVE | {"scheduler-mode": "REACTIVE"}])
def test_any_other_cluster_is_only_watched(configuration: dict[str, str]) -> None:
    """The default scheduler, and reactive mode."""
    can = capabilities_of(NEW, configuration)
    assert (can.acts, can.can_withdraw) == ("none", False)


def test_the_configuration_is_believed() -> None:
    """Under the new name of a key, and under the old one."""
    keys = {
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "2min",
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "5 s",
        "kubernetes.cluster-id": "orders",
    }
    can = capabilities_of(NEW, ADAPTIVE | keys)
    assert (can.cooldown_ms, can.stabilization_ms, can.grows_hosts) == (120_000, 5_000, True)
    assert capabilities_of(NEW, ADAPTIVE | {"jobmanager.adaptive-scheduler.scaling-interval.min": "7 s"}).cooldown_ms == 7_000


@pytest.mark.parametrize(
    ("text", "ms"), [("30 s", 30_000), ("1min", 60_000), ("500", 500), ("2 h", 7_200_000), ("PT30S", None), ("5 weeks", None)]
)
def test_durations_are_read_as_flink_writes_them(text: str, ms: int | None) -> None:
    """What is not a duration counts as not set."""
    assert duration_ms(text) == ms
