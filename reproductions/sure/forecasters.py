"""ASTGCN-PRED and CCRNN-PRED: the networks used to forecast, as in their own papers, trained on examples instead of rewards.

Encoders, inputs and layers are those of the acting forms (``astgcn``, ``ccrnn``). The head's output, without the tanh, is the
logarithm of each task's arrivals in the next hour over those in the last hour, so an untrained network forecasts no change.
Examples come from closed loops over week 1 that keep tasks 40 to 90 % busy, with much noise, so both ample sizes and overload
occur. The error on the last quarter of the week decides when training stops. ``reproductions.sure.forecast_rule`` turns a
forecast into sizes.
"""

import time
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from reproductions.sure.astgcn import NEWEST, Astgcn
from reproductions.sure.ccrnn import Ccrnn
from reproductions.sure.environment import SPAN_MINUTES, WEEK_MINUTES, View, offsets, sizes_of
from reproductions.sure.forecast_rule import arrivals
from reproductions.sure.layers import Head, Method, State
from reproductions.sure.statistics import Statistics, spread_start
from surescale.contracts.windows import Float32
from surescale.policies.answer import Float64
from surescale.policies.features import SURE_WIDTH, Encoded
from surescale.policies.graph import Int64, JobGraph
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows, Terms

HOURS = WEEK_MINUTES // SPAN_MINUTES
TRAINED_HOURS = HOURS * 3 // 4
UTILISATION = 6  # slot of the encoder
BUSY = (0.4, 0.9)
HUBER = 0.1
ROWS_AT_ONCE = 64
LOG_CHANGE_MAX = float(np.log(4.0))  # larger changes come from queues that burst, not from load


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """How to make examples and learn from them."""

    rows: int = 14
    decisions: int = 24
    """Rows times decisions cover every hour of the week twice, with different sizes."""
    noise: float = 0.3
    """Standard deviation of the noise on the loops' actions."""
    epochs_max: int = 16
    patience: int = 6
    """Epochs without a better validation before the training ends."""
    batch: int = 16
    learning_rate: float = 3e-3
    gradient_norm_max: float = 1.0


@dataclass(frozen=True, slots=True)
class Examples:
    """S hours of one job, each with the change to the next hour.

    Encoded windows [S, L, N, D], log change [S, N], ``hour`` [S] of the week.
    """

    encoded: Encoded
    log_change: Float32
    hour: Int64
    graph: JobGraph

    def state(self, chosen: Int64) -> State:
        """Return the windows of some examples."""
        return State.of(Encoded(x=self.encoded.x[chosen], mask=self.encoded.mask[chosen]), self.graph)

    def of_real_tasks(self, chosen: Int64) -> Tensor:
        """Return log changes [S, tasks] without source and sink, which have fixed sizes."""
        return torch.from_numpy(self.log_change[chosen][:, self.graph.scalable])


@dataclass(frozen=True, slots=True)
class Forecaster:
    """A trained network.

    Attributes:
        error: mean absolute error of log change on the last quarter of week 1.
        error_unchanged: the same error of a forecast of no change.
        updates, seconds: cost of the training including its examples; seconds are processor time.
    """

    network: Method
    error: float
    error_unchanged: float
    updates: int
    seconds: float

    def log_change(self, view: View) -> Float64:
        """Return the forecast [B, N]."""
        ahead: Float64 = forecast(self.network, State.of(view.encoded, view.graph)).double().numpy()
        return ahead


@torch.no_grad()
def forecast(network: Method, state: State) -> Tensor:
    """Return log changes [B, N], clipped to the range of the examples."""
    return network.mean_action(state, ()).clamp(-LOG_CHANGE_MAX, LOG_CHANGE_MAX)


class ChangeHead(Head):
    """The head that all methods share, without its tanh."""

    def forward(self, embedded: Tensor) -> Tensor:
        """Return log changes [..]."""
        change: Tensor = self.out(self.layers(embedded)).squeeze(-1)
        return change


def network_of(method: str, statistics: Statistics, hidden: int) -> Method:
    """Return an untrained network that forecasts.

    >>> network_of("Tarot-PRED", Statistics(mean=(), std=()), 8)
    Traceback (most recent call last):
        ...
    KeyError: 'Tarot-PRED'
    """
    if method == "ASTGCN-PRED":
        astgcn = Astgcn(statistics, hidden)
        astgcn.head = ChangeHead(NEWEST * hidden)
        return astgcn
    if method == "CCRNN-PRED":
        ccrnn = Ccrnn(statistics, hidden)
        ccrnn.act.head = ChangeHead(2 * hidden)
        return ccrnn
    raise KeyError(method)


def examples(
    job: SizedJob, week_1: Workload, terms: Terms, settings: ForecastSettings, generator: np.random.Generator
) -> Examples:
    """Return examples from closed loops that start on full hours throughout week 1."""
    first = offsets(settings.rows)
    rows = LoopRows(job, week_1, first, spread_start(job, week_1, first, generator), terms)
    wanted = generator.uniform(*BUSY, size=(settings.rows, 1))
    x, mask, rate, hour = [], [], [], []
    for _ in range(settings.decisions + 1):
        view = View(rows.observe(), rows.graph, job, terms)
        x.append(view.encoded.x[..., :SURE_WIDTH].copy())  # copied, so the other slots are freed
        mask.append(view.encoded.mask)
        rate.append(arrivals(view.observed.figures))
        hour.append(rows.minutes // SPAN_MINUTES % HOURS)
        noise = settings.noise * generator.standard_normal((settings.rows, job.size))
        ratio = view.encoded.x[..., UTILISATION].mean(axis=1) / wanted + noise
        rows.step(sizes_of(np.clip(ratio - 1.0, -1.0, 1.0), view.observed.current, job, terms))
    began = np.concatenate(hour[:-1])
    real = began > 0  # where the week wraps around, two hours meet that do not follow each other
    change = np.clip(np.diff(np.log(rate), axis=0), -LOG_CHANGE_MAX, LOG_CHANGE_MAX).astype(np.float32)
    encoded = Encoded(x=np.concatenate(x[:-1])[real], mask=np.concatenate(mask[:-1])[real])
    return Examples(encoded, change.reshape(-1, job.size)[real], began[real], rows.graph)


def trained(
    network: Method, job: SizedJob, week_1: Workload, terms: Terms, seed: int, settings: ForecastSettings = ForecastSettings()
) -> Forecaster:
    """Train a network on the first three quarters of week 1 and keep the weights that do best on the last quarter."""
    began, generator = time.process_time(), np.random.default_rng(seed)
    found = examples(job, week_1, terms, settings, generator)
    learn, check = np.flatnonzero(found.hour < TRAINED_HOURS - 1), np.flatnonzero(found.hour >= TRAINED_HOURS)
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    best, best_state, since, updates = error_of(network, found, check), deepcopy(network.state_dict()), 0, 0
    for _ in range(settings.epochs_max):
        order = generator.permutation(learn)
        for at in range(0, len(order), settings.batch):
            step(network, optimiser, found, order[at : at + settings.batch], settings)
            updates += 1
        error = error_of(network, found, check)
        best, best_state, since = (error, deepcopy(network.state_dict()), 0) if error < best else (best, best_state, since + 1)
        if since >= settings.patience:
            break
    network.load_state_dict(best_state)
    unchanged = float(found.of_real_tasks(check).abs().mean())
    return Forecaster(network, best, unchanged, updates, time.process_time() - began)


def step(network: Method, optimiser: torch.optim.Optimizer, found: Examples, chosen: Int64, settings: ForecastSettings) -> None:
    """Take one optimiser step on some examples, with Huber's loss."""
    ahead = network.mean_action(found.state(chosen), ())[:, found.graph.scalable]
    loss = smooth_l1_loss(ahead, found.of_real_tasks(chosen), beta=HUBER)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_norm_max)
    optimiser.step()


def error_of(network: Method, found: Examples, chosen: Int64) -> float:
    """Return the mean absolute error of log change over some examples."""
    errors = []
    for at in range(0, len(chosen), ROWS_AT_ONCE):
        part = chosen[at : at + ROWS_AT_ONCE]
        ahead = forecast(network, found.state(part))[:, found.graph.scalable]
        errors.append((ahead - found.of_real_tasks(part)).abs())
    return float(torch.cat(errors).mean())
