"""Exports a training run as a model package: two ONNX graphs, a parity check on real states, and the card."""

import hashlib
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np
import onnx
import torch

from surescale.contracts.errors import SurescaleError
from surescale.model_export.feature_ranges import fit_ranges, places_of, write_card
from surescale.model_export.network import SampledInput, SureNetwork, choose, forward
from surescale.model_export.plan_loops import starting_parallelism
from surescale.model_export.train import Run, first_week
from surescale.policies.features import FEATURE_VERSION, SLOTS_SHA256, WIDTH, Encoded, encode
from surescale.policies.graph import JobGraph, job_graph
from surescale.policies.measure import measure
from surescale.policies.package import CARD
from surescale.policies.policy import SPAN_MINUTES
from surescale.policies.registry import FORECAST, RULES
from surescale.policies.sure.package import FORMAT, POLICY, SAMPLER, Card, read_package
from surescale.policies.sure.policy import SurePolicy, load_sure_policy
from surescale.simulation.load.jobs import load_job
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows, Terms

PARITY_MAX = 1e-5
PARITY_JOBS = 6
STALE_MINUTES = 3
TERMS = (
    "Weights: Apache-2.0, as surescale. Trained on request counts of the ClarkNet and NASA traces (Internet Traffic Archive, no "
    "restriction on use) and on graphs that were drawn at random."
)


class ParityError(SurescaleError):
    """The exported graphs do not answer as torch does."""


class ExportRefused(SurescaleError):
    """A package cannot have this name or this place; the message says why."""


def check_name(folder: Path, name: str) -> None:
    """Refuse, before the export, a name that cannot be loaded and a place that holds something other than a package.

    Raises:
        ExportRefused: names the option and the fix.
    """
    if not name or "/" in name or "\0" in name or name.startswith(".") or name in (*RULES, FORECAST):
        raise ExportRefused(f"--name {name!r}: a rule has this name or no policy can have it; choose another, such as sure-2")
    target = folder / name
    if target.exists() and not (target / CARD).is_file():
        raise ExportRefused(
            f"--name {name}: {target} exists and is not a package (it has no {CARD}); choose another name or --out"
        )


def export_package(run: Run, folder: Path, name: str) -> Path:
    """Write the package ``folder/name`` from a run's best weights, whole or not at all; return its folder.

    Raises:
        ParityError: ONNX and torch differ by more than 1e-5 on states of real loops.
        ExportRefused: the name cannot be used, or its place holds something other than a package.
    """
    check_name(folder, name)
    run.network.load_state_dict(run.best_state)
    run.network.eval()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        part = Path(scratch) / name
        part.mkdir()
        export_graphs(run.network, part)
        card = _card(run, part, name)
        write_card(card, part)
        parity = check_parity(run, part)
        card = msgspec.structs.replace(card, training={**card.training, "parity": parity})
        card = msgspec.structs.replace(card, ranges=fit_ranges(run.base, places_of(card.training)))
        write_card(card, part)
        return put_in_place(part, folder, name)


def put_in_place(part: Path, folder: Path, name: str) -> Path:
    """Swap a finished package in its scratch folder with the one at ``folder/name``, if any, and return that folder.

    Raises:
        ExportRefused: its place holds something other than a package.
    """
    check_name(folder, name)
    target, before = folder / name, part.with_name(f"{name}.before")
    if target.exists():
        target.replace(before)  # into the scratch folder, which is deleted with it
    part.replace(target)
    return target


def export_graphs(network: SureNetwork, folder: Path) -> None:
    """Write ``sampler.onnx`` and ``policy.onnx`` for any number of rows, minutes, tasks and nodes."""
    rows, minutes, tasks, nodes = (torch.export.Dim(axis, min=1) for axis in ("rows", "minutes", "tasks", "nodes"))
    sampled = (torch.zeros(2, 12, 3, WIDTH), torch.ones(2, 12, 3))
    _export(
        network.sampler,
        sampled,
        folder / SAMPLER,
        ["x", "mask"],
        ["z", "mu", "sigma"],
        ({0: rows, 1: minutes, 2: tasks}, {0: rows, 1: minutes, 2: tasks}),
    )
    parts = (torch.zeros(5, 6, network.hidden), torch.zeros(5, 6, 6), torch.ones(5, 6), torch.zeros(5, network.hidden))
    _export(
        network.policy,
        parts,
        folder / POLICY,
        ["sub_x", "sub_linked", "sub_known", "now"],
        ["outputs"],
        ({0: rows, 1: nodes}, {0: rows, 1: nodes, 2: nodes}, {0: rows, 1: nodes}, {0: rows}),
    )


def _export(
    module: torch.nn.Module,
    arguments: tuple[torch.Tensor, ...],
    path: Path,
    inputs: list[str],
    outputs: list[str],
    shapes: tuple[dict[int, torch.export.Dim], ...],
) -> None:
    program = torch.onnx.export(
        module, arguments, input_names=inputs, output_names=outputs, dynamic_shapes=shapes, dynamo=True, verbose=False
    )
    program.save(str(path), external_data=False)
    strip_traces(path)


def strip_traces(path: Path) -> None:
    """Remove the exporter's notes from a graph: stack traces of the exporting machine, half of its bytes."""
    model = onnx.load(path)
    graphs = [model.graph, *model.functions]
    for part in (model, *graphs, *(node for graph in graphs for node in graph.node), *model.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for tensor in (*model.graph.initializer, *model.graph.input, *model.graph.output):
        tensor.ClearField("metadata_props")
        tensor.ClearField("doc_string")
    onnx.save(model, path)


def check_parity(run: Run, folder: Path, states: int = 256) -> dict[str, float]:
    """Return how ONNX and torch compare on states of exploring loops of the validation graphs and up to six training graphs.

    Each side chooses nodes from its own logits, as serving and training do.

    Raises:
        ParityError: an output differs by more than 1e-5 or is not a number, or more than one state in a hundred chose other
            nodes.
    """
    policy = load_sure_policy(read_package(folder))
    names = sorted({*run.settings.jobs[:PARITY_JOBS], *run.settings.validation_jobs})
    worst, other, seen = 0.0, 0, 0
    for name in names:
        for encoded, graph in _states(run, name, -(-states // len(names))):
            chosen = choose(run.network, _row(encoded), graph, None)
            wanted = _torch_outputs(run.network, chosen, graph)
            looked, _, answered = policy.run(encoded, graph)
            seen += 1
            if not np.array_equal(looked.minutes, chosen.looked.minutes[0]) or not np.array_equal(
                looked.neighbours, chosen.looked.neighbours[0]
            ):
                other += 1  # a score on the edge of its grid may round either way; counted here and kept rare below
                continue
            worst = max(worst, largest_error(wanted, answered))
    if worst > PARITY_MAX or other > seen // 100:
        raise ParityError(f"ONNX and torch differ by {worst:.2g} (limit {PARITY_MAX:g}); other nodes in {other} of {seen} states")
    return {"states": seen, "error_max": float(f"{worst:.3g}"), "other_nodes": other}


def largest_error(wanted: np.ndarray, answered: np.ndarray) -> float:
    """Return the largest difference of two arrays; infinity if either holds something that is not a number."""
    return float(np.nan_to_num(np.abs(wanted - answered), nan=np.inf, posinf=np.inf).max(initial=0.0))


def _row(encoded: Encoded) -> Encoded:
    return Encoded(x=encoded.x[None], mask=encoded.mask[None])


@torch.no_grad()
def _torch_outputs(network: SureNetwork, chosen: SampledInput, graph: JobGraph) -> np.ndarray:
    outputs: np.ndarray = forward(network, chosen, graph, None).outputs[0].numpy()
    return outputs


def _states(run: Run, name: str, count: int) -> list[tuple[Encoded, JobGraph]]:
    """Return encoded windows of one job at random minutes of the training week, some with unreported task-minutes."""
    workload = load_workload(run.settings.workloads[0])
    job, week = load_job(name, workload), first_week(workload)
    graph = job_graph(job.specs())
    generator = np.random.default_rng(run.settings.seed)
    minutes = generator.integers(120, week.minutes, size=count)
    rows = LoopRows(job, week, minutes, starting_parallelism(job, week, minutes, generator), Terms())
    rows.step(starting_parallelism(job, week, minutes, generator))
    seen = rows.observe()
    seen.figures[::3][:, generator.random(seen.figures.shape[1:3]) < 0.1] = np.nan
    measured = measure(seen.figures, graph)
    encoded = encode(seen.figures, graph, seen.ends_ms, seen.hourly_load, measured)
    return [(Encoded(x=encoded.x[row], mask=encoded.mask[row]), graph) for row in range(count)]


def _card(run: Run, folder: Path, name: str) -> Card:
    libraries = {library: version(library) for library in ("torch", "torch-geometric", "onnx", "numpy")}
    return Card(
        format=FORMAT,
        name=name,
        feature_version=FEATURE_VERSION,
        slots_sha256=SLOTS_SHA256,
        statistics=run.network.statistics,
        hidden=run.network.hidden,
        sampling=run.network.sampling,
        base=run.base,
        span_minutes=SPAN_MINUTES,
        window_minutes=Terms().window_minutes,
        stale_minutes=STALE_MINUTES,
        files={file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in (SAMPLER, POLICY)},
        training={
            "settings": asdict(run.settings),
            "updates": run.update,
            "minutes_one_thread": round(run.seconds / 60, 1),
            "parameters": sum(parameter.numel() for parameter in run.network.parameters()),
            "validation_reward": {"plan_alone": round(run.rule, 4), "kept": round(run.best, 4)},
            "kept": "the network" if run.best > run.rule else "the plan alone: the output layer is zero",
            "libraries": libraries,
            "date": datetime.now(UTC).date().isoformat(),
        },
        terms=TERMS,
    )


def opened(folder: Path) -> SurePolicy:
    """Return the exported package as serving opens it."""
    return load_sure_policy(read_package(folder))
