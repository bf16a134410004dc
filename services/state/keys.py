"""The keys of the view in Redis: ``surescale:``, the pipeline's prefix, one of the names below (contents: ``docs/state.md``)."""

import base64
import re
import zlib

from surescale.contracts.clock import MINUTE_MS

JOBS = "jobs"
CLUSTERS = "clusters"
CLOCKS = "clocks"
COUNTS = "counts"
FLOORS = "floors"
SIZES = "sizes"
POSITIONS = "positions"
TOPICS = "topics"
KEPT = "kept"
"""When the view last held all that Kafka had. No record sets it, so it is no part of what is rebuilt."""

_OF_JOBS = ("windows", "decisions", "outcomes", "commands", "progress", "shadows")
# How much of each is kept.
WINDOWS_KEPT = 240
EVENTS_KEPT = 500
DAYS_KEPT = 31
"""Days of which a job's sums are kept, with the present one."""
_TASK_MINUTES_KEPT = 120_000  # of all tasks of a job: four hours of 500 tasks, two of a thousand

TIMELINES = (*_OF_JOBS, "balances", "events", "prices", "dead-letters")
_PARTS = ("", ".bodies", ".groups")

_SINGLE = "|".join((JOBS, CLUSTERS, CLOCKS, COUNTS, FLOORS, SIZES, POSITIONS, TOPICS, KEPT))
_OF_TIMELINES = (f"{name}{part}" for name in TIMELINES for part in _PARTS)
_OWNED = "|".join(map(re.escape, ("job", "cluster", "releases", "minutes", "days", *_OF_TIMELINES)))


def job(of: str) -> str:
    """Return the name of the hash of one job."""
    return f"job:{of}"


def cluster(of: str) -> str:
    """Return the name of the hash of one cluster."""
    return f"cluster:{of}"


def releases(cluster: str) -> str:
    """Return the name of the hash of a cluster's releases, by what each takes the place of."""
    return f"releases:{cluster}"


def minutes(job: str) -> str:
    """Return the name of the hash of one job's last minutes, task by task."""
    return f"minutes:{job}"


def minute_place(end_ms: int, tasks: int) -> str:
    """Return the field of ``minutes`` for the minute that ends then, of a job with so many tasks: they take turns.

    >>> minute_place(60_000, 3), minute_place(241 * 60_000, 3), minute_place(121 * 60_000, 1_000)
    ('1', '1', '1')
    """
    return str(end_ms // MINUTE_MS % max(1, min(WINDOWS_KEPT, _TASK_MINUTES_KEPT // max(1, tasks))))


def days(job: str) -> str:
    """Return the name of the hash of one job's sums by day."""
    return f"days:{job}"


def timeline(name: str, owner: str) -> str:
    """Return the name of the sorted set of identities of one owner: a job, a cluster or a partition."""
    return f"{name}:{owner}"


def bodies(name: str, owner: str) -> str:
    """Return the name of the hash of a timeline's documents, by identity."""
    return f"{name}.bodies:{owner}"


def groups(name: str, owner: str) -> str:
    """Return the name of the hash that says under which count each identity of a timeline is counted."""
    return f"{name}.groups:{owner}"


class Keys:
    """The full keys of one pipeline."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"surescale:{prefix}"
        self._own = re.compile(rf"{re.escape(self._prefix)}(?:(?:{_SINGLE})|(?:{_OWNED}):.+)\Z", re.DOTALL)

    def __call__(self, name: str) -> str:
        """Return the key of a name."""
        return self._prefix + name

    def pattern(self, name: str) -> str:
        """Return what Redis matches keys with: a name that ends with ``*`` for any ending, all else taken literally."""
        return re.sub(r"([*?\[\]\\])", r"\\\1", self._prefix) + name

    def is_own(self, key: str) -> bool:
        """Say whether a key belongs to this pipeline's view and to no other's."""
        return self._own.match(key) is not None


_PACKED = "z"  # no JSON object begins with it
_PACKED_FROM_BYTES = 512  # smaller ones gain too little
UNPACKED_BYTES_MAX = 64 * 2**20  # far above what Kafka accepts as a record


def pack(body: bytes) -> bytes:
    """Return a document as it is stored: a large one compressed, since a job's decisions repeat the same names."""
    if len(body) < _PACKED_FROM_BYTES:
        return body
    return _PACKED.encode() + base64.b64encode(zlib.compress(body))


def unpack(stored: str) -> str | bytes:
    """Return the document that was stored.

    Raises:
        ValueError: it was damaged.
    """
    if not stored.startswith(_PACKED):
        return stored
    unpacked = zlib.decompressobj()
    try:
        body = unpacked.decompress(base64.b64decode(stored[len(_PACKED) :], validate=True), UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacked.eof:
        raise ValueError("it is cut off or too large")
    return body
