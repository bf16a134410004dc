"""A paper package behind the port that every policy fits: a window in, ratios in (0, 2] out, no forecast, no gate.

An action a asks for 1 + a / reach times the present size; reach is 1 but in mode ``compat``, where .9 doubles a task.
"""

from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Float32, Window
from policies.features import SURE_WIDTH, Encoded, encode
from policies.graph import Int64, job_graph
from policies.measure import measure
from policies.paper.card import PaperCard, PaperPackage
from policies.paper.models import PaperModel, open_model
from policies.proposal import RATIO_MAX, RATIO_MIN, Answer, Float64, NotReady, PolicyFailed, RawAnswer, ratios_of
from policies.rules.reading import MINUTES_KNOWN_MIN
from policies.runtime import NO_NUMBER, Errors, cannot_be_run
from policies.trial import check_answers


@dataclass(frozen=True, slots=True, eq=False)
class PaperPolicy:
    """SURE as the paper has it, or one of its rivals: a ratio per task straight from the network."""

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
        """Return the span that the policy was trained with."""
        return self.package.card.span_minutes

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios, or why there are none."""
        card = self.package.card
        if window.minutes_known < MINUTES_KNOWN_MIN:
            return NotReady(missing_minutes=MINUTES_KNOWN_MIN - window.minutes_known)
        figures = _full(window.figures, card.window_minutes)
        graph = job_graph(window.topology.tasks)
        measured = measure(figures, graph)
        if measured.silent_minutes > card.stale_minutes:
            return PolicyFailed(f"the figures are stale: nothing new for {measured.silent_minutes} minutes")
        encoded = encode(
            figures, graph, np.array(window.window_end_ms, dtype=np.int64), window.hourly_load, measured, width=SURE_WIDTH
        )
        batch = Encoded(x=encoded.x[None], mask=encoded.mask[None])
        try:
            acted = self.model.act(batch, graph, [_row_seed(seed, window)])
        except self.runtime_errors as error:
            return PolicyFailed(cannot_be_run(error))
        if acted.action.shape != (1, len(graph.tasks)):
            return PolicyFailed(f"the model answered {len(graph.tasks)} tasks in the shape {acted.action.shape}")
        if not np.isfinite(acted.action).all() or not (acted.logits is None or np.isfinite(acted.logits).all()):
            return PolicyFailed(NO_NUMBER)
        current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
        asked = _ratios(acted.action[0].astype(np.float64), current, card)
        ratios = np.where(measured.reported.any(axis=0), asked, 1.0)  # what a network makes of no figures at all is no wish
        return RawAnswer(ratios, f"{card.method} asks for {ratios.min():.2f} to {ratios.max():.2f} times the present sizes.")


def _ratios(action: Float64, current: Int64, card: PaperCard) -> Float64:
    """Return ratios [N] for actions [N], which round half up to the sizes that training made of them."""
    ratios = 1.0 + np.clip(action / card.reach, -1.0, 1.0)
    if card.rounding == "towards-zero":
        return ratios_of(current + np.trunc((ratios - 1.0) * current).astype(np.int64), current)
    return np.clip(ratios, RATIO_MIN, RATIO_MAX)


def _full(figures: Float32, minutes: int) -> Float32:
    """Return the last ``minutes`` of figures [L, N, F], unreported minutes put before a shorter window."""
    missing = minutes - len(figures)
    if missing <= 0:
        return figures[-minutes:]
    blank = np.full((missing, *figures.shape[1:]), np.nan, dtype=np.float32)
    return np.concatenate([blank, figures])


def _row_seed(seed: int, window: Window) -> int:
    name = int.from_bytes(sha256(window.job.encode()).digest()[:4], "big")
    return abs(seed) * 1_000_003 + window.window_end_ms // 60_000 + name


def load_paper_policy(package: PaperPackage) -> PaperPolicy:
    """Open a package and try it on a job at rest.

    Raises:
        PackageRejected: onnxruntime is not installed, or a graph does not load or run.
    """
    model, errors = open_model(package)
    opened = PaperPolicy(package, model, errors)
    check_answers(opened, package.card.window_minutes, errors)
    return opened
