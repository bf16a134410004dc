"""The learned policy at serving time: encode, sampler graph, numpy sampling, policy graph, sizes. One thread, no torch.

Whatever looks wrong (stale figures, a runtime error, NaN) is an answer of its own, and the rule takes over.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.messages import JobSettings, LookedAt
from contracts.windows import Float32, Window
from policies.choices import Limits
from policies.features import Encoded, encode
from policies.graph import Int64, JobGraph, job_graph
from policies.learned import job_mean, learned_plan, mixed
from policies.measure import Measured, measure, restarts_seen
from policies.outlook import Expected
from policies.package import Card, Package
from policies.planning import Planned
from policies.proposal import RATIO_MAX, Answer, NotReady, PolicyFailed, RawAnswer, ratios_of
from policies.rules.reading import MINUTES_KNOWN_MIN
from policies.runtime import NO_NUMBER, Errors, cannot_be_run, open_graphs
from policies.sampling import (
    MASKED,
    Looked,
    Subgraphs,
    look,
    neighbour_logits,
    neighbours_sampled,
    newest_minute,
    subgraphs,
)
from policies.trial import check_answers

CHUNK_TASKS = 256  # wider jobs go through the policy graph in pieces, which bounds the memory
LOOKED_AT_MAX = 1_000  # snapshots kept in one decision's explanation
NOT_EXPECTED = "what the window's figures lead to expect is not a number"


@dataclass(frozen=True, slots=True)
class Draws:
    """Noise of one stochastic answer: ``eps`` [L, N, 2] on logits, Gumbel noise for minutes [N, L], neighbours [N, L, K]."""

    eps: Float32
    gumbel_minutes: Float32
    gumbel_neighbours: Float32


@dataclass(frozen=True, slots=True, eq=False)
class OnnxPolicy:
    """SURE as a model package: outlook -> plan of sizes and restarts, corrected by the network."""

    package: Package
    sampler: Any  # onnxruntime.InferenceSession, imported only when a package is loaded
    policy: Any
    runtime_errors: Errors
    stochastic: bool = False  # draws instead of taking the best; the draws come from the decision's seed
    floor_applies: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """Return the package's name."""
        return self.card.name

    @property
    def sha256(self) -> str:
        """Return the hash of the card, which covers the hashes of both graphs."""
        return self.package.sha256

    @property
    def span_minutes(self) -> int:
        """Return the span that the policy was trained with."""
        return self.card.span_minutes

    @property
    def card(self) -> Card:
        """Return the package's card."""
        return self.package.card

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios with what was looked at, or why there are none."""
        if window.minutes_known < MINUTES_KNOWN_MIN:
            return NotReady(missing_minutes=MINUTES_KNOWN_MIN - window.minutes_known)
        figures = window.figures[-self.card.window_minutes :]
        graph = job_graph(window.topology.tasks)
        measured = measure(figures, graph)
        silent, stale = measured.silent_minutes, self.card.stale_minutes
        if silent > stale or bool(np.isnan(measured.load[-1 - stale :]).all()):
            return PolicyFailed(f"the figures are stale: nothing new for {max(silent, stale)} minutes")
        current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
        end = np.array(window.window_end_ms, dtype=np.int64)
        encoded = encode(figures, graph, end, window.hourly_load, measured)
        try:
            looked, mu, outputs = self.run(
                encoded,
                graph,
                _draws(seed, window, encoded, graph) if self.stochastic else None,
            )
        except self.runtime_errors as error:
            return PolicyFailed(cannot_be_run(error))
        if not (np.isfinite(outputs).all() and np.isfinite(mu).all()):
            return PolicyFailed(NO_NUMBER)
        hours, peaks = window.hourly_load[None], window.hourly_peak[None]
        expected = self.card.base.outlook.expect(measured.load[None], hours, end[None], peaks)
        if not (np.isfinite(expected.means).all() and np.isfinite(expected.spread).all()):
            return PolicyFailed(NOT_EXPECTED)
        restarts = restarts_seen(figures)[None]
        planned = self._plan(expected, measured, current, graph, settings, restarts, outputs)
        if not np.isfinite(planned.holding + planned.changing).all():
            return PolicyFailed(NOT_EXPECTED)
        explained = _explain(window, looked, mu, encoded, graph)
        have = int(current[graph.scalable].sum())
        told = _sentence(expected, planned, have)
        if (planned.wanted[0] > RATIO_MAX * current).any():
            told += " An answer doubles a task at most; the floor may lift it further."
        return RawAnswer(ratios_of(planned.wanted[0], current), told, explained)

    def _plan(
        self,
        expected: Expected,
        measured: Measured,
        current: Int64,
        graph: JobGraph,
        settings: JobSettings,
        restarts: Int64,
        outputs: Float32,
    ) -> Planned:
        own, ease = outputs[:, 0].astype(np.float64), outputs[:, 1].astype(np.float64)
        limits = Limits(
            least=np.full(len(current), max(1, settings.parallelism_min), dtype=np.int64),
            most=np.minimum(settings.parallelism_max, graph.parallelism_max),
            step_ratio_max=settings.step_ratio_max,
            total=settings.total_limit,
        )
        corrections = mixed(own, graph)[None], job_mean(ease, graph)[None]
        return learned_plan(
            self.card.base,
            expected,
            measured.alone(),
            current[None],
            graph,
            limits,
            restarts,
            *corrections,
        )

    def run(self, encoded: Encoded, graph: JobGraph, draws: Draws | None = None) -> tuple[Looked, Float32, Float32]:
        """Return what was looked at, the logits omega [L, N, 2] and the outputs [N, 2]."""
        z, mu, std = self.sampler.run(None, {"x": encoded.x[None], "mask": encoded.mask[None].astype(np.float32)})
        if z.shape[:-1] != (1, *encoded.mask.shape) or mu.shape != (1, *encoded.mask.shape, 2):
            raise ValueError(f"its sampler answers {encoded.mask.shape} task-minutes in the shapes {z.shape} and {mu.shape}")
        omega = mu[0] if draws is None else mu[0] + draws.eps * std[0]
        card = self.card.sampling
        width = neighbours_sampled(graph, card.neighbours_share, card.neighbours_max)
        gumbel = None if draws is None else (draws.gumbel_minutes, draws.gumbel_neighbours)
        looked = look(omega, encoded.mask, graph, card.anchors, width, gumbel)
        parts = subgraphs(z[0], looked, graph)
        now = z[0][newest_minute(encoded.mask), np.arange(len(graph.tasks))]
        outputs = run_in_chunks(self.policy, parts, now)
        if outputs.shape != (len(graph.tasks), 2):
            raise ValueError(f"it answers {len(graph.tasks)} tasks in the shape {outputs.shape}")
        return looked, omega, outputs


def _sentence(expected: Expected, planned: Planned, have: int) -> str:
    """Say for people what was compared and what came of it."""
    hours = expected.means.shape[1] * expected.stage_minutes / 60.0
    low, high, spread = (
        float(expected.means.min()),
        float(expected.means.max()),
        float(expected.spread[0].mean()),
    )
    load = f"Expecting {low:.0f} to {high:.0f} records a minute over the next {hours:g} hours, give or take {spread:.0%}"
    if planned.heed[0] > 0:
        load += ", with the last days in mind"
    holding, changing, best = (
        float(planned.holding[0]),
        float(planned.changing[0]),
        int(planned.best[0]),
    )
    if planned.acts[0]:
        return f"{load}: {best} subtasks should score {changing:.3f} with their restart paid, the present {have} {holding:.3f}."
    if changing <= holding:
        return f"{load}: nothing should score better than the present {have} subtasks, {holding:.3f}."
    return f"{load}: {best} subtasks would score {changing:.3f}, the present {have} {holding:.3f}; not worth a restart."


def run_in_chunks(policy: Any, parts: Subgraphs, now: Float32) -> Float32:
    """Run the policy graph over subgraphs of [N, ..] in chunks of tasks and return its outputs [N, 2]."""
    outputs = [
        policy.run(
            None,
            {
                "sub_x": parts.x[at : at + CHUNK_TASKS],
                "sub_linked": parts.linked[at : at + CHUNK_TASKS],
                "sub_known": parts.known[at : at + CHUNK_TASKS],
                "now": now[at : at + CHUNK_TASKS],
            },
        )[0]
        for at in range(0, len(now), CHUNK_TASKS)
    ]
    joined: Float32 = np.concatenate(outputs)
    return joined


def load_onnx_policy(package: Package) -> OnnxPolicy:
    """Open both graphs on one thread and try the whole policy on a job at rest.

    Raises:
        PackageRejected: onnxruntime is not installed, or a graph does not load or run, or the plan cannot be made.
    """
    (sampler, policy), errors = open_graphs(package.card.name, [package.sampler, package.policy])
    opened = OnnxPolicy(package=package, sampler=sampler, policy=policy, runtime_errors=errors)
    check_answers(opened, package.card.window_minutes, errors)
    return opened


def _draws(seed: int, window: Window, encoded: Encoded, graph: JobGraph) -> Draws:
    name = int.from_bytes(sha256(window.job.encode()).digest()[:8], "big")
    generator = np.random.default_rng([abs(seed), window.window_end_ms, name])
    minutes, tasks = encoded.mask.shape
    width = graph.neighbours.index.shape[1]
    return Draws(
        eps=generator.standard_normal(size=(minutes, tasks, 2)).astype(np.float32),
        gumbel_minutes=generator.gumbel(size=(tasks, minutes)).astype(np.float32),
        gumbel_neighbours=generator.gumbel(size=(tasks, minutes, width)).astype(np.float32),
    )


def _explain(window: Window, looked: Looked, mu: Float32, encoded: Encoded, graph: JobGraph) -> tuple[tuple[LookedAt, ...], ...]:
    """Say per scalable task which minutes and neighbours were looked at, with their share of the attention (softmax)."""
    theta = _softmax(np.where(encoded.mask, mu[..., 0], MASKED).T)
    at_anchor = np.take_along_axis(neighbour_logits(mu, encoded.mask, graph), looked.minutes[..., None], axis=-2)
    shares = np.take_along_axis(_softmax(at_anchor), looked.slots, axis=-1)
    weight = np.take_along_axis(theta, looked.minutes, axis=-1)
    kept = max(1, min(looked.minutes.shape[1], LOOKED_AT_MAX // len(graph.tasks)))
    heaviest = (
        np.argsort(
            np.argsort(np.where(looked.minutes_known, -weight, 1.0), axis=-1, kind="stable"),
            axis=-1,
        )
        < kept
    )
    told = looked.minutes_known & heaviest & graph.scalable[:, None]
    ends = window.window_end_ms - (encoded.mask.shape[0] - 1 - looked.minutes) * MINUTE_MS
    rows = zip(
        told.tolist(), ends.tolist(), _rounded(weight), looked.neighbours.tolist(), looked.neighbours_known.tolist(),
        _rounded(shares), strict=True,
    )  # fmt: skip
    names = graph.tasks
    return tuple(
        tuple(
            LookedAt(
                minute_end_ms=end,
                weight=share,
                neighbours=tuple(names[task] for task, there in zip(near, known, strict=True) if there),
                neighbour_weights=tuple(part for part, there in zip(parts, known, strict=True) if there),
            )
            for tell, end, share, near, known, parts in zip(*row, strict=True)
            if tell
        )
        for row in rows
    )


def _rounded(shares: Float32) -> list[Any]:
    """Return shares as Python numbers with six digits: enough for people, and half the bytes."""
    rounded: list[Any] = np.round(shares.astype(np.float64), 6).tolist()
    return rounded


def _softmax(keys: Float32) -> Float32:
    raised = np.exp(keys - keys.max(axis=-1, keepdims=True))
    share: Float32 = raised / raised.sum(axis=-1, keepdims=True)
    return share
