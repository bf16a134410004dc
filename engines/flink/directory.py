"""The live jobs of a cluster by the names we know them by, kept up to date with one request a look."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.errors import NotFound
from surescale.engines.flink.graph import is_over, state_of
from surescale.engines.flink.identity import Identity, identify, without_newcomers

NEWCOMER_S = 60.0
"""So long two jobs may have one name before it is ambiguous: a job is often submitted again before the old one has gone."""
INITIALIZING, RUNNING, FINISHED = "INITIALIZING", "RUNNING", "FINISHED"


class JobDirectory:
    """Thread-safe. A job's parameters are read until it has some: they do not change while it lives."""

    def __init__(self, client: FlinkClient, cluster: str, now_s: Callable[[], float] = time.monotonic) -> None:
        """Ask nothing yet; ``cluster`` is its name in the settings."""
        self._client, self._cluster, self._now_s = client, cluster, now_s
        self._named: dict[str, Identity] = {}
        self._shared_s: dict[str, float] = {}  # since when several jobs have had one name
        self._parameters: dict[str, Mapping[str, str]] = {}
        self._states: dict[str, str] | None = None  # of all jobs that Flink last listed, by its id
        self._live: frozenset[str] = frozenset()
        self._is_settling = False
        self._lock = threading.Lock()

    def live(self) -> dict[str, Identity]:
        """Return the live jobs by Flink's job id.

        Raises:
            FlinkError: no usable answer.
        """
        listed = self._client.jobs()
        with self._lock:
            known, before = self._parameters, self._live
            self._states = {entry.jid: entry.state for entry in listed}
        # A job that is being initialised has neither a graph nor its parameters yet; to read them now would miss its labels. One
        # that lived before has not begun again: another JobManager takes it over.
        entries = tuple(entry for entry in listed if entry.state != INITIALIZING or entry.jid in before)
        live = [entry for entry in entries if not is_over(entry.state)]
        parameters = {entry.jid: known[entry.jid] if entry.jid in known else self._read(entry.jid) for entry in live}
        # Few jobs have none for good: `known` keeps that too, or each look would ask for them again.
        certain = {
            entry.jid: parameters[entry.jid]
            for entry in live
            if parameters[entry.jid] or (entry.state == RUNNING and (entry.jid in known or self._has_none(entry.jid)))
        }
        found = identify(self._cluster, entries, parameters)
        with self._lock:
            self._named = self._with_patience(found)
            self._parameters, self._live = certain, frozenset(entry.jid for entry in live)
            self._is_settling = len(entries) < len(listed) or len(certain) < len(live) or len(self._named) < len(found)
            return dict(self._named)

    def _with_patience(self, found: dict[str, Identity]) -> dict[str, Identity]:
        """Return identities in which a name that others have come under is ambiguous only after a while."""
        now_s = self._now_s()
        shared = {each.shared_job for each in found.values() if each.ambiguous}
        self._shared_s = {job: self._shared_s.get(job, now_s) for job in shared}
        patient = {
            jid: each for jid, each in found.items() if each.ambiguous and now_s - self._shared_s[each.shared_job] < NEWCOMER_S
        }
        return {jid: each for jid, each in found.items() if jid not in patient} | without_newcomers(patient, self._named)

    @property
    def is_settling(self) -> bool:
        """Return whether `live` last met a job whose labels, and so whose name, Flink does not tell for certain yet."""
        with self._lock:
            return self._is_settling

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

    def _read(self, flink_job: str) -> Mapping[str, str]:
        try:
            return self._client.parameters(flink_job)
        except NotFound:  # it ended since it was listed
            return {}

    def _has_none(self, flink_job: str) -> bool:
        """Return whether a job has no parameters for certain.

        Before a job has slots, Flink says that it has none, and goes on to say so until `web.refresh-interval` is over. State and
        parameters come from the same kept copy of the job, and the list of jobs does not: so what is asked for after that copy
        said that the job runs is true.
        """
        try:
            return self._client.job(flink_job).state == RUNNING and not self._client.parameters(flink_job)
        except NotFound:
            return False
