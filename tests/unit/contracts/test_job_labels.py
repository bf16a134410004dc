"""Limits that a job brings along as labels."""

import pytest

from surescale.contracts.job_labels import FIELDS, in_force, is_set, unreadable
from surescale.contracts.job_settings import JobSettings, LatencyBound, TaskLimits

FREE = JobSettings(job="prod/orders")


def labelled(settings: JobSettings = FREE, **labels: str) -> JobSettings:
    """Return the settings in force under labels, whose names are written with underscores."""
    return in_force(settings, {f"surescale.{name.replace('_', '-')}": text for name, text in labels.items()})


def test_a_label_is_a_limit_that_nobody_else_set() -> None:
    """Numbers, shares, words, periods, tasks and policies, as the options of the same name are written."""
    found = labelled(
        max="12", min=" 2 ", utilisation="0.5", scale_down_after="45", policy="sure", emergency="wait", align="no", step="3"
    )
    assert (found.parallelism_max, found.parallelism_min, found.utilisation, found.scale_down_after_minutes) == (12, 2, 0.5, 45)
    assert (found.policy, found.emergency_growth, found.align) == ("sure", False, False)
    assert (found.step_up_max, found.step_down_max) == (3.0, 3.0)
    found = labelled(task="parse=2..8; map=pinned", exclude="mon-fri 09:00-17:30; sat UTC strict", objective="latency=30@0.01")
    assert found.tasks == {"parse": TaskLimits(parallelism_min=2, parallelism_max=8), "map": TaskLimits(pinned=True)}
    assert [period.days for period in found.excluded] == [("mon", "tue", "wed", "thu", "fri"), ("sat",)]
    assert found.objective == LatencyBound(seconds=30.0, share=0.01)


def test_what_somebody_set_wins_over_a_label() -> None:
    """Also where they set what the limit is by itself."""
    assert labelled(JobSettings(job="a/b", parallelism_max=5), max="12").parallelism_max == 5
    assert labelled(JobSettings(job="a/b", parallelism_min=1), min="4").parallelism_min == 1
    assert labelled(JobSettings(job="a/b", objective="cost"), objective="latency=30").objective == "cost"
    assert labelled(JobSettings(job="a/b", excluded=()), exclude="sat").excluded == ()


def test_one_of_the_two_steps_wins_over_the_label_for_both() -> None:
    """Whatever comes first."""
    found = labelled(step="3", step_down="1.5")
    assert (found.step_up_max, found.step_down_max) == (3.0, 1.5)


@pytest.mark.parametrize(
    "text", ["", "x", "nan", "inf", "-1", "0", "1e999", "99999999999999999999", "null", "12.5", "\x00", "12;13"]
)
def test_a_label_that_cannot_be_read_is_ignored_and_named(text: str) -> None:
    """In one line; the others count."""
    labels = {"surescale.max": text, "surescale.total": "40"}
    assert in_force(FREE, labels) == JobSettings(job="prod/orders", total_limit=40)
    (problem,) = unreadable(labels)
    assert problem.startswith("label surescale.max is ignored: ")
    assert "\n" not in problem


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_no_text_of_any_label_is_an_error(name: str) -> None:
    """Whatever the limit: nothing raises, nothing becomes a number that is none."""
    for text in ("", "nan", "-inf", "=..", "1e400", "..", "mon-", "latency=nan", "ß" * 300, "a=1e9..", "x=0..0"):
        assert in_force(FREE, {f"surescale.{name}": text}).job == FREE.job or not is_set(FREE, FIELDS[name])


def test_a_mistyped_label_is_told_from_a_foreign_one() -> None:
    """Others may use the prefix to say which jobs are watched."""
    assert unreadable({"surescale.maxx": "4", "surescale.crew": "a", "surescale.mode": "fast", "team": "x"}) == (
        "label surescale.maxx is no limit; surescale.max is one",
    )
