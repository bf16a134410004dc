"""SURE when it serves: encode, run the sampler graph, sample in numpy, run the policy graph, plan sizes. One thread, no torch.

Anything wrong (stale figures, a runtime error, NaN) is returned as a failure, and the rule takes over.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import compress
from typing import Any

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Candidates, ChangeScore, FeatureDrift, LoadOutlook, SampledMinute
from surescale.contracts.job_limits import RESTART_ASSUMED_S, is_simulated
from surescale.contracts.messages import JobTopology
from surescale.contracts.topology import slots_needed
from surescale.contracts.windows import Float32
from surescale.policies.answer import Answer, Float64, PolicyFailed, RawAnswer
from surescale.policies.features import Encoded, encode
from surescale.policies.graph import JobGraph
from surescale.policies.latency_bound import path_minutes
from surescale.policies.measure import restarts_seen
from surescale.policies.nvss import (
    MASKED,
    SampledNodes,
    Subgraphs,
    neighbour_logits,
    neighbours_sampled,
    newest_minute,
    picked,
    sample_nodes,
    subgraphs,
)
from surescale.policies.onnx_sessions import NO_NUMBER, Errors, Opener, Session, cannot_be_run, open_graphs
from surescale.policies.question import Question
from surescale.policies.self_check import check_answers
from surescale.policies.sure.correction import Correction
from surescale.policies.sure.drift import drift_of, in_words
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.outlook_errors import calibrated
from surescale.policies.sure.package import Card, Package
from surescale.policies.sure.plan import Planned, late_after, late_minutes, plan
from surescale.policies.sure.planning_input import (
    Planning,
    PlanningInput,
    with_bound,
    with_objective,
    with_restart,
)

CHUNK_TASKS = 256  # wider jobs pass the policy graph in pieces, which bounds memory
CANDIDATES_MOST = 12  # sizes in the explanation of one decision, beside the present and the best
LATE_LEAST = 0.05  # minutes that more subtasks must spare to be told of
LOOKED_AT_MAX = 1_000  # snapshots kept in the explanation of one decision
NOT_EXPECTED = "what the window's figures lead to expect is not a number"


@dataclass(frozen=True, slots=True)
class Draws:
    """Noise of one stochastic answer: ``eps`` [L, N, 2] on logits, Gumbel noise for minutes [N, L], neighbours [N, L, K]."""

    eps: Float32
    gumbel_minutes: Float32
    gumbel_neighbours: Float32


@dataclass(frozen=True, slots=True, eq=False)
class SurePolicy:
    """Plans sizes and restarts for the expected load; a network corrects the plan.

    SURE from a model package: an outlook, a plan, and the network.
    """

    package: Package
    sampler: Session
    policy: Session
    runtime_errors: Errors
    stochastic: bool = False  # draw nodes, by the decision's seed, instead of taking the best
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
        """Return the span the policy was trained with."""
        return self.card.span_minutes

    @property
    def card(self) -> Card:
        """Return the package's card."""
        return self.package.card

    def answer(self, question: Question) -> Answer:
        """Return the plan's sizes with what was looked at, or why there are none."""
        window, graph = question.window, question.graph
        figures = question.figures[-self.card.window_minutes :]
        measured = question.measured_over(figures)
        silent, stale = measured.silent_minutes, self.card.stale_minutes
        if silent > stale or bool(np.isnan(measured.load[-1 - stale :]).all()):
            return PolicyFailed(f"the figures are stale: nothing new for {max(silent, stale)} minutes")
        end = np.array(window.window_end_ms, dtype=np.int64)
        encoded = encode(figures, graph, end, window.hourly_load, measured)
        drift = None if self.card.ranges is None else drift_of(encoded, graph, self.card.ranges)
        if drift is not None and (refused := _too_far(drift, question.settings.feature_drift_max)):
            return PolicyFailed(refused, drift)
        try:
            looked, mu, outputs = self.run(encoded, graph, _draws(question, encoded) if self.stochastic else None)
        except self.runtime_errors as error:
            return PolicyFailed(cannot_be_run(error))
        if not (np.isfinite(outputs).all() and np.isfinite(mu).all()):
            return PolicyFailed(NO_NUMBER)
        hours, peaks = window.hourly_load[None], window.hourly_peak[None]
        expected = self.card.base.outlook.expect(measured.load[None], hours, end[None], peaks)
        if question.settings.calibrated_spread is True:
            expected = calibrated(self.card.base.outlook, expected, hours)
        if not (np.isfinite(expected.means).all() and np.isfinite(expected.spread).all()):
            return PolicyFailed(NOT_EXPECTED)
        given = PlanningInput(
            expected=expected,
            measured=measured.alone(),
            current=question.current[None],
            graph=graph,
            limits=question.limits,
            restarts=restarts_seen(figures)[None],
        )
        is_assumed = question.restart_seconds is None and not is_simulated(window.topology.engine)
        restart_seconds = RESTART_ASSUMED_S if is_assumed else question.restart_seconds
        planning = with_restart(self.card.base.planning, restart_seconds)
        planning = with_objective(planning, question.settings.objective)
        if question.latency_bound is not None:
            planning = with_bound(planning, question.latency_bound, float(path_minutes(given.measured, graph)[0]))
        planned = plan(planning, given, Correction.of(outputs[None], graph))
        if not np.isfinite(planned.holding + planned.changing).all():
            return PolicyFailed(NOT_EXPECTED)
        have = int(question.current[graph.scalable].sum())
        return RawAnswer(
            wanted=planned.wanted[0],
            reason=_sentence(expected, planned, planning, have, is_assumed=is_assumed),
            looked_at=_explained(question, looked, mu, encoded) if outputs.any() else (),  # else nothing came of the look
            compared=_compared(question, expected, planned, planning) if not planned.idle[0] else None,
            outlook=_outlook(expected),
            drift=drift,
        )

    def run(self, encoded: Encoded, graph: JobGraph, draws: Draws | None = None) -> tuple[SampledNodes, Float32, Float32]:
        """Return what was looked at, the logits omega [L, N, 2] and the outputs [N, 2]."""
        z, mu, std = self.sampler.run(None, {"x": encoded.x[None], "mask": encoded.mask[None].astype(np.float32)})
        if z.shape[:-1] != (1, *encoded.mask.shape) or mu.shape != (1, *encoded.mask.shape, 2):
            raise ValueError(f"its sampler answers {encoded.mask.shape} task-minutes in the shapes {z.shape} and {mu.shape}")
        omega = mu[0] if draws is None else mu[0] + draws.eps * std[0]
        card = self.card.sampling
        width = neighbours_sampled(graph, card.neighbours_share, card.neighbours_max)
        gumbel = None if draws is None else (draws.gumbel_minutes, draws.gumbel_neighbours)
        looked = sample_nodes(omega, encoded.mask, graph, card.anchors, width, gumbel)
        parts = subgraphs(z[0], looked, graph)
        now = z[0][newest_minute(encoded.mask), np.arange(len(graph.tasks))]
        outputs = run_in_chunks(self.policy, parts, now)
        if outputs.shape != (len(graph.tasks), 2):
            raise ValueError(f"it answers {len(graph.tasks)} tasks in the shape {outputs.shape}")
        return looked, omega, outputs


def _too_far(drift: FeatureDrift, percent_max: float | None) -> str:
    """Return why a policy is not asked about a window like this; empty if it is."""
    if percent_max is None or 100.0 * drift.outside <= percent_max:
        return ""
    return f"too far from the training: {in_words(drift)}; {percent_max:g} % are allowed"


def _sentence(expected: Expected, planned: Planned, planning: Planning, have: int, *, is_assumed: bool) -> str:
    """Return the comparison and its result, for people; ``_compared`` says what the scores are.

    ``is_assumed``: nobody knows how long a restart takes.
    """
    low, high, spread = float(expected.means.min()), float(expected.means.max()), float(expected.spread[0].mean())
    load = f"Expecting {low:,.0f} to {high:,.0f} records a minute over the next {_hours(expected):g} hours"
    load += f", give or take {spread:.0%}"
    if planned.heed[0] > 0:
        load += ", taking the last days into account"
    if planned.idle[0]:
        return f"{load}: no record comes, so the fewest subtasks that the limits allow are enough."
    holding, changing, best = float(planned.holding[0]), float(planned.changing[0]), int(planned.best[0])
    if planned.forced[0]:
        return (
            f"{load}: the guardrails do not let the present {have} subtasks stay, so a restart is paid for in any case. "
            f"The least that they allow should score {holding:.3f}, and {best} score {changing:.3f}."
        )
    if planned.wide[0]:
        return f"{load}: the present {have} subtasks are far too many, so they become {best} whatever a restart costs."
    if planned.blind[0]:
        return f"{load}: no other size can be judged, so the present {have} subtasks stay."
    if changing <= holding:
        return f"{load}: no change should score better than the present {have} subtasks ({holding:.3f})."
    assumed = ", assumed until restarts are measured" if is_assumed else ""
    charged = f"charged with {planning.restart_minutes} min without service{assumed}"
    gain = f"{changing - holding:+.4f} with the change {charged}, {float(planned.gain_needed[0]):.4f} is needed"
    scores = f"{best} subtasks should score {changing:.3f} and the present {have} score {holding:.3f}: {gain}"
    return f"{load}: {scores}." if planned.acts[0] else f"{load}: {scores}. Too little to change."


def _compared(question: Question, expected: Expected, planned: Planned, planning: Planning) -> ChangeScore:
    have = int(question.current[question.graph.scalable].sum())
    weight, counted = planning.latency_weight, "minutes of latency"
    if planning.bound is not None:
        counted = f"{planning.bound.price:.3g} x share of minutes waiting above {60.0 * planning.bound.minutes:.3g} s"
    return ChangeScore(
        subtasks=int(planned.best[0]),
        score=_rounded(planned.changing)[0],
        present_subtasks=have,
        present_score=_rounded(planned.holding)[0],
        gain_needed=_rounded(planned.gain_needed)[0],
        candidates=_candidates(question.window.topology, planned, planning, have),
        unit=f"{1.0 - weight:g} x utilisation - {weight:g} x {counted}, mean of the next {_hours(expected):g} hours",
    )


def _candidates(topology: JobTopology, planned: Planned, planning: Planning, have: int) -> Candidates:
    """Return the curve of what was compared, without sizes that spare no minute, thinned."""
    least: dict[int, tuple[float, int]] = {}  # by subtasks: late minutes, and which choice has so few
    rows = zip(planned.choices.subtasks[0].tolist(), late_minutes(planning, planned)[0].tolist(), strict=True)
    for at, (subtasks, late) in enumerate(rows):
        least[subtasks] = min((late, at), least.get(subtasks, (late, at)))
    kept, shown = {have, int(planned.best[0])}, list[int]()
    for size in sorted(least):
        if size in kept or not shown or least[size][0] < least[shown[-1]][0] - LATE_LEAST:
            shown.append(size)
    every = -(-len(shown) // CANDIDATES_MOST)
    shown = [size for at, size in enumerate(reversed(shown)) if at % every == 0 or size in kept][::-1]
    return Candidates(
        subtasks=tuple(shown),
        late_minutes=tuple(round(least[size][0], 2) for size in shown),
        minutes=planned.expected.means.shape[1] * planned.expected.stage_minutes,
        late_seconds=float(f"{60.0 * late_after(planning).minutes:.3g}"),
        slots=() if is_simulated(topology.engine) else tuple(_slots(topology, planned, least[size][1]) for size in shown),
    )


def _slots(topology: JobTopology, planned: Planned, choice: int) -> int:
    sizes: list[int] = planned.choices.sizes[0, choice].tolist()
    return slots_needed(topology.tasks, {spec.task: size for spec, size in zip(topology.tasks, sizes, strict=True)})


def _outlook(expected: Expected) -> LoadOutlook:
    return LoadOutlook(
        stage_minutes=expected.stage_minutes,
        means=tuple(float(f"{mean:.4g}") for mean in expected.means[0].tolist()),
        spread=tuple(float(f"{spread:.3g}") for spread in expected.spread[0].tolist()),
    )


def _hours(expected: Expected) -> float:
    return float(expected.means.shape[1] * expected.stage_minutes / 60.0)


def run_in_chunks(policy: Session, parts: Subgraphs, now: Float32) -> Float32:
    """Return the policy graph's outputs [N, 2] for subgraphs [N, ..], run in chunks of tasks."""
    inputs = {"sub_x": parts.x, "sub_linked": parts.linked, "sub_known": parts.known, "now": now}
    chunks = [slice(at, at + CHUNK_TASKS) for at in range(0, len(now), CHUNK_TASKS)]
    outputs: Float32 = np.concatenate(
        [policy.run(None, {name: rows[chunk] for name, rows in inputs.items()})[0] for chunk in chunks]
    )
    return outputs


def load_sure_policy(package: Package, opener: Opener | None = None) -> SurePolicy:
    """Return the policy of a package, opened on one thread and tried on a job at rest; ``opener`` as in `open_graphs`.

    Raises:
        PackageRejected: onnxruntime is not installed, a graph does not load or run, or the plan fails.
    """
    (sampler, policy), errors = open_graphs(package.card.name, [package.sampler, package.policy], opener)
    opened = SurePolicy(package=package, sampler=sampler, policy=policy, runtime_errors=errors)
    check_answers(opened, package.card.window_minutes, errors)
    return opened


def _draws(question: Question, encoded: Encoded) -> Draws:
    window = question.window
    name = int.from_bytes(sha256(window.job.encode()).digest()[:8], "big")
    generator = np.random.default_rng([abs(question.seed), window.window_end_ms, name])
    minutes, tasks = encoded.mask.shape
    width = question.graph.neighbours.index.shape[1]
    return Draws(
        eps=generator.standard_normal(size=(minutes, tasks, 2)).astype(np.float32),
        gumbel_minutes=generator.gumbel(size=(tasks, minutes)).astype(np.float32),
        gumbel_neighbours=generator.gumbel(size=(tasks, minutes, width)).astype(np.float32),
    )


def _explained(question: Question, looked: SampledNodes, mu: Float32, encoded: Encoded) -> tuple[tuple[SampledMinute, ...], ...]:
    """Return the minutes and neighbours that each scalable task looked at, with their share of the attention (softmax)."""
    graph, end_ms = question.graph, question.window.window_end_ms
    theta = _softmax(np.where(encoded.mask, mu[..., 0], MASKED).T)
    shares = picked(_softmax(neighbour_logits(mu, encoded.mask, graph, looked.minutes)), looked.slots)
    weight = picked(theta, looked.minutes)
    kept = max(1, min(looked.minutes.shape[1], LOOKED_AT_MAX // len(graph.tasks)))
    order = np.argsort(np.where(looked.minutes_known, -weight, 1.0), axis=-1, kind="stable")
    heaviest = np.argsort(order, axis=-1) < kept
    rows, at = np.nonzero(looked.minutes_known & heaviest & graph.scalable[:, None])
    ends = end_ms - (encoded.mask.shape[0] - 1 - looked.minutes[rows, at]) * MINUTE_MS
    name = graph.tasks.__getitem__
    told: list[list[SampledMinute]] = [[] for _ in graph.tasks]
    for row, end, share, near, known, parts in zip(
        rows.tolist(), ends.tolist(), _rounded(weight[rows, at]), looked.neighbours[rows, at].tolist(),
        looked.neighbours_known[rows, at].tolist(), _rounded(shares[rows, at]), strict=True,
    ):  # fmt: skip
        told[row].append(
            SampledMinute(
                minute_end_ms=end,
                weight=share,
                neighbours=tuple(map(name, compress(near, known))),
                neighbour_weights=tuple(compress(parts, known)),
            )
        )
    return tuple(map(tuple, told))


def _rounded(values: Float32 | Float64) -> list[Any]:
    """Return values as Python numbers with six digits, which is enough for people and halves the bytes."""
    rounded: list[Any] = np.round(values.astype(np.float64), 6).tolist()
    return rounded


def _softmax(keys: Float32) -> Float32:
    raised = np.exp(keys - keys.max(axis=-1, keepdims=True))
    share: Float32 = np.divide(raised, raised.sum(axis=-1, keepdims=True))
    return share
