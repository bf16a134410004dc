"""Trains SURE in the simulator on the first week of workloads: explore by branches, REINFORCE, validate, keep the best.

Nothing after the first week is read here. Each update uses another graph, another level of load and another hour of the day at
minute 0, so only the window's own figures can predict the load. A run resumes from its folder with the same settings and the same
generator, at the next update.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import count, islice
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from surescale.contracts.errors import SurescaleError
from surescale.contracts.windows import HOUR_MS
from surescale.model_export import checkpoints
from surescale.model_export.network import SureNetwork, Weights, auxiliary_loss, forward
from surescale.model_export.outlook_fit import fit_base, fit_statistics
from surescale.model_export.plan_loops import Ground
from surescale.model_export.rollout import Branching, Noise, advantages, explore, log_probability, mean_reward
from surescale.policies.graph import job_graph
from surescale.policies.sure.base import Base
from surescale.policies.sure.package import SamplingCard, Statistics
from surescale.simulation.load.graphs import DRAWN, load_graph
from surescale.simulation.load.jobs import load_job
from surescale.simulation.load.workload import Workload, load_workload
from surescale.simulation.loops.rows import Terms
from surescale.simulation.model.worlds import CALM, world_named
from surescale.simulation.model.worlds import SEED_MAX as WORLD_SEED_MAX


class TrainingDiverged(SurescaleError):
    """A loss or gradient is not finite. Weights and checkpoint are still those before the step."""


def take_step(optimiser: torch.optim.Optimizer, loss: float, parts: Iterable[nn.Module], norm_max: float) -> None:
    """Clip the gradients of each part by their norm and take the step.

    Raises:
        TrainingDiverged: the loss or a gradient is not finite; no step is taken.
    """
    learning = [part for part in parts if next(part.parameters(), None) is not None]  # some hold only constants
    norms = [float(nn.utils.clip_grad_norm_(part.parameters(), norm_max)) for part in learning]
    if not all(map(isfinite, (loss, *norms))):
        raise TrainingDiverged(f"its loss ({loss:g}) or a gradient is not finite, so no step was taken; the checkpoint stays")
    optimiser.step()


WEEK_MINUTES = 7 * 24 * 60
SEED_MAX = 2**63 - 1  # torch's generator takes no larger one
_OF_WORLDS = 1  # third part of the seed that draws worlds
_VALIDATION_DRAWS = 10_000  # draws of worlds below this are for validation

VALIDATION_JOBS = tuple(f"{DRAWN}{seed}" for seed in range(900, 906))
TRAINING_JOBS = 40
TRAINING_TASKS = (6, 24)
LOAD_PARALLELISM = (4.0, 9.0)


def training_jobs() -> tuple[str, ...]:
    """Return the first drawn graphs of 6 to 24 tasks. The shipped jobs serve for judging: training never sees them."""
    least, most = TRAINING_TASKS
    names = (f"{DRAWN}{seed}" for seed in count(1))
    return tuple(islice((name for name in names if least <= load_graph(name).size <= most), TRAINING_JOBS))


class TrainingRefused(SurescaleError):
    """A run cannot start with these settings; the message says why."""


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Everything that shapes a run; stored in the model's card."""

    workloads: tuple[str, ...] = ("clarknet", "nasa")
    """Workloads; training uses their first weeks."""
    jobs: tuple[str, ...] = field(default_factory=training_jobs)
    """Training graphs, one per update, in random order."""
    validation_jobs: tuple[str, ...] = VALIDATION_JOBS
    """Other graphs; their mean reward on those weeks decides which update is kept."""
    load_parallelism: tuple[float, float] = LOAD_PARALLELISM
    """Subtasks the heaviest task needs at the 99th percentile of load; drawn from this range for each update."""
    worlds: tuple[str, ...] = (CALM.name,)
    """Worlds, `restart@300` with the seconds of a restart: each update plays one at random, in a draw of its own; validation
    plays all."""
    seed: int = 0
    updates: int = 120
    learning_rate: float = 3e-4
    """Of Adam; decays linearly to a tenth."""
    hidden: int = 32
    anchors: int = 8
    neighbours_share: float = 0.5
    neighbours_max: int = 3
    tau_first: float = 1.0
    tau_last: float = 0.3
    """Temperature of the relaxed top-k; decays linearly."""
    gradient_norm_max: float = 0.5
    validate_every: int = 20
    branching: Branching = field(default_factory=Branching)
    noise: Noise = field(default_factory=Noise)
    weights: Weights = field(default_factory=Weights)


@dataclass(slots=True)
class Run:
    """A training run in progress."""

    settings: TrainSettings
    base: Base
    network: SureNetwork
    optimiser: torch.optim.Optimizer
    generator: np.random.Generator
    update: int = 0
    best: float = float("-inf")
    best_state: dict[str, torch.Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    rule: float = 0.0  # validation reward of the plan without its network
    best_by_world: dict[str, float] = field(default_factory=dict)  # ``best`` and ``rule`` are the means over worlds
    rule_by_world: dict[str, float] = field(default_factory=dict)


_PLAIN = ("update", "best", "seconds", "rule", "best_by_world", "rule_by_world")
"""Fields of a run that its checkpoint holds as they are."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """The result of one update, for the progress display and logs. ``validation`` is None between validations."""

    update: int
    job: str
    branch_return: float
    loss: float
    validation: float | None
    best: float
    rule: float
    by_world: dict[str, float] = field(default_factory=dict)  # of ``validation``


def first_week(workload: Workload) -> Workload:
    """Return the part of a workload that training may use."""
    return replace(workload, requests=workload.requests[:WEEK_MINUTES])


def start_run(settings: TrainSettings, device: str = "cpu", tell: Callable[[str], object] = lambda stage: None) -> Run:
    """Return a run with base and statistics fitted and an untrained network on a torch device; ``tell`` receives each stage.

    Raises:
        TrainingRefused: a workload is shorter than a week or has a gap as long as a window, the seed is out of range, or there is
            no world.
        JobError: there is no such graph.
        RunError: there is no such world.
    """
    if not 0 <= settings.seed <= SEED_MAX:
        raise TrainingRefused(f"seed {settings.seed} is out of range; give one from 0 to {SEED_MAX}")
    weeks = _weeks(settings)
    for name in settings.jobs:  # report a misspelt name now and not after minutes of fitting
        load_graph(name)
    if not settings.worlds:
        raise TrainingRefused("there is no world to train in; name one, such as calm")
    for world in settings.worlds:
        world_named(world)
    torch.manual_seed(settings.seed)
    tell("fitting the forecast")
    base = fit_base([week for _, week in weeks])
    days = np.arange(1, 7) * 24 * 60 + 60
    statistics = fit_statistics(_in_turn(_validation_grounds(settings, base)), days, spans=36)
    run = _new_run(settings, base, statistics, device)
    tell(f"validating the plan alone, on {len(settings.validation_jobs)} jobs in {', '.join(settings.worlds)}")
    run.rule_by_world = _validate(run, None)
    run.rule = _mean(run.rule_by_world)
    run.best, run.best_by_world, run.best_state = run.rule, run.rule_by_world, plan_alone(run.network)
    return run


def train(run: Run, folder: Path, tell: Callable[[Progressed], None]) -> None:
    """Train a run to its last update, with a checkpoint at every validation."""
    weeks = _weeks(run.settings)
    while run.update < run.settings.updates:
        began = time.perf_counter()
        ground = _next_ground(run, weeks)
        branch_return, loss = _update(run, ground)
        run.update += 1
        validation, by_world = None, {}
        if run.update % run.settings.validate_every == 0 or run.update == run.settings.updates:
            by_world = _validate(run, run.network)
            validation = _mean(by_world)
            if validation > run.best:
                run.best, run.best_by_world, run.best_state = validation, by_world, _copy(run.network)
        run.seconds += time.perf_counter() - began
        tell(Progressed(run.update, ground.job.name, branch_return, loss, validation, run.best, run.rule, by_world))
        if validation is not None:
            save(run, folder)


def _update(run: Run, ground: Ground) -> tuple[float, float]:
    settings, graph = run.settings, job_graph(ground.job.specs())
    done = run.update / max(1, settings.updates)
    for options in run.optimiser.param_groups:
        options["lr"] = settings.learning_rate * (1.0 - 0.9 * done)
    tau = settings.tau_first + (settings.tau_last - settings.tau_first) * done
    states = explore(run.network, ground, settings.branching, settings.noise, run.generator)
    weight = advantages(np.array([state.returns for state in states]))
    run.optimiser.zero_grad()
    total = 0.0
    for index, (state, advantage) in enumerate(zip(states, weight, strict=True)):
        passed = forward(run.network, state.chosen, graph, tau)
        log_pi = log_probability(passed.outputs, state.deviations, graph, settings.noise)
        loss = -(log_pi * torch.as_tensor(advantage, dtype=torch.float32, device=run.network.device)).mean() / len(states)
        if index == run.update % len(states):  # the information term's whole graph is expensive: once per update
            loss = loss + auxiliary_loss(run.network, state.chosen, passed, graph, settings.weights)
        loss = loss + settings.weights.rule * passed.outputs.square().mean() / len(states)
        loss.backward()
        total += float(loss.detach())
    try:
        take_step(run.optimiser, total, [run.network], settings.gradient_norm_max)
    except TrainingDiverged as diverged:
        raise TrainingDiverged(
            f"update {run.update + 1} on {ground.job.name}: {diverged}; start again with another --seed"
        ) from None
    return float(np.mean([state.returns.mean() for state in states])), total


def _validate(run: Run, network: SureNetwork | None) -> dict[str, float]:
    """Return each world's mean reward over validation graphs and weeks: eight hours from every ninth hour after the first day."""
    starts = 24 * 60 + 120 + np.arange(15) * 9 * 60
    return {
        world: float(np.mean([mean_reward(network, ground, starts, spans=48) for ground in grounds]))
        for world, grounds in _validation_grounds(run.settings, run.base).items()
    }


def _validation_grounds(settings: TrainSettings, base: Base) -> dict[str, list[Ground]]:
    """Return, for each world, the validation graphs under each week."""
    places = [(load_job(name, whole), week) for name in settings.validation_jobs for whole, week in _weeks(settings)]
    return {
        world: [Ground.of(base, job, week, world_named(world, seed=seed)) for seed, (job, week) in enumerate(places)]
        for world in settings.worlds
    }


def _in_turn(grounds: Mapping[str, list[Ground]]) -> list[Ground]:
    """Return each graph and week once, in one of the worlds in turn."""
    return [each[at % len(each)] for at, each in enumerate(zip(*grounds.values(), strict=True))]


def _mean(by_world: Mapping[str, float]) -> float:
    return float(np.mean(list(by_world.values())))


def _next_ground(run: Run, weeks: list[tuple[Workload, Workload]]) -> Ground:
    """Return the next graph, sized for a random level of load, a week whose minute 0 falls on a random hour, and a world.

    Worlds have random numbers of their own, so that with one world everything else is drawn as it always was.
    """
    names = run.settings.jobs
    turn, place = divmod(run.update, len(names))
    name = names[int(np.random.default_rng([run.settings.seed, turn]).permutation(len(names))[place])]
    whole, week = weeks[int(run.generator.integers(len(weeks)))]
    job = load_job(name, whole, float(run.generator.uniform(*run.settings.load_parallelism)))
    hours = int(run.generator.integers(24))
    drawn = np.random.default_rng([run.settings.seed, run.update, _OF_WORLDS])
    world = run.settings.worlds[int(drawn.integers(len(run.settings.worlds)))]
    played = world_named(world, seed=int(drawn.integers(_VALIDATION_DRAWS, WORLD_SEED_MAX)))
    return Ground.of(run.base, job, replace(week, trace_start_ms=week.trace_start_ms + hours * HOUR_MS), played)


def _weeks(settings: TrainSettings) -> list[tuple[Workload, Workload]]:
    """Return each workload, which jobs are sized by, with its first week."""
    found = []
    for name in settings.workloads:
        workload = load_workload(name)
        if workload.minutes < WEEK_MINUTES:
            raise TrainingRefused(
                f"workload {workload.name} has {workload.minutes} minutes; training needs a week ({WEEK_MINUTES})"
            )
        week = first_week(workload)
        _refuse_long_gap(week)
        found.append((workload, week))
    return found


def _refuse_long_gap(week: Workload) -> None:
    """Refuse a week with a gap as long as a window, which would show nothing; in training the week repeats."""
    window = Terms().window_minutes
    counted = np.where(week.masked, np.nan, week.requests)
    repeated = Workload.counted(week.name, np.concatenate([counted, counted[:window]]), week.trace_start_ms)
    long = [gap for gap in repeated.gaps if gap.last - gap.first + 1 >= window]
    if long:
        raise TrainingRefused(
            f"workload {week.name}: nobody counted minutes {long[0].first} to {long[0].last % week.minutes}; training needs a "
            f"first week without gaps of {window} minutes and more: fill them, or give another workload"
        )


def _new_run(settings: TrainSettings, base: Base, statistics: Statistics, device: str) -> Run:
    sampling = SamplingCard(
        anchors=settings.anchors, neighbours_share=settings.neighbours_share, neighbours_max=settings.neighbours_max
    )
    network = SureNetwork(statistics, settings.hidden, sampling).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    return Run(settings, base, network, optimiser, np.random.default_rng(settings.seed))


def plan_alone(network: SureNetwork) -> dict[str, torch.Tensor]:
    """Return a network's weights with an output layer that answers zero, so the plan decides alone."""
    state = _copy(network)
    for name in ("policy.out.weight", "policy.out.bias"):
        state[name] = torch.zeros_like(state[name])
    return state


def _copy(network: SureNetwork) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def save(run: Run, folder: Path) -> None:
    """Write the run's checkpoint, whole or not at all."""
    document = {
        "settings": json.dumps(asdict(run.settings)),
        "base": msgspec.json.encode(run.base),
        "statistics": msgspec.json.encode(run.network.statistics),
        "network": run.network.state_dict(),
        "best_state": run.best_state,
        "optimiser": run.optimiser.state_dict(),
        "generator": json.dumps(run.generator.bit_generator.state),
        "torch_generator": torch.get_rng_state(),
        **{name: getattr(run, name) for name in _PLAIN},
    }
    checkpoints.write(document, folder)


def resume(folder: Path, device: str = "cpu") -> Run:
    """Return the run in a folder's checkpoint, on a torch device, whatever device it was written from.

    Raises:
        CheckpointRejected: the checkpoint is damaged or holds another kind of run.
    """
    return checkpoints.restored(folder, lambda document: _restored(document, device))


def _restored(document: dict[str, Any], device: str) -> Run:
    settings = msgspec.json.decode(document["settings"], type=TrainSettings)
    base = msgspec.json.decode(document["base"], type=Base)
    run = _new_run(settings, base, msgspec.json.decode(document["statistics"], type=Statistics), device)
    run.network.load_state_dict(document["network"])
    run.optimiser.load_state_dict(document["optimiser"])
    run.generator.bit_generator.state = json.loads(document["generator"])
    torch.set_rng_state(document["torch_generator"])
    run.best_state = document["best_state"]
    for name in _PLAIN:
        setattr(run, name, document[name])
    return run
