"""The record of a job's memory: what others may read of it, and that nothing is lost in it."""

import msgspec

from surescale.contracts.rescaler_state import CommandUnderway, RescalerRecord
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import StateRecord
from surescale.rescaler.control.job.memory import job_record, restored, summary_of
from surescale.rescaler.control.world import View
from tests.support.balance_pipeline import COPIED, spread
from tests.support.controller_world import CLUSTER, JOB, MINUTE_MS, START_MS, cluster, controller, decision, ended, job

T0 = START_MS
WIDER = {"map": 4, "join": 4}
SEEN = View(cluster(3, 2), {JOB: job(units=(0, 1))}, {})


def preparing() -> Controller:
    """A controller whose job warms learners up, while a second act waits."""
    control = controller()
    control.on_decision(decision(T0, WIDER), SEEN, T0)
    control.on_decision(decision(T0 + 1, {"map": 3}), SEEN, T0 + 1)
    return control


def record_of(written: StateRecord) -> RescalerRecord:
    """The record, which forgets nothing."""
    assert written.record is not None
    return written.record


def test_a_rescale_under_way_and_a_waiting_act_are_summed_up() -> None:
    """The command, its step, and why and until when the act waits."""
    summary = summary_of(preparing().memory[JOB])
    assert summary.underway == CommandUnderway(decision_id=f"{JOB}@{T0}/rule", command_id=f"{JOB}#1.0", step="prepare")
    assert summary.pending is not None
    assert (summary.pending.decision_id, summary.pending.reason) == (f"{JOB}@{T0 + 1}/rule", "rescale_in_progress")
    assert (summary.desired_generation, summary.applied_generation, summary.observed_generation) == (1, 0, 0)
    assert (summary.phase, summary.mode) == ("Transitioning", "executing")


def test_a_change_of_standbys_has_no_step() -> None:
    """It is a command under way, but no rescale."""
    pipeline = spread((0, 4), count=3, **COPIED)
    (command,) = pipeline.pass_minute().commands
    underway = summary_of(pipeline.control.memory[JOB]).underway
    assert underway is not None
    assert (underway.command_id, underway.step) == (command.command_id, None)


def test_memory_is_restored_as_it_was() -> None:
    """Before the commit and after it; the body does not repeat what the summary has."""
    control = preparing()
    for minute in (1, 3):
        memory = control.memory[JOB]
        assert restored(record_of(job_record(CLUSTER, memory, T0))) == memory
        assert memory.outstanding is not None
        control.on_progress(ended(memory.outstanding, T0 + minute * MINUTE_MS), SEEN, T0 + minute * MINUTE_MS)
    memory = control.memory[JOB]
    record = record_of(job_record(CLUSTER, memory, T0))
    assert memory.mappings
    assert restored(record) == memory
    assert not {"mappings", "conditions"} & msgspec.json.decode(record.body).keys()
