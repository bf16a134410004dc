"""Results of runs on disk, one small JSON file each, and the figures that the tables show. Works without torch."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from reproductions.sure.environment import PaperMode, PolicyRuns
from surescale.contracts.errors import SurescaleError
from surescale.policies.answer import Float64
from surescale.runtime.atomic_files import write_atomically
from surescale.simulation.load.jobs import SizedJob

FILE = "result.json"


class ResultRejected(SurescaleError):
    """A file of results cannot be read."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One trained (or tuned) policy judged on week 2. The tuples have an entry per run.

    ``changed`` says what differs from the method's own settings, such as ``k1=5``; "" for the tables.
    """

    method: str
    job: str
    tasks: int
    mode: PaperMode
    latency_weight: float
    seed: int
    changed: str = ""
    updates: int = 0
    train_s: float = 0.0
    """Processor seconds."""
    validation: float | None = None
    note: str = ""
    decisions: int
    reward: tuple[float, ...]
    latency: tuple[float, ...]
    utilisation: tuple[float, ...]
    rescales_per_day: tuple[float, ...]
    drawn: tuple[float, ...] = ()
    """Rewards with drawn actions and nodes instead of the best ones, as the paper's code judges; mode ``compat`` only."""


@dataclass(frozen=True, slots=True)
class Training:
    """What a training took, in updates and processor seconds, and the reward it reached on week 1."""

    updates: int = 0
    seconds: float = 0.0
    validation: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class MethodScore:
    """A method on one job over all its seeds.

    Attributes:
        reward: mean over seeds and runs; ``by_seed`` holds the mean of each seed.
    """

    reward: float
    latency: float
    utilisation: float
    rescales_per_day: float
    by_seed: tuple[float, ...]
    note: str


def result_of(
    runs: PolicyRuns,
    job: SizedJob,
    *,
    method: str,
    mode: PaperMode,
    latency_weight: float,
    seed: int = 0,
    changed: str = "",
    training: Training | None = None,
    drawn: PolicyRuns | None = None,
) -> Result:
    """Return the result of a policy's runs; ``drawn`` are the runs with drawn actions."""
    training = training or Training()
    return Result(
        method=method,
        job=job.name,
        tasks=job.size,
        mode=mode,
        latency_weight=latency_weight,
        seed=seed,
        changed=changed,
        updates=training.updates,
        train_s=round(training.seconds, 1),
        validation=None if training.validation is None else round(training.validation, 5),
        note=training.note,
        decisions=runs.decisions,
        reward=_rounded(runs.reward),
        latency=_rounded(runs.latency),
        utilisation=_rounded(runs.utilisation),
        rescales_per_day=_rounded(runs.rescales_per_day),
        drawn=() if drawn is None else _rounded(drawn.reward),
    )


def _rounded(values: Float64) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


def write(result: Result, folder: Path) -> None:
    """Write a result. The file appears whole or not at all."""
    write_atomically(folder / FILE, msgspec.json.encode(result).decode() + "\n", option="--out")


def read_all(folder: Path) -> list[Result]:
    """Return all results under a folder, in the order of their paths.

    Raises:
        ResultRejected: a file is damaged; names it.
    """
    return [_read(path) for path in sorted(folder.rglob(FILE))]


def _read(path: Path) -> Result:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ResultRejected(f"{path} is not a result ({error}); delete it, and --train judges that policy again") from None


def method_scores(results: Iterable[Result]) -> dict[str, dict[str, MethodScore]]:
    """Return ``[job][method]`` of the results of one mode."""
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.job, result.method].append(result)
    table: dict[str, dict[str, MethodScore]] = defaultdict(dict)
    for (job, method), found in grouped.items():
        table[job][method] = MethodScore(
            reward=_mean(result.reward for result in found),
            latency=_mean(result.latency for result in found),
            utilisation=_mean(result.utilisation for result in found),
            rescales_per_day=_mean(result.rescales_per_day for result in found),
            by_seed=tuple(float(np.mean(result.reward)) for result in found),
            note=found[0].note,
        )
    return dict(table)


def _mean(lists: Iterable[tuple[float, ...]]) -> float:
    return float(np.mean([np.mean(values) for values in lists]))
