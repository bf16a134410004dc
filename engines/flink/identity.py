"""Which job it is: Flink's ids name one submission, and several jobs may have one name.

A job is known by the label ``surescale.job`` among its own parameters (``pipeline.global-job-parameters``), else by its name. It
must be the only live job of the cluster with it; otherwise the name is ambiguous, and the job may only be observed.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from surescale.contracts.ids import JOB_LETTERS_MAX, RESERVED_NAMES, JobId, job_id
from surescale.contracts.modes import AMBIGUOUS_LABEL, LABEL_PREFIX
from surescale.engines.flink.answers import JobDetail, JobEntry
from surescale.engines.flink.graph import is_over

JOB_LABEL = "surescale.job"
NAME_LENGTH_MAX = 200
LABEL_LENGTH_MAX = 256
_UNSAFE = re.compile(r"[/\\]")
_ID_LENGTH = 8  # of a Flink job id behind an ambiguous name


@dataclass(frozen=True, slots=True)
class Identity:
    """A live job and the name we know it by.

    Attributes:
        flink_job: Flink's id of this submission; the job's epoch.
        job: ``cluster/name``.
        engine_name: the name in Flink.
        labels: the author's, and ours that says why the name is ambiguous.
        ambiguous: in one sentence, why the job may only be observed; empty if it is the only one of its name.
        shared_job: the id that it would have if it were the only one of its name; empty if it is.
    """

    flink_job: str
    job: JobId
    engine_name: str
    labels: Mapping[str, str]
    ambiguous: str = ""
    shared_job: str = ""


def labels_of(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the labels among a job's parameters. Its other parameters stay unread: they may hold secrets."""
    ours = (key for key in sorted(parameters) if key.startswith(LABEL_PREFIX) and len(key) <= LABEL_LENGTH_MAX)
    return {key: parameters[key][:LABEL_LENGTH_MAX] for key in ours}


def safe_name(name: str, letters_max: int = NAME_LENGTH_MAX) -> str:
    """Return a name as a part of a job id: slashes, what cannot be printed and names of no job become ``_``; the rest is cut."""
    kept = "".join(letter if letter.isprintable() else "_" for letter in _UNSAFE.sub("_", name))
    kept = kept.strip()[:letters_max].rstrip()
    return "_" if not kept or kept in RESERVED_NAMES else kept


def identify(cluster: str, jobs: Iterable[JobEntry], parameters: Mapping[str, Mapping[str, str]]) -> dict[str, Identity]:
    """Return the identity of every live job, by Flink's job id.

    Args:
        cluster: its name in the settings.
        jobs: all jobs that Flink lists; ended ones are left out.
        parameters: of each live job, by Flink's job id; missing ones have no label.
    """
    live = [entry for entry in jobs if not is_over(entry.state)]
    labels = {entry.jid: labels_of(parameters.get(entry.jid, {})) for entry in live}
    room = min(NAME_LENGTH_MAX, JOB_LETTERS_MAX - len(cluster) - 1)
    names = {entry.jid: safe_name(labels[entry.jid].get(JOB_LABEL) or entry.name, room) for entry in live}
    count = Counter(names.values())
    found = {entry.jid: _identity(cluster, entry, names[entry.jid], labels[entry.jid], count, _ID_LENGTH) for entry in live}
    often = Counter(each.job for each in found.values())
    for entry in live:
        if often[found[entry.jid].job] > 1 and found[entry.jid].ambiguous:
            # Another's name looks like this one's, or two ids begin alike.
            found[entry.jid] = _identity(cluster, entry, names[entry.jid], labels[entry.jid], count, len(entry.jid))
    return found


def without_newcomers(found: Mapping[str, Identity], before: Mapping[str, Identity]) -> dict[str, Identity]:
    """Return identities in which a job that had its name alone keeps it, without the jobs that have come under it since.

    Args:
        found: of every live job, by Flink's job id.
        before: of those that lived before.
    """
    kept = {
        jid: Identity(jid, before[jid].job, each.engine_name, before[jid].labels)
        for jid, each in found.items()
        if each.ambiguous and jid in before and not before[jid].ambiguous
    }
    taken = {each.job for each in kept.values()}
    return {jid: kept.get(jid, each) for jid, each in found.items() if jid in kept or each.shared_job not in taken}


def attempt_of(detail: JobDetail) -> int | None:
    """Return the number of the job's execution graph: when it was made, in milliseconds; None while there is none.

    Flink makes a new one for every restart and every rescale, and all subtasks count from 0 in it. Each subtask's own ``attempt``
    says something else: how often that subtask was started within the graph.
    """
    return detail.timestamps.get("CREATED", 0) or None


def began_of(detail: JobDetail) -> int | None:
    """Return when the job's execution graph began to run, in milliseconds of the JobManager's clock; None if it does not yet.

    Flink's own cooldown after a rescale counts from about then.
    """
    created, running = detail.timestamps.get("CREATED", 0), detail.timestamps.get("RUNNING", 0)
    return running if running and running >= created else None


def _identity(
    cluster: str, entry: JobEntry, name: str, labels: dict[str, str], count: Mapping[str, int], id_letters: int
) -> Identity:
    if count[name] == 1:
        return Identity(entry.jid, job_id(cluster, name), entry.name, labels)
    reason = f"{count[name]} jobs are named {name!r}; give each its own label {JOB_LABEL}"
    own = f"~{safe_name(entry.jid[:id_letters])}"  # tells a submission from others of its name
    own_name = f"{name[: JOB_LETTERS_MAX - len(cluster) - 1 - len(own)]}{own}"
    shared = job_id(cluster, name)
    return Identity(entry.jid, job_id(cluster, own_name), entry.name, labels | {AMBIGUOUS_LABEL: reason}, reason, shared)
