"""Closed loops in process: the pipeline's windows, the pipeline's order of events, the same numbers every time."""

import numpy as np

from benchmarks.archive import load_job
from surescale.contracts.decisions import Decision, PolicyUsed, TaskDecision
from surescale.contracts.ids import decision_id
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import Window, encode_window
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.episode import ApplyAll, Decide, Episode, WindowBuffer, run_episode
from surescale.simulation.engine.hosts import NewHost
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.figures import NO_BASELINE, ClosingMinute, minute_figures
from tests.support.record_columns import records_of
from tests.unit.simulation.cases import MINUTE, clarknet, cluster, command

JOB = "sim/j_2521346"


def want(parallelism: int) -> Decide:
    """Return a policy that wants the same parallelism for every real task."""

    def decide(window: Window) -> Decision:
        tasks = tuple(
            TaskDecision(
                task=spec.task,
                current=spec.parallelism,
                ratio=1.0,
                proposed=parallelism,
                desired=parallelism if spec.scalable else 1,
            )
            for spec in window.topology.tasks
        )
        acts = any(task.desired != task.current for task in tasks)
        return Decision(
            decision_id=decision_id(window.job, window.window_end_ms, "test"),
            job=window.job,
            span_end_ms=window.window_end_ms,
            window_id=window.id,
            policy=PolicyUsed(name="test"),
            seed=0,
            settings_version=0,
            topology_version=window.topology.version,
            action="act" if acts else "hold",
            reason="test",
            completeness=window.completeness,
            minutes_known=window.minutes_known,
            tasks=tasks,
        )

    return decide


def by_hour(window: Window) -> Decision:
    """Want 3 and 6 in turn."""
    return want(3 if window.window_end_ms // (60 * MINUTE) % 2 else 6)(window)


def episode(decide: Decide, minutes: int = 60, **options: object) -> Episode:
    """Run one job on ClarkNet's morning."""
    return run_episode([load_job("j_2521346", clarknet())], clarknet(), decide, options=RunOptions(minutes=minutes), **options)  # type: ignore[arg-type]


def moved(of: SimulatedCluster) -> SimulatedCluster:
    """Run half an hour with a rescale in it."""
    of.advance(of.start_ms + 4 * MINUTE)
    of.apply(command(of, 2), of.now_ms)
    of.advance(of.start_ms + 30 * MINUTE)
    return of


def test_buffered_windows_are_those_of_the_pipeline() -> None:
    """Byte for byte, through a rescale, with a history of eight days, from the first minute on."""
    of = moved(cluster())
    history, buffer = WindowHistory(JOB, 20), WindowBuffer.after(of.history(), 20)
    history.add_load_history(of.history(), before_ms=of.start_ms)
    for minute in of.minutes_after(JOB, 0, 100):
        rows = {spec.task: minute.rows[index] for index, spec in enumerate(minute.topology.tasks)}
        window = history.close(minute.minute_end_ms, rows, minute.topology)
        buffer.add(minute)
        assert encode_window(buffer.window()) == encode_window(window)


def test_minutes_without_subtasks_are_masked_engine_steps() -> None:
    """A job that waits for units reports nothing, not even its load."""
    of = SimulatedCluster([load_job("j_2521346", clarknet())], clarknet(), hosts=[NewHost("a", 5)])
    of.advance(of.start_ms + 2 * MINUTE)
    of.host_dies("a")
    of.advance(of.start_ms + 4 * MINUTE)
    history, buffer = WindowHistory(JOB, 5), WindowBuffer.after((), 5)
    for minute in of.minutes_after(JOB, 0, 100):
        waiting = minute.topology.state == "waiting"
        rows = {} if waiting else {spec.task: minute.rows[index] for index, spec in enumerate(minute.topology.tasks)}
        window = history.close(minute.minute_end_ms, rows, minute.topology)
        buffer.add(minute)
    assert encode_window(buffer.window()) == encode_window(window)
    assert window.minutes_known == 2


def test_rows_are_what_the_stream_job_makes_of_the_samples() -> None:
    """The aggregation of the Spark job itself, bit for bit, on half an hour with a rescale."""
    of, baseline = moved(cluster("j_2521346")), NO_BASELINE
    for minute in of.minutes_after(JOB, 0, 100):
        records = records_of([(Coordinates(0, offset, 0), sample) for offset, sample in enumerate(of.samples(minute))])
        (found,) = minute_figures([ClosingMinute(records.samples, records.tasks, minute.topology, baseline)])
        baseline = found.baseline
        together = np.stack([found.rows[spec.task] for spec in minute.topology.tasks])
        assert together.tobytes() == minute.rows.tobytes()


def test_decisions_are_made_at_every_span_end() -> None:
    """On windows that end there, partial ones included."""
    seen = episode(want(5), minutes=40).decisions
    assert [(decision.span_end_ms // MINUTE) % 60 for decision in seen] == [10, 20, 30, 40]
    assert [decision.minutes_known for decision in seen] == [10, 20, 30, 40]


def test_a_decision_takes_effect_one_minute_later_at_the_cost_of_a_restart() -> None:
    """Decided at minute 10: minute 11 still runs as before, minute 12 restarts."""
    report = episode(want(3), minutes=20).reports[JOB]
    assert report.parallelism == (*[20] * 11, *[12] * 9)
    assert report.rescales == 1


def test_holding_costs_nothing() -> None:
    """A policy that wants what is never restarts the job."""
    ended = episode(want(5))
    assert (ended.commands, ended.reports[JOB].rescales) == ((), 0)


def test_while_a_job_restarts_its_decisions_are_dropped() -> None:
    """With a decision every minute, the next one counts when the rescale is done."""
    flips = episode(lambda window: want(7 - window.topology.tasks[1].parallelism)(window), minutes=10, span_minutes=1)
    assert [(flip.issued_at_ms - flips.cluster.start_ms) // MINUTE for flip in flips.commands] == [1, 3, 5, 7, 9]


def test_an_episode_is_the_same_every_time() -> None:
    """Decisions, commands and figures."""
    first, second = episode(by_hour, minutes=300), episode(by_hour, minutes=300)
    assert (first.decisions, first.commands, first.reports) == (second.decisions, second.commands, second.reports)
    assert len(first.commands) == 6


def test_several_jobs_run_on_one_cluster() -> None:
    """Each has its own windows and figures, in order of id."""
    jobs = [load_job(name, clarknet()) for name in ("j_756953", "j_2521346")]
    ended = run_episode(jobs, clarknet(), want(4), options=RunOptions(minutes=20))
    assert [decision.job for decision in ended.decisions] == ["sim/j_2521346", "sim/j_756953"] * 2
    assert {job: report.rescales for job, report in ended.reports.items()} == {"sim/j_2521346": 1, "sim/j_756953": 1}


class Recorder(ApplyAll):
    """Applies everything and writes down the order of events."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[tuple[str, int]] = []

    def minute_ended(self, cluster: SimulatedCluster) -> None:
        """Note the minute."""
        self.called.append(("minute", cluster.minutes_done))

    def decided(self, decision: Decision, cluster: SimulatedCluster) -> None:
        """Note the minute, then apply."""
        self.called.append(("decision", cluster.minutes_done))
        super().decided(decision, cluster)


def test_an_answer_is_told_of_every_minute_and_then_of_its_decision() -> None:
    """Time passes minute by minute; at a span's end the decision comes last."""
    recorder = Recorder()
    run_episode([load_job("j_2521346", clarknet())], clarknet(), want(3), recorder, options=RunOptions(minutes=12))
    minutes = [("minute", minute) for minute in range(1, 13)]
    assert recorder.called == [*minutes[:10], ("decision", 10), *minutes[10:]]


def test_what_the_engine_refuses_is_dropped() -> None:
    """A decision for more than the engine allows changes nothing."""
    ended = episode(want(11), minutes=20)
    assert (len(ended.decisions), ended.commands, ended.reports[JOB].rescales) == (2, (), 0)
