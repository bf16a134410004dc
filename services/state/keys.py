"""The keys of the view in Redis: ``surescale:``, the pipeline's prefix, one of the names below (contents: ``docs/state.md``)."""

import re

JOBS = "jobs"
CLUSTERS = "clusters"
CLOCKS = "clocks"
COUNTS = "counts"
FLOORS = "floors"
SIZES = "sizes"
POSITIONS = "positions"

TIMELINES = ("windows", "decisions", "outcomes", "commands", "progress", "balances", "events", "dead-letters", "shadows")
_PARTS = ("", ".bodies", ".groups")

_SINGLE = "|".join((JOBS, CLUSTERS, CLOCKS, COUNTS, FLOORS, SIZES, POSITIONS))
_OWNED = "|".join(map(re.escape, ("job", "cluster", "releases", *(f"{name}{part}" for name in TIMELINES for part in _PARTS))))


def job(of: str) -> str:
    """Return the name of the hash of one job."""
    return f"job:{of}"


def cluster(of: str) -> str:
    """Return the name of the hash of one cluster."""
    return f"cluster:{of}"


def releases(cluster: str) -> str:
    """Return the name of the hash of a cluster's releases, by what each takes the place of."""
    return f"releases:{cluster}"


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
