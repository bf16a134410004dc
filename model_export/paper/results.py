"""Results of runs on disk, one small JSON file each, and the figures that tables are made of. No torch."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from contracts.errors import SurescaleError
from model_export.paper.world import Outcome, PaperMode
from runtime.whole_files import write_whole

FILE = "result.json"


class ResultRejected(SurescaleError):
    """A file of results cannot be read."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One trained (or tuned) policy judged on week 2; lists have an entry per run.

    ``changed``: what differs from the method's own settings, such as ``k1=5``; "" for the tables.
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
    """Rewards with actions and nodes drawn in place of the best, as the paper's code judges; mode ``compat``."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A method on one job over all its seeds.

    Attributes:
        reward: mean over seeds and runs; ``by_seed`` the mean of each seed.
    """

    reward: float
    latency: float
    utilisation: float
    rescales_per_day: float
    by_seed: tuple[float, ...]
    note: str


def fields_of(outcome: Outcome) -> dict[str, object]:
    """Return an outcome as the fields of a ``Result``."""
    names = ("reward", "latency", "utilisation", "rescales_per_day")
    lists = {name: tuple(round(float(value), 6) for value in getattr(outcome, name)) for name in names}
    return {"decisions": outcome.decisions, **lists}


def write(result: Result, folder: Path) -> None:
    """Write a result, whole or not at all."""
    write_whole(folder / FILE, msgspec.json.encode(result).decode() + "\n", option="--out")


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
        raise ResultRejected(f"{path} is no result ({error}); delete it, and --train judges that policy again") from None


def cells(results: Iterable[Result]) -> dict[str, dict[str, Cell]]:
    """Return ``[job][method]`` of results of one mode."""
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.job, result.method].append(result)
    table: dict[str, dict[str, Cell]] = defaultdict(dict)
    for (job, method), found in grouped.items():
        table[job][method] = Cell(
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
