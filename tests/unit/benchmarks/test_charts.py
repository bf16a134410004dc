"""Charts show the data they are given, and the same data give the same bytes."""

import subprocess
import sys
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib

from benchmarks import charts

DRAWN: dict[str, Callable[[], str]] = {
    "bars": lambda: charts.bars([charts.BarPanel("a < b", ["g", "h"], {"s": [1.0, None], "t": [-1.0, 2.0]})]),
    "pairs": lambda: charts.pairs("claims", [charts.Pair("cost", -0.2, -0.3), charts.Pair("time", 0.1, 0.0)]),
    "growth": lambda: charts.growth("t", "x", "y", {"a": [(1.0, 2.0), (9.0, 37.0)], "b": [(1.0, 3.0)]}),
    "lines": lambda: charts.lines(
        [charts.LinePanel("p", "k1", ["5", "10"], {"SURE": charts.Line([0.1, None], [(0.05, 0.2), None])})]
    ),
    "heat_maps": lambda: charts.heat_maps([charts.HeatMap("m", [[0.0, 1.0], [2.0, 3.0]], ["1", ""], [(0, "v1")])]),
    "scatter": lambda: charts.scatter("t", {"v1": [(0.0, 0.0), (1.0, 2.0)], "v2": [(3.0, 1.0)]}),
}


def group(svg: str, name: str) -> ElementTree.Element:
    """Return the group of an SVG text by its id."""
    found = ElementTree.fromstring(svg).find(f".//*[@id='{name}']")
    assert found is not None, name
    return found


def test_the_same_data_give_the_same_bytes() -> None:
    """Other charts drawn in between and a user's own settings of matplotlib change nothing; no date is written."""
    first = {kind: draw() for kind, draw in DRAWN.items()}
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.hashsalt": None, "svg.fonttype": "path"}):
        assert {kind: draw() for kind, draw in DRAWN.items()} == first
    assert not any("<dc:date>" in svg for svg in first.values())


def test_the_same_data_give_the_same_bytes_in_another_process() -> None:
    """Nothing depends on hashes or addresses of one process."""
    script = "from tests.unit.benchmarks.test_charts import DRAWN; import sys; sys.stdout.write(DRAWN['lines']())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == DRAWN["lines"]()


def test_bars_stand_on_zero_and_leave_gaps() -> None:
    """A missing value has no bar; words are escaped and stay text."""
    svg = DRAWN["bars"]()
    colours = [charts.COLOURS[at] for at in range(2)]
    bars = [path.get("style") for path in group(svg, "axes_1").findall("./{*}g/{*}path") if path.get("clip-path")]
    assert [sum(f"fill: {colour}" in (style or "") for style in bars) for colour in colours] == [1, 2]
    assert ">a &lt; b</text>" in svg


def test_claims_read_as_signed_percentages() -> None:
    """Plus, minus and a bare zero."""
    svg = DRAWN["pairs"]()
    assert ">0 %</text>" in svg
    assert ">+10 %</text>" in svg
    assert ">-30 %</text>" in svg


def test_growth_begins_at_zero() -> None:
    """Both axes do, whatever the smallest value."""
    ticks = [text.text for text in group(DRAWN["growth"](), "axes_1").iter("{http://www.w3.org/2000/svg}text")]
    assert ticks.count("0") == 2


def test_a_panel_without_results_says_so() -> None:
    """It keeps its title and its place in the grid."""
    full = charts.LinePanel("full", "k1", ["5"], {"SURE": charts.Line([1.0])})
    empty = charts.LinePanel("empty", "k1", ["5"], {"SURE": charts.Line([None])})
    svg = charts.lines([full, empty])
    words = [text.text for text in group(svg, "axes_2").iter("{http://www.w3.org/2000/svg}text")]
    assert {"empty", "no results yet"} <= set(words)
    assert svg.count("no results yet") == 1
