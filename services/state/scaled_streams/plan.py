"""What ScaledStreams make of their jobs' settings. Pure.

A resource owns its job's settings as files do (``services.job_settings.files``), under the resource's name.
"""

from collections.abc import Collection, Sequence

from surescale.contracts.errors import SettingsError
from surescale.services.job_settings.changes import applied_to, change_in_words
from surescale.services.job_settings.files import Plan, entry_of, plans, released
from surescale.services.job_settings.snapshot import KnownJobs
from surescale.services.state.scaled_streams.definition import PLURAL, ScaledStream
from surescale.services.state.scaled_streams.status import Verdict

NAME_MAX = 63
"""Letters of a resource's name: its settings remember it, and an event's name begins with it."""


def plans_of(
    streams: Sequence[ScaledStream], known: KnownJobs, namespaces: Collection[str], policies: Collection[str]
) -> tuple[dict[str, Verdict], list[Plan]]:
    """Return what becomes of each resource, by uid, and what is to be written.

    Of two resources for one job the older one holds.

    Args:
        streams: the older first, all of ``namespaces``.
        known: the jobs and their settings.
        namespaces: that could be listed.
        policies: names of those that there are.
    """
    verdicts: dict[str, Verdict] = {}
    changes: list[Plan] = []
    owners: dict[str, ScaledStream] = {}
    for stream in streams:
        owner = owners.setdefault(stream.job, stream)
        if owner is not stream:
            why = f"{stream.job} is set by {owner.where}, which is older; delete one of the two"
            verdicts[stream.metadata.uid] = Verdict(False, "OtherResource", why)
            continue
        try:
            plan = _plan(stream, known, policies)
        except SettingsError as problem:
            verdicts[stream.metadata.uid] = Verdict(False, "Refused", str(problem))
            continue
        if plan.is_change:
            changes.append(plan)
        verdicts[stream.metadata.uid] = Verdict(True, "Set", _in_words(plan))
    applied = {job: found.name for job in known.names if (found := applied_to(known.records.get(job, ()), job))}
    ours = tuple(f"{PLURAL}/{namespace}/" for namespace in namespaces)
    gone = {
        job: name for job, name in applied.items() if name.startswith(ours) and not (job in owners and owners[job].where == name)
    }
    return verdicts, changes + released(gone, known, gone.values(), PLURAL)


def _plan(stream: ScaledStream, known: KnownJobs, policies: Collection[str]) -> Plan:
    """Return what a resource makes of its job.

    Raises:
        SettingsError: something of it is wrong, or another's; names it and the fix.
    """
    if len(stream.metadata.name) > NAME_MAX:
        raise SettingsError(f"metadata.name: has {len(stream.metadata.name)} letters; give it at most {NAME_MAX}")
    if not stream.job or set(stream.job) & set("*?["):
        raise SettingsError("spec.job: a resource is for one job; write CLUSTER/NAME")
    other = applied_to(known.records.get(stream.job, ()), stream.job)
    if other and other.name != stream.where:
        raise SettingsError(f"spec.job: {stream.job} is set by {other.name}; take it out there first")
    entry = entry_of("spec", stream.job, stream.settings)
    policy = entry.wanted["policy"]
    if policy is not None and policy not in policies:
        raise SettingsError(
            f"spec.policy: there is no policy {policy!r} in the state service's SURESCALE_POLICY_FOLDER, which must be the "
            f"agents'; there are {', '.join(policies)}"
        )
    (plan,) = plans([entry], known, stream.where, stream.where)
    return plan


def _in_words(plan: Plan) -> str:
    """Return what holds now of a resource's settings, and what was taken back, or has no effect."""
    hand = ", ".join(change_in_words(field, *pair) for field, pair in plan.by_hand.items())
    parts = [
        f"settings version {plan.after.version}",
        f"{plan.before.set_by} had changed by hand, and it was taken back: {hand}" if hand else "",
        plan.note or "",
    ]
    return "; ".join(filter(None, parts))
