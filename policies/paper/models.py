"""Runs every kind of package alike: encoded windows of one graph in, the paper's action a in [-1, 1] per task out.

Works on a batch of windows, on one thread, without torch. ``policies.paper.policy`` turns actions into ratios.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from contracts.windows import Float32
from policies.features import SURE_WIDTH, Encoded
from policies.graph import JobGraph
from policies.nvss import SampledNodes, neighbours_sampled
from policies.onnx_sessions import Errors, Opener, Session, open_graphs
from policies.paper.card import FILES, PaperCard, PaperPackage
from policies.paper.graphs import downward, neighbourhood, visiting_order
from policies.paper.subgraphs import blocks, gathered, look_at

CHUNK_TASKS = 256  # wider jobs pass the policy graph in pieces, which bounds memory


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """Actions of B windows, float32 [B, N] in [-1, 1]; for kind subgraph also the nodes looked at and the logits [B, L, N, 2]."""

    action: Float32
    looked: SampledNodes | None = None
    logits: Float32 | None = None


class PaperModel(Protocol):
    """Acts on encoded windows [B, L, N, D] of one graph; only a uniform sampler uses ``seeds`` [B]."""

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        ...


@dataclass(frozen=True, slots=True)
class SubgraphModel:
    """SURE: scores, sampled subgraphs, an action per subgraph. The ablation with a uniform sampler draws nodes without scores."""

    card: PaperCard
    sampler: Session
    policy: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        z, mu = self.sampler.run(None, {"x": encoded.x[..., :SURE_WIDTH], "mask": encoded.mask.astype(np.float32)})[:2]
        looked = choose_nodes(self.card, mu, encoded, graph, seeds)
        parts = blocks(looked, graph)
        sub_x = gathered(z, parts.index) * parts.known[..., None]
        rows, tasks = mu.shape[0], mu.shape[2]
        inputs = {"sub_x": sub_x, "links": parts.links, "known": parts.known}
        flat = {name: value.reshape(rows * tasks, *value.shape[2:]) for name, value in inputs.items()}
        answers = [
            self.policy.run(None, {name: value[at : at + CHUNK_TASKS] for name, value in flat.items()})[0]
            for at in range(0, rows * tasks, CHUNK_TASKS)
        ]
        return ModelOutput(np.concatenate(answers).reshape(rows, tasks), looked, mu)


def choose_nodes(card: PaperCard, mu: Float32, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> SampledNodes:
    """Return the nodes of B windows: the best by the logits mu [B, L, N, 2], or as many drawn uniformly by each row's seed."""
    near = neighbourhood(graph, card.direction)
    width = neighbours_sampled(near, card.neighbours_share, card.neighbours_max)
    if card.sampler == "learned":
        return look_at(mu, encoded.mask, near, card.anchors, width)
    return look_at(np.zeros_like(mu), encoded.mask, near, card.anchors, width, even_noise(mu.shape[1], near, card.anchors, seeds))


def even_noise(minutes: int, graph: JobGraph, anchors: int, seeds: Sequence[int]) -> tuple[Float32, Float32]:
    """Return keys [B, N, L] and [B, N, k1, K] whose largest k are k draws without replacement, by each row's seed."""
    tasks, width = graph.neighbours.index.shape
    generators = [np.random.default_rng(abs(int(seed))) for seed in seeds]
    theta = np.stack([generator.random((tasks, minutes), dtype=np.float32) for generator in generators])
    phi = np.stack([generator.random((tasks, min(anchors, minutes), width), dtype=np.float32) for generator in generators])
    return theta, phi


@dataclass(frozen=True, slots=True)
class WholeModel:
    """A rival that reads the whole window at once."""

    model: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        x, mask = encoded.x[..., :SURE_WIDTH], encoded.mask.astype(np.float32)
        return ModelOutput(self.model.run(None, {"x": x, "mask": mask, "down": downward(graph)})[0])


@dataclass(frozen=True, slots=True)
class SequentialModel:
    """A rival that sizes one task after another, given the action of the one before."""

    encoder: Session
    decoder: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        x, mask = encoded.x[..., :SURE_WIDTH], encoded.mask.astype(np.float32)
        nodes, there, state = self.encoder.run(None, {"x": x, "mask": mask, "down": downward(graph)})
        action = np.zeros(nodes.shape[:2], dtype=np.float32)
        last = np.zeros((len(nodes), 1), dtype=np.float32)
        for task in visiting_order(graph):
            inputs = {"nodes": nodes, "there": there, "task": nodes[:, task], "last": last, "state_before": state}
            answer, after = self.decoder.run(None, inputs)
            known = there[:, task, None] > 0  # a task that never reported is skipped
            last, state = np.where(known, answer, last), np.where(known, after, state)
            action[:, task] = answer[:, 0] * known[:, 0]
        return ModelOutput(action)


@dataclass(frozen=True, slots=True)
class RecurrentModel:
    """A rival that reads the window minute by minute."""

    prepare: Session
    cell: Session
    output: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        x, mask = encoded.x[..., :SURE_WIDTH], encoded.mask.astype(np.float32)
        series, graphs, there = self.prepare.run(None, {"x": x, "mask": mask, "down": downward(graph)})
        state = np.zeros_like(series[:, 0])
        for minute in range(series.shape[1]):
            state = self.cell.run(None, {"now": series[:, minute], "state_before": state, "graphs": graphs})[0]
        inputs = {"now": series[:, -1], "state_before": state, "graphs": graphs, "there": there}
        return ModelOutput(self.output.run(None, inputs)[0])


def open_model(package: PaperPackage, opener: Opener | None = None) -> tuple[PaperModel, Errors]:
    """Return a package's model, opened on one thread, and the errors that running it may raise; ``opener`` as in `open_graphs`.

    Raises:
        PackageRejected: onnxruntime is not installed, or a graph does not load.
    """
    sessions, errors = open_graphs(package.card.name, [package.graphs[name] for name in FILES[package.card.kind]], opener)
    if package.card.kind == "subgraph":
        return SubgraphModel(package.card, *sessions), errors
    if package.card.kind == "sequential":
        return SequentialModel(*sessions), errors
    if package.card.kind == "recurrent":
        return RecurrentModel(*sessions), errors
    return WholeModel(*sessions), errors
