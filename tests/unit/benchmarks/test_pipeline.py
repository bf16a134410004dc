"""What benchmarks are made of: the fleet's records, joined graphs, percentiles, the growth of a lag."""

from pathlib import Path

import pytest

from benchmarks.archive import load_graph
from benchmarks.pipeline.fleet import Fleet
from benchmarks.pipeline.growth import exponent, growth
from benchmarks.pipeline.spark import lag_report, state_kb
from benchmarks.pipeline.wide_job import wide_graph, write_csv
from benchmarks.report import BenchFailed, Document, percentile
from surescale.contracts.messages import MinuteMarker
from surescale.contracts.wire import encode
from surescale.services.cli import main
from surescale.spark_streaming.manifest import FOLDER
from surescale.spark_streaming.minutes import Minutes
from surescale.spark_streaming.places import place_of
from tests.support.spark_states import Saved, StateStore
from tests.unit.spark_streaming.pipeline import MINUTE, RULES, feed, marker, sample

FLEET = Fleet(jobs=2, tasks=3, subtasks=2, seed=1, clusters=2)


def minute(fleet: Fleet, number: int) -> list[bytes]:
    """Return the bytes of a fleet's minute."""
    return [encode(message) for job in range(fleet.jobs) for message in (*fleet.samples(job, number), fleet.marker(job, number))]


def test_a_fleets_minute_is_the_same_every_time() -> None:
    """Two runs with one seed measure the same records; another seed gives other records."""
    assert minute(FLEET, 4) == minute(Fleet(jobs=2, tasks=3, subtasks=2, seed=1, clusters=2), 4)
    assert minute(FLEET, 4) != minute(Fleet(jobs=2, tasks=3, subtasks=2, seed=2, clusters=2), 4)


def test_a_fleet_says_how_many_records_it_sends() -> None:
    """Four samples per subtask and one marker per job; jobs go to clusters in turn."""
    assert len(minute(FLEET, 0)) == FLEET.records_per_minute() == 2 * (3 * 2 * 4 + 1)
    assert [FLEET.job(index).partition("/")[0] for index in range(2)] == ["bench0", "bench1"]


def test_counters_grow_and_the_last_round_lies_at_the_minutes_end() -> None:
    """They grow like an engine's, so windows contain real differences."""
    first, second = ([*FLEET.samples(0, number)][-1] for number in (0, 1))
    assert second.records_in > first.records_in > 0
    marker: MinuteMarker = FLEET.marker(0, 0)
    assert first.sampled_at_ms == marker.minute_end_ms


@pytest.mark.parametrize("tasks", [1, 18, 100])
def test_a_wide_job_has_the_tasks_asked_for_and_reads_back_from_its_file(tmp_path: Path, tasks: int) -> None:
    """It joins shipped graphs side by side, and the engine reads the file like any other."""
    graph = wide_graph(tasks)
    with (tmp_path / "wide.csv").open("w") as file:
        write_csv(graph, file)
    again = load_graph(str(tmp_path / "wide.csv"))
    assert again.size == tasks + 2
    assert (again.tasks, again.upstream, again.duration_s) == (graph.tasks, graph.upstream, graph.duration_s)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """Nearest rank; None of no values."""
    assert [percentile([4.0, 1.0, 3.0, 2.0], percent) for percent in (50, 99, 100)] == [2.0, 4.0, 4.0]
    assert percentile([], 50) is None


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    """Whatever the factor before it."""
    assert exponent({size: 0.3 * size**power for size in (10, 100, 1_000, 10_000)}) == pytest.approx(power)


def test_growth_measures_each_size_once_and_fits_both_axes() -> None:
    """Freshness that grows with the root of the tasks, whatever the number of jobs; no two fleets share a job."""
    fleets: list[Fleet] = []

    def measure(fleet: Fleet) -> Document:
        fleets.append(fleet)
        seconds = (fleet.jobs * fleet.tasks) ** 0.5
        return {"windows": 9, "p50": seconds, "p99": 2 * seconds, "p99_9": 3 * seconds}

    report = growth(measure, seed=1)
    assert [fleet.jobs * fleet.tasks for fleet in fleets] == [10, 100, 100, 1_000, 1_000, 10_000, 10_000]
    assert len({fleet.job(0) for fleet in fleets}) == len(fleets)
    assert report["exponent by tasks"] == report["exponent by jobs"] == {"p50": 0.5, "p99": 0.5, "p99_9": 0.5}
    assert report["500 jobs of 20 tasks"]["p50"] == 100.0


def test_growth_without_windows_fails_and_names_the_fleet() -> None:
    """There is no logarithm of nothing."""
    with pytest.raises(BenchFailed, match="1 jobs of 10 tasks got no window"):
        growth(lambda _: {"windows": 0}, seed=1)


@pytest.mark.parametrize(("rise", "share"), [(0, 0.0), (50, 0.5)])
def test_a_lag_that_grows_is_told_from_one_that_does_not(rise: int, share: float) -> None:
    """The slope of a fitted line, as a share of the offered rate, in spite of any saw-tooth."""
    lags = [(second / 2, 1_000 + rise * second // 2 + 7 * (second % 2)) for second in range(80)]
    assert lag_report(lags, rate=100.0)["growth_share_of_offered"] == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agent", "--policy", "nosuch", "--no-kafka"], "surescale: policy nosuch: there is no such policy"),
        (["projector", "--policy", "nosuch"], "surescale: policy nosuch: there is no such policy"),
        (["simulator", "--rows", "0"], "'--rows': 0 is not in the range x>=1"),
        (["simulator", "--seed", "-1"], "'--seed': -1 is not in the range x>=0"),
        (["simulator", "--seconds", "inf"], "'--seconds': inf is not a finite number"),
    ],
)
def test_options_that_nothing_can_be_measured_with_are_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No trace is printed, and no figures of the fallback rule either."""
    with pytest.raises(SystemExit):
        main(["dev", "bench", *words])
    assert said in capsys.readouterr().err


def test_what_a_batch_writes_to_the_checkpoint_is_counted_with_its_rows(tmp_path: Path) -> None:
    """Of the batches that still have a manifest; files of rows that older ones wrote are not theirs."""
    store, minutes = StateStore(place_of(str(tmp_path)), RULES), Minutes(RULES)
    for number in range(1, 6):
        feed(sample(number * MINUTE, number), marker(number), minutes=minutes)
        store.save(Saved(number - 1, minutes, {}))
    sizes = {path.name: path.stat().st_size for path in (tmp_path / FOLDER).iterdir()}
    assert sum(name.startswith("rows-") for name in sizes) > 3
    written = {batch: [size for name, size in sizes.items() if f"-{batch:012d}" in name] for batch in (2, 3, 4)}
    assert all(len(each) == 3 for each in written.values())
    assert state_kb(tmp_path) == {batch: round(sum(each) / 1000, 1) for batch, each in written.items()}
