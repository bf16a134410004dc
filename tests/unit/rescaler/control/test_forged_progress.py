"""Reports that a lying engine leads to: whatever they say, everything written can be read, and the job can be rescaled again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.commands import EventRecord, Progress, RescheduleCommand
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import Message
from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.wire import decode, encode
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.world import View
from tests.support.controller_world import CLUSTER, JOB, MINUTE_MS, START_MS, cluster, controller, decision, ended, job

T0 = START_MS
SEEN = View(cluster(3, 2), {JOB: job(units=(0, 1))}, {})
COUNTS = st.sampled_from([0, 1, 2**31, 2**52, 2**53]) | st.integers(0, 2**53)


@st.composite
def reports(draw: st.DrawFn) -> Progress:
    """Any report that can be read, about any step of the job's first rescale."""
    return Progress(
        cluster=CLUSTER,
        job=JOB,
        command_id=f"{JOB}#1.{draw(st.integers(0, 3))}",
        desired_generation=draw(COUNTS),
        status=draw(st.sampled_from(["accepted", "warming", "applied", "failed"])),
        at_ms=draw(COUNTS),
        duration_ms=draw(COUNTS),
        code=draw(st.sampled_from(["", "WARM_UP_TIMEOUT", "LEARNER_LOST", "x" * 256])),
        learners=draw(COUNTS),
        lag_bytes=draw(COUNTS),
        units=tuple(draw(st.lists(COUNTS, max_size=4))),
    )


def read_again(effects: Effects) -> None:
    """Read everything that was written as its readers do."""
    kinds: list[tuple[tuple[Message, ...], object]] = [
        (effects.outcomes, EventRecord),
        (effects.balances, EventRecord),
        (effects.commands, RescheduleCommand),
        (tuple(each.record for each in effects.records if each.record), RescalerRecord),
    ]
    for records, kind in kinds:
        for record in records:
            assert decode(encode(record), kind) == record  # type: ignore[call-overload]


@given(
    first=st.sampled_from([{"map": 4}, {"map": 4, "join": 4}]),  # goes at once, or prepares learners
    forged=st.lists(st.tuples(reports(), st.integers(0, 3 * MINUTE_MS)), max_size=8),
)
def test_forged_reports_end_nothing_for_good(first: dict[str, int], forged: list[tuple[Progress, int]]) -> None:
    """An hour later the next decision becomes a command that ends as it should."""
    of, now_ms = controller(), T0
    read_again(of.on_decision(decision(T0, first), SEEN, now_ms))
    read_again(of.on_decision(decision(T0 + 1, {"map": 3}), SEEN, now_ms))  # waits for the end of the first
    for report, later_ms in forged:
        now_ms += later_ms
        read_again(of.on_progress(report, SEEN, now_ms) + of.on_tick(SEEN, now_ms))
    assert commanded_within_hours(of, now_ms)


def commanded_within_hours(of: Controller, now_ms: int) -> bool:
    """Let timers fire until the next act is commanded and carried out."""
    for minute in range(6 * 60):
        now_ms += MINUTE_MS
        effects = of.on_tick(SEEN, now_ms)
        if minute % 60 == 30:
            effects += of.on_decision(decision(now_ms, {"map": 3 + minute // 60 % 2}), SEEN, now_ms)
        read_again(effects)
        for command in effects.commands:
            read_again(of.on_progress(ended(command, now_ms), SEEN, now_ms))
            if command.action == "commit" and of.memory[JOB].applied.generation == command.desired_generation:
                return True
    return False


@pytest.mark.parametrize("changes", [{"units": tuple(range(70_000))}, {"code": "x" * 257}, {"detail": "x" * 5_000}])
def test_a_report_that_would_swell_the_memory_is_refused(changes: dict[str, object]) -> None:
    """The memory of a rescale keeps code and units; a record too large to be written would end the rescaler at each start."""
    (command,) = controller().on_decision(decision(T0, {"map": 3}), SEEN, T0).commands
    with pytest.raises(RecordRejected):
        decode(encode(msgspec.structs.replace(ended(command, T0), **changes)), Progress)
