"""One job's watcher in front of a recording, when records are not delivered: nothing is left out, and nobody is stuck."""

import msgspec
import pytest

from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.contracts.topics import JOB_TOPOLOGY
from surescale.contracts.wire import encode
from surescale.monitor.delivery import DeliveryFailed
from surescale.monitor.service import ClusterWatcher, JobWatcher
from surescale.monitor.trace import TraceSource
from tests.support.engine_stub import HISTORY, MINUTE, job_chain, sample_of

JOB = "sim/clicks"
Message = TaskSample | MinuteMarker


class FailingOutbox:
    """Takes records; fails to deliver at the given turns of waiting."""

    reports = None

    def __init__(self, *failing_turns: int) -> None:
        self.delivered: list[Message] = []
        self._waiting: list[Message] = []
        self._turn = 0
        self._failing = failing_turns

    def send(self, topic: str, key: str, message: object, headers: object = None) -> None:
        """Take a record."""
        if isinstance(message, TaskSample | MinuteMarker):
            self._waiting.append(message)

    def await_acknowledged(self) -> bool:
        """Deliver what was taken, or lose it."""
        self._turn += 1
        waiting, self._waiting = self._waiting, []
        if self._turn in self._failing:
            raise DeliveryFailed("lost")
        self.delivered += waiting
        return True


def recorded() -> list[bytes]:
    """Return a recording of three minutes."""
    lines: list[bytes] = []
    for minute in (1, 2, 3):
        lines.append(encode(sample_of(JOB, minute)))
        history = HISTORY if minute == 1 else ()
        lines.append(encode(MinuteMarker(job=JOB, minute_end_ms=minute * MINUTE, topology=job_chain(JOB), load_history=history)))
    return lines


def watcher(box: FailingOutbox) -> JobWatcher:
    """Return a watcher of that recording."""
    source = TraceSource(recorded(), "recording")
    return JobWatcher(JOB, source, box, ClusterWatcher(source, box), 0)  # type: ignore[arg-type]  # the same two methods


def run(watched: JobWatcher) -> None:
    """Step to the end of the recording."""
    while not watched.is_done:
        watched.step()


def ended_ms(record: Message) -> int:
    """Return the event time of a record, which is its minute's end."""
    return record.minute_end_ms if isinstance(record, MinuteMarker) else record.sampled_at_ms


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_whatever_is_lost_is_sent_again(turn: int) -> None:
    """Records may come twice; each sample and marker comes at least once, and no marker before its samples."""
    box = FailingOutbox(turn)
    watched = watcher(box)
    with pytest.raises(DeliveryFailed):
        run(watched)
    run(watched)
    minutes = [(type(each), ended_ms(each)) for each in box.delivered]
    assert set(minutes) == {(kind, minute * MINUTE) for kind in (TaskSample, MinuteMarker) for minute in (1, 2, 3)}
    for minute in (1, 2, 3):
        assert minutes.index((TaskSample, minute * MINUTE)) < minutes.index((MinuteMarker, minute * MINUTE))
    assert next(each for each in box.delivered if isinstance(each, MinuteMarker)).load_history == HISTORY


def test_without_failures_everything_comes_once() -> None:
    """Three minutes, six records, and the watcher is done."""
    box = FailingOutbox()
    watched = watcher(box)
    run(watched)
    assert len(box.delivered) == 6
    assert (watched.after_ms, watched.minutes_sent, watched.samples_sent) == (3 * MINUTE, 3, 3)


def test_a_topology_of_the_same_version_but_other_content_is_sent() -> None:
    """A restarted engine counts from the beginning: nobody must go on with units that the job no longer has."""
    first, later = job_chain(JOB), msgspec.structs.replace(job_chain(JOB), generation=7)
    markers = [MinuteMarker(job=JOB, minute_end_ms=n * MINUTE, topology=each) for n, each in ((1, first), (2, first), (3, later))]
    source, sent = TraceSource([encode(marker) for marker in markers], "recording"), []

    class Box(FailingOutbox):
        def send(self, topic: str, key: str, message: object, headers: object = None) -> None:
            sent.extend([message] if topic == JOB_TOPOLOGY else [])

    box = Box()
    run(JobWatcher(JOB, source, box, ClusterWatcher(source, box), 0))  # type: ignore[arg-type]  # the same two methods
    assert sent == [first, later]


def test_a_marker_that_is_lost_twice_is_sent_a_third_time() -> None:
    """Nobody takes it for acknowledged because the samples sent before it again were."""
    box = FailingOutbox(3, 6)
    watched = watcher(box)
    for _ in range(2):
        with pytest.raises(DeliveryFailed):
            run(watched)
    run(watched)
    assert [ended_ms(each) for each in box.delivered if isinstance(each, MinuteMarker)] == [MINUTE, 2 * MINUTE, 3 * MINUTE]


class GroupsSource(TraceSource):
    """A recording that plays a live engine, which cannot tell what its rescales take."""

    is_finite = False

    def run(self, restart_ms: int | None = None) -> list[int | None]:
        """Return what the markers say of a rescale's length, for a watcher that knew this much."""
        box = FailingOutbox()
        known = msgspec.structs.replace(job_chain(JOB), restart_ms=restart_ms)
        watched = JobWatcher(JOB, self, box, ClusterWatcher(self, box), 0, known=known)  # type: ignore[arg-type]
        watched.step()
        return [each.topology.restart_ms for each in box.delivered if isinstance(each, MinuteMarker)]


def rescaled(engine: str, tells_ms: int | None = None) -> GroupsSource:
    """Return minutes 1 to 10 of a job that has other members in minutes 5 and 9, and stands still for three minutes before."""
    lines: list[bytes] = []
    for minute in range(1, 11):
        attempt, is_still = (minute - 1) // 4, minute not in {1, 5, 9, 10}
        tasks = tuple(msgspec.structs.replace(spec, parallelism=1 + attempt % 2) for spec in job_chain(JOB).tasks)
        topology = msgspec.structs.replace(
            job_chain(JOB), tasks=tasks, attempt=attempt, engine=engine, restart_ms=tells_ms,
            state="restarting" if is_still else "running",
        )  # fmt: skip
        if not is_still:
            sample = msgspec.structs.replace(sample_of(JOB, minute), attempt=attempt, busy_ms=None, idle_ms=None)
            lines.append(encode(sample))
        lines.append(encode(MinuteMarker(job=JOB, minute_end_ms=minute * MINUTE, topology=topology)))
    return GroupsSource(lines, "recording")


def test_what_rescales_take_is_measured_where_the_engine_does_not_tell_it() -> None:
    """From the second on, and at once where it was known before; what an engine tells itself stands."""
    assert rescaled("kafka").run() == [None] * 8 + [3 * MINUTE] * 2
    assert rescaled("kafka").run(600_000)[0] == 600_000
    assert rescaled("kafka", 20_000).run(600_000) == [20_000] * 10
    assert rescaled("simulated").run() == [None] * 10, "which knows it and tells it where it matters"
