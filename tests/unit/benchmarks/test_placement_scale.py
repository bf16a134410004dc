"""The benchmark of placement at scale: what it measures is what it says, at sizes that take no time."""

import pytest

from benchmarks.placement_scale import excess, growth_plot, growth_table, instance, measure_apart, variant


def test_excess_is_free_cores_and_dearer_hosts():
    """The excess over the bound splits into its causes; the configuration bound is at least the covering bound."""
    for name in ("cetsa", "lba-ce"):
        found = excess(variant(instance("four shapes", 200, 20), name))
        assert 0 <= found.above_configurations <= found.above + 1e-9
        assert found.free >= 0
        assert found.dearer >= -1e-9
        assert found.above <= (1 + found.free) * (1 + found.dearer) - 1 + 0.02


def test_a_variant_is_measured_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch):
    """Seconds, its own peak memory, and rent above the bound."""
    found = measure_apart("cetsa", "equal demands")
    assert 0 < found["seconds"] < 30
    assert 10 < found["megabytes"] < 500
    assert 0 <= found["gap"] < 0.01


def test_growth_is_told_per_m_log_n():
    """A thousand subtasks on a hundred hosts in a millisecond."""
    found = {"cetsa": [(1000, 128, 0.007)], "lba-ce": [(1000, 128, 0.014)]}
    assert "| 1,000 x 128 | 0.007 s, 1.00 | 0.014 s, 2.00 |" in growth_table(found)
    assert all(f">{name}</text>" in growth_plot(found) for name in found)
