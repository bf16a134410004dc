"""The file that `init` writes is one that every command reads, and says what was answered."""

import tomllib
from pathlib import Path

import pytest

from surescale.contracts.settings import from_environment
from surescale.engines.groups.chains import read_chains
from surescale.engines.settings import ClusterSettings
from surescale.services.init.answers import FoundGroup, Plan, file_of
from surescale.services.job_settings.files import read_entries
from surescale.services.pipeline_file import read

ORDERS = FoundGroup("orders-parse", 2, ("orders",), 6, 10, True, True)
ODD = FoundGroup('team/"orders"\x7f', 0, ("a.b", "ü"), 3, 0, False, True)
SETTINGS = {"bootstrap": "kafka:9092", "redis_url": "redis://127.0.0.1:6390/0"}


def written(plan: Plan, folder: Path) -> Path:
    """Return the file of a plan."""
    file = folder / "surescale.toml"
    file.write_text(file_of(plan))
    return file


def test_groups_become_chains_that_are_read_again(tmp_path: Path) -> None:
    """Whatever letters a group's id has; limits are labels of the job."""
    file = written(Plan("shop", SETTINGS, True, "advise", (ORDERS, ODD)), tmp_path)
    found = read(file)
    settings = from_environment(ClusterSettings, found.variables)
    assert (settings.engine, settings.cluster, settings.actuator_kind) == ("kafka", "shop", "none")
    assert (settings.policy, settings.span_minutes, settings.bootstrap) == ("target-utilisation", 1, "kafka:9092")
    assert found.up == {"create-topics": True, "one-process": True, "own-redis": True}
    chains = read_chains(Path(f"{file}#chains"))
    assert list(chains) == ["orders-parse", ODD.job]
    (group,) = chains[ODD.job].groups.values()
    assert (group.group, group.reads, group.workers) == (ODD.group, ODD.topics, None)
    labels = chains["orders-parse"].labels
    assert labels == {"surescale.mode": "advise", "surescale.max": "6", "surescale.minutes-known": "3"}


def test_a_command_makes_workers_as_many_as_there_are_members(tmp_path: Path) -> None:
    """At least one."""
    own = {**SETTINGS, "actuator": "processes", "workers_folder": "workers"}
    for group, start in ((ORDERS, 2), (ODD, 1)):
        file = written(Plan("shop", own, False, "act", (group,), ("python", "a b.py")), tmp_path)
        (found,) = read_chains(Path(f"{file}#chains"))[group.job].groups.values()
        assert found.workers is not None
        assert (found.workers.command, found.workers.start) == (("python", "a b.py"), start)
        assert "own-redis" not in read(file).up
        assert from_environment(ClusterSettings, read(file).variables).actuator_kind == "processes"


def test_jobs_of_flink_get_their_mode_as_job_apply_reads_it(tmp_path: Path) -> None:
    """A pattern of no job: each by its name. TOML has no halves of a letter, as JSON has."""
    names = ("prod/a", 'prod/"b"', "prod/\N{ROCKET}")
    settings = {**SETTINGS, "engine_url": "http://jobmanager:8081"}
    file = written(Plan("prod", settings, True, "advise", flink_jobs=names, asks_flink=True), tmp_path)
    assert read(file).has_jobs
    assert [(each.name, each.wanted["mode"]) for each in read_entries(file)] == [(name, "advise") for name in names]
    assert "policy" not in tomllib.loads(file.read_text())["settings"]
    assert from_environment(ClusterSettings, read(file).variables).engine_url == "http://jobmanager:8081"


@pytest.mark.parametrize(("asks_flink", "expected"), [(False, (3, 5)), (True, (5, 16))])
def test_the_first_decision_follows_the_known_minutes_and_the_span(asks_flink: bool, expected: tuple[int, int]) -> None:
    """Three minutes and a decision a minute for groups; five minutes and a decision every ten for Flink."""
    assert Plan("shop", SETTINGS, True, "advise", asks_flink=asks_flink).first_decision() == expected
