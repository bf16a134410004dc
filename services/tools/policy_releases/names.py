"""Refuses a release for a cluster or a job that does not exist. Pure."""

import difflib
from collections.abc import Sequence

from contracts.errors import RecordRejected, SettingsError
from contracts.ids import split_job

NEAR_MAX = 3


def check_cluster(cluster: str, known: Sequence[str]) -> None:
    """Check a cluster's name against those that monitors have named; before the first of them, any name will do.

    Raises:
        SettingsError: there are clusters, and this is none of them; names the nearest.
    """
    if known and cluster not in known:
        near = difflib.get_close_matches(cluster, known, n=NEAR_MAX, cutoff=0.3) or list(known)[:NEAR_MAX]
        raise SettingsError(f"--cluster: there is no cluster {cluster!r}; known: {', '.join(near)}")


def check_job(job: str, known: Sequence[str]) -> None:
    """Check a job's id against those that monitors have named; before the first of them, any id will do.

    Raises:
        SettingsError: it is not of the form CLUSTER/NAME, or there are jobs and this is none of them; names the nearest.
    """
    try:
        split_job(job)
    except RecordRejected:
        raise SettingsError(f"--job: {job!r} is not of the form CLUSTER/NAME") from None
    if known and job not in known:
        near = difflib.get_close_matches(job, known, n=NEAR_MAX, cutoff=0.3) or list(known)[:NEAR_MAX]
        raise SettingsError(f"--job: there is no job {job!r}; known: {', '.join(near)}")
