"""A package of the paper as a policy: a window in, ratios in (0, 2] out. It has no forecast and no gate.

An action a means 1 + a / reach times the present size. Reach is 1, except in mode ``compat``, where .9 doubles a task.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import FeatureDrift
from surescale.contracts.plurals import counted
from surescale.contracts.windows import Float32
from surescale.policies.answer import RATIO_MAX, RATIO_MIN, Answer, Float64, PolicyFailed, answer_in_ratios
from surescale.policies.drift import drift_of, in_words
from surescale.policies.features import SURE_WIDTH, Encoded, encode
from surescale.policies.graph import Int64
from surescale.policies.onnx_sessions import NO_NUMBER, Errors, Opener, cannot_be_run
from surescale.policies.paper.card import PaperCard, PaperPackage
from surescale.policies.paper.looks import looked_at
from surescale.policies.paper.models import PaperModel, open_model
from surescale.policies.question import Question
from surescale.policies.self_check import check_answers


@dataclass(frozen=True, slots=True, eq=False)
class PaperPolicy:
    """SURE as in the paper, or a rival: a ratio per task out of the network."""

    package: PaperPackage
    model: PaperModel
    runtime_errors: Errors
    floor_applies: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """Return the package's name."""
        return self.package.card.name

    @property
    def sha256(self) -> str:
        """Return the hash of the card, which covers the hashes of the graphs."""
        return self.package.sha256

    @property
    def span_minutes(self) -> int:
        """Return the span the policy was trained with."""
        return self.package.card.span_minutes

    def answer(self, question: Question) -> Answer:
        """Return ratios, or why there are none."""
        card = self.package.card
        window, graph, current = question.window, question.graph, question.current
        figures = _full(question.figures, card.window_minutes)
        measured = question.measured_over(figures)
        if measured.silent_minutes > card.stale_minutes:
            return PolicyFailed(f"the figures are stale: nothing new for {counted(measured.silent_minutes, 'minute')}")
        encoded = encode(
            figures, graph, np.array(window.window_end_ms, dtype=np.int64), window.hourly_load, measured, width=SURE_WIDTH
        )
        drift = None if card.ranges is None else drift_of(encoded, graph, card.ranges)
        if drift is not None and (refused := _too_far(drift, question.settings.feature_drift_max)):
            return PolicyFailed(refused, drift)
        batch = Encoded(x=encoded.x[None], mask=encoded.mask[None])
        try:
            acted = self.model.act(batch, graph, [_row_seed(question)])
        except self.runtime_errors as error:
            return PolicyFailed(cannot_be_run(error))
        if acted.action.shape != (1, len(graph.tasks)):
            return PolicyFailed(f"the model answered {len(graph.tasks)} tasks in the shape {acted.action.shape}")
        if not np.isfinite(acted.action).all() or not (acted.logits is None or np.isfinite(acted.logits).all()):
            return PolicyFailed(NO_NUMBER)
        asked = _ratios(acted.action[0].astype(np.float64), current, card)
        ratios = np.where(measured.reported.any(axis=0), asked, 1.0)  # a network's output without any figures means nothing
        reason = f"{card.method} asks for {ratios.min():.2f} to {ratios.max():.2f} times the present sizes."
        answer = answer_in_ratios(ratios, current, reason)
        return replace(answer, looked_at=looked_at(acted, card, encoded, graph, window.window_end_ms), drift=drift)


def _too_far(drift: FeatureDrift, percent_max: float | None) -> str:
    """Return why a policy is not asked about a window like this; empty if it is."""
    if percent_max is None or 100.0 * drift.outside <= percent_max:
        return ""
    return f"too far from the training: {in_words(drift)}; {percent_max:g} % are allowed"


def _ratios(action: Float64, current: Int64, card: PaperCard) -> Float64:
    """Return ratios [N] for actions [N]; rounded half up they give the sizes that training used."""
    ratios = 1.0 + np.clip(action / card.reach, -1.0, 1.0)
    if card.rounding == "towards-zero":
        ratios = (current + np.trunc((ratios - 1.0) * current)) / current
    return np.clip(ratios, RATIO_MIN, RATIO_MAX)


def _full(figures: Float32, minutes: int) -> Float32:
    """Return the last ``minutes`` of figures [L, N, F], padded in front with unreported minutes if there are fewer."""
    missing = minutes - len(figures)
    if missing <= 0:
        return figures[-minutes:]
    blank = np.full((missing, *figures.shape[1:]), np.nan, dtype=np.float32)
    return np.concatenate([blank, figures])


def _row_seed(question: Question) -> int:
    window = question.window
    name = int.from_bytes(sha256(window.job.encode()).digest()[:4], "big")
    return abs(question.seed) * 1_000_003 + window.window_end_ms // MINUTE_MS + name


def load_paper_policy(package: PaperPackage, opener: Opener | None = None) -> PaperPolicy:
    """Return the policy of a package, after trying it on a job at rest; ``opener`` as in `open_graphs`.

    Raises:
        PackageRejected: onnxruntime is not installed, or a graph does not load or run.
    """
    model, errors = open_model(package, opener)
    opened = PaperPolicy(package, model, errors)
    check_answers(opened, package.card.window_minutes, errors)
    return opened
