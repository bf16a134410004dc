"""`surescale job apply` and `export` on a real broker: all of a file or nothing, and by whom."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import JOB_SETTINGS, JOB_TOPOLOGY
from surescale.runtime.kafka import create_topics
from surescale.runtime.topic_records import send
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, topology
from tests.support.command_line import job_command as command
from tests.support.topic_records import records

pytestmark = pytest.mark.integration

WOULD_CHANGE = 3


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """A pipeline with one job."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    send(settings, JOB_TOPOLOGY, JOB, topology())
    return settings


def job(pipeline: PipelineSettings, *arguments: str, exit_code: int = 0) -> str:
    """Run `surescale job` and return what it says; an error of the world is raised."""
    options = ["--bootstrap", pipeline.bootstrap, "--prefix", pipeline.topic_prefix]
    result = CliRunner().invoke(command, [*arguments, *options], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result.output


def test_a_file_is_compared_applied_corrected_and_pruned(pipeline: PipelineSettings, tmp_path: Path) -> None:
    """A dry run and the same again write nothing; a change by hand is shown, and set again; what goes is taken back."""
    file = tmp_path / "team.toml"
    file.write_text('[jobs."sim/cl*"]\nmax = 4\npolicy = "static"\n\n[jobs."sim/later"]\nmin = 2\n')
    apply = ("apply", "--file", str(file), "--by", "ci")
    said = job(pipeline, *apply, "--dry-run", exit_code=WOULD_CHANGE)
    assert f'{JOB}: max default -> 4, policy default -> static ({file}: [jobs."sim/cl*"])' in said
    assert "no job sim/later is known yet" in said
    assert records(pipeline, JOB_SETTINGS, JobSettings) == []

    assert job(pipeline, *apply).endswith("2 changed, 0 as they are\n")
    assert {(each.job, each.set_by, each.applied_from) for each in records(pipeline, JOB_SETTINGS, JobSettings)} == {
        (JOB, "ci", "team.toml"),
        ("sim/later", "ci", "team.toml"),
    }
    assert job(pipeline, *apply, "--dry-run") == "0 would change, 2 as they are\n"

    said = job(pipeline, "set", JOB, "--max", "9", "--by", "bob")
    assert "team.toml sets this job: the next `surescale job apply` takes the change back" in said
    shown = json.loads(job(pipeline, "settings", JOB, "--json"))
    assert (shown["applied_from"], shown["changed_by_hand"]) == ("team.toml", ["max 4 -> 9"])
    said = job(pipeline, *apply)
    assert f"{JOB}: max 9 -> 4" in said
    assert "changed by hand since it was applied, last by bob: max 4 -> 9" in said
    assert json.loads(job(pipeline, "settings", JOB, "--json"))["changed_by_hand"] == []
    assert "ci from team.toml" in job(pipeline, "history", JOB)

    file.write_text('[jobs."sim/later"]\nmin = 2\n')
    assert job(pipeline, *apply) == "0 changed, 1 as they are\n"
    assert "max 4 -> default, policy static -> default (team.toml no longer names it)" in job(pipeline, *apply, "--prune")
    assert job(pipeline, *apply, "--prune") == "0 changed, 1 as they are\n"
    assert json.loads(job(pipeline, "settings", JOB, "--json"))["applied_from"] is None


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('[jobs."sim/nobody*"]\nmax = 3\n', "no job fits"),
        ('[jobs."sim/other"]\npolicy = "nonesuch"\n', "policy nonesuch: "),
        ('[jobs."sim/other"]\nmax = 3\nmaxx = 3\n', "there is no setting 'maxx'"),
        (f'[jobs."{JOB}"]\nmax = 3\n', "has an entry already"),
    ],
)
def test_of_a_folder_with_one_bad_entry_nothing_is_applied(
    pipeline: PipelineSettings, tmp_path: Path, bad: str, said: str
) -> None:
    """The line names the file and the entry."""
    (tmp_path / "a.toml").write_text(f'[jobs."{JOB}"]\nmax = 4\n')
    (tmp_path / "b.toml").write_text(bad)
    with pytest.raises(SettingsError) as refused:
        job(pipeline, "apply", "--file", str(tmp_path))
    assert str(refused.value).startswith(f"{tmp_path / 'b.toml'}: [jobs.")
    assert said in str(refused.value)
    assert records(pipeline, JOB_SETTINGS, JobSettings) == []


def test_what_is_exported_is_what_is_set(pipeline: PipelineSettings, tmp_path: Path) -> None:
    """And applying it changes nothing but whose the settings are."""
    assert job(pipeline, "export") == ""
    limits = ("--max", "7", "--task", "map=2..6", "--exclude", "sat UTC", "--no-align", "--objective", "latency=30@1%")
    job(pipeline, "set", JOB, *limits)
    text = job(pipeline, "export", "sim/*")
    (tmp_path / "jobs.toml").write_text(text)
    before = records(pipeline, JOB_SETTINGS, JobSettings)[-1]
    assert "jobs.toml owns it from now on" in job(pipeline, "apply", "--file", str(tmp_path / "jobs.toml"))
    after = records(pipeline, JOB_SETTINGS, JobSettings)[-1]
    assert (after.version, after.applied_from) == (before.version + 1, "jobs.toml")
    assert job(pipeline, "export") == text
    with pytest.raises(SettingsError, match="no job fits 'sim/x'"):
        job(pipeline, "export", "sim/x")
