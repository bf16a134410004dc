"""Refuses a release for a cluster that does not exist. Pure."""

import difflib
from collections.abc import Sequence

from contracts.errors import SettingsError

NEAR_MAX = 3


def check_cluster(cluster: str, known: Sequence[str]) -> None:
    """Check a cluster's name against those that monitors have named; before the first of them, any name will do.

    Raises:
        SettingsError: there are clusters, and this is none of them; names the nearest.
    """
    if known and cluster not in known:
        near = difflib.get_close_matches(cluster, known, n=NEAR_MAX, cutoff=0.3) or list(known)[:NEAR_MAX]
        raise SettingsError(f"--cluster: there is no cluster {cluster!r}; known: {', '.join(near)}")
