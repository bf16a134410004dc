"""What is published of jobs that have left."""

from msgspec.structs import replace

from surescale.contracts.messages import JobState, JobTopology
from surescale.monitor.service import EndedJobs
from tests.support.builders import topology
from tests.unit.monitor.test_cluster_watcher import Box

JOB = topology().job


class Leaving:
    """A source whose only job rests, and then is gone."""

    def __init__(self) -> None:
        self.is_gone = False
        self.asked: list[str] = []

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return what is new."""
        self.asked.append(last.state)
        state: JobState = "finished" if self.is_gone else "suspended"
        return None if last.state == state else replace(last, state=state, version=last.version + 1)


def test_what_becomes_of_a_job_that_has_left_is_published_until_it_has_ended() -> None:
    """Each state once; what was not acknowledged again; nothing while it is present, and nobody asks after its end."""
    source, box = Leaving(), Box()
    ends = EndedJobs(source, box, [topology()])  # type: ignore[arg-type]  # the methods that it uses
    ends.publish({JOB})
    assert source.asked == []
    box.acknowledges = False
    ends.publish(())
    box.acknowledges = True
    for _ in range(2):
        ends.publish(())
    source.is_gone = True
    for _ in range(2):
        ends.publish(())
    assert [each.state for each in box.taken if isinstance(each, JobTopology)] == ["suspended", "suspended", "finished"]
    assert source.asked == ["running", "running", "suspended", "suspended"]
    ends.note(topology())
    ends.publish(())
    assert isinstance(box.taken[-1], JobTopology)
    assert box.taken[-1].state == "finished"


def test_all_that_have_left_are_sent_before_one_is_waited_for() -> None:
    """Of a thousand groups without members each is told of every minute."""
    source, box = Leaving(), Box()
    jobs = [f"sim/left-{number}" for number in range(3)]
    ends = EndedJobs(source, box, [replace(topology(), job=job) for job in jobs])  # type: ignore[arg-type]
    box.acknowledges = False
    ends.publish(())
    assert [each.job for each in box.taken if isinstance(each, JobTopology)] == jobs
