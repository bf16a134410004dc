"""Publishes the end of jobs that an engine no longer lists, so that nobody takes them for running ever after.

An engine that is only looked at shows no minute in which a job has ended: the job is just gone. So the last topology of each job
is kept, by the topic itself also across a restart of the monitor, and the source is asked what became of a job that has left.
"""

from collections.abc import Collection, Iterable

from contracts.messages import JobTopology
from contracts.topics import JOB_TOPOLOGY
from contracts.topology import has_ended
from monitor.outbox import DeliveryFailed, Outbox
from monitor.sources.base import Source
from runtime.backoff import Stopped


class EndedJobs:
    """The jobs that were last seen alive. Watchers `note` them in their threads; one thread calls `publish`."""

    def __init__(self, source: Source, outbox: Outbox, known: Iterable[JobTopology] = ()) -> None:
        """``known``: what the topic said of each job before."""
        self._source, self._outbox = source, outbox
        self._alive = {topology.job: topology for topology in known if not has_ended(topology)}

    def note(self, topology: JobTopology) -> None:
        """Take a job's newest topology, which has been sent."""
        if has_ended(topology):
            self._alive.pop(topology.job, None)
        else:
            self._alive[topology.job] = topology

    def publish(self, present: Collection[str]) -> None:
        """Publish the end of each job that has left, once; what could not be sent is tried again.

        Args:
            present: jobs that are listed, or about which something may still be sent.
        """
        gone = {job: last for job, last in dict(self._alive).items() if job not in present}
        for job, last in sorted(gone.items()):
            ended = self._source.end_of(last)
            if ended is None:
                continue
            if not self._is_sent(ended):
                return
            self._alive.pop(job)

    def _is_sent(self, ended: JobTopology) -> bool:
        try:
            self._outbox.send(JOB_TOPOLOGY, ended.job, ended)
            return self._outbox.await_acknowledged()
        except (DeliveryFailed, Stopped):
            return False
