"""The rule ``drs``: an open queueing network of M/M/c tasks, with subtasks assigned greedily (Fu et al., ICDCS 2015).

With lambda_i the rate of task i, mu = 1 / d_i and a = lambda_i / mu, a task of k subtasks holds a record for

    E[T_i](k) = C(k, a) / (k mu - lambda_i) + 1 / mu,   C = Erlang's probability of waiting,

and the job for E[T] = sum of lambda_i E[T_i] / lambda_0 (Jackson). Every task starts with the fewest subtasks that keep
its queue stable; then each further subtask goes where it lowers E[T] most, until E[T] is at most ``sojourn`` times the sum of
pure service times. E[T_i] is convex in k, so the greedy order is the order of all gains by size.
"""

from dataclasses import dataclass

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.rules.reading import Estimate, Reading, RuleWithoutModel

EXTRA_MAX = 24  # subtasks a task can get beyond stability; with them no record waits
STABLE_MAX = 2_000  # subtasks; above any bound used anywhere


@dataclass(frozen=True, slots=True)
class DRS(RuleWithoutModel):
    """Adds subtasks where a model of queues says they shorten the wait most.

    Aims at a sojourn of ``sojourn`` times the service times alone.
    """

    sojourn: float = 1.2
    estimate: Estimate = "mean-15"
    name: str = "drs"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        offered = reading.demand(reading.rate(self.estimate))
        known = ~np.isnan(offered)
        load = np.clip(np.where(known, offered, 0.0), 0.0, STABLE_MAX)
        stable = np.floor(load).astype(np.int64) + 1
        # Times in units of each task's d, weighted by its rate: lambda_i E[T_i] / lambda_0 = a_i E[T_i] / d_i / lambda_0.
        held = load[..., None] * sojourns(load, stable, EXTRA_MAX)
        by_name = np.argsort(np.array(reading.graph.tasks))  # so that ties do not depend on the order a topology lists them in
        given = np.empty_like(stable)
        given[..., by_name] = greedy(held[..., by_name, :], self.sojourn * load.sum(axis=-1))
        return reading.whole(reading.measured.divided(np.where(known, stable + given, np.nan)))

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        return f"At {reading.rate_in_words(self.estimate)} a record should stay at most {self.sojourn:g} times its service time."


def sojourns(offered: Float64, first: Int64, extra: int) -> Float64:
    """Return E[T](k) in service times, float64 [.., N, extra + 1], for k = first .. first + extra at offered load a [.., N].

    With P_k = a^k / k!, Erlang's B_k = P_k / (P_0 + .. + P_k) and C = k B / (k - a (1 - B)).
    """
    most = int(first.max()) + extra
    k = np.arange(most + 1, dtype=np.float64)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(k[1:]))])
    load = np.maximum(offered, 1e-12)[..., None]
    log_terms = k * np.log(load) - log_factorial
    terms = np.exp(log_terms - log_terms.max(axis=-1, keepdims=True))
    blocked = terms / np.maximum(np.cumsum(terms, axis=-1), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = k * blocked / (k - load * (1.0 - blocked)) / (k - load)
    chosen = first[..., None] + np.arange(extra + 1)
    table: Float64 = 1.0 + np.take_along_axis(waits, chosen, axis=-1)
    return table


def greedy(held: Float64, target: Float64) -> Int64:
    """Return subtasks given beyond the first column, int64 [.., N], until the sum of ``held`` [.., N, K] is within target [..].

    Gains are taken from the largest to the smallest; ties go to the earlier task.
    """
    gains = np.maximum(0.0, held[..., :-1] - held[..., 1:])
    gains = np.minimum.accumulate(gains, axis=-1)  # convex except for rounding
    flat = gains.reshape(*gains.shape[:-2], -1)
    order = np.argsort(-flat, axis=-1, kind="stable")
    sums = held[..., 0].sum(axis=-1)[..., None] - np.cumsum(np.take_along_axis(flat, order, axis=-1), axis=-1)
    missing = held[..., 0].sum(axis=-1) > target + 1e-12
    taken = np.where(missing, 1 + (sums > target[..., None] + 1e-12).sum(axis=-1), 0)
    rank = np.argsort(order, axis=-1, kind="stable")
    given: Int64 = (rank < taken[..., None]).reshape(gains.shape).sum(axis=-1)
    return given
