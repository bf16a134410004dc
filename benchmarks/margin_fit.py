"""What can be learned of a better margin: regressions of exact branch values on what the plan knows, judged on other states.

Two learners, both closed form. *Linear*: ridge on the standardised features. *Network*: ridge on 256 random ReLU features of
them, a layer that is drawn and not trained (Rahimi and Recht, NeurIPS 2008). The ridge's strength is chosen by leaving out one
training cell at a time, by the value of the choices and not by their squared error. A learner that promises nothing there chooses
the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

STRENGTHS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
FORESEEN_STRENGTH = 100.0
HIDDEN = 256
BEYOND = 4.0  # deviations that a feature counts for at most
LEARNERS = ("linear", "network")


@dataclass(frozen=True, slots=True)
class States:
    """S states of several cells: ``features`` [S, F], ``gains`` [S, C] over the plan, ``cell`` and ``block`` [S] by number."""

    features: Float64
    gains: Float64
    cell: Int64
    block: Int64

    def chosen(self, rows: npt.NDArray[np.bool_]) -> States:
        """Return some of the states."""
        return States(self.features[rows], self.gains[rows], self.cell[rows], self.block[rows])


@dataclass(frozen=True, slots=True)
class Learned:
    """A fitted learner; ``strength`` is 0 if the plan alone did best on what was left out."""

    learner: str
    strength: float
    mean: Float64
    deviation: Float64
    weights: Float64

    def choice(self, features: Float64) -> Int64:
        """Return the candidate [S] with the best predicted gain; 0, the plan, where none promises any."""
        if not self.strength:
            return np.zeros(len(features), dtype=np.int64)
        predicted = _inputs(self.learner, (features - self.mean) / self.deviation) @ self.weights
        predicted[:, 0] = 0.0
        best: Int64 = predicted.argmax(axis=1)
        return best


def learned(learner: str, states: States) -> Learned:
    """Return a learner fitted to training states."""
    cells = np.unique(states.cell)
    assert len(cells) > 1, "one cell has to be left out"
    value = dict.fromkeys(STRENGTHS, 0.0)
    for cell in cells:
        out = states.cell == cell
        kept, left = states.chosen(~out), states.chosen(out)
        for strength in STRENGTHS:
            made = _fitted(learner, kept, strength).choice(left.features)
            value[strength] += float(left.gains[np.arange(len(made)), made].sum())
    best = max(STRENGTHS, key=lambda strength: (value[strength], strength))
    return _fitted(learner, states, best if value[best] > 0.0 else 0.0)


def foreseen(training: States, states: States) -> Float64:
    """Return [C] how the gains that a linear learner predicts correlate with the true ones in other states; 0 for the plan."""
    fitted = _fitted("linear", training, FORESEEN_STRENGTH)
    predicted = _inputs("linear", (states.features - fitted.mean) / fitted.deviation) @ fitted.weights
    off, true = predicted - predicted.mean(axis=0), states.gains - states.gains.mean(axis=0)
    scale = np.sqrt(np.square(off).sum(axis=0) * np.square(true).sum(axis=0))
    correlation: Float64 = (off * true).sum(axis=0) / np.maximum(scale, 1e-12)
    return correlation


def _fitted(learner: str, states: States, strength: float) -> Learned:
    mean, deviation = states.features.mean(axis=0), np.maximum(states.features.std(axis=0), 1e-6)
    inputs = _inputs(learner, (states.features - mean) / deviation)
    penalty = np.full(inputs.shape[1], max(strength, 1e-9))
    penalty[-1] = 1e-9  # not on the constant
    weights: Float64 = np.linalg.solve(inputs.T @ inputs + np.diag(penalty), inputs.T @ states.gains).astype(np.float64)
    return Learned(learner, strength, mean, deviation, weights)


def _inputs(learner: str, standard: Float64) -> Float64:
    """Return the regression's inputs [S, I] for standardised features [S, F]; the last one is constant."""
    known = np.clip(standard, -BEYOND, BEYOND)
    if learner == "network":
        drawn = np.random.default_rng(0)
        layer = drawn.standard_normal((known.shape[1], HIDDEN)) / np.sqrt(known.shape[1])
        known = np.maximum(known @ layer + drawn.standard_normal(HIDDEN), 0.0)
    return np.concatenate([known, np.ones((len(known), 1))], axis=1)


def mean_gain(gains: Float64, block: Int64) -> tuple[float, float]:
    """Return the mean of gains [S] and its standard error over half-days of a load; NaN with a single one."""
    _, at = np.unique(block, return_inverse=True)
    off = np.bincount(at, gains - gains.mean())
    count = len(off)
    error = float(np.sqrt(np.square(off).sum() * count / (count - 1)) / len(gains)) if count > 1 else float("nan")
    return float(gains.mean()), error


def best_constant(states: States, candidates: Sequence[int]) -> int:
    """Return the candidate with the best mean gain over these states, 0 (the plan) among them."""
    means = states.gains.mean(axis=0)
    return max((0, *candidates), key=lambda at: float(means[at]))
