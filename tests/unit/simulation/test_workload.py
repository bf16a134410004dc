"""Workloads are read as they are, and refused with file, row and column."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from benchmarks import archive
from surescale.simulation.load.workload import KINDS, UNDATED_MS, Gap, LoadKindError, WorkloadError, load_workload
from tests.unit.simulation.cases import HOUR, workload


def written(folder: Path, text: str) -> str:
    """Return the path of a CSV file with this text."""
    path = folder / "load.csv"
    path.write_text(text)
    return str(path)


def test_clarknet_has_its_length_percentile_and_start() -> None:
    """14 days, 357 requests a minute at P99, a Monday in 1995; a run starts on a Friday at 7."""
    load = load_workload("clarknet")
    assert (load.minutes, load.percentile(99), load.trace_start_ms) == (20_160, 357.0, 809_568_000_000)
    assert load.minute_start_ms(load.default_start_minute) % (24 * HOUR) == 7 * HOUR


def test_the_default_start_of_clarknet_is_the_steepest_weekday_morning() -> None:
    """No other whole hour of a weekday is followed by a larger rise within four hours (half-hour means)."""
    load = load_workload("clarknet")
    weekdays = [day for day in range(14) if day % 7 < 5]
    hours = [1440 * day + 60 * hour for day in weekdays for hour in range(24) if 1440 * day + 60 * hour + 240 <= load.minutes]
    rises = {at: load.requests[at + 210 : at + 240].mean() - load.requests[at : at + 30].mean() for at in hours}
    assert max(rises, key=rises.__getitem__) == load.default_start_minute


def test_nasa_ships_too() -> None:
    """Four weeks of July 1995."""
    assert (load_workload("nasa").minutes, load_workload("nasa").percentile(99)) == (39_692, 145.0)


def test_a_file_of_ones_own_is_a_workload(tmp_path: Path) -> None:
    """Named by its file; blank lines do not count."""
    load = load_workload(written(tmp_path, "minute,requests\n0,5\n1,7\n\n"))
    assert (load.name, load.requests.tolist(), load.default_start_minute) == ("load", [5, 7], 0)


def test_a_file_is_dated_by_its_minutes_or_not_at_all(tmp_path: Path) -> None:
    """UTC unless a zone is named; without dates it begins on the first Monday of 2001."""
    dated = "minute,requests\n2026-11-20T08:00,5\n2026-11-20T08:01,7\n"
    zoned = "minute,requests\n2026-11-20T09:00+01:00,5\n2026-11-20T09:01+01:00,7\n"
    for text in (dated, zoned):
        load = load_workload(written(tmp_path, text))
        assert (load.requests.tolist(), load.trace_start_ms) == ([5, 7], 1_795_161_600_000)
    assert load_workload(written(tmp_path, "minute,requests\n0,5\n")).trace_start_ms == 978_307_200_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("minute,requests\n2026-11-20T08:30,1\n", "row 2, column minute: 2026-11-20T08:30 is not a full hour; begin with one"),
        ("minute,requests\n2026-11-20T08:00,1\n1,1\n", "row 3, column minute: '1' is not a minute; give 2026-11-20T08:00 (UTC)"),
        ("minute,requests\n2026-11-20T08:00,1\n2026-11-20T08:02,1\n", "row 3, column minute: 2 instead of 1"),
        ("minute,requests\n1969-11-20T08:00,1\n", "row 2, column minute: '1969-11-20T08:00' is not a minute"),
        ("", "load.csv: the first row must name the columns minute,requests"),
        ("minute,load\n0,1\n", "it reads 'minute,load'"),
        ("minute,requests\n", "load.csv: the file has no rows"),
        ("minute,requests\n0,1\n,2\n", "load.csv: row 3, column minute: is empty"),
        ("minute,requests\n0,\n1,0\n", "column requests is 0 in every row"),
        ("minute,requests\n0,-1\n", "load.csv: row 2, column requests: -1 is not between"),
        ("minute,requests\n-1,1\n", "row 2, column minute: -1 is not between 0 and 1000000000; count the minutes from 0"),
        ("minute,requests\n0,1.5\n", "row 2, column requests: '1.5' is not a whole number"),
        ("minute,requests\nx,1\n", "row 2, column minute: 'x' is not a whole number"),
        ("minute,requests\n0,nan\n", "row 2, column requests: 'nan' is not a whole number; give a whole number, 0 or more"),
        ("minute,requests\n0,inf\n", "row 2, column requests: 'inf' is not a whole number"),
        ("minute,requests\n0,1_0\n", "row 2, column requests: '1_0' is not a whole number"),
        ("minute,requests\n0,5\n0,5\n", "row 3, column minute: 0 instead of 1; list every minute once"),
        ("minute,requests\n0," + "9" * 5_000 + "\n", "column requests: 9999"),
        ("requests,minute\n5,0\n", "it reads 'requests,minute'"),
        ("minute,requests\n0,1\n2,1\n", "row 3, column minute: 2 instead of 1"),
        ("minute,requests\n0,1,2\n", "row 2, column 3: the row reads '0,1,2'; give two cells"),
        ("minute,requests\n0\n", "row 2, column requests: the row reads '0'; give two cells"),
        ("minute,requests\n0,0\n1,0\n", "column requests is 0 in every row"),
        ("minute,requests\n0,99999999999\n", "is not between 0 and 1000000000"),
    ],
)
def test_a_bad_file_is_refused_by_name_row_and_column(tmp_path: Path, text: str, words: str) -> None:
    """The message says where and what."""
    with pytest.raises(WorkloadError, match=r"^load\.csv") as refusal:
        load_workload(written(tmp_path, text))
    assert words in str(refusal.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are not UTF-8."""
    path = tmp_path / "load.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="not a UTF-8 text file"):
        load_workload(str(path))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    """A name that is no file either."""
    with pytest.raises(WorkloadError, match="clarknet, nasa, online-shop"):
        load_workload("clarknett")


def test_a_path_that_cannot_be_looked_at_is_refused_as_a_workload() -> None:
    """A name too long for the file system."""
    with pytest.raises(WorkloadError, match=r"^workload 'aaa.*cannot be read \(file name too long\)"):
        load_workload("a" * 5_000)


def test_minutes_of_zero_are_data_and_empty_cells_are_a_gap(tmp_path: Path) -> None:
    """A night without records counts, however long; a minute that nobody counted does not, and 0 stands for it in no sum."""
    cells = ["5", *["0"] * 600, "7", "", "", "9", " "]
    load = load_workload(written(tmp_path, "minute,requests\n" + "".join(f"{at},{cell}\n" for at, cell in enumerate(cells))))
    assert load.requests.tolist() == [5, *[0] * 600, 7, 0, 0, 9, 0]
    assert load.gaps == (Gap(602, 603), Gap(605, 605))
    assert np.flatnonzero(load.masked).tolist() == [602, 603, 605]


def test_a_trace_cut_short_keeps_the_gaps_that_are_left() -> None:
    """A gap that the cut goes through ends there, and a later one is gone."""
    load = replace(workload([5] * 20, gaps=(Gap(2, 3), Gap(8, 12), Gap(15, 16))), requests=np.full(10, 5))
    assert load.gaps == (Gap(2, 3), Gap(8, 9))
    assert np.flatnonzero(load.masked).tolist() == [2, 3, 8, 9]


def test_the_gaps_of_the_shipped_traces_are_those_of_their_list() -> None:
    """The holes without records; the interpolated minutes count."""
    rows = (files("surescale.simulation") / "data" / "gaps.csv").read_text(encoding="utf-8").splitlines()[1:]
    listed = {
        (trace.split("_")[0], int(a), int(b)) for trace, a, b, kind in (row.split(",") for row in rows) if kind == "no_records"
    }
    names = ("clarknet", "nasa")
    assert {(name, gap.first, gap.last) for name in names for gap in load_workload(name).gaps} == listed


def test_a_load_of_the_archive_is_known_to_benchmarks_by_name_and_ships_with_no_package() -> None:
    """Twenty-two days of 2021, with a hole in each but the last."""
    load = archive.load_workload("twitter")
    assert (load.minutes, load.percentile(99), len(load.gaps)) == (31_651, 14_378.0, 21)
    with pytest.raises(WorkloadError, match="neither a file"):
        load_workload("twitter")


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_is_drawn_the_same_from_the_same_seed(kind: str) -> None:
    """Two weeks from a Monday on, with some load in each day; another seed draws other counts."""
    load = load_workload(kind)
    assert load.requests.reshape(14, 1440).sum(axis=1).min() > 0
    assert load.trace_start_ms == UNDATED_MS
    assert (load.requests == load_workload(f"{kind}@0").requests).all()
    assert (load.requests != load_workload(f"{kind}@1").requests).any()


def test_loads_have_the_shapes_that_they_are_named_for() -> None:
    """Means of the hours of a day, within the noise of their counts."""

    def hours(kind: str) -> np.ndarray:
        return load_workload(kind).requests.reshape(-1, 60).mean(axis=1)

    office, nights = (hours(kind).reshape(14, 24) for kind in ("office-hours", "quiet-nights"))
    assert office[:5, 9:17].min() > 480 > 60 > office[5:7].max()
    assert nights[:, :6].max() < 2 < 60 < nights[:, 6:22].min()
    jobs = load_workload("four-hourly").requests.reshape(-1, 240)
    assert jobs[:, :45].min() > 400 > 200 > jobs[:, 45:].max()
    assert load_workload("flash-crowd").requests.max() > 2 * 160
    assert len(np.unique(np.round(hours("steps") / 20))) > 4
    assert hours("ramp")[-24:].mean() > 4 * hours("ramp")[:24].mean()
    waves = load_workload("seven-hours").requests.reshape(-1, 420)
    assert waves[:, 200:220].min() > 250 > 100 > waves[:, :20].max()


def test_a_seed_that_is_none_is_refused() -> None:
    """In one line that shows a right one."""
    for name in ("steps@", "steps@-1", "steps@many", "steps@99999999999"):
        with pytest.raises(LoadKindError, match=r"whole number after @ as the seed, as in steps@3"):
            load_workload(name)


def test_a_percentile_can_be_of_a_part() -> None:
    """Minutes A to B - 1."""
    assert workload([1] * 100 + [9] * 100).percentile(99, (0, 100)) == 1.0


def test_history_is_told_by_hours_with_an_unfinished_last_one() -> None:
    """Ninety minutes are one hour of sixty and one of thirty."""
    hours = workload([2] * 120).history(90)
    assert [(hour.hour_start_ms, hour.records, hour.minutes) for hour in hours] == [(0, 120, 60), (HOUR, 60, 30)]


def test_history_leaves_gaps_out_and_tells_hours_of_zero() -> None:
    """An hour with a gap is told by its other minutes, one that nobody counted is not told at all, a silent one is 0."""
    load = workload([2] * 60 + [4] * 30 + [0] * 30 + [0] * 60 + [0] * 60, gaps=(Gap(90, 179),))
    hours = load.history(240)
    assert [(hour.hour_start_ms // HOUR, hour.records, hour.minutes, hour.peak_records) for hour in hours] == [
        (0, 120, 60, 10),
        (1, 120, 30, 20),
        (3, 0, 60, 0),
    ]


def test_history_goes_back_eight_days() -> None:
    """192 hours, the newest last."""
    hours = workload([1] * (60 * 300)).history(60 * 300)
    assert (len(hours), hours[-1].hour_start_ms) == (192, 299 * HOUR)
