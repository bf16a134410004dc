"""What branches of one state try, and which task's action each reward speaks for. Knows neither network nor simulator.

Two kinds of branches. ``together``: all tasks of the job move alike; their rewards tell whether to change anything at all.
Alone: one task moves, and the same move in the other direction is tried beside it. Where forty tasks move by themselves at once,
one reward for all is mostly what the slowest of them did, and noise to the gradients of the others. Alone, half the difference
between the two directions is what this task's action is worth while all others do as they would: the difference reward of Wolpert
and Tumer (2001) and the counterfactual baseline of COMA (Foerster et al., 2018), tried out in the simulator in place of a critic.
It is exact whatever the graph: a queue counts as far as the sink waits for it, and once where parallel tasks wait at a time.

One restart stops the whole job, so the first task to move would pay for all: beside the one that moves a few others grow, the
same in all branches of the state, and the restart cancels out of the difference.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policies.graph import Bool
from policies.proposal import Float64

ADVANTAGE_MAX = 5.0
OWN_SPREAD = 0.75
SPREAD_MIN = 1e-3  # branches that differ by less are alike
TOGETHER = 0.25  # of the branches
BESIDE = 3.0  # tasks that grow beside the one that moves alone, on the average
GAIN_MAX = 10.0
TINY = 1e-4


@dataclass(frozen=True, slots=True)
class Draws:
    """What G branches of B states draw for N tasks; branch g + G / 2 mirrors branch g.

    Attributes:
        deviations: float64 [G, B, N], in standard deviations from the mean.
        together: bool [G], branches in which all tasks move alike.
        moved: bool [G, B, N], the tasks for whose action a branch speaks.
    """

    deviations: Float64
    together: Bool
    moved: Bool


def draw(branches: int, rows: int, scalable: Bool, joint: bool, generator: np.random.Generator) -> Draws:
    """Return the draws of some branches of B rows; ``joint``: all of them move all tasks alike, else a quarter.

    The real tasks take turns in moving alone, in a random order per row.
    """
    assert branches % 2 == 0, "branches come in mirrored pairs"
    pairs, tasks = branches // 2, len(scalable)
    together = np.arange(pairs) < (pairs if joint else max(1, round(pairs * TOGETHER)))
    alone = np.flatnonzero(~together)
    order = generator.permuted(np.tile(np.flatnonzero(scalable), (rows, 1)), axis=1)
    moved = np.zeros((pairs, rows, tasks), dtype=np.bool_)
    moved[together] = scalable
    moved[alone[:, None], np.arange(rows), order[:, np.arange(len(alone)) % order.shape[1]].T] = True
    half = generator.standard_normal((pairs, rows, 1)) * moved
    grown = np.abs(generator.standard_normal((rows, tasks))) * (generator.random((rows, tasks)) * tasks < BESIDE)
    beside = np.where(moved | together[:, None, None], 0.0, grown * scalable)
    return Draws(np.concatenate([half + beside, beside - half]), np.tile(together, 2), np.concatenate([moved, moved]))


def advantages(rewards: Float64) -> Float64:
    """Return rewards [G, B] less their state's mean, over a spread, cut at five.

    The spread is a geometric mean of the state's own and the median state's: over its own alone a rare costly hour counts no more
    than a quiet one, and sizes end too tight; over one for all, a few overloaded states drown what quiet ones say, and all sizes
    grow to their bounds.
    """
    own = rewards.std(axis=0)
    scale = own**OWN_SPREAD * np.median(own) ** (1.0 - OWN_SPREAD) + SPREAD_MIN
    advantage: Float64 = (rewards - rewards.mean(axis=0, keepdims=True)) / scale
    return np.clip(advantage, -ADVANTAGE_MAX, ADVANTAGE_MAX)


def gains(rewards: Float64) -> Float64:
    """Return half of what rewards [G, B] differ from their mirrored branches', as roots over a mean root, cut at ten.

    To save a subtask pays a thousandth, to be short of one costs a tenth and more: by the root both are heard. The mean root is a
    geometric mean of the state's own and that of all states, as in ``advantages``.
    """
    half = len(rewards) // 2
    gain = (rewards[:half] - rewards[half:]) / 2
    root = np.sqrt(np.abs(gain))
    own = root.mean(axis=0)
    scale = own**OWN_SPREAD * own.mean() ** (1.0 - OWN_SPREAD) + TINY
    scaled = np.sign(gain) * np.minimum(root / scale, GAIN_MAX)
    return np.concatenate([scaled, -scaled])


def credit(rewards: Float64, draws: Draws) -> Float64:
    """Return what rewards [G, B] say for each task's draw, [G, B, N]; 0 where a branch does not speak for a task.

    Each kind is compared with its own kind: what all tasks do together moves rewards more. A kind's sum over branches is a mean
    over those that speak for a task, and over the root of the number of tasks.
    """
    real = int(draws.moved.any(axis=(0, 1)).sum())
    share = np.zeros(draws.deviations.shape)
    for kind, worth_of in ((draws.together, advantages), (~draws.together, gains)):
        if kind.any():
            speak = draws.moved[kind].sum() / (rewards.shape[1] * real)
            share[kind] = worth_of(rewards[kind])[..., None] * draws.moved[kind] / speak
    return share / np.sqrt(real)


def log_probability(mean: Tensor, log_std: Tensor, deviations: Tensor) -> Tensor:
    """Return log pi [G, B, N] of what lies so many standard deviations from means [B, N], up to a constant.

    Draws lie around what a mean action comes to within all limits, so they are given by deviations: the slopes are those of a
    Normal, deviation / std for the mean and deviation^2 - 1 for the logarithm of std.
    """
    std = torch.exp(log_std)
    distance = deviations * (std.detach() / std) - (mean - mean.detach()) / std.detach()
    each: Tensor = -0.5 * distance.square() - log_std
    return each
