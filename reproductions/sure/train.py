"""Train one method on one job by REINFORCE, on branches from one state and on week 1 alone.

At every decision, each of B loops branches into G copies that start in the same state and get the same load. Half of the
deviations mirror the other half (``reproductions.sure.draws``). Draws lie around the mean action after all limits. If the mean
action asks for more than bounds and total limit allow, draws around it would all end at the same sizes, and nothing would lead
back. Each draw is held for three hours (for one in ``compat``). Rewards are compared with those of other branches of the same
state, so load and past cancel out; later hours count only through the states that the loops reach. The network runs once per
state, whatever the number of branches. Then half of the loops follow the mean action and half follow one of the draws.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.archive import load_job
from reproductions.sure import checkpoints
from reproductions.sure.draws import credit, draw, gains, log_probability
from reproductions.sure.environment import SPAN_MINUTES, View, action_for, asked_for, follow, offsets, sizes_of, terms_of, week
from reproductions.sure.layers import ForwardPass, Method, State
from reproductions.sure.methods import build
from reproductions.sure.objective import TrainingDiverged, Weights, take_step
from reproductions.sure.settings import TAU_LAST, PaperSettings
from reproductions.sure.statistics import Statistics, spread_start
from reproductions.sure.sure import SureOptions
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload, load_workload
from surescale.simulation.loops.rows import LoopRows, Terms

STD_FIRST = {"clean": 0.2, "compat": 0.3}
"""Exploration at the start. It is small, since every task limits the whole job, and larger where sizes round towards zero."""
STD_LAST = {"clean": None, "compat": 0.1}
"""Exploration at the end, to which it narrows evenly; None: it is learned. In ``compat`` the best sizes are one step from an
overload that costs ten times what they save. Under wide draws, ample sizes would look best."""
HOLD_SPANS = {"clean": 3, "compat": 1}
"""Hours a draw is held. Within one hour, hardly any change is worth its restart; in ``compat`` every hour has one anyway."""
FREE_RESTARTS = {"clean": 0.55, "compat": 0.0}
"""Share of a run, from its start, in which a restart takes no time. While sizes are poor, no change would look worth one."""
TINY = 1e-6
VALIDATIONS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the budget
VALIDATION_ROWS, VALIDATION_DECISIONS = 10, 30  # covers every hour of the week at least once


@dataclass(slots=True)
class PaperRun:
    """A training run in progress."""

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
    loops: "Loops | None" = None

    @property
    def done(self) -> float:
        """Return the completed share of the run."""
        share = self.seconds / self.settings.budget_s
        if self.settings.updates_max is not None:
            share = max(share, self.update / self.settings.updates_max)
        return min(1.0, share)


def begin(settings: PaperSettings, statistics: Statistics) -> PaperRun:
    """Return an untrained run."""
    torch.manual_seed(settings.seed)
    options = SureOptions(
        anchors=settings.anchors,
        neighbours_max=settings.neighbours_max,
        readout=settings.readout,
        gnn=settings.gnn,
        direction=settings.direction,
        estimator=settings.estimator,
        pairing=settings.pairing,
        weights=Weights(information=settings.information),
    )
    model = build(settings.method, statistics, settings.hidden, options)
    with torch.no_grad():
        model.log_std.fill_(float(np.log(STD_FIRST[settings.mode])))
    model.log_std.requires_grad_(STD_LAST[settings.mode] is None)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.99))
    return PaperRun(settings, statistics, model, optimiser, np.random.default_rng(settings.seed), _copy(model))


def train(run: PaperRun, folder: Path | None, tell: Callable[[PaperRun], object]) -> None:
    """Train a run to its end. With a folder, write a checkpoint at every validation."""
    workload = load_workload(run.settings.workload)
    jobs, load = [load_job(name, workload) for name in run.settings.jobs], week(workload, 1)

    def validation() -> float:
        return float(np.mean([validate(run, job, load) for job in jobs]))

    if run.update == 0:
        run.best = validation()  # if training never improves on the start, the start is kept
    while run.done < 1.0 or run.validations < len(VALIDATIONS):
        began = time.process_time()
        if run.done < 1.0:
            if run.loops is None or run.loops.age >= run.settings.episode:
                run.loops = Loops.begin(run, jobs[run.episodes % len(jobs)], load)
                run.episodes += 1
            update(run, run.loops)
        run.seconds += time.process_time() - began
        if run.done >= VALIDATIONS[run.validations]:
            _keep_best(run, validation())
            tell(run)
            if folder is not None:
                save(run, folder)


def _keep_best(run: PaperRun, reward: float) -> None:
    run.validations += 1
    if reward > run.best:
        run.best, run.best_state = reward, _copy(run.model)


@dataclass(slots=True)
class Loops:
    """B closed loops. ``way`` is their history: start minutes [B], first sizes [B, N], and every size applied since."""

    rows: LoopRows
    way: list[Int64] = field(default_factory=list)

    @property
    def age(self) -> int:
        """Return the number of decisions since the start."""
        return len(self.way) - 2

    @classmethod
    def begin(cls, run: PaperRun, job: SizedJob, load: Workload) -> "Loops":
        """Return loops at random minutes of the week, with start sizes of all kinds."""
        settings = run.settings
        terms = terms_of(settings.mode, settings.latency_weight)
        if run.done < FREE_RESTARTS[settings.mode]:
            terms = replace(terms, restart_ms=0)
        first = SPAN_MINUTES * run.generator.integers(1, load.minutes // SPAN_MINUTES, size=settings.loops(job.size))
        start = spread_start(job, load, first, run.generator)
        return cls(LoopRows(job, load, first, start, terms), [first, start])

    @classmethod
    def again(cls, job: SizedJob, load: Workload, terms: Terms, way: list[Int64]) -> "Loops":
        """Return loops with this history, by replaying it."""
        loops = cls(LoopRows(job, load, way[0], way[1], terms), way[:2])
        for desired in way[2:]:
            loops.go_on(desired)
        return loops

    def try_out(self, desired: Int64, spans: int = 1, discount: float = 1.0) -> Float64:
        """Return discounted rewards [G, B] of holding desired [G, B, N] for some spans. The loops themselves do not move.

        Every arriving record is charged. The reward itself caps latency at ten minutes in ``clean``, and in ``compat`` it ignores
        batches that have not left. With that reward alone, a policy that falls behind would learn to stay there, because then the
        smallest sizes have the best utilisation.
        """
        twin, wanted = self.rows.repeated(len(desired)), desired.reshape(-1, desired.shape[-1])
        total = np.zeros(len(wanted))
        for at in range(spans):
            span = twin.step(wanted)
            total += discount**at * twin.reward(span)
            total -= discount**at * twin.terms.latency_weight * (span.full_latency - span.latency)
        return total.reshape(len(desired), -1)

    def go_on(self, desired: Int64) -> None:
        """Apply desired sizes [B, N]."""
        self.rows.step(desired)
        self.way.append(desired)


def update(run: PaperRun, loops: Loops) -> None:
    """Take one step of REINFORCE at the current states, then advance the loops."""
    settings, job, terms, graph = run.settings, loops.rows.job, loops.rows.terms, loops.rows.graph
    view = View(loops.rows.observe(), graph, job, terms)
    current = view.observed.current
    for options in run.optimiser.param_groups:
        options["lr"] = settings.learning_rate * (1.0 - 0.95 * run.done)
    _narrow(run)
    tau = settings.tau_first + (settings.tau_last - settings.tau_first) * run.done
    information = float(settings.information_every) if run.update % settings.information_every == 0 else 0.0
    passed = run.model.explore(State.of(view.encoded, graph), run.generator, tau, information)
    mean, std = passed.mean.detach().double().numpy(), float(run.model.log_std.detach().exp())
    draws = draw(settings.branches, len(mean), graph.scalable, run.model.joint, run.generator)
    on_mean = sizes_of(mean, current, job, terms)
    centre = came_to(mean, current, on_mean, terms)
    drawn = centre + std * draws.deviations
    desired = np.stack([sizes_of(np.clip(part, -1.0, 1.0), current, job, terms) for part in drawn])
    rewards = loops.try_out(desired, settings.hold_spans or HOLD_SPANS[settings.mode], settings.discount)
    log_pi = log_probability(passed.mean, run.model.log_std, torch.from_numpy(draws.deviations).float())
    share = torch.from_numpy(credit(rewards, draws)).float()
    loss = -(log_pi * share).sum(dim=(0, 2)).mean() - settings.entropy * run.model.log_std
    loss = loss + settings.barrier * barrier(passed.mean)
    loss = loss + settings.limits * beyond_limits(passed.mean, centre)
    if passed.auxiliary is not None:
        loss = loss + passed.auxiliary
    if passed.log_choice is not None:
        other = run.model.explore(State.of(view.encoded, graph), run.generator, tau, 0.0)
        loss = loss + choice_loss(loops, (passed, other), current, settings)
    run.optimiser.zero_grad()
    loss.backward()
    try:
        take_step(run.optimiser, float(loss.detach()), run.model.children(), settings.gradient_norm_max)
    except TrainingDiverged as diverged:
        at = f"{settings.method} on {job.name}, {settings.mode}, seed {settings.seed}, update {run.update + 1}"
        raise TrainingDiverged(f"{at}: {diverged}; train it in a folder of its own with --set learning_rate=LESS") from None
    follows_mean = (np.arange(len(mean)) % 2 == 0)[:, None]
    loops.go_on(np.where(follows_mean, on_mean, desired[0]))
    run.update += 1


@torch.no_grad()
def _narrow(run: PaperRun) -> None:
    """Set the spread of draws where it follows the run."""
    first, last = STD_FIRST[run.settings.mode], STD_LAST[run.settings.mode]
    if last is not None:
        run.model.log_std.fill_(float(np.log(first + (last - first) * run.done)))


def choice_loss(loops: Loops, passes: tuple[ForwardPass, ForwardPass], current: Int64, settings: PaperSettings) -> Tensor:
    """Return the loss that compares two draws of nodes from the same states: the better draw becomes more likely.

    This is the paper's equation 2 with the other draw as baseline. Branches of one draw share their nodes and cannot compare
    them, so the mean actions under both draws are tried. One number judges the nodes of all tasks at once: noisy, but unbiased.
    """
    desired = [sizes_of(each.mean.detach().double().numpy(), current, loops.rows.job, loops.rows.terms) for each in passes]
    rewards = loops.try_out(np.stack(desired), settings.hold_spans or HOLD_SPANS[settings.mode], settings.discount)
    worth = torch.from_numpy(gains(rewards)).float()
    logs = torch.stack([each.log_choice for each in passes if each.log_choice is not None])
    return -(worth * logs).mean() / loops.rows.graph.scalable.sum() ** 0.5


def barrier(mean: Tensor) -> Tensor:
    """Return the mean of -log(1 - a^2). Its gradient before the tanh is 2 a and never vanishes."""
    return -torch.log(1.0 - mean.square() + TINY).mean()


def came_to(mean: Float64, current: Int64, given: Int64, terms: Terms) -> Float64:
    """Return actions [B, N]. Those limited by bounds or the total limit are replaced by the action for the given sizes [B, N]."""
    return np.where(asked_for(mean, current, terms) != given, action_for(given, current, terms), mean)


def beyond_limits(mean: Tensor, centre: Float64) -> Tensor:
    """Return the distance of actions [B, N] from the limited ones, before the tanh, where the gradient does not vanish."""
    inside = 1.0 - TINY
    asked, given = (torch.atanh(each.clamp(-inside, inside)) for each in (mean, torch.from_numpy(centre).float()))
    gap = nn.functional.smooth_l1_loss(asked, given, reduction="sum")
    return gap / (mean.shape[0] * mean.shape[1] ** 0.5)


@torch.no_grad()
def validate(run: PaperRun, job: SizedJob, load: Workload) -> float:
    """Return the mean reward of the mean action over parts of week 1."""
    first = offsets(VALIDATION_ROWS)
    terms = terms_of(run.settings.mode, run.settings.latency_weight)
    return float(follow(Torch(run.model), job, load, first, terms, VALIDATION_DECISIONS).reward.mean())


@dataclass(frozen=True, slots=True)
class Torch:
    """A network as a policy that sizes rows. With a generator, actions and nodes are drawn as in training."""

    model: Method
    generator: np.random.Generator | None = None

    @torch.no_grad()
    def sizes(self, view: View) -> Int64:
        """Return wanted parallelism [B, N]."""
        state = State.of(view.encoded, view.graph)
        if self.generator is None:
            action = self.model.mean_action(state, view.seeds).double().numpy()
        else:
            mean = self.model.explore(state, self.generator, TAU_LAST, 0.0).mean.double().numpy()
            noise = self.generator.standard_normal((len(mean), 1 if self.model.joint else mean.shape[1]))
            action = np.clip(mean + float(self.model.log_std.exp()) * noise, -1.0, 1.0)
        return sizes_of(action, view.observed.current, view.job, view.terms)


def _copy(model: Method) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def save(run: PaperRun, folder: Path) -> None:
    """Write the run's checkpoint. It appears whole or not at all."""
    document = {
        "settings": json.dumps(asdict(run.settings)),
        "statistics": json.dumps({"mean": run.statistics.mean, "std": run.statistics.std}),
        "model": run.model.state_dict(),
        "best_state": run.best_state,
        "optimiser": run.optimiser.state_dict(),
        "generator": json.dumps(run.generator.bit_generator.state),
        **{name: getattr(run, name) for name in ("update", "seconds", "best", "validations", "episodes")},
    }
    if run.loops is not None and run.done < 1.0:
        document["restart_ms"] = run.loops.rows.terms.restart_ms
        document["way"] = [torch.from_numpy(part.copy()) for part in run.loops.way]
    checkpoints.write(document, folder)


def resume(folder: Path, budget_s: float | None = None) -> PaperRun:
    """Return the run that a checkpoint holds, with another budget if one is given.

    Raises:
        CheckpointRejected: the checkpoint is damaged or holds no such run.
    """
    return checkpoints.restored(folder, lambda document: _restored(document, budget_s))


def _restored(document: dict[str, Any], budget_s: float | None) -> PaperRun:
    settings = msgspec.json.decode(document["settings"], type=PaperSettings)
    if budget_s is not None:
        settings = replace(settings, budget_s=budget_s)
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
    if run.done < 1.0 and budget_s is not None:  # validations are due at shares of the new budget
        run.validations = sum(share <= run.done for share in VALIDATIONS)
    if run.done < 1.0 and "way" in document:  # a finished run with a new budget has none: a new episode starts
        run.loops = _loops_of(run, document)
    return run


def _loops_of(run: PaperRun, document: dict[str, Any]) -> Loops:
    settings, workload = run.settings, load_workload(run.settings.workload)
    job = load_job(settings.jobs[(run.episodes - 1) % len(settings.jobs)], workload)
    terms = replace(terms_of(settings.mode, settings.latency_weight), restart_ms=document["restart_ms"])
    return Loops.again(job, week(workload, 1), terms, [part.numpy() for part in document["way"]])


def best_model(run: PaperRun) -> Method:
    """Return the network with the weights that validated best."""
    run.model.load_state_dict(run.best_state)
    return run.model.eval()
