"""Real consumer groups under a constant load: once each has its size, it keeps it.

Eight partitions, and work for 4.3 members of the group in the middle, where five to seven members are no faster than four.
Two hours of the pipeline's clock take six minutes of the wall's: ``make constant-load-test`` runs this.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.topics import CLOCK, RESCHEDULE_COMMANDS
from surescale.contracts.wire import decode
from surescale.runtime.topic_records import pipeline_now_ms, read_topics
from surescale.services.local_stack.consumers.consumers_pipeline import ConsumersPipeline, ConsumersPipelineOptions

pytestmark = [pytest.mark.e2e, pytest.mark.nightly("takes six minutes of the wall's time")]

SPEED, MINUTES, HOUR = 20.0, 120, 60
BUSY_MEMBERS, SECONDS_A_RECORD = 4.3, 0.0283
POLICIES = ("sure", "target-utilisation")


def test_a_group_is_rescaled_at_most_once_after_its_first_hour(tmp_path: Path) -> None:
    """Though no size between four and eight is any use to it. Nothing is lost, and what waits in the end is worked off."""
    seconds = int(MINUTES * 60 / SPEED)
    trace = tmp_path / "constant.csv"
    trace.write_text("minute,requests\n" + "".join(f"{minute},1000\n" for minute in range(seconds)))
    options = ConsumersPipelineOptions(
        workload=str(trace), start_minute=0, seconds=seconds, mean=BUSY_MEMBERS / SECONDS_A_RECORD, steps=((0.0, 1.0),),
        policies=POLICIES, speed=SPEED,
    )  # fmt: skip
    with ConsumersPipeline(options, print) as pipeline:
        pipeline.start()
        began_ms = pipeline_now_ms(pipeline.settings, read_topics(pipeline.settings, [CLOCK])[CLOCK])
        pipeline.supervisor.wait(lambda: [pipeline.look(), pipeline.load.is_over][1], poll_s=1.0)
        pipeline.load.stop()
        pipeline.supervisor.wait(
            lambda: [pipeline.look(), pipeline.is_drained()][1], timeout_s=120, what="the records to be done"
        )
        commands = [
            decode(message.value() or b"", RescheduleCommand)
            for message in read_topics(pipeline.settings, [RESCHEDULE_COMMANDS])[RESCHEDULE_COMMANDS]
        ]
        pipeline.stop_jobs()
        report = pipeline.report()
    made = {
        policy: [
            (since(began_ms, command.issued_at_ms), dict(command.targets))
            for command in commands
            if command.job.endswith(f"/{policy}")
        ]
        for policy in POLICIES
    }
    print(made, report.jobs)
    assert_settled(made)
    assert all(report.jobs[policy].missing == 0 for policy in POLICIES)


def since(began_ms: int, at_ms: int) -> int:
    """Return how many minutes lie between two times."""
    return round((at_ms - began_ms) / MINUTE_MS)


def assert_settled(made: Mapping[str, Sequence[tuple[int, Mapping[str, int]]]]) -> None:
    """Check what was commanded by policy: at which minute, and for which tasks how many subtasks or members."""
    for commands in made.values():
        assert len([minute for minute, _ in commands if minute >= HOUR]) <= 1, made
