"""How a model package was judged: ``scores.json`` beside its card. For people: no decision reads it and no checksum covers it."""

from pathlib import Path

import msgspec

from surescale.contracts.errors import UNREADABLE
from surescale.contracts.foreign_files import contents

FILE = "scores.json"


class PolicyScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One policy on one job: the mean hourly reward and, where known, what it is made of."""

    reward: float
    latency_minutes: float | None = None
    utilisation: float | None = None
    rescales_per_day: float | None = None
    worst_hour: float | None = None  # reward of the worst hour


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """The mean difference of two policies' hourly rewards, and its standard error."""

    mean: float
    standard_error: float


class JobScores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All policies judged on one job, by name, and by how much the package leads some of them."""

    tasks: int
    policies: dict[str, PolicyScore]
    leads: dict[str, Lead] = {}


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """What a package was judged on, by whom, and the result on each job. ``terms`` are for people."""

    policy: str
    """The package's name in ``policies``."""
    terms: dict[str, str | int | float]
    jobs: dict[str, JobScores]


def read_scores(package: Path) -> Scores | None:
    """Return a package's scores, None if it has none that can be read."""
    try:
        return msgspec.json.decode(contents(package / FILE), type=Scores)
    except (OSError, *UNREADABLE):
        return None


def write_scores(scores: Scores, package: Path) -> None:
    """Write a package's scores, one field a line; the same scores give the same bytes."""
    raw = msgspec.json.format(msgspec.json.encode(scores, order="deterministic"), indent=1)
    (package / FILE).write_bytes(raw + b"\n")
