"""What the operator has made of a resource, what runs, and why a change cannot be asked for now. Pure.

The operator changes a running job in place, through the same request of Flink that the actuator ``flink`` uses, only where all of
`not_in_place` holds. Anywhere else it stops the job and submits it again, with its state as ``upgradeMode`` says: only where
the file of resources allows that.
"""

import contextlib
import re
from collections.abc import Mapping

import msgspec

from surescale.contracts.errors import UNREADABLE
from surescale.contracts.wire import decoder, learned
from surescale.engines.flink.requirements import NOT_ADAPTIVE, NOT_RUNNING, REACTIVE_MODE, Refusal
from surescale.engines.flink_operator.answers import FlinkResource, FlinkSpec
from surescale.engines.flink_operator.overrides import OverridesUnreadable, flat, overrides_of
from surescale.engines.kubernetes.target import Target
from surescale.runtime.printable import one_line

STATELESS_UPGRADE = "STATELESS_UPGRADE"
"""If the operator cannot change the job in place, it would start it from scratch."""
NOT_IN_PLACE = "NOT_IN_PLACE"
"""The operator would stop the job and submit it again."""
IN_PLACE_KEY = "kubernetes.operator.job.upgrade.inplace-scaling.enabled"
_QUIET = ("STABLE", "DEPLOYED")
_VERSION = re.compile(r"v([0-9]{1,9})_([0-9]{1,9})")
_IN_PLACE_SINCE = (1, 18)


class _Error(msgspec.Struct, frozen=True):
    message: str


def effective_configuration(resource: FlinkResource, session: FlinkResource | None) -> dict[str, str]:
    """Return the configuration of a job, flat: its own over that of its session cluster, if it runs in one."""
    inherited = flat(session.spec.flink_configuration) if session is not None else {}
    return {**inherited, **flat(resource.spec.flink_configuration)}


def refusal_of(resource: FlinkResource, session: FlinkResource | None, *, upgrades: bool = False) -> Refusal | None:
    """Return the first reason not to ask for a change, None if there is none.

    Args:
        resource: of the job.
        session: the FlinkDeployment of its session cluster; None for an application.
        upgrades: the operator may stop the job and submit it again.
    """
    job = resource.spec.job
    if job is None:
        return Refusal(NOT_RUNNING, "it describes a session cluster without a job; name the FlinkSessionJob instead")
    if (job.upgrade_mode or "stateless") == "stateless":
        return Refusal(
            STATELESS_UPGRADE,
            "its spec.job.upgradeMode is stateless, so the operator starts it from scratch where it cannot change it in place; "
            "set last-state or savepoint",
        )
    if not upgrades:
        return not_in_place(resource, session) or _of_the_moment(resource)
    if effective_configuration(resource, session).get("scheduler-mode", "").lower() == "reactive":
        return Refusal(REACTIVE_MODE, "its scheduler-mode is reactive, which uses every slot itself; leave scheduler-mode out")
    return _of_the_moment(resource)


def not_in_place(resource: FlinkResource, session: FlinkResource | None = None) -> Refusal | None:
    """Return why the operator cannot change a running job in place, so that it would upgrade it; None: it can."""
    effective, cluster = effective_configuration(resource, session), session or resource
    if effective.get("jobmanager.scheduler", "").lower() != "adaptive":
        return Refusal(
            NOT_ADAPTIVE,
            "its spec.flinkConfiguration does not choose the adaptive scheduler, so the operator would stop the job and submit "
            'it again; set jobmanager.scheduler: adaptive there, or allow that (rescale = "upgrade")',
        )
    if effective.get(IN_PLACE_KEY, "").lower() == "false":
        return Refusal(NOT_IN_PLACE, f"{IN_PLACE_KEY} is false, so the operator would submit the job again; leave it out")
    if cluster.spec.mode == "standalone":
        return Refusal(NOT_IN_PLACE, "its spec.mode is standalone, where the operator submits the job again; use mode native")
    version = _VERSION.fullmatch(cluster.spec.flink_version or "")
    if version is not None and (int(version[1]), int(version[2])) < _IN_PLACE_SINCE:
        return Refusal(NOT_IN_PLACE, f"its Flink is {cluster.spec.flink_version}, and only 1.18 and later change in place")
    return None


def _of_the_moment(resource: FlinkResource) -> Refusal | None:
    told, job = resource.reported, resource.spec.job
    if job is not None and job.state == "suspended":
        return Refusal(NOT_RUNNING, "its spec.job.state is suspended; a job is rescaled while it runs")
    state = told.job_status.state if told.job_status is not None else None
    if state != "RUNNING":
        said = f"; {error_of(resource)}" if told.error else ""
        return Refusal(NOT_RUNNING, f"the operator says that its job is {state or 'not there'}{said}")
    if not _is_seen(resource) or (told.lifecycle_state or _QUIET[0]) not in _QUIET:
        return Refusal(NOT_RUNNING, f"{hindrance_of(resource)}; the next decision tries again")
    return None


def running_of(resource: FlinkResource) -> dict[str, int]:
    """Return the overrides that are known to run, by vertex: all of them, or while the operator is at work the last stable ones.

    The operator itself compares the parallelism of every vertex that runs with these before it calls a change deployed.
    """
    reconciliation = resource.reported.reconciliation_status
    if reconciliation is None:
        return {}
    is_done = reconciliation.state == "DEPLOYED" and (resource.reported.lifecycle_state or _QUIET[0]) in _QUIET
    return _overrides_in(reconciliation.last_reconciled_spec if is_done else reconciliation.last_stable_spec)


def runs(resource: FlinkResource) -> bool:
    """Return whether the job runs in Flink, by what the operator last saw."""
    job = resource.reported.job_status
    return job is not None and job.state == "RUNNING"


def has_failed(resource: FlinkResource) -> bool:
    """Return whether the job has ended in an error and nobody starts it again."""
    job = resource.reported.job_status
    return job is not None and job.state == "FAILED"


def hindrance_of(resource: FlinkResource, target: Target | None = None) -> str:
    """Return why a change has not been carried out yet, in words; empty if the operator is done with it."""
    told, meta = resource.reported, resource.metadata
    where = target or Target(meta.namespace or "default", meta.name or "unnamed")
    if told.error:
        return error_of(resource)
    if not _is_seen(resource):
        return (
            f"the operator has not read generation {meta.generation} of it (it has read {told.observed_generation}); "
            f"see that the operator runs and watches namespace {where.namespace}"
        )
    state = told.lifecycle_state or ""
    if state in ("ROLLED_BACK", "ROLLING_BACK"):
        return f"the operator took the change back (lifecycle state {state}); see the events of {where}"
    if state and state not in _QUIET:
        return f"the operator is at work on it (lifecycle state {state}); see the events of {where}"
    return ""


def error_of(resource: FlinkResource) -> str:
    """Return the operator's error in one line."""
    text = resource.reported.error or ""
    with contextlib.suppress(*UNREADABLE):  # older versions write plain text
        text = decoder(_Error).decode(text.encode()).message
    return f"the operator reports: {one_line(text)}"


def _is_seen(resource: FlinkResource) -> bool:
    """Return whether the operator has read the present specification; versions before 1.6 do not say."""
    seen = resource.reported.observed_generation
    return not seen or seen >= resource.metadata.generation


def _overrides_in(text: str | None) -> dict[str, int]:
    """Return the overrides of a specification that the operator keeps as text."""
    try:
        kept: Mapping[str, object] = decoder(dict[str, object]).decode((text or "{}").encode())
        spec = msgspec.convert(kept.get("spec", kept), learned(FlinkSpec))
        return overrides_of(spec.flink_configuration)
    except (*UNREADABLE, OverridesUnreadable):
        return {}
