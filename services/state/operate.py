"""What people may change over HTTP: pauses and approvals, written to `job-settings` as the command line writes them.

The records are the same as those of ``surescale job pause``, ``resume`` and ``approve``; their author is the token's name. Knows
no HTTP library.
"""

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from surescale.contracts.errors import SurescaleError
from surescale.contracts.job_settings import Approval, Direction
from surescale.contracts.messages import Count, Identity, Text
from surescale.contracts.pauses import all_jobs_of, is_of_all_jobs
from surescale.contracts.settings import PipelineSettings
from surescale.services.job_settings.advice import NoOpenAdvice, open_advice
from surescale.services.job_settings.pause import pause_of
from surescale.services.job_settings.snapshot import (
    ChangeResult,
    SettingsSnapshot,
    UnknownName,
    VersionConflict,
    Wanted,
    change,
    read_snapshot,
)
from surescale.services.state.documents import OperationDocument, Verb
from surescale.services.state.read.queries import Queries
from surescale.services.state.settings import StateSettings


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Count | None = None
    """The version of the settings that this was meant for; with another one it is refused. Null: any."""


class PauseBody(_Body, frozen=True, kw_only=True):
    """Stop rescales of a job, or of all jobs of a cluster."""

    verb: ClassVar[Verb] = "paused"
    why: Text
    """Why, for those who come later."""
    direction: Direction = "both"
    """What is stopped."""
    until: str | None = None
    """When it ends, by the pipeline's clock: ISO 8601, in UTC unless stated. Null, and no ``for``: when somebody resumes."""
    lasting: str | None = msgspec.field(default=None, name="for")
    """How long it lasts by the pipeline's clock, like 90m, 2h or 1d; null: ``until`` says when it ends."""


class ResumeBody(_Body, frozen=True, kw_only=True):
    """End a pause of a job, or of a cluster."""

    verb: ClassVar[Verb] = "resumed"


class ApproveBody(_Body, frozen=True, kw_only=True):
    """Have carried out what was advised for a job in mode advise."""

    verb: ClassVar[Verb] = "approved"
    decision_id: Identity
    """The decision whose advice is meant; it must be the job's newest."""


Body = PauseBody | ResumeBody | ApproveBody


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """One request to change something."""

    target: str
    """A job's id, or a cluster's name."""
    of_cluster: bool
    body: Body
    by: str
    """Name of the token."""
    key: str
    """What the request is known by if it is repeated."""

    @property
    def scope(self) -> str:
        """Return what settings call it."""
        return all_jobs_of(self.target) if self.of_cluster else self.target

    @property
    def request(self) -> str:
        """Return how the record remembers the request: its key, and a hash of who asked for what."""
        what = msgspec.json.encode([self.body.verb, self.target, self.of_cluster, self.body, self.by])
        return f"{self.key}#{hashlib.blake2b(what, digest_size=8).hexdigest()}"


class Operator:
    """Carries out what somebody asks for, one request at a time."""

    def __init__(self, settings: PipelineSettings, log: logging.Logger) -> None:
        self._settings, self._log = settings, log

    def execute(self, asked: OperationRequest) -> OperationDocument:
        """Write what is asked for, unless the same request has done so before.

        Raises:
            UnknownName: there is no such job or cluster.
            NoOpenAdvice: the advice to approve is not open.
            VersionConflict: the settings have another version than the request says, or somebody else wrote meanwhile, and last.
            SettingsError: the request contradicts itself.
            ConnectionError: Kafka does not answer, or refuses.
        """
        if not asked.of_cluster and is_of_all_jobs(asked.target):
            raise UnknownName(f"there is no job {asked.target!r}; to pause a cluster, POST to /clusters")
        body = asked.body
        done = change(self._settings, asked.scope, self._change(asked), asked.by, request=asked.request, version=body.version)
        if done.overtaken_by:
            raise VersionConflict(f"{asked.target}: {done.overtaken_by} changed the settings at the same time, and wrote last")
        is_written = not done.was_made and bool(done.differences)
        if is_written:
            self._log.info("%s: %s by %s over HTTP, settings version %d", asked.target, body.verb, asked.by, done.after.version)
        return _document(asked, done, is_written, str(read_snapshot(self._settings, asked.scope).pauses))

    def _change(self, asked: OperationRequest) -> Wanted:
        body, by = asked.body, asked.by
        match body:
            case PauseBody():
                return lambda snapshot: {
                    "pause": pause_of(
                        body.direction, until=body.until, lasting=body.lasting, why=body.why, by=by, now_ms=snapshot.now_ms
                    )
                }
            case ResumeBody():
                return lambda _: {"pause": None}
            case ApproveBody():
                return lambda snapshot: self._approval(asked.target, body.decision_id, by, snapshot)

    def _approval(self, job: str, decision_id: str, by: str, snapshot: SettingsSnapshot) -> dict[str, object]:
        advice = open_advice(self._settings).get(job)
        if advice is None or advice.decision_id != decision_id:
            now = f"the open one is {advice.decision_id}" if advice else "none is open"
            raise NoOpenAdvice(
                f"{decision_id!r} is not open advice of {job}: a newer decision was made, it was carried out, or the job's mode "
                f"is not advise; {now}"
            )
        return {"approval": Approval(decision_id=decision_id, by=by, at_ms=snapshot.now_ms)}


class Operators:
    """Carry out what somebody asks for where it belongs: a job's in its pipeline, a cluster's in each that knows the cluster."""

    def __init__(self, settings: StateSettings, shown: Queries, log: logging.Logger) -> None:
        self._shown = shown
        self._each = {prefix: Operator(replace(settings, topic_prefix=prefix), log) for prefix in settings.prefixes}

    def execute(self, asked: OperationRequest) -> OperationDocument:
        """As of one pipeline; the answer about a cluster is that of the first, where the version holds that the request names.

        Where a later pipeline refuses, the earlier ones have done it: the same request may be sent again.
        """
        if not asked.of_cluster:
            return self._each[self._shown.prefix_of(asked.target)].execute(asked)
        first, *others = self._shown.knowing(asked.target)
        done = self._each[first].execute(asked)
        for prefix in others:
            try:
                self._each[prefix].execute(replace(asked, body=msgspec.structs.replace(asked.body, version=None)))
            except (SurescaleError, ConnectionError) as error:
                raise ConnectionError(
                    f"{done.done} in pipeline {first!r}, and not yet in {prefix!r}: {error}; ask again"
                ) from None
        return done


def _document(asked: OperationRequest, done: ChangeResult, is_written: bool, paused: str) -> OperationDocument:
    after = done.after
    return OperationDocument(
        target=asked.target,
        done=asked.body.verb,
        written=is_written,
        repeated=done.was_made,
        version=after.version,
        by=after.set_by,
        at_ms=after.set_at_ms,
        paused=paused,
    )
