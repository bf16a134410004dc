"""Which jobs the consumer groups of a cluster are, and which of them have left."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from surescale.contracts.ids import split_job
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.broker import GroupReader
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.monitor.settings import MonitorSettings
from tests.support.builders import topology


def test_every_group_is_a_job_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its id: names that would become one are told apart, and none stands for all jobs or fills a record."""
    groups = ("*", ".", "..", "orders", "team/orders", "team\\orders", "team_orders", "x" * 4_000)
    monkeypatch.setattr(GroupReader, "names", lambda self: groups)
    source = ConsumerGroupSource(MonitorSettings(engine="kafka", cluster="shop"))
    jobs = source.jobs()
    assert len(jobs) == len(groups)
    assert {"shop/orders", "shop/team_orders"} < set(jobs)
    assert "shop/*" not in jobs
    for job in jobs:
        chain = source._live[job]
        assert split_job(job) == ("shop", chain.name)
        assert len(chain.name) <= 100
        assert list(chain.groups) == [chain.name]
        assert chain.group_of(chain.name) in groups


@pytest.mark.parametrize(
    ("job", "engine", "has_left"),
    [
        ("shop/orders-parse", "kafka", True),
        ("shop/orders", "kafka", False),
        ("else/orders-parse", "kafka", False),
        ("shop/orders-parse", "flink", False),
    ],
)
def test_a_job_that_left_the_groups_file_has_ended(tmp_path: Path, job: str, engine: str, has_left: bool) -> None:
    """First each group was a job, then the file named the chain: the old name must not seem silent for ever."""
    file = tmp_path / "groups.toml"
    file.write_text("[orders.groups.parse]\ngroup = 'orders-parse'\n")
    source = ConsumerGroupSource(MonitorSettings(engine="kafka", cluster="shop", parts=(GroupsSettings(str(file)),)))
    last = replace(topology(), job=job, engine=engine, version=7)
    ended = source.end_of(last)
    assert (ended is not None) is has_left
    if ended is not None:
        assert (ended.state, ended.version > 7, ended.at_ms > 0) == ("finished", True, True)
        assert [(event.kind, event.job) for event in source.events("")] == [("job_stopped", job)]


def test_without_a_file_a_group_that_has_no_members_has_not_ended() -> None:
    """It may have some again."""
    source = ConsumerGroupSource(MonitorSettings(engine="kafka", cluster="shop"))
    assert source.end_of(replace(topology(), job="shop/orders", engine="kafka")) is None
