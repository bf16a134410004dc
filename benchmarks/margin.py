"""``surescale dev bench margin``: what another margin would be worth in each world, and how much of that can be learned.

The margin is how wide the plan of ``sure`` takes its scenarios (*spread*), how much longer than measured it takes service times
(*caution*), and what a change must gain (*hurdle*). In every state each candidate is played against the same future
(``benchmarks.branch_values``). The table compares, on validation states, with the plan as it is, in reward per hour in which
the margin is kept; what an hour changes in the two hours after it counts in full:

- the candidate that was best in this world's training states, per axis and over all;
- what a regression fitted to the training states of all worlds chooses, state by state (``benchmarks.margin_fit``);
- the best candidate of each state, picked with hindsight: no policy can know it.

Training: graphs and the first weeks that the network may see. Validation: other graphs, the week after, other draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from benchmarks.branch_values import AXES, CANDIDATES, FOLLOW, HOLD, Branched, branched
from benchmarks.machine import conditions
from benchmarks.margin_fit import LEARNERS, States, best_constant, foreseen, learned, mean_gain
from benchmarks.markdown import table
from benchmarks.plan_rows import Place
from benchmarks.report import say, show
from benchmarks.world_cells import DAY, LOAD_PARALLELISM, WEEK
from benchmarks.worlds import WORLDS
from surescale.runtime.atomic_files import write_atomically

TRAINING = (
    "j_1075220", "j_24372", "j_2065702", "j_3031206", "j_15853", "j_868460", "j_4944", "j_7457",
)  # fmt: skip
VALIDATION = ("j_4654", "j_16309", "j_5525", "j_103736", "j_1581621", "j_2735")
LOADS = ("clarknet", "nasa")
ENDS = {"clarknet": WEEK, "nasa": 9 * DAY}
"""Where training may look no further."""
LOOPS, HOURS = 12, 8
TRAINING_DRAW, VALIDATION_DRAW = 1, 51
HALF_DAY = DAY // 2


@click.command("margin")
@click.option("--world", "worlds", multiple=True, default=WORLDS, help="A world, repeatable; restart@300 sets the seconds.")
@click.option("--graphs", type=click.IntRange(1, len(VALIDATION)), default=2, show_default=True,
              help="Graphs to train on, and as many others to validate on; each meets one load in each world.")  # fmt: skip
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path),
              help="Folder of results; what is there is not run again. Empty it after a change to code.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, worlds: tuple[str, ...], graphs: int, keep: Path | None, as_json: bool) -> None:
    """Measure what other margins are worth, and if they can be learned."""
    if len(worlds) * graphs < 2:
        raise click.UsageError(
            "--world, --graphs: learning leaves one training cell out at a time; give two worlds or two graphs"
        )
    found: dict[bool, list[tuple[Place, Branched]]] = {True: [], False: []}
    for is_training, place in places(worlds, graphs):
        each = _kept(place, keep)
        found[is_training].append((place, each))
        gains = (each.values - each.values[:, :1]).mean(axis=0)
        part = "training" if is_training else "validation"
        best = CANDIDATES[int(gains.argmax())]
        say(f"{part}, {place.world}, {place.load}, {place.job}: best {best} {gains.max():+.4f} over three hours")
    figures = judged(found[True], found[False])
    if as_json:
        show("margin", {"conditions": conditions(None), **figures}, as_json=True)
        return
    click.echo(_table(figures))
    head = ["candidate", f"{figures['training_states']:,} training states", "validation states", "foreseen"]
    named = list(figures["candidates"].items())[1:]
    rows = [[name, _text(each["training"]), _text(each["validation"]), f"{each['foreseen']:+.2f}"] for name, each in named]
    click.echo("\n" + table(head, rows))


def places(worlds: Sequence[str], graphs: int) -> Iterator[tuple[bool, Place]]:
    """Yield training and validation places, graph by graph: an unfinished table is a smaller one."""
    for graph in range(graphs):
        for is_training in (True, False):
            job = (TRAINING if is_training else VALIDATION)[graph]
            draw = graph + (TRAINING_DRAW if is_training else VALIDATION_DRAW)
            for at, world in enumerate(worlds):
                load = LOADS[(graph + at + (not is_training)) % len(LOADS)]
                end = ENDS[load]
                first, last = (DAY, end) if is_training else (end, end + WEEK)
                yield is_training, Place(world, load, job, draw, "balanced", first, last, LOAD_PARALLELISM)


def _kept(place: Place, keep: Path | None) -> Branched:
    name = "~".join((place.world, place.load, place.job, str(place.draw), place.objective, str(place.first)))
    file = None if keep is None else keep / f"{name}.json"
    if file is not None and file.exists():
        kept: dict[str, Any] = msgspec.json.decode(file.read_bytes())
        return Branched(**{field: np.array(values) for field, values in kept.items()})
    found = branched(place, LOOPS, HOURS)
    if file is not None:
        plain = {name: getattr(found, name).tolist() for name in Branched.__slots__}
        write_atomically(file, msgspec.json.encode(plain).decode(), option="--keep")
    return found


def states_of(found: Sequence[tuple[Place, Branched]]) -> tuple[States, list[str]]:
    """Return the states of all cells, and the world of each. A gain is per hour in which the margin is kept."""
    loads = sorted({place.load for place, _ in found})
    counts = [len(each.values) for _, each in found]
    states = States(
        features=np.concatenate([each.features for _, each in found]),
        gains=np.concatenate([each.values - each.values[:, :1] for _, each in found]) * (FOLLOW / HOLD),
        cell=np.repeat(np.arange(len(found)), counts),
        block=np.concatenate([each.minutes // HALF_DAY + (1 << 20) * loads.index(place.load) for place, each in found]),
    )
    return states, [place.world for (place, _), count in zip(found, counts, strict=True) for _ in range(count)]


def judged(training: Sequence[tuple[Place, Branched]], validation: Sequence[tuple[Place, Branched]]) -> dict[str, Any]:
    """Return by world, and for all of them, what candidates, learners and hindsight gain on the validation states."""
    trained, trained_in = states_of(training)
    states, judged_in = states_of(validation)
    every = range(len(CANDIDATES))
    axes = {name: range(*axis.indices(len(CANDIDATES))) for name, axis in AXES.items()}
    learners = {name: learned(name, trained) for name in LEARNERS}
    choices = {name: each.choice(states.features) for name, each in learners.items()}
    rows = {}
    for world in (*dict.fromkeys(judged_in), "all"):
        mine = np.array([world in (name, "all") for name in judged_in])
        known = trained.chosen(np.array([world in (name, "all") for name in trained_in]))
        here = states.chosen(mine)
        at = np.arange(len(here.gains))
        constants = {name: best_constant(known, axis) for name, axis in {**axes, "any": every}.items()}
        rows[world] = {
            "states": len(here.gains),
            "constants": {
                name: {"candidate": CANDIDATES[best], **_gain(here.gains[:, best], here)} for name, best in constants.items()
            },
            "learners": {
                name: {"moved": float((made[mine] != 0).mean()), **_gain(here.gains[at, made[mine]], here)}
                for name, made in choices.items()
            },
            "hindsight": _gain(here.gains.max(axis=1), here),
        }
    return {
        "training_states": len(trained.gains),
        "candidates": {
            name: {
                "training": _gain(trained.gains[:, index], trained),
                "validation": _gain(states.gains[:, index], states),
                "foreseen": float(correlation),
            }
            for index, (name, correlation) in enumerate(zip(CANDIDATES, foreseen(trained, states), strict=True))
        },
        "strengths": {name: each.strength for name, each in learners.items()},
        "worlds": rows,
    }


def _gain(gains: np.ndarray[Any, np.dtype[np.float64]], states: States) -> dict[str, float]:
    mean, error = mean_gain(gains, states.block)
    return {"gain": mean, "standard_error": error}


def _table(figures: Mapping[str, Any]) -> str:
    axes = [*AXES, "any"]
    head = ["world", "states", *(f"best {name} of training" for name in axes), *LEARNERS, "with hindsight"]
    rows = []
    for world, each in figures["worlds"].items():
        row = [world, f"{each['states']:,}"]
        for name in axes:
            constant = each["constants"][name]
            row.append("the plan" if constant["candidate"] == CANDIDATES[0] else f"{constant['candidate']}: {_text(constant)}")
        row += [_text(each["learners"][name]) for name in LEARNERS]
        row.append(_text(each["hindsight"]))
        rows.append(row)
    return table(head, rows)


def _text(found: Mapping[str, float]) -> str:
    return f"{found['gain']:+.4f} ± {found['standard_error']:.4f}"


if __name__ == "__main__":
    command()
