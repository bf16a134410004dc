"""The actions that branches of one state try, and the tasks each reward gives credit to. Independent of network and simulator.

There are two kinds of branches. In ``together`` all tasks of the job move alike; their rewards show whether to change anything
at all. In the other kind one task moves alone, and a second branch tries the same move in the opposite direction. If forty tasks
moved independently at once, the one reward would mostly reflect the slowest task and be noise in the gradients of the others.
When one task moves alone, half the difference between the two directions is the value of its action while all others act as
usual. This is the difference reward of Wolpert and Tumer (2001) and the counterfactual baseline of COMA (Foerster et al., 2018),
measured in the simulator instead of estimated by a critic. It is exact for any graph: a queue counts as far as the sink waits
for it, and only once where parallel tasks wait at the same time.

One restart stops the whole job, so the first task to move would pay for all. Therefore a few other tasks grow next to the moving
one, the same in all branches of the state, and the restart cancels out in the difference.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surescale.policies.answer import Float64
from surescale.policies.graph import Bool

ADVANTAGE_MAX = 5.0
OWN_SPREAD = 0.75
SPREAD_MIN = 1e-3  # branches that differ by less count as equal
TOGETHER = 0.25  # of the branches
BESIDE = 3.0  # average number of tasks that grow next to the one that moves alone
GAIN_MAX = 10.0
TINY = 1e-4


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws of G branches of B states for N tasks; branch g + G / 2 mirrors branch g.

    Attributes:
        deviations: float64 [G, B, N], in standard deviations from the mean.
        together: bool [G], branches in which all tasks move alike.
        moved: bool [G, B, N], the tasks whose action gets the credit of a branch.
    """

    deviations: Float64
    together: Bool
    moved: Bool


def draw(branches: int, rows: int, scalable: Bool, joint: bool, generator: np.random.Generator) -> Draws:
    """Return the draws of some branches of B rows. If ``joint``, all branches move all tasks alike; otherwise a quarter do.

    The real tasks take turns moving alone, in a random order per row.
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
    """Return rewards [G, B] minus their state's mean, divided by a spread and clipped at five.

    The spread is a geometric mean of the state's own and the median state's. With only its own, a rare costly hour would count no
    more than a quiet one, and sizes would end too tight. With one spread for all, a few overloaded states would drown out the
    quiet ones, and all sizes would grow to their bounds.
    """
    own = rewards.std(axis=0)
    scale = own**OWN_SPREAD * np.median(own) ** (1.0 - OWN_SPREAD) + SPREAD_MIN
    advantage: Float64 = (rewards - rewards.mean(axis=0, keepdims=True)) / scale
    return np.clip(advantage, -ADVANTAGE_MAX, ADVANTAGE_MAX)


def gains(rewards: Float64) -> Float64:
    """Return half the difference of rewards [G, B] to their mirrored branches, as roots over a mean root, clipped at ten.

    Saving a subtask pays a thousandth, being short of one costs a tenth or more. The root keeps both visible. The mean root is a
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
    """Return the credit [G, B, N] that rewards [G, B] give each task's draw; 0 where a branch gives a task none.

    Each kind of branch is compared with its own kind, because moving all tasks together changes rewards more. A kind's sum over
    branches is the mean over branches that give the task credit, divided by the root of the number of tasks.
    """
    real = int(draws.moved.any(axis=(0, 1)).sum())
    share = np.zeros(draws.deviations.shape)
    for kind, worth_of in ((draws.together, advantages), (~draws.together, gains)):
        if kind.any():
            speak = draws.moved[kind].sum() / (rewards.shape[1] * real)
            share[kind] = worth_of(rewards[kind])[..., None] * draws.moved[kind] / speak
    scaled: Float64 = share / np.sqrt(real)
    return scaled


def log_probability(mean: Tensor, log_std: Tensor, deviations: Tensor) -> Tensor:
    """Return log pi [G, B, N] of draws given as deviations from means [B, N], in standard deviations, up to a constant.

    Draws lie around the mean action as limited by all bounds, so they are given by their deviations. The gradients are those of a
    normal distribution: deviation / std for the mean, and deviation^2 - 1 for the logarithm of std.
    """
    std = torch.exp(log_std)
    distance = deviations * (std.detach() / std) - (mean - mean.detach()) / std.detach()
    each: Tensor = -0.5 * distance.square() - log_std
    return each
