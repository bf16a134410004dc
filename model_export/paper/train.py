"""Trains one method on one job by REINFORCE on branches from one state, on week 1 alone.

At every decision each of B loops branches into G that start in the same state and meet the same load; half of the deviations
mirror the other half (``model_export.paper.draws``). Draws lie around what the mean action comes to: where it asks for more than
bounds and total limit allow, draws around what it asks would all end at the same sizes, and nothing would lead back. What was
drawn is held for three hours (in ``compat`` for one). Rewards are compared with those of other branches of the same state, so the
load and the past cancel out; later hours count only through the states that the loops come to. The network is asked once per
state, whatever the number of branches. Half of the loops then follow the mean action, half one of the draws.
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

from model_export import checkpoints
from model_export.paper.draws import credit, draw, gains, log_probability
from model_export.paper.methods import build
from model_export.paper.parts import Method, Passed, State
from model_export.paper.settings import TAU_LAST, PaperSettings
from model_export.paper.statistics import spread_start
from model_export.paper.world import SPAN_MINUTES, View, action_for, asked_for, follow, offsets, sizes_of, terms_of, week
from model_export.steps import TrainingDiverged, take_step
from policies.graph import Int64
from policies.package import Statistics
from policies.proposal import Float64
from simulation.jobs import SizedJob, load_job
from simulation.loop import LoopRows, Terms
from simulation.workload import Workload, load_workload

STD_FIRST = {"clean": 0.2, "compat": 0.3}
"""First exploration: every task limits the whole job's flow; more where sizes are cut towards zero, so that they move at all."""
STD_LAST = {"clean": None, "compat": 0.1}
"""Exploration at a run's end, where it narrows evenly; None: it is learned. In ``compat`` the best sizes lie a step from an
overload that costs ten times what they save, and under wide draws ample sizes are the best there are."""
HOLD_SPANS = {"clean": 3, "compat": 1}
"""Hours that a draw is held: by its first hour hardly a change is worth its restart; in ``compat`` every hour has one anyway."""
FREE_RESTARTS = {"clean": 0.55, "compat": 0.0}
"""Share of a run, from its start, in which a restart takes no time: while sizes are still poor, no change looks worth one."""
TINY = 1e-6
VALIDATIONS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the budget
VALIDATION_ROWS, VALIDATION_DECISIONS = 10, 30  # every hour of the week at least once


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
    loops: "Loops | None" = None

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
        estimator=settings.estimator,
        pairing=settings.pairing,
        information=settings.information,
    )
    with torch.no_grad():
        model.log_std.fill_(float(np.log(STD_FIRST[settings.mode])))
    model.log_std.requires_grad_(STD_LAST[settings.mode] is None)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.99))
    return PaperRun(settings, statistics, model, optimiser, np.random.default_rng(settings.seed), _copy(model))


def train(run: PaperRun, folder: Path | None, tell: Callable[[PaperRun], object]) -> None:
    """Bring a run to its end; with a folder, leave a checkpoint at every validation."""
    workload = load_workload(run.settings.workload)
    jobs, load = [load_job(name, workload) for name in run.settings.jobs], week(workload, 1)

    def validation() -> float:
        return float(np.mean([validate(run, job, load) for job in jobs]))

    if run.update == 0:
        run.best = validation()  # what began better than it ever became stays as it began
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
    """B closed loops. ``way`` is how they came to where they are: minutes [B], first sizes [B, N], what was carried out since."""

    rows: LoopRows
    way: list[Int64] = field(default_factory=list)

    @property
    def age(self) -> int:
        """Return the decisions since they began."""
        return len(self.way) - 2

    @classmethod
    def begin(cls, run: PaperRun, job: SizedJob, load: Workload) -> "Loops":
        """Return loops at random minutes of the week, from sizes of all kinds."""
        settings = run.settings
        terms = terms_of(settings.mode, settings.latency_weight)
        if run.done < FREE_RESTARTS[settings.mode]:
            terms = replace(terms, restart_ms=0)
        first = SPAN_MINUTES * run.generator.integers(1, load.minutes // SPAN_MINUTES, size=settings.loops(job.size))
        start = spread_start(job, load, first, run.generator)
        return cls(LoopRows(job, load, first, start, terms), [first, start])

    @classmethod
    def again(cls, job: SizedJob, load: Workload, terms: Terms, way: list[Int64]) -> "Loops":
        """Return loops that went this way."""
        loops = cls(LoopRows(job, load, way[0], way[1], terms), way[:2])
        for desired in way[2:]:
            loops.go_on(desired)
        return loops

    def try_out(self, desired: Int64, spans: int = 1, discount: float = 1.0) -> Float64:
        """Return discounted rewards [G, B] of holding desired [G, B, N] for so many spans; the loops themselves stand still.

        All of what arrives is charged. The reward itself stops at ten minutes in ``clean``, and in ``compat`` it does not see
        batches that have not left: a policy that once falls behind would learn to stay there, where the smallest sizes are the
        best used.
        """
        twin, wanted = self.rows.repeated(len(desired)), desired.reshape(-1, desired.shape[-1])
        total = np.zeros(len(wanted))
        for at in range(spans):
            span = twin.step(wanted, is_full=True)
            assert span.full_latency is not None
            total += discount**at * twin.reward(span)
            total -= discount**at * twin.terms.latency_weight * (span.full_latency - span.latency)
        return total.reshape(len(desired), -1)

    def go_on(self, desired: Int64) -> None:
        """Carry out desired [B, N]."""
        self.rows.step(desired)
        self.way.append(desired)


def update(run: PaperRun, loops: Loops) -> None:
    """Take one step of REINFORCE at the present states and let the loops go on."""
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


def choice_loss(loops: Loops, passes: tuple[Passed, Passed], current: Int64, settings: PaperSettings) -> Tensor:
    """Return the loss by which two draws of nodes from the same states learn from each other: the better one's odds rise.

    The paper's equation 2 with the other draw as baseline. Branches of one draw share their nodes and say nothing about them, so
    the mean actions under both draws are tried out. One number judges all tasks' nodes at once: noisy, but not biased.
    """
    desired = [sizes_of(each.mean.detach().double().numpy(), current, loops.rows.job, loops.rows.terms) for each in passes]
    rewards = loops.try_out(np.stack(desired), settings.hold_spans or HOLD_SPANS[settings.mode], settings.discount)
    worth = torch.from_numpy(gains(rewards)).float()
    logs = torch.stack([each.log_choice for each in passes if each.log_choice is not None])
    return -(worth * logs).mean() / loops.rows.graph.scalable.sum() ** 0.5


def barrier(mean: Tensor) -> Tensor:
    """Return the mean of -log(1 - a^2), whose slope in front of the tanh is 2 a and never vanishes."""
    return -torch.log(1.0 - mean.square() + TINY).mean()


def came_to(mean: Float64, current: Int64, given: Int64, terms: Terms) -> Float64:
    """Return actions [B, N], those that bounds or the total limit cut replaced by what they came to: sizes given [B, N]."""
    return np.where(asked_for(mean, current, terms) != given, action_for(given, current, terms), mean)


def beyond_limits(mean: Tensor, centre: Float64) -> Tensor:
    """Return how far actions [B, N] lie from what they came to, in front of the tanh, where the slope does not vanish."""
    inside = 1.0 - TINY
    beyond = [torch.atanh(each.clamp(-inside, inside)) for each in (mean, torch.from_numpy(centre).float())]
    gap = nn.functional.smooth_l1_loss(*beyond, reduction="sum")
    return gap / (mean.shape[0] * mean.shape[1] ** 0.5)


@torch.no_grad()
def validate(run: PaperRun, job: SizedJob, load: Workload) -> float:
    """Return the mean reward of the mean action over stretches of week 1."""
    first = offsets(VALIDATION_ROWS)
    terms = terms_of(run.settings.mode, run.settings.latency_weight)
    return float(follow(Torch(run.model), job, load, first, terms, VALIDATION_DECISIONS).reward.mean())


@dataclass(frozen=True, slots=True)
class Torch:
    """A network as something that sizes rows; with a generator its actions and its nodes are drawn, as in training."""

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
    """Write the run's checkpoint, whole or not at all."""
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


def resume(folder: Path, **changes: object) -> PaperRun:
    """Return the run that a checkpoint holds; ``changes`` replace settings, such as a longer budget.

    Raises:
        CheckpointRejected: the checkpoint is damaged or holds no such run.
    """
    return checkpoints.restored(folder, lambda document: _restored(document, changes))


def _restored(document: dict[str, Any], changes: dict[str, object]) -> PaperRun:
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
    if run.done < 1.0 and "way" in document:  # without it, as it was once, an episode begins anew
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
