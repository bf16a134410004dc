"""Identities. A record counts once by its identity, no matter how many times it is delivered."""

import hashlib
import re
from functools import lru_cache
from typing import NewType

from surescale.contracts.errors import RecordRejected
from surescale.contracts.free_text import LETTERS_MAX

Cluster = NewType("Cluster", str)
JobId = NewType("JobId", str)  # "cluster/name"

NAME_LETTERS_MAX = 100
"""Of a name from outside: several of them fit into one identity."""
JOB_LETTERS_MAX = LETTERS_MAX
"""Of a cluster's name and a job's with the slash: no record holds more."""
RESERVED_NAMES = frozenset({".", "..", "*"})
"""No names: folders, and what stands for all jobs of a cluster (`contracts.pauses`)."""
_HASHED = re.compile(r"~[0-9a-f]{16}")


def plain_name(name: str) -> str:
    """Return a name from outside, e.g. a consumer group's id, as one that a job can have.

    That is the name itself, unless it is too long, reserved, or has slashes or letters that nobody would see. Then it is what can
    be read of it and a hash of the whole, so that names which differ stay different.

    >>> plain_name("orders"), plain_name("team/orders"), plain_name("*")
    ('orders', 'team_orders~68d5d6027666fe3e', '_~684888c0ebb17f37')
    """
    plain = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in name[:NAME_LETTERS_MAX])
    plain = "_" if plain in RESERVED_NAMES else plain.strip() or "_"
    if plain == name and not _HASHED.fullmatch(plain[-17:]):
        return name
    return f"{plain[: NAME_LETTERS_MAX - 17]}~{hashlib.sha256(name.encode(errors='backslashreplace')).hexdigest()[:16]}"


def job_id(cluster: str, name: str) -> JobId:
    """Return cluster and name joined, e.g. ``job_id("sim", "clicks") == "sim/clicks"``."""
    job = JobId(f"{cluster}/{name}")
    split_job(job)
    return job


@lru_cache(maxsize=10_000)  # called for every record
def split_job(job: str) -> tuple[Cluster, str]:
    """Return cluster and name of a job id.

    Raises:
        RecordRejected: the id does not have exactly one slash with text on both sides, is too long, or has unprintable
            characters.
    """
    cluster, slash, name = job.partition("/")
    if not slash or not cluster or not name or "/" in name:
        raise RecordRejected("invalid_field", "job", f"{job!r} is not of the form cluster/name")
    if cluster in RESERVED_NAMES or name in (".", ".."):
        raise RecordRejected("invalid_field", "job", f"{job!r}: '.' and '..' are no names, nor is '*' one of a cluster")
    if len(job) > JOB_LETTERS_MAX:
        raise RecordRejected("invalid_field", "job", f"{job!r} has {len(job)} letters; an id has at most {JOB_LETTERS_MAX}")
    if not job.isprintable():
        raise RecordRejected("invalid_field", "job", f"{job!r} has characters that cannot be printed")
    return Cluster(cluster), name


def cluster_of(job: str) -> Cluster:
    """Return the cluster of a job id."""
    return split_job(job)[0]


def window_id(job: str, window_end_ms: int, window_minutes: int, layout: int) -> str:
    """Return a window's identity: windows of the same job, end, length and layout have the same bytes."""
    return f"{job}@{window_end_ms}/{window_minutes}m/v{layout}"


def decision_id(job: str, span_end_ms: int, policy: str) -> str:
    """Return a decision's identity: one per job, span and policy; the first in partition order wins."""
    return f"{job}@{span_end_ms}/{policy}"


def shadow_id(job: str, span_end_ms: int, policy: str, sha256: str) -> str:
    """Return the identity of a shadow's answer. Two versions of one package may be asked at the same time, so the hash is in it.

    >>> shadow_id("sim/clicks", 60_000, "sure", "ab" * 32), shadow_id("sim/clicks", 60_000, "ds2", "")
    ('sim/clicks@60000/sure~abababababab', 'sim/clicks@60000/ds2~')
    """
    return f"{job}@{span_end_ms}/{policy}~{sha256[:12]}"


def command_id(job: str, desired_generation: int, step: int) -> str:
    """Return a command's identity: applying it twice changes nothing."""
    return f"{job}#{desired_generation}.{step}"
