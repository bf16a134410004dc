"""Export a trained network of the paper as a package: its ONNX graphs, checked against torch on real states, and its card."""

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

from benchmarks.archive import load_job
from reproductions.sure.ccrnn import LAYERS, Ccrnn
from reproductions.sure.dream import Dream
from reproductions.sure.environment import REACH, SPAN_MINUTES, View, sizes_of, terms_of, week
from reproductions.sure.feature_ranges import base_of_sure, fit_ranges
from reproductions.sure.layers import Method, State
from reproductions.sure.statistics import spread_start
from reproductions.sure.sure import PaperSure
from reproductions.sure.train import PaperRun, best_model
from surescale.contracts.errors import SurescaleError
from surescale.model_export.export import check_name, put_in_place, write_card
from surescale.policies.features import FEATURE_VERSION, SLOTS_SHA256, SURE_WIDTH
from surescale.policies.paper.card import FORMAT, Kind, PaperCard, read_paper_package
from surescale.policies.paper.models import open_model
from surescale.policies.scores import Scores, write_scores
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows, Terms

PARITY_MAX = 1e-5
STALE_MINUTES = 3
TERMS = (
    "Weights: Apache-2.0, as surescale. Trained on request counts of the ClarkNet and NASA traces (Internet Traffic Archive, no "
    "restriction on use) and on graphs that were drawn at random."
)
NAMES = {"w/o NVSS": "without-nvss", "w/o MI": "without-mi"}

Shapes = tuple[dict[int, torch.export.Dim] | None, ...]


class ParityError(SurescaleError):
    """The exported graphs do not answer as torch does."""


def slug(method: str) -> str:
    """Return a method's name as a folder name: w/o NVSS becomes without-nvss."""
    return NAMES.get(method, method.lower())


def export_run(run: PaperRun, folder: Path, name: str, scores: Scores) -> Path:
    """Write the package ``folder/name`` from a run's best weights. The package appears whole or not at all.

    Raises:
        ParityError: ONNX and torch differ by more than 1e-5 on states of real loops.
        ExportRefused: the name is not valid, or something other than a package is there.
    """
    check_name(folder, name)
    model, load = best_model(run), load_workload(run.settings.workload)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        part = Path(scratch) / name
        part.mkdir()
        export_graphs(model, part, terms_of(run.settings.mode).snapshots)
        card = card_of(run, model, part, name)
        write_card(card, part)
        parity = check_parity(run, model, part)
        ranges = fit_ranges(base_of_sure(), [(load_job(name, load), week(load, 1)) for name in run.settings.jobs])
        write_card(msgspec.structs.replace(card, training={**card.training, "parity": parity}, ranges=ranges), part)
        write_scores(scores, part)
        return put_in_place(part, folder, name)


def export_graphs(model: Method, folder: Path, minutes: int) -> list[str]:
    """Write a network's ONNX graphs, with any number of rows and tasks; return the file names."""
    rows, tasks = torch.export.Dim("rows", min=1), torch.export.Dim("tasks", min=1)
    x, mask, down = torch.zeros(2, minutes, 3, SURE_WIDTH), torch.ones(2, minutes, 3), torch.zeros(3, 3)
    down[0, 1] = down[1, 2] = 1.0
    window: Shapes = ({0: rows, 2: tasks}, {0: rows, 2: tasks}, {0: tasks, 1: tasks})
    if isinstance(model, PaperSure):
        _export(model.sampler, (x, mask), folder / "sampler.onnx", ("x", "mask"), ("z", "mu", "sigma"), window[:2])
        _export_subgraphs(model, folder / "policy.onnx")
        return ["sampler.onnx", "policy.onnx"]
    if isinstance(model, Dream):
        outputs = ("nodes", "there", "state")
        _export(model.encoder, (x, mask, down), folder / "encoder.onnx", ("x", "mask", "down"), outputs, window)
        hidden = model.hidden
        step = (torch.zeros(2, 3, hidden), torch.ones(2, 3), *(torch.zeros(2, size) for size in (hidden, 1, hidden)))
        shapes: Shapes = ({0: rows, 1: tasks}, {0: rows, 1: tasks}, {0: rows}, {0: rows}, {0: rows})
        names = ("nodes", "there", "task", "last", "state_before")
        _export(model.decoder, step, folder / "decoder.onnx", names, ("action", "state"), shapes)
        return ["encoder.onnx", "decoder.onnx"]
    if isinstance(model, Ccrnn):
        return _export_recurrent(model, (x, mask, down), window, folder)
    _export(model, (x, mask, down), folder / "model.onnx", ("x", "mask", "down"), ("action",), window)
    return ["model.onnx"]


def _export_recurrent(model: Ccrnn, inputs: tuple[torch.Tensor, ...], window: Shapes, folder: Path) -> list[str]:
    """Write three graphs, because unrolling sixty cells would make one graph of megabytes."""
    rows, tasks = torch.export.Dim("rows", min=1), torch.export.Dim("tasks", min=1)
    names = ("series", "graphs", "there")
    _export(model.prepare, inputs, folder / "prepare.onnx", ("x", "mask", "down"), names, window)
    # Two tensors: given the same one twice, the exporter would merge them into one input.
    now, before, graphs = torch.zeros(2, 3, model.hidden), torch.zeros(2, 3, model.hidden), torch.zeros(2, LAYERS, 3, 3)
    node, pair = {0: rows, 1: tasks}, {0: rows, 2: tasks, 3: tasks}
    cell = ("now", "state_before", "graphs")
    _export(model.encoder, (now, before, graphs), folder / "cell.onnx", cell, ("state",), (node, node, pair))
    act = ("now", "state_before", "graphs", "there")
    arguments = (now, before, graphs, torch.ones(2, 3))
    _export(model.act, arguments, folder / "act.onnx", act, ("action",), (node, node, pair, node))
    return ["act.onnx", "cell.onnx", "prepare.onnx"]


def _export_subgraphs(model: PaperSure, path: Path) -> None:
    parts, anchors, width = (torch.export.Dim(name, min=2) for name in ("parts", "anchors", "width"))
    arguments = (torch.zeros(5, 4, 3, model.hidden), torch.ones(5, 4, 3, 3), torch.ones(5, 4, 3))
    shapes: Shapes = (
        {0: parts, 1: anchors, 2: width},
        {0: parts, 1: anchors, 2: width, 3: width},
        {0: parts, 1: anchors, 2: width},
    )
    _export(model.policy, arguments, path, ("sub_x", "links", "known"), ("action",), shapes)


def _export(
    module: torch.nn.Module,
    arguments: tuple[torch.Tensor, ...],
    path: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    shapes: Shapes,
) -> None:
    program = torch.onnx.export(
        module.eval(), arguments, input_names=inputs, output_names=outputs, dynamic_shapes=shapes, dynamo=True, verbose=False
    )
    assert program is not None
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


def check_parity(run: PaperRun, model: Method, folder: Path, states: int = 200) -> dict[str, float]:
    """Compare actions of ONNX and torch on states of exploring loops of the run's own job.

    Raises:
        ParityError: an action differs by more than 1e-5 or is not a number. Where nodes are chosen, one task-decision in a
            thousand may differ.
    """
    served, _ = open_model(read_paper_package(folder))
    worst, other, seen = 0.0, 0, 0
    for view in _views(run, terms_of(run.settings.mode), states):
        state = State.of(view.encoded, view.graph)
        with torch.no_grad():
            wanted = model.mean_action(state, view.seeds).numpy()
        acted = served.act(view.encoded, view.graph, view.seeds)
        error = np.abs(wanted - acted.action)
        seen += error.size
        other += int((~(error <= PARITY_MAX)).sum())  # NaN counts as different
        worst = max(worst, float(error[error <= PARITY_MAX].max(initial=0.0)))
    # A score at the edge of its grid may round differently in the two runtimes. Such cases are counted and must be rare.
    if other > (seen // 1000 if isinstance(model, PaperSure) else 0):
        raise ParityError(f"ONNX and torch differ by more than {PARITY_MAX:g} in {other} of {seen} actions")
    return {"actions": seen, "error_max": float(f"{worst:.3g}"), "other_nodes": other}


def _views(run: PaperRun, terms: Terms, states: int) -> list[View]:
    workload = load_workload(run.settings.workload)
    job, load = load_job(run.settings.jobs[0], workload), week(workload, 1)
    generator = np.random.default_rng(run.settings.seed)
    first = SPAN_MINUTES * generator.integers(1, load.minutes // SPAN_MINUTES, size=states // 2)
    rows = LoopRows(job, load, first, spread_start(job, load, first, generator), terms)
    views = []
    for _ in range(2):
        views.append(View(rows.observe(), rows.graph, job, terms))
        current = views[-1].observed.current
        rows.step(sizes_of(generator.uniform(-0.4, 0.6, current.shape), current, job, terms))
    return views


def card_of(run: PaperRun, model: Method, folder: Path, name: str) -> PaperCard:
    """Return the card of a run whose graphs are in a folder."""
    settings = run.settings
    files = sorted(path.name for path in folder.glob("*.onnx"))
    libraries = {library: version(library) for library in ("torch", "torch-geometric", "onnx", "numpy")}
    card = PaperCard(
        paper_format=FORMAT,
        kind=kind_of(model),
        name=name,
        method=settings.method,
        feature_version=FEATURE_VERSION,
        slots_sha256=SLOTS_SHA256,
        window_minutes=terms_of(settings.mode).snapshots,
        span_minutes=SPAN_MINUTES,
        stale_minutes=STALE_MINUTES,
        hidden=settings.hidden,
        reach=REACH if settings.mode == "compat" else 1.0,
        rounding="towards-zero" if settings.mode == "compat" else "half-up",
        files={file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files},
        training={
            "settings": asdict(settings),
            "updates": run.update,
            "processor_seconds": round(run.seconds, 1),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "validation_reward_week_1": round(run.best, 4),
            "libraries": libraries,
            "date": datetime.now(UTC).date().isoformat(),
        },
        terms=TERMS,
    )
    if isinstance(model, PaperSure):
        options = model.options
        card = msgspec.structs.replace(
            card,
            anchors=options.anchors,
            neighbours_share=options.neighbours_share,
            neighbours_max=options.neighbours_max,
            direction=options.direction,
            sampler="uniform" if options.uniform else "learned",
        )
    return card


def kind_of(model: Method) -> Kind:
    """Return how a network is served."""
    kinds: tuple[tuple[type[Method], Kind], ...] = ((PaperSure, "subgraph"), (Dream, "sequential"), (Ccrnn, "recurrent"))
    return next((kind for network, kind in kinds if isinstance(model, network)), "whole")
