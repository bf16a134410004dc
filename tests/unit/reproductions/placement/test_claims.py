"""The paper's comparison: hosts, ranking, the table of deviations, the orderings, and the documentation page."""

import re
from dataclasses import replace
from math import comb
from pathlib import Path
from statistics import linear_regression

import pytest
from click.testing import CliRunner

from benchmarks.markdown import PageRejected
from reproductions.placement.claims import CLAIMS, change
from reproductions.placement.command import command
from reproductions.placement.evaluation import compare
from reproductions.placement.paper import FIGURE_9_HOSTS, JOBS, NETWORK, RANKING, TIMES_S, cluster, mean_time_change
from surescale.rescaler.placement import ALGORITHMS, PlaceRequest, place
from surescale.rescaler.placement.problem import problem_of

PAGE = Path(__file__).parents[4] / "docs" / "notebook" / "placement.md"


@pytest.fixture(scope="module")
def results():
    """Every algorithm on W1 and W2 on the paper's cluster."""
    return {
        job: {each.label: each for each in compare(PlaceRequest("cetsa", cluster(), *JOBS[job], NETWORK), ALGORITHMS)}
        for job in JOBS
    }


@pytest.fixture(scope="module")
def figures(results):
    """The figures of every algorithm, by job."""
    return {job: {label: each.figures for label, each in found.items()} for job, found in results.items()}


def test_table_3_ranks_hosts_by_cost_efficiency():
    """Observed price per share gives the printed order."""
    request = PlaceRequest("cetsa", cluster(with_history=True), *JOBS["W1"])
    assert tuple(request.hosts[at].id for at in problem_of(request).by_efficiency) == RANKING


def test_figure_9_has_four_subtasks_on_five_hosts():
    """CETSA uses m2, m3, m4, l1 and l3 for 20 subtasks, at 0.016973 $/s."""
    answer = place(PlaceRequest("cetsa", cluster(with_history=True), *JOBS["W1"]))
    used = {host.id: use.subtasks for host, use in zip(answer.request.hosts, answer.hosts, strict=True) if use.subtasks}
    assert used == dict.fromkeys(FIGURE_9_HOSTS, 4)
    assert answer.cost.resource_per_s == pytest.approx(0.016973)


@pytest.mark.parametrize(
    ("label", "std", "std_used", "rent", "slow"),
    [
        ("default", 0.171, 0.161, 53.4, 1.02),
        ("rr", 0.136, 0.136, 57.8, 1.00),
        ("gs-bfd", 0.398, 0.216, 17.0, 1.25),
        ("cetsa", 0.398, 0.216, 17.0, 1.25),
        ("lba-ce", 0.298, 0.131, 21.8, 1.00),
        ("lba-ce spread", 0.282, 0.102, 21.8, 1.00),
    ],
)
def test_w1_gives_the_known_figures(figures, label, std, std_used, rent, slow):
    """Deviation over all and over used hosts, rent and slow-down of 20 equal subtasks."""
    one = figures["W1"][label]
    assert (round(one.std, 3), round(one.std_used, 3)) == (std, std_used)
    assert (round(one.rent * 1e3, 1), round(one.slow, 2)) == (rent, slow)


def test_default_agrees_with_the_closed_form(results):
    """Expected rent = price of all hosts x (1 - C(40, 20) / C(44, 20)), within three standard errors."""
    default = results["W1"]["default"]
    expected = sum(host.price for host in cluster()) * (1 - comb(40, 20) / comb(44, 20))
    assert abs(default.figures.rent - expected) < 3 * default.rent_error


@pytest.mark.parametrize("job", ["W1", "W2"])
def test_rent_is_ordered(figures, job):
    """CETSA <= LBA-CE < Default <= RR, and CETSA <= GS-BFD."""
    one = figures[job]
    assert one["cetsa"].rent <= one["lba-ce"].rent < one["default"].rent <= one["rr"].rent
    assert one["cetsa"].rent <= one["gs-bfd"].rent


def test_deviation_over_used_hosts_is_ordered(figures):
    """W1: LBA-CE spread < LBA-CE < RR < Default < CETSA."""
    order = ["lba-ce spread", "lba-ce", "rr", "default", "cetsa"]
    deviations = [figures["W1"][label].std_used for label in order]
    assert deviations == sorted(set(deviations))


@pytest.mark.parametrize("job", ["W1", "W2"])
def test_deviation_over_all_hosts_is_least_for_round_robin(figures, job):
    """A cheap placement leaves hosts empty, and empty hosts count as uneven."""
    assert min(figures[job], key=lambda label: figures[job][label].std) == "rr"


def test_cost_with_slow_down_is_as_computed(figures):
    """W1: CETSA 0.0212, LBA-CE 0.0218, Default 0.0546, RR 0.0578 $/s."""
    costs = [round(figures["W1"][label].cost, 4) for label in ("cetsa", "lba-ce", "default", "rr")]
    assert costs == [0.0212, 0.0218, 0.0546, 0.0578]


def test_cetsa_sends_less_than_default_and_round_robin(figures):
    """W2, interleaved: about 12 % less between hosts."""
    one = figures["W2"]
    for other in ("default", "rr"):
        assert one["cetsa"].traffic / one[other].traffic - 1 == pytest.approx(-0.12, abs=0.01)


def test_run_time_of_lba_ce_is_that_of_round_robin_and_below_cetsa(figures):
    """W1: no host of LBA-CE or RR is above 80 %, hosts of CETSA are."""
    lba, rr, cetsa = (figures["W1"][label].time_s(1e7, 6e4) for label in ("lba-ce", "rr", "cetsa"))
    assert lba == rr < cetsa


def test_the_papers_time_percentages_are_means_over_its_rows():
    """11.9, 9.2, 7.1 and 7.5, 13.9, 17.8 % come out of Tables 5 and 6."""
    changes = [
        round(100 * mean_time_change(job, "lba-ce", other), 1) for job in ("W1", "W2") for other in ("default", "gs-bfd", "cetsa")
    ]
    assert changes == [-11.9, -9.2, -7.1, -7.5, -13.9, -17.8]


def test_every_claim_has_a_figure_and_a_reason(results):
    """No claim is left without our number or an explanation."""
    assert all(change(claim, results[claim.job]) > -1 and claim.reason for claim in CLAIMS)


def test_page_and_plots_are_what_the_command_writes(tmp_path):
    """The notebook's page and plots are up to date with `surescale dev bench placement --page`; the page has every plot."""
    page = tmp_path / PAGE.name
    page.write_text(
        re.sub("(begin -->).*?(<!-- bench-placement: end)", r"\1 \2", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    )
    done = CliRunner().invoke(command, ["--page", str(page)], catch_exceptions=False)
    assert done.exit_code == 0
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    drawn = sorted((tmp_path / "figures").iterdir())
    assert len(drawn) == 3
    for plot in drawn:
        assert plot.read_bytes() == (PAGE.parent / "figures" / plot.name).read_bytes()
        assert f"(figures/{plot.name})" in page.read_text(encoding="utf-8")
    assert (PAGE.parent / "figures" / "placement-growth.svg").exists()


@pytest.mark.parametrize("label", ["default", "rr", "cetsa"])
def test_a_shuffle_crosses_hosts_as_computed(figures, label):
    """W1's 20 subtasks: 0.884 of a pure shuffle for Default, 0.905 for RR, 0.800 for CETSA."""
    known = {"default": 0.884, "rr": 0.905, "cetsa": 0.800}
    assert figures["W1"][label].crossing == pytest.approx(known[label], abs=0.001)


def test_with_24_subtasks_the_claimed_reduction_is_the_ratio():
    """Rent times Table 5's last row: CETSA over RR is 0.410, over Default (in closed form) 0.373, as the claimed 37.3 %."""
    tasks = (replace(JOBS["W1"][0][0], parallelism=24),)
    rents = {label: place(PlaceRequest(label, cluster(), tasks)).cost.resource_per_s for label in ("cetsa", "rr")}
    rents["default"] = sum(host.price for host in cluster()) * (1 - comb(40, 24) / comb(44, 24))
    costs = {label: rent * TIMES_S["W1"][label][-1] for label, rent in rents.items()}
    assert round(costs["cetsa"] / costs["rr"], 3) == 0.410
    assert round(costs["cetsa"] / costs["default"], 3) == pytest.approx(0.373, abs=0.001)


@pytest.mark.parametrize(
    ("job", "known"),
    [
        ("W1", {"lba-ce": 56.3, "rr": 55.2, "cetsa": 50.4, "gs-bfd": 48.3, "default": 47.6}),
        ("W2", {"rr": 57.1, "lba-ce": 54.4, "default": 52.1, "gs-bfd": 46.5, "cetsa": 45.1}),
    ],
)
def test_the_papers_times_imply_these_throughputs(job, known):
    """Slopes of Tables 5 and 6, least squares, in thousand records a second: they contradict two of the paper's claims."""
    for label, thousands in known.items():
        slope, _ = linear_regression(range(1, 11), TIMES_S[job][label])
        assert round(1000 / slope, 1) == pytest.approx(thousands, abs=0.11)


def test_a_page_without_markers_is_refused(tmp_path):
    """The command names the lines it needs, before it computes anything."""
    (tmp_path / "page.md").write_text("no markers here")
    with pytest.raises(PageRejected, match="needs the lines <!-- bench-placement: begin -->"):
        CliRunner().invoke(command, ["--page", str(tmp_path / "page.md")], catch_exceptions=False)
