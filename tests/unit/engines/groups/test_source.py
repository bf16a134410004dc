"""Which jobs the consumer groups of a cluster are, and which of them have left."""

from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.ids import split_job
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.broker import GroupDescription, GroupReader, GroupState, GroupsUnavailable
from surescale.engines.groups.chains import single
from surescale.engines.groups.shown import shown
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.kafka.positions import Positions
from surescale.monitor.settings import MonitorSettings
from surescale.runtime.kafka_clock import wall_ms
from tests.ports.source_contract import assert_ends
from tests.support.builders import topology


def test_every_group_is_a_job_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its id: names that would become one are told apart, and none stands for all jobs or fills a record."""
    groups = ("*", ".", "..", "orders", "team/orders", "team\\orders", "team_orders", "x" * 4_000)
    monkeypatch.setattr(GroupReader, "listed", lambda self: dict.fromkeys(groups, True))
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
    assert_ends(source, job, engine, has_left=has_left)


def test_without_a_file_a_job_whose_members_left_unseen_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while the monitor was down; else it would seem to lack figures until Kafka forgets its group. So it is every minute."""
    monkeypatch.setattr(GroupReader, "listed", lambda self: {"left": False, "reads": True})
    source = ConsumerGroupSource(MonitorSettings(engine="kafka", cluster="shop"))
    assert source.jobs() == ["shop/reads"]
    left, reads = (replace(topology(), job=f"shop/{name}", engine="kafka", version=7) for name in ("left", "reads"))
    now = source.end_of(left)
    assert now is not None
    assert (now.state, now.version > 7) == ("suspended", True)
    assert source.end_of(now) is None
    later = source.end_of(replace(now, at_ms=now.at_ms - MINUTE_MS))
    assert later is not None
    assert (later.state, later.version > now.version) == ("suspended", True)
    assert source.end_of(reads) is None
    assert source.events("") == []


@pytest.mark.parametrize(
    ("listed", "state", "has_ended"),
    [
        ({"team/orders": False}, "", False),  # it may have members again, and nobody need ask for it
        ({}, "empty", False),  # it has come since they were listed
        ({}, "", False),  # the right to see it may have been taken away
        ({}, "dead", True),
    ],
)
def test_without_a_file_a_job_ends_when_the_broker_says_that_its_group_is_gone(
    monkeypatch: pytest.MonkeyPatch, listed: dict[str, bool], state: GroupState | Literal[""], has_ended: bool
) -> None:
    """It is asked for the group itself, by its own name, and once a minute where it doesn't tell."""
    asked: list[str] = []

    def look(self: GroupReader, groups: list[str]) -> dict[str, GroupDescription]:
        asked.extend(groups)
        if not state:
            raise GroupsUnavailable("grant DESCRIBE")
        return {group: GroupDescription(group, state, (), "", {}) for group in groups}

    monkeypatch.setattr(GroupReader, "listed", lambda self: listed)
    monkeypatch.setattr(GroupReader, "look", look)
    source = ConsumerGroupSource(MonitorSettings(engine="kafka", cluster="shop"))
    job = f"shop/{single('team/orders').name}"
    group = shown("orders", GroupDescription("team/orders", "empty", (), "", {}), Positions(), (), 0)
    last = replace(topology(), job=job, engine="kafka", version=7, at_ms=wall_ms(), groups=(group,), state="suspended")
    assert source.jobs() == []
    ended = [source.end_of(last) for _ in range(2 if not has_ended else 1)]
    assert asked == ["team/orders"] * (not listed)
    assert [each.state for each in ended if each] == ["finished"] * has_ended
    assert [(event.kind, event.job) for event in source.events("")] == [("job_stopped", job)] * has_ended


def test_a_group_that_cannot_be_looked_at_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named as a role's: only a look tells. Of the others of such names each is known after a while."""

    def look(self: GroupReader, groups: list[str]) -> dict[str, GroupDescription]:
        if groups == ["a-monitor-that-breaks-clients"]:
            raise GroupsUnavailable("what was told cannot be read")
        return {group: GroupDescription(group, "stable", (), "", {("logs", 0): 1}) for group in groups}

    monkeypatch.setattr(GroupReader, "look", look)
    reader = GroupReader(PipelineSettings(bootstrap="127.0.0.1:1"))
    listed = dict.fromkeys(("a-monitor-that-breaks-clients", "log-monitor-eu", "orders"), True)
    found = [reader.names(listed) for _ in range(60)]
    assert set(found) <= {("orders",), ("log-monitor-eu", "orders")}
    assert found[-1] == ("log-monitor-eu", "orders")
