"""`surescale job` on a real broker: every change one record, nothing written when something is wrong."""

import json

import click
import pytest
from click.testing import CliRunner

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings, LatencyBound, Pause, TaskLimits
from surescale.contracts.messages import ClockSegment, JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, JOB_SETTINGS, JOB_TOPOLOGY
from surescale.runtime.kafka import create_topics
from surescale.runtime.topic_records import send
from surescale.services.job_settings.snapshot import SettingsSnapshot, change
from surescale.services.tools.job_settings.pause_command import pause_cluster, pause_job, resume_cluster, resume_job
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, topology
from tests.support.command_line import job_command as command
from tests.support.topic_records import records

pytestmark = pytest.mark.integration

PIPELINE_NOW_MS = 36_000_000


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """A pipeline with one job and a clock that stands."""
    return make_pipeline(kafka)


@pytest.fixture(scope="module")
def quiet_pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """A pipeline on which nothing is ever changed."""
    return make_pipeline(kafka)


def make_pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """Return a pipeline with one job and a clock that stands."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    send(settings, JOB_TOPOLOGY, JOB, topology())
    segment = ClockSegment(pipeline="main", sequence=0, e0_ms=PIPELINE_NOW_MS, w0_ms=0, speed=1.0, until_ms=PIPELINE_NOW_MS)
    send(settings, CLOCK, "main", segment)
    return settings


def job(pipeline: PipelineSettings, *arguments: str) -> str:
    """Run `surescale job` and return what it says; an error of the world is raised."""
    options = ["--bootstrap", pipeline.bootstrap, "--prefix", pipeline.topic_prefix]
    result = CliRunner().invoke(command, [*arguments, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_who_changed_settings_is_shown_and_not_obeyed(pipeline: PipelineSettings) -> None:
    """Anybody may write any name there: it cannot clear the screen or fake another change."""
    forged = JobSettings(job=JOB, version=2**53, mode="observe", set_by="alice\x1b[2J\n   9  approved by security")
    send(pipeline, JOB_SETTINGS, JOB, forged)
    shown = job(pipeline, "history", JOB)
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 1
    job(pipeline, "set", JOB, "--mode", "default")
    assert records(pipeline, JOB_SETTINGS, JobSettings)[-1].mode is None
    assert len(job(pipeline, "history", JOB).splitlines()) == 2


def test_each_change_is_a_record_with_version_who_and_when(pipeline: PipelineSettings) -> None:
    """Set and pin write one record each; show and history tell them."""
    said = job(pipeline, "set", JOB, "--mode", "advise", "--max", "8", "--policy", "static", "--by", "ann")
    assert "settings version 1, from the next span on" in said
    for words in (("set", "--mode", "observe"), ("pin",), ("set", "--mode", "advise", "--policy", "static")):
        job(pipeline, words[0], JOB, *words[1:], "--by", "bob")
    written = records(pipeline, JOB_SETTINGS, JobSettings)
    assert [(record.version, record.mode, record.policy) for record in written] == [
        (1, "advise", "static"),
        (2, "observe", "static"),
        (3, "observe", "hold"),
        (4, "advise", "static"),
    ]
    assert {(record.set_by, record.set_at_ms) for record in written} == {("ann", PIPELINE_NOW_MS), ("bob", PIPELINE_NOW_MS)}
    assert json.loads(job(pipeline, "settings", JOB, "--json"))["policy_in_use"] == "static (job)"
    lines = [" ".join(line.split()) for line in job(pipeline, "settings", JOB).splitlines()]
    assert "max 8 (ann, 1970-01-01 10:00:00)" in lines
    assert "policy static (bob, 1970-01-01 10:00:00)" in lines
    history = json.loads(job(pipeline, "history", JOB, "--json"))
    assert history[1]["changed"] == {"mode": ["advise", "observe"]}
    assert "1970-01-01 10:00:00  ann  mode " in (shown := job(pipeline, "history", JOB))
    assert ", max default -> 8" in shown


def test_settings_that_a_role_wrote_first_are_the_defaults(pipeline: PipelineSettings) -> None:
    """A first record that changes nothing repeats nothing either; the second one does."""
    for version in (1, 2):
        send(pipeline, JOB_SETTINGS, JOB, JobSettings(job=JOB, version=version, set_by="demo"))
    first, second = job(pipeline, "history", JOB).splitlines()
    assert first.endswith("demo  the defaults, written for the first time")
    assert second.endswith("demo  unchanged; written again")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["set", JOB, "--min", "9", "--max", "3"], "--min: 9"),
        (["set", JOB, "--total", "1", "--min", "2"], "--total: 1"),
        (["set", JOB, "--policy", "nonesuch"], "policy nonesuch: "),
        (["set", "other", "--max", "3"], "JOB: 'other' is no name of a job; write CLUSTER/NAME"),
        (["settings", "sim/other"], "JOB: there is no job 'sim/other'; known: sim/clicks"),
        (["pin", "nonsense"], "JOB: there is no job 'nonsense'"),
    ],
)
def test_what_makes_no_sense_changes_nothing(quiet_pipeline: PipelineSettings, arguments: list[str], named: str) -> None:
    """Contradictory bounds, a policy that is not there and an unknown job are one clear line each."""
    with pytest.raises(SettingsError) as refused:
        job(quiet_pipeline, *arguments)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
    assert records(quiet_pipeline, JOB_SETTINGS, JobSettings) == []


def test_limits_can_be_set_before_a_job_is_known(pipeline: PipelineSettings) -> None:
    """The answer says so, and names jobs that are known."""
    said = job(pipeline, "set", "sim/other", "--mode", "act", "--max", "3", "--task", "any=2..3")
    assert "no job sim/other is known yet: this holds from the moment that there is one; known: sim/clicks" in said


def test_a_job_that_is_to_be_acted_on_is_told_its_limits(pipeline: PipelineSettings) -> None:
    """With what decides each of them."""
    said = job(pipeline, "set", JOB, "--mode", "act", "--max", "9")
    assert "max               9 (set for this job)" in said
    assert "total             200 (default of simulated)" in said
    assert "now: " in said


def test_the_same_again_writes_nothing(pipeline: PipelineSettings) -> None:
    """A change to what already is has no record."""
    job(pipeline, "set", JOB, "--priority", "3")
    assert "nothing was written" in job(pipeline, "set", JOB, "--priority", "3")
    assert len(records(pipeline, JOB_SETTINGS, JobSettings)) == 1


def test_of_two_at_the_same_time_the_last_wins_and_versions_rise(pipeline: PipelineSettings) -> None:
    """A writer who is passed by two others between reading and writing still ends up in force, with a higher version."""
    passed = False

    def wanted(snapshot: SettingsSnapshot) -> dict[str, object]:
        nonlocal passed
        if not passed:
            passed = True
            for version in (1, 2):
                send(pipeline, JOB_SETTINGS, JOB, JobSettings(job=JOB, version=version, priority=version, set_by="other"))
        return {"parallelism_max": 7}

    done = change(pipeline, JOB, wanted, "ann")
    assert [(record.version, record.set_by) for record in records(pipeline, JOB_SETTINGS, JobSettings)] == [
        (1, "other"),
        (2, "other"),
        (1, "ann"),
        (3, "ann"),
    ]
    assert (done.after.parallelism_max, done.after.priority) == (7, 2)


def run(pipeline: PipelineSettings, steer: click.Command, *arguments: str) -> str:
    """Run a command that pauses or resumes and return what it says."""
    options = ["--bootstrap", pipeline.bootstrap, "--prefix", pipeline.topic_prefix]
    result = CliRunner().invoke(steer, [*arguments, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_job_and_its_cluster_are_paused_and_resumed(pipeline: PipelineSettings) -> None:
    """Each a record with who, when, until and why, in a history of its own; nothing else of the settings changes."""
    job(pipeline, "set", JOB, "--max", "7")
    said = run(pipeline, pause_job, JOB, "--direction", "down", "--for", "2h", "--why", "release day", "--by", "ann")
    assert "scaling down of sim/clicks is paused by ann until 1970-01-01 12:00:00: release day; settings version 2" in said
    assert "rescaling of sim is paused by bob until further notice" in run(
        pipeline, pause_cluster, "sim", "--why", "audit", "--by", "bob"
    )
    shown = json.loads(job(pipeline, "settings", JOB, "--json"))["paused"]
    assert "scaling down of sim/clicks" in shown
    assert "rescaling of sim is" in shown
    assert "still in force: rescaling of sim is paused by bob" in run(pipeline, resume_job, JOB, "--by", "cy")
    assert run(pipeline, resume_job, JOB).startswith("sim/clicks: was not paused; nothing was written")
    assert run(pipeline, resume_cluster, "sim", "--by", "cy") == "sim: resumed; settings version 2, at once\n"
    assert json.loads(job(pipeline, "settings", JOB, "--json"))["paused"] == "no"
    of_job = [record for record in records(pipeline, JOB_SETTINGS, JobSettings) if record.job == JOB]
    assert [(each.version, each.set_by, each.parallelism_max) for each in of_job][1:] == [(2, "ann", 7), (3, "cy", 7)]
    made = Pause(direction="down", until_ms=PIPELINE_NOW_MS + 7_200_000, why="release day", by="ann", at_ms=PIPELINE_NOW_MS)
    assert [each.pause for each in of_job] == [None, made, None]
    assert "paused: down, release day" in job(pipeline, "history", JOB)
    assert "resumed" in job(pipeline, "history", "sim/*")


@pytest.mark.parametrize(
    ("steer", "target", "named"),
    [
        (pause_job, "sim/other", "JOB: there is no job 'sim/other'; known: sim/clicks"),
        (pause_job, "sim", "JOB: sim is a cluster; write CLUSTER/NAME, or `surescale cluster pause sim` for all its jobs"),
        (pause_cluster, "simm", "CLUSTER: there is no cluster 'simm'; known: sim"),
        (pause_cluster, JOB, f"CLUSTER: {JOB} is a job; `surescale job pause {JOB}` is for one alone"),
        (resume_job, "sim/other", "JOB: there is no job 'sim/other'"),
        (resume_cluster, JOB, f"CLUSTER: {JOB} is a job; `surescale job resume {JOB}` is for one alone"),
    ],
)
def test_what_is_unknown_cannot_be_paused(
    quiet_pipeline: PipelineSettings, steer: click.Command, target: str, named: str
) -> None:
    """One line, and nothing is written."""
    with pytest.raises(SettingsError) as refused:
        run(quiet_pipeline, steer, target, *(["--why", "x"] if steer.name == "pause" else []))
    assert named in str(refused.value)
    assert records(quiet_pipeline, JOB_SETTINGS, JobSettings) == []


@pytest.mark.parametrize("arguments", [["set", "sim/*", "--max", "3"], ["settings", "sim/*"]])
def test_only_a_pause_can_be_set_for_a_whole_cluster(quiet_pipeline: PipelineSettings, arguments: list[str]) -> None:
    """Limits are a job's own."""
    with pytest.raises(SettingsError, match="is not a single job"):
        job(quiet_pipeline, *arguments)


def test_topologies_are_read_whatever_their_state(pipeline: PipelineSettings) -> None:
    """Of several topologies of a job the newest one bounds it."""
    wider = topology(2)
    send(pipeline, JOB_TOPOLOGY, JOB, JobTopology(job=JOB, version=2, at_ms=1, tasks=wider.tasks, state="finished"))
    assert json.loads(job(pipeline, "settings", JOB, "--json"))["state"] == "finished"


def test_every_limit_can_be_set_shown_and_taken_back(pipeline: PipelineSettings) -> None:
    """From the command line to the record and back: what show prints can be given to set."""
    limits = ["--task", "map=2..6", "--step", "3", "--step-up", "5", "--rescales-a-day", "4", "--scale-down-after", "30",
              "--exclude", "mon-fri 09:00-17:30 Europe/Berlin", "--exclude", "sat,sun UTC strict", "--ineffective", "block",
              "--no-align", "--cpu", "16", "--catch-up", "10", "--restart-seconds", "4", "--backlog-hold", "3",
              "--on-drift", "adopt", "--objective", "cost"]  # fmt: skip
    said = job(pipeline, "set", JOB, *limits)
    assert "task default -> map=2..6" in said
    assert "step-up default -> 5, step-down default -> 3" in said
    written = records(pipeline, JOB_SETTINGS, JobSettings)[-1]
    assert written.tasks == {"map": TaskLimits(parallelism_min=2, parallelism_max=6)}
    assert (written.step_up_max, written.step_down_max, written.align, written.on_drift) == (5.0, 3.0, False, "adopt")
    assert written.objective == "cost"
    shown = json.loads(job(pipeline, "settings", JOB, "--json"))
    assert shown["tasks"] == ["map=2..6"]
    assert shown["excluded"] == ["mon,tue,wed,thu,fri 09:00-17:30 Europe/Berlin", "sat,sun UTC strict"]
    assert (shown["rescales_a_day_max"], shown["cpu_limit"], shown["backlog_hold_minutes"]) == (4, 16.0, 3.0)
    assert "already say so" in job(pipeline, "set", JOB, *(part for text in shown["excluded"] for part in ("--exclude", text)))
    assert "objective cost -> latency=30@0.01" in (said := job(pipeline, "set", JOB, "--objective", "latency=30@1%")), said
    assert records(pipeline, JOB_SETTINGS, JobSettings)[-1].objective == LatencyBound(seconds=30.0, share=0.01)
    assert json.loads(job(pipeline, "settings", JOB, "--json"))["objective"] == "latency=30@0.01"
    periods = ["mon,tue 07:30-09:00 Europe/Berlin: min 2", "00:00-24:00 UTC: max 9 objective cost"]
    job(pipeline, "set", JOB, *(part for period in periods for part in ("--within", period)))
    shown = json.loads(job(pipeline, "settings", JOB, "--json"))
    assert shown["minimum_within"] == periods
    assert "max 9 within 00:00-24:00 UTC, objective cost within 00:00-24:00 UTC" in shown["within_now"]
    job(pipeline, "set", JOB, "--exclude", "none", "--task", "map=free", "--rescales-a-day", "default", "--step-up", "default")
    after = records(pipeline, JOB_SETTINGS, JobSettings)[-1]
    assert (after.excluded, after.tasks, after.rescales_a_day_max, after.step_up_max) == ((), {}, None, None)
