"""Policies in the shadow: their own process, its limits, and a queue that never holds up a decision."""

import asyncio
import functools
import logging
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka.errors import KafkaTimeoutError

from surescale.contracts.decisions import Decision, ShadowDecision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.releases import Release
from surescale.contracts.windows import encode_window
from surescale.policies.decide import decide
from surescale.policies.registry import SHIPPED, load_policy
from surescale.policies.released_policy import card_hash
from surescale.policies.shadow import ShadowRun
from surescale.runtime.limited_graphs import STARTS_MAX
from surescale.services.agent.counts import LOST, AgentCounts
from surescale.services.agent.metrics import SHADOW_ANSWERS
from surescale.services.agent.shadow_process import ShadowProcess, ShadowQuestion
from surescale.services.agent.shadows import WAITING_MAX, Shadows
from tests.support.builders import JOB, window_at

FD_SETSIZE = 1024
RAW, SETTINGS = encode_window(window_at(600)), JobSettings(job=JOB)


@functools.cache
def served(policy: str = "hold") -> Decision:
    """Return the decision that was made."""
    return decide(window_at(600), load_policy(policy), SETTINGS, seed=7)


def question(policy: str, sha256: str = "") -> ShadowQuestion:
    """Return a question to a policy."""
    return ShadowQuestion(RAW, SETTINGS, ShadowRun(policy, sha256, served(), 3.0))


@pytest.fixture
def opened() -> Iterator[list[ShadowProcess]]:
    """Processes that end with the test."""
    processes: list[ShadowProcess] = []
    yield processes
    for process in processes:
        process.close()


def process(opened: list[ShadowProcess], *, folder: str = "", seconds: float = 30.0, memory_mb: int = 1024) -> ShadowProcess:
    """Return a process with these limits."""
    opened.append(ShadowProcess(folder=folder, span_minutes=10, seconds=seconds, memory_mb=memory_mb))
    return opened[-1]


def test_a_rule_and_a_package_answer_as_they_would_decide(opened: list[ShadowProcess]) -> None:
    """The same sizes as in the agent, from one process."""
    asked, sha256 = process(opened), card_hash(SHIPPED / "sure")
    for policy, of in (("target-utilisation", ""), ("sure", sha256), ("sure-paper", card_hash(SHIPPED / "sure-paper"))):
        found = asked.ask(question(policy, of))
        own = decide(window_at(600), load_policy(policy), SETTINGS, seed=7)
        assert found is not None
        assert found == ShadowRun(policy, of, served(), 3.0).answered(
            window_at(600), own, found.comparison.took_ms if found.comparison else -1
        )


def test_a_process_with_many_open_descriptors_is_answered_too(opened: list[ShadowProcess]) -> None:
    """``select.select`` refuses descriptors above 1023; an agent that holds many connections has them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FD_SETSIZE + 200
    if hard not in (-1, resource.RLIM_INFINITY) and hard < wanted:
        pytest.skip(f"this account may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(FD_SETSIZE)]
    try:
        found = process(opened).ask(question("target-utilisation"))
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found is not None
    assert found.status == "answered"


def test_a_policy_that_takes_too_long_is_late_and_after_some_ends_no_longer_asked(opened: list[ShadowProcess]) -> None:
    """Each end costs the time of a start; another policy is not held responsible."""
    asked = process(opened, seconds=1e-6)
    found = [asked.ask(question("target-utilisation")) for _ in range(STARTS_MAX + 1)]
    assert [each and each.status for each in found] == ["late"] * STARTS_MAX + ["failed"]
    other = asked.ask(question("hold"))
    assert other is not None
    assert other.status == "late"


def test_a_policy_that_takes_too_much_memory_ends_its_process_alone(opened: list[ShadowProcess]) -> None:
    """The answer says so."""
    found = process(opened, memory_mb=1).ask(question("sure-paper", card_hash(SHIPPED / "sure-paper")))
    assert found is not None
    assert found.status == "failed"


def test_a_package_that_is_damaged_or_not_the_one_that_was_released_fails(opened: list[ShadowProcess], tmp_path: Path) -> None:
    """A rule that stands in for it would say nothing about it."""
    package = tmp_path / "sure-paper"
    shutil.copytree(SHIPPED / "sure-paper", package)
    sha256, graph = card_hash(package), package / "policy.onnx"
    graph.write_bytes(graph.read_bytes()[:-1])
    asked = process(opened, folder=str(tmp_path))
    for of, why in ((sha256, "is damaged"), ("f" * 64, "ffffffffffff is not in the policy folder")):
        found = asked.ask(question("sure-paper", of))
        assert found is not None
        assert (found.status, why in found.reason) == ("failed", True)


def release(policy: str, sha256: str = "") -> Release:
    """Return a policy that looks on at the whole cluster."""
    return Release(cluster="sim", policy=policy, sha256=sha256, valid_from_ms=0, role="shadow")


class Pipeline:
    """Takes records as Kafka does, or refuses them."""

    def __init__(self) -> None:
        self.records: list[ShadowDecision] = []
        self.counts = AgentCounts()
        self.is_away = False

    async def send(self, record: ShadowDecision) -> None:
        """Acknowledge a record."""
        if self.is_away:
            raise KafkaTimeoutError
        self.records.append(record)

    def ended(self) -> dict[tuple[str, ...], float]:
        """Return how questions have ended, as the metric shows it."""
        return {each.labels: each.value for each in self.counts.metrics._readings() if each.metric is SHADOW_ANSWERS}


async def answered(pipeline: Pipeline, asked: ShadowProcess, *offers: list[Release], until: int) -> None:
    """Offer windows, and run until so many questions have ended."""
    shadows = Shadows(asked, pipeline.send, pipeline.counts, logging.getLogger("test"))
    for offer in offers:
        shadows.offer(RAW, served(), 3.0, SETTINGS, offer)
    running = asyncio.ensure_future(shadows.run())
    async with asyncio.timeout(60):
        while sum(pipeline.ended().values()) < until:
            await asyncio.sleep(0.01)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def test_what_finds_the_queue_full_is_skipped_and_counted(opened: list[ShadowProcess]) -> None:
    """The agent does not wait, and no window is kept in memory for ever."""
    pipeline, more = Pipeline(), 3
    offers = [[release("target-utilisation")] for _ in range(WAITING_MAX + more)]
    asyncio.run(answered(pipeline, process(opened), *offers, until=more + 1))
    assert [each.status for each in pipeline.records[: more + 1]] == ["skipped"] * more + ["answered"]
    assert pipeline.ended()["target-utilisation", "skipped"] == more


def test_the_policy_that_decided_is_not_asked_again(opened: list[ShadowProcess]) -> None:
    """After a promotion the policy may still be named as a shadow."""
    pipeline = Pipeline()
    asyncio.run(answered(pipeline, process(opened), [release("hold"), release("target-utilisation")], until=1))
    assert [each.policy for each in pipeline.records] == ["target-utilisation"]


def test_an_answer_that_kafka_does_not_take_is_counted_and_the_next_one_is_asked(opened: list[ShadowProcess]) -> None:
    """It is a comparison, not a decision."""
    pipeline = Pipeline()
    pipeline.is_away = True
    asyncio.run(answered(pipeline, process(opened), [release("target-utilisation")], [release("lag")], until=2))
    assert pipeline.ended() == {("target-utilisation", LOST): 1, ("lag", LOST): 1}


def test_stopping_does_not_wait_for_an_answer(opened: list[ShadowProcess]) -> None:
    """The process is killed while it is asked; the event loop would wait for the thread otherwise."""
    pipeline, asked = Pipeline(), process(opened)

    async def stop_at_once() -> None:
        shadows = Shadows(asked, pipeline.send, pipeline.counts, logging.getLogger("test"))
        shadows.offer(RAW, served(), 3.0, SETTINGS, [release("sure", card_hash(SHIPPED / "sure"))])
        running = asyncio.ensure_future(shadows.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(stop_at_once())
    assert pipeline.records == []
    assert asked.ask(question("hold")) is not None  # it has ended: the answer says so
