"""From results to tables and pictures: what stands where, and that pictures are pictures."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.archive import where
from reproductions.sure import results
from reproductions.sure.commands import policies
from reproductions.sure.environment import JOBS
from reproductions.sure.figures import Attention, attention, distances, figure_4, figure_5a, figure_5b, sweep
from reproductions.sure.report import results_of, tables
from reproductions.sure.results import Result, method_scores
from reproductions.sure.tables import standing, table_raw, table_z
from reproductions.sure.zscores import PRINTED, VARIANTS
from surescale.contracts.errors import SurescaleError
from tests.unit.reproductions.sure.cases import graph_of

PRINTED_BY_JOB = {job: {name: PRINTED[name][at] for name in VARIANTS} for at, job in enumerate(JOBS)}


def result(method: str, job: str, reward: float, **changes: object) -> Result:
    """Return a result of two runs around a reward."""
    fields: dict[str, object] = {
        "method": method, "job": job, "tasks": 6, "mode": "clean", "latency_weight": 0.5, "seed": 0, "decisions": 167,
        "reward": (reward - 0.01, reward + 0.01), "latency": (0.1, 0.1),
        "utilisation": (0.6, 0.6), "rescales_per_day": (8.0, 8.0),
        "train_s": 10.0, "updates": 100,
    }  # fmt: skip
    return Result(**(fields | changes))  # type: ignore[arg-type]


PANEL = [result(name, job, z / 10) for job, by_name in PRINTED_BY_JOB.items() for name, z in by_name.items()]


def test_rewards_proportional_to_the_printed_table_give_the_printed_table() -> None:
    """Ours equals the paper's up to rounding, including the Average."""
    text = table_z(method_scores(PANEL), list(JOBS))
    assert (
        "| **SURE** | 0.52 (0.52) | 1.41 (1.41) | 1.19 (1.19) | 1.81 (1.81) | 1.02 (1.02) | 0.95 (0.95) | 1.15 (1.15) |" in text
    )
    assert len(text.splitlines()) == 2 + len(VARIANTS)


def test_the_raw_table_shows_what_z_hides() -> None:
    """Reward with latency, utilisation and rescales; two seeds bring an interval."""
    two = [*PANEL, result("SURE", "j_2521346", 0.2, seed=1)]
    text = table_raw(method_scores(two), list(JOBS))
    assert "0.1260 [0.052, 0.200] (0.10 / 0.60 / 8.0)" in text
    assert "\N{MINUS SIGN}0.2770 (" in text


def test_the_standing_counts_ranks_and_the_ablations_order() -> None:
    """On the printed table SURE is first everywhere and the ablations are ordered on all jobs but Medium-2's tie and Small-1."""
    words = standing(method_scores(PANEL), list(JOBS))
    assert "SURE is first on 6 of 6 jobs" in words
    assert "Average 1.15" in words
    assert "holds on 6 of 6." in words
    same = {name: 0.3 if name in ("SURE", "w/o NVSS", "w/o MI") else 0.1 for name in VARIANTS}
    assert "holds on 1 of 1, on 1 of them because all three are equal." in standing(
        method_scores([result(name, "j_2521346", reward) for name, reward in same.items()]), ["j_2521346"]
    )


def test_results_come_back_from_disk_and_only_whole_jobs_are_tabled(tmp_path: Path) -> None:
    """A job without all nine variants is left out, and so are the results of figure 4."""
    for number, one in enumerate(PANEL[:10]):
        results.write(one, tmp_path / str(number))
    results.write(result("SURE", "j_2521346", 9.0, changed="k1-5"), tmp_path / "swept")
    found = results_of(tmp_path, list(JOBS))
    assert sorted(one.method for one in found) == sorted([*(one.method for one in PANEL[:10]), "SURE"])
    texts = tables(found, ("clean", "compat"), list(JOBS))
    assert "Small-1" in texts["paper-clean"]
    assert "Small-2" not in texts["paper-clean"]
    assert "paper-compat" not in texts


def test_peers_stand_below_the_nine_and_move_no_figure() -> None:
    """Their z uses the scale of the nine and has no figure of the paper; a job without their result stays blank."""
    peers = [result("CCRNN-PRED", job, PRINTED["SURE"][at] / 10, train_s=999.0) for at, job in enumerate(list(JOBS)[:5])]
    without, joined = (tables(found, ("clean",), list(JOBS))["paper-clean"].split("\n") for found in (PANEL, [*PANEL, *peers]))
    added = [line for line in joined if line not in without]
    assert [line for line in joined if line and line not in added] == [line for line in without if line]
    in_z, in_raw, words = added
    assert in_z == "| CCRNN-PRED | 0.52 | 1.41 | 1.19 | 1.81 | 1.02 |  |  |"
    assert in_raw.startswith("| CCRNN-PRED | 0.0520 (0.10 / 0.60 / 8.0) |")
    assert "mean and deviation of the nine: CCRNN-PRED." in words


def test_without_results_the_command_says_what_to_do(tmp_path: Path) -> None:
    """One sentence that names both ways to continue."""
    done = CliRunner().invoke(policies, ["--out", str(tmp_path / "nothing")])
    assert done.exit_code == 1
    assert "add --train" in str(done.exception)
    done = CliRunner().invoke(policies, ["--job", "j_1"])
    assert "the paper's jobs are" in str(done.exception)


def test_rewards_of_drawn_actions_stand_in_a_table_of_their_own() -> None:
    """Only where policies drew when judged; means over seeds, methods in the order of the other tables."""
    assert "drawn" not in tables(PANEL, ["clean"], list(JOBS))["paper-clean"]
    drawn = [result(each.method, each.job, 0.2, mode="compat", drawn=(0.1, 0.3)) for each in PANEL]
    text = tables(drawn, ["compat"], list(JOBS))["paper-compat"]
    assert "| reward, actions drawn | Small-1 |" in text
    assert f"| SURE |{' 0.2000 |' * 6}" in text


def test_settings_without_training_are_refused(tmp_path: Path) -> None:
    """--set changes how policies are trained, so it has no effect on tables of existing results."""
    done = CliRunner().invoke(policies, ["--set", "gnn=gin", "--out", str(tmp_path)])
    assert done.exit_code != 0
    assert "add --train" in str(done.exception)


def test_attention_sorts_neighbours_by_hop_and_sees_time() -> None:
    """Scores that rise with the minute correlate with it; mean phi is taken per distance."""
    graph = graph_of({"a": (), "b": ("a",), "c": ("b",), "d": ("c",)})
    assert distances(graph, 0).tolist() == [0, 1, 2, 3]
    assert distances(graph, 2).tolist() == [-1, -1, 0, 1]
    mu = np.zeros((5, 12, 4, 2))
    mu[..., 0] = np.arange(12)[:, None]
    mu[..., 1] = [9.0, 3.0, 2.0, 1.0]
    seen = attention(mu, graph, "down")
    assert seen.with_time == 1.0
    assert seen.by_hop == {1: 3.0, 2: 2.0, 3: 1.0}
    picture = ElementTree.fromstring(figure_5a({"trained": seen}))
    assert len(picture.findall(".//*[@id='QuadMesh_1']/{*}path")) == 12 * 4


def test_attention_without_preference_does_not_correlate_with_time() -> None:
    """Rank correlation of a constant is not defined; it counts as none."""
    flat = Attention(theta=np.full(12, 0.5), phi=np.zeros((12, 1)), hops=np.array([1]))
    assert flat.with_time == 0.0


def test_embeddings_by_hop_have_silhouettes_and_a_picture() -> None:
    """Tasks of one hop close together score high."""
    hops = [0, 1, 1, 2]
    parts = np.array(hops)[None, :, None] * 10.0 + np.random.default_rng(0).normal(size=(10, 4, 6))
    svg, full, plane = figure_5b(parts, parts.mean(axis=1), hops, "title")
    assert full > 0.6
    assert plane > 0.4
    assert len(ElementTree.fromstring(svg).findall(".//*[@id='axes_1']//{*}use")) == 50
    assert (svg, full, plane) == figure_5b(parts, parts.mean(axis=1), hops, "title")


def test_figure_4_has_four_panels_with_gaps_where_nothing_is_known() -> None:
    """A sweep takes the tables' result for k1 = 10 and lambda 0.5; missing runs are left out."""
    found = [result("SURE", "j_3380530", 0.2), result("SURE", "j_3380530", 0.1, changed="k1-5")]
    found += [result("CCRNN", "j_3380530", 0.15), result("SURE", "j_3380530", 0.3, seed=1)]
    assert sweep(found, "SURE", ("k1-5", "", "k1-15"), "reward").values == pytest.approx((0.1, 0.25, None))
    picture = figure_4(found, {"SURE": [4.0, 6.0, 8.0, 10.0]})
    assert [f'id="axes_{number}"' in picture for number in range(1, 6)] == [True] * 4 + [False]


@pytest.mark.parametrize("changed", ["k1-5", "lambda-0.1"])
def test_figure_4_of_one_early_result_leaves_the_other_panels_empty(changed: str) -> None:
    """A campaign that has just begun has nothing to draw in most panels, and says so there."""
    picture = figure_4([result("SURE", "j_3380530", 0.2, changed=changed)], {"SURE": [4.0, 6.0, 8.0, 10.0]})
    assert 'id="axes_4"' in picture
    assert "no results yet" in picture


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    """A truncated file gives one line with its path and the fix, not a trace."""
    results.write(PANEL[0], tmp_path)
    (tmp_path / results.FILE).write_bytes((tmp_path / results.FILE).read_bytes()[:40])
    with pytest.raises(SurescaleError, match=r"result\.json is not a result .* delete it"):
        results_of(tmp_path, list(JOBS))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--quick", "--page", "page.md"], "--quick .* drop --page"),
        (["--quick", "--job", where("j_2521346")], "--quick .* drop --job"),
        (["--seeds", "3"], "--seeds only affects training: add --train"),
        (["--updates", "3"], "--updates only affects training: add --train"),
    ],
)
def test_options_that_nothing_would_look_at_are_refused(words: list[str], told: str) -> None:
    """The message names the option."""
    done = CliRunner().invoke(policies, words)
    assert isinstance(done.exception, SurescaleError)
    assert re.search(told, str(done.exception))


def test_a_page_without_its_lines_is_refused_before_the_work(tmp_path: Path) -> None:
    """It is refused before results are read, and so before hours of training."""
    (tmp_path / "page.md").write_text("<!-- paper-clean: begin -->\n<!-- paper-clean: end -->\n")
    done = CliRunner().invoke(policies, ["--page", str(tmp_path / "page.md"), "--out", str(tmp_path / "nothing")])
    assert "page.md needs the lines <!-- paper-compat: begin -->" in str(done.exception)


def test_a_page_gets_the_tables_and_json_still_comes_out(tmp_path: Path) -> None:
    """Text around the markers stays; --json prints results, whether or not a page is written."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- paper-clean: begin -->\nFORMER\n<!-- paper-clean: end -->\nafter\n")
    for number, one in enumerate(PANEL):
        results.write(one, tmp_path / "runs" / str(number))
    done = CliRunner().invoke(policies, ["--mode", "clean", "--json", "--page", str(page), "--out", str(tmp_path / "runs")])
    assert len(json.loads(done.stdout)) == len(PANEL)
    text = page.read_text()
    assert text.startswith("before\n<!-- paper-clean: begin -->\n\nMode `clean`")
    assert text.endswith("<!-- paper-clean: end -->\nafter\n")
    assert "FORMER" not in text


def test_a_mode_without_results_leaves_its_tables_on_the_page(tmp_path: Path) -> None:
    """They may come from another folder. The command says that it did not update them."""
    page = tmp_path / "page.md"
    both = "<!-- paper-{0}: begin -->\nFORMER {0}\n<!-- paper-{0}: end -->\n"
    page.write_text(both.format("clean") + both.format("compat"))
    for number, one in enumerate(PANEL):
        results.write(one, tmp_path / "runs" / str(number))
    done = CliRunner().invoke(policies, ["--page", str(page), "--out", str(tmp_path / "runs")])
    assert "no tables for mode compat: no job in" in done.stderr
    assert page.read_text().endswith(both.format("compat"))
    assert "FORMER clean" not in page.read_text()
