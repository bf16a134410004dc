"""What may be changed of a job's settings, without Kafka."""

import pytest
from click.testing import CliRunner

from contracts.errors import SettingsError
from contracts.messages import JobSettings, JobTopology, TaskSpec
from services.job_settings.changes import Recorded, changed, differences, newest, resumed
from services.job_settings.command import command

JOB = "sim/clicks"
TOPOLOGY = JobTopology(
    job=JOB,
    version=1,
    at_ms=0,
    tasks=(
        TaskSpec(task="source", scalable=False, max_parallelism=1),
        TaskSpec(task="map", upstream=("source",), max_parallelism=12),
        TaskSpec(task="reduce", upstream=("map",), max_parallelism=6),
    ),
)


def change(before: JobSettings | None = None, **wanted: object) -> JobSettings:
    """Return the next version of the settings."""
    return changed(before or JobSettings(job=JOB), wanted, TOPOLOGY, by="ann@desk", at_ms=60_000)


def recorded(**fields: object) -> Recorded:
    """Return one record of the history."""
    return Recorded(JobSettings(job=JOB, **fields), append_ms=1)  # type: ignore[arg-type]


def test_a_change_has_a_version_a_who_and_a_when() -> None:
    """The version grows by one, who and when are kept, and what was not named stays."""
    after = change(JobSettings(job=JOB, version=4, priority=2), mode="advise")
    assert (after.version, after.set_by, after.set_at_ms) == (5, "ann@desk", 60_000)
    assert (after.mode, after.priority) == ("advise", 2)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"parallelism_min": 5, "parallelism_max": 4}, "--min: 5 is more than --max 4"),
        ({"parallelism_min": 11}, "--min: 11 is more than --max 10"),
        ({"parallelism_min": 3, "total_limit": 5}, "--total: 5 is less than 2 scalable tasks"),
        ({"parallelism_min": 7}, "--min: 7 is more than task reduce can have"),
    ],
)
def test_contradictory_bounds_name_the_option(wanted: dict[str, object], named: str) -> None:
    """Bounds that contradict each other or the job are refused, and the message begins with the option."""
    with pytest.raises(SettingsError, match=f"^{named}"):
        change(**wanted)


def test_bounds_that_just_fit_are_taken() -> None:
    """The total may be exactly what the least parallelism of all scalable tasks needs."""
    assert change(parallelism_min=3, total_limit=6).total_limit == 6


def test_of_equal_versions_the_later_record_counts() -> None:
    """Two who chose the same version: the last wins; a lower version behind it changes nothing."""
    history = [recorded(version=1, priority=1), recorded(version=2), recorded(version=2, priority=7), recorded(version=1)]
    assert newest(history, JOB).priority == 7


def test_differences_leave_out_what_no_user_sets() -> None:
    """Version, who and when are no difference; a changed bound is."""
    before = JobSettings(job=JOB)
    assert differences(before, change(before)) == {}
    assert differences(before, change(before, parallelism_max=8)) == {"parallelism_max": (10, 8)}


def test_resume_goes_back_before_pause_and_pin() -> None:
    """Resuming brings the mode before the pause and the policy before the pin."""
    history = [recorded(version=1, mode="advise", policy="static"), recorded(version=2, mode="observe", policy="hold")]
    assert resumed(history, JOB) == {"mode": "advise", "policy": "static"}
    assert resumed([], JOB) == {"mode": "act", "policy": None}


def test_resume_passes_by_what_was_never_in_force() -> None:
    """A record that a higher version had passed allowed the job nothing, and must not now."""
    late = recorded(version=2, mode="act", policy="static")
    history = [recorded(version=3, mode="advise"), late, recorded(version=4, mode="observe", policy="hold")]
    assert resumed(history, JOB) == {"mode": "advise", "policy": None}


@pytest.mark.parametrize("arguments", [["--min", "0"], ["--step", "1"], ["--step", "2.5"], ["--mode", "maybe"]])
def test_a_value_out_of_range_is_refused_by_its_option(arguments: list[str]) -> None:
    """What no settings record can hold is refused before Kafka is asked."""
    result = CliRunner().invoke(command, ["set", JOB, *arguments])
    assert result.exit_code == 2
    assert arguments[0] in result.output


def test_nothing_to_change_is_said() -> None:
    """`job set` without any option names the options."""
    result = CliRunner().invoke(command, ["set", JOB])
    assert isinstance(result.exception, SettingsError)
    assert "--mode" in str(result.exception)


@pytest.mark.parametrize("wanted", [{"mode": "observe"}, {"policy": "hold"}, {"priority": 3}])
def test_a_job_that_has_outgrown_its_bounds_can_still_be_paused(wanted: dict[str, object]) -> None:
    """Bounds that fitted the job of yesterday, and that nobody names now, must not forbid to stop the job of today."""
    before = JobSettings(job=JOB, version=4, parallelism_min=7, total_limit=8)
    assert differences(before, change(before, **wanted)).keys() == wanted.keys()
    with pytest.raises(SettingsError, match=r"^--total"):
        change(before, **wanted, total_limit=9)
