"""Identities, the rounding function and the pipeline's clock."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.clock import minute_end_ms, pipeline_time_ms, wall_time_ms
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import (
    NAME_LETTERS_MAX,
    RESERVED_NAMES,
    cluster_of,
    command_id,
    decision_id,
    job_id,
    plain_name,
    split_job,
    window_id,
)
from surescale.contracts.messages import ClockSegment, PlainName
from surescale.contracts.rounding import round_half_up

SEGMENT = ClockSegment(pipeline="main", sequence=3, e0_ms=1_000_000, w0_ms=50_000, speed=10.0, until_ms=1_600_000)


@pytest.mark.parametrize(("value", "rounded"), [(0.5, 1), (1.5, 2), (2.5, 3), (2.4999, 2), (0.49999999999999994, 0), (-0.5, 0)])
def test_a_half_rounds_up_and_everything_else_to_the_nearest(value: float, rounded: int) -> None:
    """A half goes up whatever the parity of its neighbours."""
    assert round_half_up(value) == rounded


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rounding_refuses_what_is_not_finite(value: float) -> None:
    """NaN and infinity are errors, never a parallelism."""
    with pytest.raises(ValueError, match="finite"):
        round_half_up(value)


@given(st.floats(min_value=-1e9, max_value=1e9))
def test_rounding_is_never_off_by_more_than_a_half(value: float) -> None:
    """The result is the nearest integer."""
    assert abs(round_half_up(value) - value) <= 0.5


def test_a_job_id_is_cluster_and_name() -> None:
    """Joining and splitting are inverse."""
    assert split_job(job_id("sim", "clicks")) == ("sim", "clicks")
    assert cluster_of("sim/clicks") == "sim"


@pytest.mark.parametrize("job", ["", "sim", "/clicks", "sim/", "a/b/c", "./a", "../a", "*/a", "a/.", "a/..", "a/" + "b" * 255])
def test_a_malformed_job_id_is_refused_by_field(job: str) -> None:
    """The error names the field ``job``."""
    with pytest.raises(RecordRejected) as refused:
        split_job(job)
    assert (refused.value.reason, refused.value.field) == ("invalid_field", "job")


NAMES = [
    "orders",
    "team_orders",
    "team/orders",
    "team\\orders",
    "team\norders",
    "team orders",
    "*",
    "_",
    ".",
    "..",
    "",
    " ",
    "a ",
    "a",
]
NAMES += [
    "a ",
    "a",
    "g" * 100,
    "g" * 101,
    "g" * 4_000,
    "h" * 4_000,
    "\ud800",
    "\u202egpj",
    "a*b",
    "~" + "0" * 16,
    "a~" + "0" * 16,
]
NAMES += [plain_name(name) for name in NAMES]


def test_names_from_outside_that_differ_stay_different() -> None:
    """Each is a job's name, of bounded length; one that looks like what we make of another is not taken for it."""
    made = {name: plain_name(name) for name in NAMES}
    assert len(set(made.values())) == len(made)
    for name in made.values():
        assert split_job(f"shop/{name}") == ("shop", name)
        assert len(name) <= NAME_LETTERS_MAX
        assert name not in RESERVED_NAMES
        assert name == name.strip()


@pytest.mark.parametrize("name", ["orders", "team_orders", "team orders", "Größe", "a*b", "...", "g" * 100, "x~1"])
def test_a_usable_name_stays_as_it_is(name: str) -> None:
    """People know it so."""
    assert plain_name(name) == name


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_name_becomes_a_name_of_its_own(one: str, other: str) -> None:
    """Whatever its letters."""
    assert (plain_name(one) == plain_name(other)) == (one == other)
    assert cluster_of(f"shop/{plain_name(one)}") == "shop"


@pytest.mark.parametrize("name", [".", "..", "*", "", "a/b", "a\\b", "a\n"])
def test_a_plain_name_may_become_a_files_name(name: str) -> None:
    """Never a folder, nor what stands for all."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, PlainName)
    assert msgspec.convert("..a", PlainName) == "..a"


def test_identities_are_readable_and_distinct() -> None:
    """Identity of window, decision and command, as other programs see them."""
    assert window_id("sim/a", 60_000, 60, 1) == "sim/a@60000/60m/v1"
    assert decision_id("sim/a", 60_000, "sure") == "sim/a@60000/sure"
    assert command_id("sim/a", 7, 0) == "sim/a#7.0"


def test_the_pipelines_clock_runs_at_its_speed_and_stops_at_until() -> None:
    """now = min(e0 + speed x (wall - w0), until)."""
    assert pipeline_time_ms(SEGMENT, 50_000) == 1_000_000
    assert pipeline_time_ms(SEGMENT, 51_000) == 1_010_000
    assert pipeline_time_ms(SEGMENT, 999_000) == 1_600_000


def test_before_its_segment_the_clock_stands() -> None:
    """A reader whose wall clock is a little behind does not see time before e0."""
    assert pipeline_time_ms(SEGMENT, 40_000) == 1_000_000


def test_a_live_pipeline_has_the_wall_clock() -> None:
    """Without a segment the clock is the identity, both ways."""
    assert pipeline_time_ms(None, 123) == 123
    assert wall_time_ms(None, 123) == 123


def test_wall_time_is_the_inverse_of_pipeline_time() -> None:
    """The wall time at which an event time is reached."""
    assert wall_time_ms(SEGMENT, pipeline_time_ms(SEGMENT, 52_500)) == 52_500


@pytest.mark.parametrize(("at_ms", "end_ms"), [(0, 0), (1, 60_000), (60_000, 60_000), (60_001, 120_000)])
def test_a_sample_at_a_minutes_end_belongs_to_that_minute(at_ms: int, end_ms: int) -> None:
    """Minutes are open at their start and closed at their end."""
    assert minute_end_ms(at_ms) == end_ms
