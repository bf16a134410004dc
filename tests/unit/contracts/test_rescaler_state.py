"""What counts as a rescaler's memory: by its key, and by what it says it is about."""

import msgspec
import pytest

from surescale.contracts.errors import RecordRejected
from surescale.contracts.rescaler_state import JobSummary, RescalerRecord, memory_key, memory_of
from surescale.contracts.wire import encode

JOB = "sim/clicks"
KEYS = {
    "job": f"sim/job/{JOB}",
    "request": f"sim/request/{JOB}@600000/rule",
    "placement": "sim/cluster/placement",
    "balance": "sim/cluster/balance",
}


def kept(key: str = KEYS["job"], **changes: object) -> bytes:
    """A record that agrees with its key, but for the changes."""
    cluster, kind, of = key.split("/", 2)
    fields = {"cluster": cluster, "kind": kind, "id": of, "at_ms": 1, "body": msgspec.Raw(b"{}"), "summary": JobSummary()}
    return encode(RescalerRecord(**(fields | changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_record_under_a_key_of_the_memory_is_memory(key: str) -> None:
    """Of a job, of a decision on one, and of the cluster."""
    found = memory_of(key.encode(), kept(key))
    assert (str(memory_key(key.encode())), f"{found.cluster}/{found.kind}/{found.id}") == (key, key)
    assert memory_key(key.encode()).job == ("" if "cluster" in key else JOB)


@pytest.mark.parametrize(
    "key",
    [
        b"", b"/", b"//", b"sim", b"sim/", b"sim/x", b"sim/job", b"sim/job/", b"sim/job/clicks", b"sim/job/other/clicks",
        b"sim/job/sim/", b"sim/job/sim/a/b", b"sim/job/sim/\xff", b"sim/job/sim/a\x00b", b"sim/jobs/sim/clicks",
        b"sim/cluster/", b"sim/cluster/topology", b"sim/cluster/placement/", b"/cluster/placement", b"sim/request/",
        b"sim/request/x", b"sim/request/sim/clicks", b"sim/request/sim/clicks@x/rule", b"sim/request/other/clicks@1/rule",
        b"sim/request/sim/clicks@1/a/b", b"x" * 30_000, b"sim/job/sim/" + b"x" * 30_000, b"x" * 300 + b"/cluster/balance",
    ],
)  # fmt: skip
def test_any_other_key_is_none(key: bytes) -> None:
    """Though it may begin like one."""
    with pytest.raises(RecordRejected) as refused:
        memory_key(key)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("change", [{"cluster": "other"}, {"kind": "request"}, {"id": "sim/orders"}])
def test_a_record_that_is_about_something_else_than_its_key_is_rejected(change: dict[str, str]) -> None:
    """Whichever part of it differs."""
    with pytest.raises(RecordRejected, match="than its key says"):
        memory_of(KEYS["job"].encode(), kept(**change))


def test_a_record_of_another_version_comes_with_its_summary_only() -> None:
    """Its body is private to a rescaler of that version; those of the cluster are public."""
    other = kept(summary=JobSummary(desired_generation=7)).replace(b"rescaler-state/1", b"rescaler-state/2")
    found = memory_of(KEYS["job"].encode(), other)
    assert (bytes(found.body), found.summary) == (b"", JobSummary(desired_generation=7))
    other = kept(KEYS["balance"]).replace(b"rescaler-state/1", b"rescaler-state/2")
    assert bytes(memory_of(KEYS["balance"].encode(), other).body) == b"{}"


@pytest.mark.parametrize("tag", [b"sample/1", b"rescaler-state/", b"rescaler-state/x", b""])
def test_a_record_of_another_kind_is_none(tag: bytes) -> None:
    """Whatever else it says."""
    with pytest.raises(RecordRejected):
        memory_of(KEYS["job"].encode(), kept().replace(b"rescaler-state/1", tag))
