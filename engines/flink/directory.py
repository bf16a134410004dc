"""The live jobs of a cluster by the names we know them by, kept up to date with one request a look."""

import threading
from collections.abc import Mapping
from typing import Literal

from engines.flink.answers import JobEntry
from engines.flink.client import FlinkClient
from engines.flink.errors import NotFound
from engines.flink.graph import is_over, state_of
from engines.flink.identity import Identity, identify

INITIALIZING, RUNNING, FINISHED = "INITIALIZING", "RUNNING", "FINISHED"


class JobDirectory:
    """Thread-safe. A job's parameters are read until it has some: they do not change while it lives."""

    def __init__(self, client: FlinkClient, cluster: str) -> None:
        """Ask nothing yet; ``cluster`` is its name in the settings."""
        self._client, self._cluster = client, cluster
        self._parameters: dict[str, Mapping[str, str]] = {}
        self._states: dict[str, str] | None = None  # of all jobs that Flink last listed, by its id
        self._lock = threading.Lock()

    def live(self) -> dict[str, Identity]:
        """Return the live jobs by Flink's job id.

        Raises:
            FlinkProblem: no usable answer.
        """
        # A job that is being initialised has neither a graph nor its parameters yet; to read them now would miss its labels.
        listed = self._client.jobs()
        entries = tuple(entry for entry in listed if entry.state != INITIALIZING)
        with self._lock:
            known = self._parameters
            self._states = {entry.jid: entry.state for entry in listed}
        parameters = {entry.jid: self._read(entry, known) for entry in entries if not is_over(entry.state)}
        with self._lock:
            # Before a job has slots, Flink says nothing of its parameters: until it runs, that is asked again.
            running = {entry.jid for entry in entries if entry.state == RUNNING}
            self._parameters = {jid: found for jid, found in parameters.items() if found or jid in running}
        return identify(self._cluster, entries, parameters)

    def end_of(self, flink_job: str) -> Literal["finished", "failed"] | None:
        """Return how a job has ended, by the list that `live` last read; None while it lives, or if nothing was read yet.

        Flink forgets ended jobs after a while, and all of them when it starts again. How such a job ended nobody knows any more:
        it counts as finished.
        """
        with self._lock:
            if self._states is None:
                return None
            state = self._states.get(flink_job, FINISHED)
        if not is_over(state):
            return None
        return "failed" if state_of(state) == "failed" else "finished"

    def _read(self, entry: JobEntry, known: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
        if entry.jid in known:
            return known[entry.jid]
        try:
            return self._client.parameters(entry.jid)
        except NotFound:  # it ended since it was listed
            return {}
