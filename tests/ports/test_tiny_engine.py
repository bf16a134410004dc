"""An engine from a package of its own is found by its entry point and keeps the contracts; nothing of the product knows it."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import SettingsError
from surescale.engines.ports.actuator import EngineApi
from surescale.engines.ports.source import Source
from surescale.engines.registry import actuator_of, checks_of, engines, source_of, users_of_settings
from surescale.engines.settings import ClusterSettings, SourceSettings
from tests.ports.requirement_contract import BEFORE, CLUSTER, JOB, RequirementContract, RequirementRig
from tests.ports.source_contract import SourceContract
from tests.support.fake_flink import QuickClock
from tests.support.role_settings import role_settings
from tests.support.waiting import PATIENT_S, wait_until

PROJECT = Path(__file__).parents[1] / "tiny_engine"
BUILD = "import setuptools.build_meta as b, sys; b.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package as its wheel installs it, on the path of this module's tests only."""
    made, site = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("site")
    shutil.copytree(PROJECT, made / "project")
    subprocess.run(
        [sys.executable, "-c", BUILD, str(made)], cwd=made / "project", check=True, capture_output=True, timeout=PATIENT_S
    )
    (wheel,) = made.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        _forget()
        yield site
    _forget()


def _forget() -> None:
    engines.cache_clear()
    users_of_settings.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiny_engine"]:
        del sys.modules[name]


def tiny(folder: Path) -> dict[str, str]:
    """Return the settings of roles whose engine has its jobs in a folder."""
    return {"engine": "tiny", "cluster": CLUSTER, "tiny_folder": str(folder)}


def jobs_of(folder: Path) -> Any:
    """Return the jobs of a folder, to change them as whatever runs them does."""
    from tiny_engine.jobs import Jobs

    return Jobs(folder, CLUSTER)


def submit(folder: Path, submission: int) -> None:
    """Submit the job, or submit it again."""
    from tiny_engine.jobs import Job, Task

    jobs_of(folder).write(JOB, Job(submission, 1, submission, {name: Task(count, count, 600) for name, count in BEFORE.items()}))


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The source of one job that was looked at for three minutes."""
    from tiny_engine.source import TinySource

    folder = tmp_path_factory.mktemp("jobs")
    submit(folder, 1)
    source = TinySource(role_settings(SourceSettings, **tiny(folder)), QuickClock)
    wait_until(lambda: len(source.minutes(JOB, 0)) >= 3, what="three minutes")
    source.close()
    return source


class TestTinySource(SourceContract):
    """Its files, looked at under a clock that runs faster."""

    @pytest.fixture
    def source(self, watched: Source) -> Source:
        """Three minutes of one job."""
        return watched


class TinyRig(RequirementRig):
    """A folder, and a clock of the test. When time passes, what is required runs as far as there are slots."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._slots, self._now_ms, self._submissions = folder, 1_000, MINUTE_MS, 0
        self._jobs = jobs_of(folder)
        self.api: EngineApi = actuator_of(role_settings(ClusterSettings, **tiny(folder)), 5.0)
        self.submit_again()

    def pass_seconds(self, seconds: float) -> None:
        """Run what is required."""
        from tiny_engine.jobs import Task

        self._now_ms += int(seconds * 1_000)
        job = self._jobs.read(JOB)
        tasks = {name: Task(task.required, min(task.required, self._slots)) for name, task in job.tasks.items()}
        self._jobs.write(JOB, type(job)(job.submission, job.revision, job.attempt + 1, tasks))

    def now_ms(self) -> int:
        """Its clock."""
        return self._now_ms

    def offer_slots(self, slots: int) -> None:
        """From now on."""
        self._slots = slots

    def require(self, parallelism: Mapping[str, int]) -> None:
        """As anybody may who can write the file."""
        self._jobs.write(JOB, self._jobs.read(JOB).requiring(parallelism))

    def submit_again(self) -> None:
        """As before."""
        self._submissions += 1
        submit(self._folder, self._submissions)

    def go_away(self) -> None:
        """Unmount the folder."""
        self._folder.rename(self._folder.with_suffix(".away"))

    def come_back(self) -> None:
        """As it was."""
        self._folder.with_suffix(".away").rename(self._folder)


class TestTinyActuator(RequirementContract):
    """Its actuator, made from a rescaler's settings."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A folder of its own."""
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "jobs"
            folder.mkdir()
            yield TinyRig(folder)


def test_the_settings_name_it_like_any_other(tmp_path: Path) -> None:
    """Its source is the usual one, its folder is a setting, and the doctor checks it."""
    settings = role_settings(SourceSettings, **tiny(tmp_path))
    submit(tmp_path, 1)
    assert (settings.source_kind, settings.actuator_kind) == ("tiny", "tiny")
    source = source_of(settings)
    assert source.jobs() == [JOB]
    source.close()
    assert [(each.verdict, each.detail) for each in checks_of(settings)] == [("ok", f"tiny, 1 job in {tmp_path}")]


def test_its_jobs_can_be_watched_only(tmp_path: Path) -> None:
    """As those of every engine."""
    assert actuator_of(role_settings(ClusterSettings, **tiny(tmp_path), actuator="none"), 5.0).capabilities().acts == "none"


def test_its_settings_are_refused_where_they_are_of_no_use(tmp_path: Path) -> None:
    """And missed where they are needed."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_TINY_FOLDER: only SURESCALE_ENGINE=tiny uses it; set that"):
        role_settings(ClusterSettings, tiny_folder=tmp_path)
    with pytest.raises(SettingsError, match=r"^SURESCALE_TINY_FOLDER: not set; SURESCALE_ACTUATOR=tiny needs it"):
        role_settings(ClusterSettings, engine="tiny")
    with pytest.raises(SettingsError, match=r"^SURESCALE_SOURCE: 'prometheus' does not fit SURESCALE_ENGINE=tiny; set tiny, or"):
        role_settings(ClusterSettings, **tiny(tmp_path), source="prometheus")


RULES = """
from surescale.policies.registry import RULES, load_policy
assert {"one-each", "broken"} < set(RULES)
print(load_policy("one-each", span_minutes=7))
print(load_policy("broken").reason)
"""


def test_its_rule_is_a_policy_and_one_that_cannot_be_loaded_says_why(installed: Path, tmp_path: Path) -> None:
    """In a process of its own, since the names of rules are read once."""
    broken = tmp_path / "broken-0.1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1.0\n")
    (broken / "entry_points.txt").write_text("[surescale.rules]\nbroken = nobody:Rule\n")
    path = os.pathsep.join(map(str, (tmp_path, installed, *sys.path)))
    command = [sys.executable, "-c", RULES]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=PATIENT_S, check=True
    )
    rule, reason = done.stdout.splitlines()
    assert rule.startswith("OneEach(name='one-each', sha256='', span_minutes=7")
    assert reason == "the rule nobody:Rule cannot be loaded: No module named 'nobody'"
