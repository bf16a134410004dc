"""Workloads are read as they are, and refused with file, row and column."""

from pathlib import Path

import pytest

from simulation.workload import WorkloadError, load_workload
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "load.csv: the first row must name the columns minute,requests"),
        ("minute,load\n0,1\n", "it reads 'minute,load'"),
        ("minute,requests\n", "load.csv: the file has no rows"),
        ("minute,requests\n0,1\n1,\n", "load.csv: row 3, column requests: is empty"),
        ("minute,requests\n0,-1\n", "load.csv: row 2, column requests: -1 is not between"),
        ("minute,requests\n0,1.5\n", "row 2, column requests: '1.5' is not a whole number"),
        ("minute,requests\nx,1\n", "row 2, column minute: 'x' is not a whole number"),
        ("minute,requests\n0,1\n2,1\n", "row 3, column minute: 2 where 1 is expected"),
        ("minute,requests\n0,1,2\n", "row 2 has 3 cells"),
        ("minute,requests\n0,0\n1,0\n", "column requests is 0 throughout"),
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
    with pytest.raises(WorkloadError, match="clarknet, nasa"):
        load_workload("clarknett")


def test_history_is_told_by_hours_with_an_unfinished_last_one() -> None:
    """Ninety minutes are one hour of sixty and one of thirty."""
    hours = workload([2] * 120).history(90)
    assert [(hour.hour_start_ms, hour.records, hour.minutes) for hour in hours] == [(0, 120, 60), (HOUR, 60, 30)]


def test_history_goes_back_eight_days() -> None:
    """192 hours, the newest last."""
    hours = workload([1] * (60 * 300)).history(60 * 300)
    assert (len(hours), hours[-1].hour_start_ms) == (192, 299 * HOUR)
