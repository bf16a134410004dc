"""Which mode a job is in, by settings, label and engine."""

import pytest

from surescale.contracts.capabilities import SIMULATED, Capabilities
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.modes import AMBIGUOUS_LABEL, MODE_LABEL, mode_in_force

REAL = Capabilities(engine="flink", acts="counts")
WATCHED = Capabilities(engine="prometheus", acts="none")
JOB = "real/orders"


def topology(**labels: str) -> JobTopology:
    """A job with labels."""
    named = {name.replace("_", "-").replace("surescale-", "surescale."): value for name, value in labels.items()}
    return JobTopology(job=JOB, version=1, at_ms=0, tasks=(TaskSpec(task="map"),), labels=named)


@pytest.mark.parametrize(
    ("engine", "mode"), [(SIMULATED, "act"), (REAL, "observe"), (WATCHED, "observe"), (None, "observe")], ids=str
)
@pytest.mark.parametrize("settings", [None, JobSettings(job=JOB, version=3, parallelism_max=4)])
def test_what_nobody_has_said_follows_the_engine(settings: JobSettings | None, engine: Capabilities | None, mode: str) -> None:
    """A real job is only observed, also after somebody changed its bounds."""
    in_force = mode_in_force(settings, topology(), engine)
    assert (in_force.mode, in_force.source) == (mode, "default")


@pytest.mark.parametrize("label", ["act", "Act", " act "])
def test_the_jobs_own_label_opts_in(label: str) -> None:
    """Its author wrote it into the job's parameters."""
    in_force = mode_in_force(None, topology(surescale_mode=label), REAL)
    assert (in_force.mode, in_force.source) == ("act", "label")


def test_settings_win_over_the_label() -> None:
    """Whoever operates the cluster has the last word."""
    in_force = mode_in_force(JobSettings(job=JOB, mode="observe"), topology(surescale_mode="act"), REAL)
    assert (in_force.mode, in_force.source) == ("observe", "settings")


@pytest.mark.parametrize("label", ["", "yes", "auto"])
def test_a_label_that_says_nothing_known_counts_as_none(label: str) -> None:
    """A slip of the pen acts on nothing."""
    assert mode_in_force(None, topology(surescale_mode=label), REAL).mode == "observe"


@pytest.mark.parametrize("engine", [WATCHED, None], ids=str)
def test_an_engine_that_takes_no_commands_is_advised_about_at_most(engine: Capabilities | None) -> None:
    """Nothing that is called act may do nothing."""
    in_force = mode_in_force(JobSettings(job=JOB, mode="act"), topology(), engine)
    assert (in_force.mode, in_force.source) == ("advise", "engine")


def test_two_jobs_of_one_name_are_only_observed() -> None:
    """Whatever the settings of that name say: nobody knows which of them is meant."""
    ambiguous = JobTopology(job=JOB, version=1, at_ms=0, tasks=(TaskSpec(task="map"),), labels={AMBIGUOUS_LABEL: "2"})
    in_force = mode_in_force(JobSettings(job=JOB, mode="act"), ambiguous, REAL)
    assert (in_force.mode, in_force.source) == ("observe", "name")


def test_a_mode_says_what_decided_it() -> None:
    """For people."""
    assert str(mode_in_force(None, topology(), REAL)) == "observe (by default)"
    assert str(mode_in_force(None, topology(surescale_mode="act"), REAL)) == f"act (by its label {MODE_LABEL})"
