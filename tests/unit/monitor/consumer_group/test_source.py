"""Which jobs the consumer groups of a cluster are, without a groups file."""

import pytest

from contracts.ids import split_job
from engines.groups.broker import GroupReader
from monitor.settings import MonitorSettings
from monitor.sources.consumer_group.source import ConsumerGroupSource


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
        chain = source._chain(job)
        assert split_job(job) == ("shop", chain.name)
        assert len(chain.name) <= 100
        assert list(chain.groups) == [chain.name]
        assert chain.group_of(chain.name) in groups
