"""Trains one method on one job by REINFORCE on branches from one state, on week 1 alone.

At every decision each of B loops branches into G that start in the same state and meet the same load; half of the deviations
mirror the other half, half move all tasks alike and half a few tasks each by itself. What was drawn is held for three hours (in
``compat`` for one).
Advantage = a branch's return less the mean of its state's branches of its kind, so load and past cancel out; later hours count
only through the states that the loops come to. The network is asked once per state, whatever the number of branches. Half of
the loops then follow the mean action, half one of the draws.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import Tensor

from model_export.paper.methods import build
from model_export.paper.parts import Method, State
from model_export.paper.statistics import spread_start
from model_export.paper.world import PaperMode, View, follow, sizes_of, terms_of, week
from policies.graph import Bool, Int64
from policies.package import Statistics
from policies.proposal import Float64
from simulation.jobs import SizedJob, load_job
from simulation.loop import LoopRows, Terms, resized
from simulation.report import LATENCY_MINUTES_MAX, latency_minutes
from simulation.workload import Workload, load_workload

CHECKPOINT = "checkpoint.pt"
STD_FIRST = {"clean": 0.2, "compat": 0.61}
"""First exploration: exp(-0.5) where sizes are cut towards zero; a third of it where every task limits the whole job's flow."""
HOLD_SPANS = {"clean": 3, "compat": 1}
"""Hours that a draw is held: by its first hour hardly a change is worth its restart; in ``compat`` every hour has one anyway."""
ADVANTAGE_MAX = 5.0
TINY = 1e-6
OWN_SPREAD = 0.75
MOVED = 8.0  # tasks that a branch moves on the average
SPREAD_MIN = 1e-3  # branches that differ by less are alike
VALIDATIONS = (0.4, 0.6, 0.8, 1.0)  # of the budget
VALIDATION_ROWS, VALIDATION_DECISIONS = 6, 30


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Everything that shapes a run; it travels into the model's card."""

    method: str
    jobs: tuple[str, ...]
    """One for the tables; several in turn, an episode each, for a model that serves any."""
    mode: PaperMode = "clean"
    latency_weight: float = 0.5
    seed: int = 0
    workload: str = "clarknet"
    budget_s: float = 30.0
    """Processor seconds of one thread."""
    updates_max: int | None = None
    """Ends a run before its budget; for tests."""
    hidden: int = 32
    states: int = 0
    """Loops B; 0: 400 over the tasks, from 8 to 16."""
    branches: int = 24
    hold_spans: int = 0
    """0: the mode's own."""
    discount: float = 0.7
    """What is drawn is held for so many hours, each counting less."""
    episode: int = 24
    """Decisions before the loops begin anew elsewhere in the week."""
    learning_rate: float = 1e-2
    """Adam's, falling linearly to a twentieth."""
    entropy: float = 1e-3
    barrier: float = 1e-2
    """On -log(1 - a^2) of the mean actions: a saturated tanh has no gradient to come back by."""
    limits: float = 5.0
    """On the square of what a mean action asks beyond bounds and total limit: there all draws end at the same sizes."""
    gradient_norm_max: float = 0.5
    tau_first: float = 0.5
    tau_last: float = 0.1
    """Temperature of the relaxed top-k."""
    information_every: int = 4
    """Updates per one with the information term, whose whole graph is dear; it counts so many times then."""
    anchors: int = 10
    neighbours_max: int = 8
    readout: str = "own"
    gnn: str = "sage"
    direction: str = "down"

    def loops(self, tasks: int) -> int:
        """Return B for a job of so many tasks."""
        return self.states or int(np.clip(400 // tasks, 8, 16))


@dataclass(slots=True)
class PaperRun:
    """A run under way."""

    settings: PaperSettings
    statistics: Statistics
    model: Method
    optimiser: torch.optim.Optimizer
    generator: np.random.Generator
    best_state: dict[str, Tensor]
    update: int = 0
    seconds: float = 0.0
    best: float = float("-inf")
    validations: int = 0
    episodes: int = 0

    @property
    def done(self) -> float:
        """Return the share of the run that is over."""
        share = self.seconds / self.settings.budget_s
        if self.settings.updates_max is not None:
            share = max(share, self.update / self.settings.updates_max)
        return min(1.0, share)


def begin(settings: PaperSettings, statistics: Statistics) -> PaperRun:
    """Return an untrained run."""
    torch.manual_seed(settings.seed)
    model = build(
        settings.method,
        statistics,
        settings.hidden,
        anchors=settings.anchors,
        neighbours_max=settings.neighbours_max,
        readout=settings.readout,
        gnn=settings.gnn,
        direction=settings.direction,
    )
    with torch.no_grad():
        model.log_std.fill_(float(np.log(STD_FIRST[settings.mode])))
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.99))
    return PaperRun(settings, statistics, model, optimiser, np.random.default_rng(settings.seed), _copy(model))


def train(run: PaperRun, folder: Path | None, tell: Callable[[PaperRun], object]) -> None:
    """Bring a run to its end; with a folder, leave a checkpoint at every validation."""
    workload = load_workload(run.settings.workload)
    jobs, load = [load_job(name, workload) for name in run.settings.jobs], week(workload, 1)
    loops: Loops | None = None
    while run.done < 1.0 or run.validations < len(VALIDATIONS):
        began = time.process_time()
        if run.done < 1.0:
            if loops is None or loops.age >= run.settings.episode:
                loops = Loops.begin(run, jobs[run.episodes % len(jobs)], load)
                run.episodes += 1
            update(run, loops)
        run.seconds += time.process_time() - began
        if run.done >= VALIDATIONS[run.validations]:
            _keep_best(run, float(np.mean([validate(run, job, load) for job in jobs])))
            tell(run)
            if folder is not None:
                save(run, folder)


def _keep_best(run: PaperRun, reward: float) -> None:
    run.validations += 1
    if reward > run.best:
        run.best, run.best_state = reward, _copy(run.model)


@dataclass(slots=True)
class Loops:
    """B closed loops, and the same loops G times over for branching; both always in the same states."""

    rows: LoopRows
    branched: LoopRows
    branches: int
    age: int = 0

    @classmethod
    def begin(cls, run: PaperRun, job: SizedJob, load: Workload) -> "Loops":
        """Return loops at random minutes of the week, from sizes of all kinds."""
        settings = run.settings
        count, terms = settings.loops(job.size), terms_of(settings.mode, settings.latency_weight)
        first = run.generator.integers(60, load.minutes, size=count)
        sizes = spread_start(job, load, first, run.generator)
        twins = np.tile(first, settings.branches), np.tile(sizes, (settings.branches, 1))
        return cls(LoopRows(job, load, first, sizes, terms), LoopRows(job, load, *twins, terms), settings.branches)

    def try_out(self, desired: Int64, spans: int = 1, discount: float = 1.0) -> Float64:
        """Return discounted rewards [G, B] of holding desired [G, B, N] for so many spans; the loops themselves stand still.

        Minutes beyond ten are charged too. In ``clean`` the reward itself stops there, in ``compat`` (where minutes count per
        request of a batch) it does not see batches that have not left: a policy that once falls behind would learn to stay there,
        where the smallest sizes are the best used.
        """
        twin, wanted = self.branched.copy(), desired.reshape(-1, desired.shape[-1])
        total = np.zeros(len(wanted))
        for at in range(spans):
            span = twin.step(wanted)
            total += discount**at * twin.reward(span)
            latency = latency_minutes(span.backlog_minutes, span.arrivals, twin.job.path_minutes)
            beyond = np.maximum(0.0, latency - LATENCY_MINUTES_MAX)
            if twin.terms.mode == "compat":
                beyond /= np.maximum(span.arrivals / twin.terms.span_minutes, 1.0)
            total -= discount**at * twin.terms.latency_weight * beyond
        return total.reshape(self.branches, -1)

    def go_on(self, desired: Int64) -> None:
        """Carry out desired [B, N]."""
        self.rows.step(desired)
        self.branched.step(np.tile(desired, (self.branches, 1)))
        self.age += 1


def update(run: PaperRun, loops: Loops) -> None:
    """Take one step of REINFORCE at the present states and let the loops go on."""
    settings, job, terms, graph = run.settings, loops.rows.job, loops.rows.terms, loops.rows.graph
    view = View(loops.rows.observe(), graph, job, terms)
    current = view.observed.current
    for options in run.optimiser.param_groups:
        options["lr"] = settings.learning_rate * (1.0 - 0.95 * run.done)
    tau = settings.tau_first + (settings.tau_last - settings.tau_first) * run.done
    information = float(settings.information_every) if run.update % settings.information_every == 0 else 0.0
    passed = run.model.explore(State.of(view.encoded, graph), run.generator, tau, information)
    mean, std = passed.mean.detach().double().numpy(), float(run.model.log_std.detach().exp())
    deviations, together = draw(settings.branches, mean.shape, run.model.joint, run.generator)
    drawn = mean + std * deviations
    desired = np.stack([sizes_of(np.clip(part, -1.0, 1.0), current, job, terms) for part in drawn])
    on_mean = sizes_of(mean, current, job, terms)
    rewards = loops.try_out(desired, settings.hold_spans or HOLD_SPANS[settings.mode], settings.discount)
    advantage = torch.from_numpy(by_kind(rewards, together)).float()
    log_pi = log_probability(passed.mean, run.model.log_std, torch.from_numpy(drawn).float(), together, graph.scalable)
    loss = -(log_pi * advantage).mean() - settings.entropy * run.model.log_std
    loss = loss + settings.barrier * barrier(passed.mean)
    loss = loss + settings.limits * beyond_limits(passed.mean, current, on_mean, terms)
    if passed.auxiliary is not None:
        loss = loss + passed.auxiliary
    run.optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), settings.gradient_norm_max)
    run.optimiser.step()
    follows_mean = (np.arange(len(mean)) % 2 == 0)[:, None]
    loops.go_on(np.where(follows_mean, on_mean, desired[-1]))
    run.update += 1


def draw(branches: int, shape: tuple[int, ...], joint: bool, generator: np.random.Generator) -> tuple[Float64, Bool]:
    """Return standard normal deviations [G, B, N] in mirrored pairs, and which branches [G] move all tasks alike.

    ``joint``: all of them do; else every second pair, and the others move some eight tasks each. Among forty tasks that all move
    by themselves, what one of them does is lost in what the slowest one suffers.
    """
    assert branches % 4 == 0, "branches come in mirrored pairs of two kinds"
    rows, tasks = shape
    half = generator.standard_normal((branches // 2, rows, tasks))
    half *= generator.random(half.shape) * tasks < MOVED
    together = np.full(branches // 2, joint) | (np.arange(branches // 2) % 2 == 0)
    half[together] = generator.standard_normal((int(together.sum()), rows, 1))
    return np.concatenate([half, -half]), np.concatenate([together, together])


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


def by_kind(rewards: Float64, together: Bool) -> Float64:
    """Return advantages [G, B], each kind of branches compared with its own: what all tasks do together moves rewards more."""
    advantage = np.zeros_like(rewards)
    for kind in (together, ~together):
        if kind.any():
            advantage[kind] = advantages(rewards[kind])
    return advantage


def barrier(mean: Tensor) -> Tensor:
    """Return the mean of -log(1 - a^2), whose slope in front of the tanh is 2 a and never vanishes."""
    return -torch.log(1.0 - mean.square() + TINY).mean()


def beyond_limits(mean: Tensor, current: Int64, given: Int64, terms: Terms) -> Tensor:
    """Return the mean square distance of actions [B, N] from what they came to, sizes given [B, N], where limits cut them."""
    asked = resized(current, 1.0 + mean.detach().double().numpy(), terms)
    cut = torch.from_numpy((asked != given).astype(np.float32))
    came_to = torch.from_numpy((given / current - 1.0).astype(np.float32))
    return (cut * (mean - came_to)).square().mean()


def log_probability(mean: Tensor, log_std: Tensor, drawn: Tensor, together: Bool, scalable: Bool) -> Tensor:
    """Return log pi [G, B] of unclipped actions [G, B, N] under means [B, N] up to a constant, summed over the real tasks.

    Where all tasks move alike the sum is over one number, so it counts by the root of the number of tasks.
    """
    each = -0.5 * ((drawn - mean) * torch.exp(-log_std)).square() - log_std
    real = torch.from_numpy(scalable.astype(np.float32))
    total = (each * real).sum(dim=-1)
    share = torch.where(torch.from_numpy(together), real.sum().rsqrt(), torch.ones(()))
    return total * share.unsqueeze(-1)


@torch.no_grad()
def validate(run: PaperRun, job: SizedJob, load: Workload) -> float:
    """Return the mean reward of the mean action over stretches of week 1."""
    first = 60 + np.arange(VALIDATION_ROWS, dtype=np.int64) * (load.minutes // VALIDATION_ROWS)
    terms = terms_of(run.settings.mode, run.settings.latency_weight)
    return float(follow(Torch(run.model), job, load, first, terms, VALIDATION_DECISIONS).reward.mean())


@dataclass(frozen=True, slots=True)
class Torch:
    """A network as something that sizes rows; without noise."""

    model: Method

    @torch.no_grad()
    def sizes(self, view: View) -> Int64:
        """Return wanted parallelism [B, N]."""
        mean = self.model.mean_action(State.of(view.encoded, view.graph), view.seeds).double().numpy()
        return sizes_of(mean, view.observed.current, view.job, view.terms)


def _copy(model: Method) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def save(run: PaperRun, folder: Path) -> None:
    """Write the run's checkpoint, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "settings": json.dumps(asdict(run.settings)),
        "statistics": json.dumps({"mean": run.statistics.mean, "std": run.statistics.std}),
        "model": run.model.state_dict(),
        "best_state": run.best_state,
        "optimiser": run.optimiser.state_dict(),
        "generator": json.dumps(run.generator.bit_generator.state),
        **{name: getattr(run, name) for name in ("update", "seconds", "best", "validations", "episodes")},
    }
    partial = folder / f"{CHECKPOINT}.partial"
    torch.save(document, partial)
    partial.replace(folder / CHECKPOINT)


def resume(folder: Path, **changes: object) -> PaperRun:
    """Return the run that a checkpoint holds; ``changes`` replace settings, such as a longer budget."""
    document = torch.load(folder / CHECKPOINT, weights_only=True)
    settings = replace(msgspec.json.decode(document["settings"], type=PaperSettings), **changes)  # type: ignore[arg-type]
    fields = json.loads(document["statistics"])
    statistics = Statistics(mean=tuple(fields["mean"]), std=tuple(fields["std"]))
    run = begin(settings, statistics)
    run.model.load_state_dict(document["model"])
    run.optimiser.load_state_dict(document["optimiser"])
    run.generator.bit_generator.state = json.loads(document["generator"])
    run.best_state = document["best_state"]
    run.update, run.seconds, run.best, run.validations, run.episodes = (
        document[name] for name in ("update", "seconds", "best", "validations", "episodes")
    )
    if run.done < 1.0 and changes:  # validations are due at shares of the new budget
        run.validations = sum(share <= run.done for share in VALIDATIONS)
    return run


def best_model(run: PaperRun) -> Method:
    """Return the network with the weights that validated best."""
    run.model.load_state_dict(run.best_state)
    return run.model.eval()
