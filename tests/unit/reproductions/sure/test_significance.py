"""The paired statistics: what is paired with what, the correction by hand, and a clear winner found significant."""

import numpy as np
import pytest

from reproductions.sure import significance
from reproductions.sure.environment import JOBS
from reproductions.sure.report import tables
from reproductions.sure.results import Result
from reproductions.sure.significance import Unpaired, compare, holm, pairs_of, signed_rank, table
from reproductions.sure.zscores import VARIANTS

SMALL, SECOND = list(JOBS)[:2]


def result(method: str, job: str, rewards: tuple[float, ...], seed: int = 0) -> Result:
    """Return a result with these rewards, one an offset."""
    same = tuple(0.1 for _ in rewards)
    return Result(
        method=method, job=job, tasks=6, mode="clean", latency_weight=0.5, seed=seed, decisions=167,
        reward=rewards, latency=same, utilisation=same, rescales_per_day=same,
    )  # fmt: skip


def panel(lead: float, jobs: list[str], seeds: int = 1) -> list[Result]:
    """Return all nine on some jobs, SURE ahead of the others by a lead that differs a little from offset to offset."""
    offsets = np.linspace(0.2, 0.3, 10)
    return [
        result(name, job, tuple((offsets + (lead + offsets / 100 + seed / 1000 if name == "SURE" else 0.0)).tolist()), seed)
        for job in jobs
        for name in VARIANTS
        for seed in range(1 if name == "HPA" else seeds)
    ]


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    """By hand: 0.01 x 4, 0.02 x 3, then 0.03 x 2 and 0.05; order as given, at most 1."""
    assert holm([0.05, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_signed_rank_test_of_ten_wins_is_exact() -> None:
    """All ten on one side: two of the 1,024 ways of signs; no difference at all is no evidence."""
    assert signed_rank(np.arange(1.0, 11.0)) == pytest.approx(2 / 1024)
    assert signed_rank(-np.arange(1.0, 11.0)) == pytest.approx(2 / 1024)
    assert signed_rank(np.zeros(10)) == 1.0


def test_pairs_are_of_one_seed_and_one_offset() -> None:
    """Only common seeds count, whatever the order of results; HPA has no seeds and pairs with each."""
    found = [
        result("SURE", SMALL, (0.4, 0.6), 1), result("SURE", SMALL, (0.3, 0.5), 0), result("SURE", SMALL, (9.0, 9.0), 2),
        result("DREAM", SMALL, (0.1, 0.1), 0), result("DREAM", SMALL, (0.2, 0.2), 1), result("HPA", SMALL, (0.25, 0.25)),
    ]  # fmt: skip
    np.testing.assert_allclose(pairs_of(found, SMALL, "DREAM"), [[0.2, 0.4], [0.2, 0.4]])
    assert pairs_of(found, SMALL, "HPA").shape == (3, 2)
    with pytest.raises(Unpaired, match="Small-1: SURE and CCRNN have no training seed in common"):
        pairs_of(found, SMALL, "CCRNN")


def test_a_steady_lead_wins_and_none_is_a_tie() -> None:
    """The interval holds the mean difference; correction over two jobs doubles the exact p."""
    ahead = compare(panel(0.02, [SMALL, SECOND]), [SMALL, SECOND], "CCRNN")
    assert ahead[SMALL].low < ahead[SMALL].difference < ahead[SMALL].high
    assert ahead[SMALL].adjusted == pytest.approx(2 * 2 / 1024)
    assert [one.standing for one in ahead.values()] == [1, 1]
    behind = compare(panel(-0.02, [SMALL]), [SMALL], "HPA")
    assert behind[SMALL].standing == -1
    even = [result(name, SMALL, (0.2, 0.4) if name == "SURE" else (0.3, 0.3)) for name in ("SURE", "HPA")]
    assert compare(even, [SMALL], "HPA")[SMALL].standing == 0


def test_intervals_are_over_seeds_where_there_are_several() -> None:
    """With two seeds 0.001 apart, the interval reaches from one mean to the other, and the text says so."""
    two = compare(panel(0.02, [SMALL], seeds=2), [SMALL], "DREAM")[SMALL]
    assert two.high - two.low == pytest.approx(0.001)
    assert "interval over training seeds" in table(panel(0.02, [SMALL], seeds=2), [SMALL])
    assert "one training seed" in table(panel(0.02, [SMALL]), [SMALL])


def test_the_table_has_a_line_per_rival_and_stands_with_the_others() -> None:
    """Differences with interval and p by job; the report carries it per mode."""
    text = tables(panel(0.02, [SMALL, SECOND]), ("clean",), [SMALL, SECOND])["paper-clean"]
    assert "| w/o MI | **+0.023** [+0.022, +0.023], 0.004 | **+0.023**" in text
    assert "| 2, 0, 0 |" in text
    assert all(f"| {rival} | **" in text for rival in significance.RIVALS)


def test_tables_without_common_seeds_say_so_in_place_of_tests() -> None:
    """SURE's seed 0 and a rival's seed 1 make no pair; the tables of means stay."""
    found = [result(name, SMALL, (0.2, 0.3), 1 if name == "CCRNN" else 0) for name in VARIANTS]
    text = tables(found, ("clean",), [SMALL])["paper-clean"]
    assert "No signed-rank tests yet. Small-1: SURE and CCRNN have no training seed in common" in text
    assert "| z: ours" in text
