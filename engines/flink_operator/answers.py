"""The fields of the operator's resources that are read (API ``flink.apache.org/v1beta1``); everything else is ignored."""

from typing import Any

import msgspec

from surescale.engines.kubernetes.answers import WrittenMeta


class JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What the author says of the job. ``state``: ``running``, the default, or ``suspended``."""

    state: str | None = None
    upgrade_mode: str | None = None


class FlinkSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is asked for.

    Attributes:
        job: None in a session cluster.
        flink_configuration: strings by name, or YAML of any depth (from version 1.13 of the operator on).
        flink_version: like ``v1_20``; of a FlinkDeployment.
        mode: ``native``, the default, or ``standalone``; of a FlinkDeployment.
        deployment_name: the session cluster of a FlinkSessionJob.
    """

    job: JobSpec | None = None
    flink_configuration: dict[str, Any] | None = None
    flink_version: str | None = None
    mode: str | None = None
    deployment_name: str | None = None


class JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    """``job_id`` is Flink's id of the present submission, ``state`` its state in Flink."""

    job_id: str | None = None
    state: str | None = None


class ReconciliationStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How far the operator has come.

    Attributes:
        state: ``DEPLOYED``, ``UPGRADING``, ``ROLLING_BACK`` or ``ROLLED_BACK``.
        last_reconciled_spec: JSON of the specification that the operator acted on last.
        last_stable_spec: JSON of the one that was last seen to run.
    """

    state: str | None = None
    last_reconciled_spec: str | None = None
    last_stable_spec: str | None = None


class FlinkStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the operator says. ``error`` is JSON with a message, or plain text."""

    job_status: JobStatus | None = None
    error: str | None = None
    observed_generation: int | None = None
    lifecycle_state: str | None = None
    reconciliation_status: ReconciliationStatus | None = None


class FlinkMeta(WrittenMeta, frozen=True, rename="camel"):
    """``generation`` grows with every change of the specification."""

    generation: int = 0


class FlinkResource(msgspec.Struct, frozen=True):
    """A FlinkDeployment or a FlinkSessionJob."""

    kind: str
    metadata: FlinkMeta
    spec: FlinkSpec = msgspec.field(default_factory=FlinkSpec)
    status: FlinkStatus | None = None

    @property
    def reported(self) -> FlinkStatus:
        """Return what the operator says; empty as long as it has said nothing."""
        return self.status or FlinkStatus()

    @property
    def job_id(self) -> str:
        """Return Flink's id of the present submission; empty if there is none yet."""
        job = self.reported.job_status
        return (job.job_id or "") if job is not None else ""
