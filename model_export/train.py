"""Trains SURE in the simulator on the first week of a workload: explore by branching, a REINFORCE step, validate, keep the best.

Nothing of the second week is read here. A run is resumed from its folder: same settings, same generator, next update.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import torch

from contracts.errors import SurescaleError
from model_export.base_fit import fit_base, fit_statistics
from model_export.learner import Sure, auxiliary_loss, forward
from model_export.objective import Weights
from model_export.reinforce import Noise, advantages, log_probability
from model_export.rollout import Branching, explore, mean_reward
from policies.graph import job_graph
from policies.learned import Base
from policies.package import SamplingCard, Statistics
from simulation.jobs import SizedJob, load_job
from simulation.workload import Workload, load_workload

WEEK_MINUTES = 7 * 24 * 60
CHECKPOINT = "checkpoint.pt"

TRAINING_JOBS = ("j_2521346", "j_2352756", "j_5525", "j_3778100", "j_16309", "j_1351665", "j_1581621", "j_21848")
VALIDATION_JOBS = ("j_2521346", "j_1351665", "j_31537", "j_4654", "j_103736", "j_2735")


class TrainingRefused(SurescaleError):
    """A run cannot begin with these settings; the message says why."""


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Everything that shapes a run; it travels into the model's card."""

    workload: str = "clarknet"
    """Workload whose first week is trained on."""
    jobs: tuple[str, ...] = TRAINING_JOBS
    """Graphs trained on, one per update, in random order."""
    validation_jobs: tuple[str, ...] = VALIDATION_JOBS
    """Graphs, half of them not trained on, whose mean reward on that week decides which update is kept."""
    seed: int = 0
    updates: int = 160
    learning_rate: float = 3e-4
    """Adam's, falling linearly to a tenth."""
    hidden: int = 32
    anchors: int = 8
    neighbours_share: float = 0.5
    neighbours_max: int = 3
    tau_first: float = 1.0
    tau_last: float = 0.3
    """Temperature of the relaxed top-k, falling linearly."""
    gradient_norm_max: float = 0.5
    validate_every: int = 20
    branching: Branching = field(default_factory=Branching)
    noise: Noise = field(default_factory=Noise)
    weights: Weights = field(default_factory=Weights)


@dataclass(slots=True)
class Run:
    """A run under way."""

    settings: TrainSettings
    base: Base
    model: Sure
    optimiser: torch.optim.Optimizer
    generator: np.random.Generator
    update: int = 0
    best: float = float("-inf")
    best_state: dict[str, torch.Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    rule: float = 0.0  # validation reward of the forecast rule under the network


@dataclass(frozen=True, slots=True)
class Progressed:
    """What one update came to, for progress display and logs. ``validation`` is None between validations."""

    update: int
    job: str
    branch_return: float
    loss: float
    validation: float | None
    best: float
    rule: float


def first_week(workload: Workload) -> Workload:
    """Return the part of a workload that may be trained on."""
    return replace(workload, requests=workload.requests[:WEEK_MINUTES])


def start_run(settings: TrainSettings) -> Run:
    """Fit base and statistics and set up an untrained network.

    Raises:
        TrainingRefused: the workload is shorter than a week.
    """
    workload = load_workload(settings.workload)
    if workload.minutes < WEEK_MINUTES:
        raise TrainingRefused(f"workload {workload.name} has {workload.minutes} minutes; training needs a week ({WEEK_MINUTES})")
    week, jobs = first_week(workload), _jobs(settings.jobs, workload)
    torch.manual_seed(settings.seed)
    base = fit_base(week)
    days = np.arange(1, 7) * 24 * 60 + 60
    statistics = fit_statistics(base, jobs, week, days, spans=72)
    run = _new_run(settings, base, statistics)
    run.rule = _validate(run, None)
    run.best, run.best_state = run.rule, _copy(run.model)
    return run


def train(run: Run, folder: Path, tell: Callable[[Progressed], None]) -> None:
    """Bring a run to its last update, with a checkpoint at every validation."""
    workload = load_workload(run.settings.workload)
    week = first_week(workload)
    jobs = {job.name: job for job in _jobs(run.settings.jobs, workload)}
    while run.update < run.settings.updates:
        began = time.perf_counter()
        job = jobs[_next_job(run)]
        branch_return, loss = _update(run, job, week)
        run.update += 1
        validation = None
        if run.update % run.settings.validate_every == 0 or run.update == run.settings.updates:
            validation = _validate(run, run.model)
            if validation > run.best:
                run.best, run.best_state = validation, _copy(run.model)
        run.seconds += time.perf_counter() - began
        tell(Progressed(run.update, job.name, branch_return, loss, validation, run.best, run.rule))
        if validation is not None:
            save(run, folder)


def _update(run: Run, job: SizedJob, week: Workload) -> tuple[float, float]:
    settings, graph = run.settings, job_graph(job.specs())
    done = run.update / max(1, settings.updates)
    for options in run.optimiser.param_groups:
        options["lr"] = settings.learning_rate * (1.0 - 0.9 * done)
    tau = settings.tau_first + (settings.tau_last - settings.tau_first) * done
    states = explore(run.model, run.base, job, week, settings.branching, settings.noise, run.generator)
    weight = advantages(np.array([state.returns for state in states]))
    run.optimiser.zero_grad()
    total = 0.0
    for index, (state, advantage) in enumerate(zip(states, weight, strict=True)):
        passed = forward(run.model, state.chosen, graph, tau)
        log_pi = log_probability(passed.outputs, state.deviations, graph, settings.noise)
        loss = -(log_pi * torch.as_tensor(advantage, dtype=torch.float32)).mean() / len(states)
        if index == run.update % len(states):  # the information term's whole graph is dear: once per update
            loss = loss + auxiliary_loss(run.model, state.chosen, passed, graph, settings.weights)
        loss = loss + settings.weights.rule * passed.outputs.square().mean() / len(states)
        loss.backward()
        total += float(loss)
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), settings.gradient_norm_max)
    run.optimiser.step()
    return float(np.mean([state.returns.mean() for state in states])), total


def _validate(run: Run, model: Sure | None) -> float:
    """Return the mean reward over the validation graphs: half a day from every sixth hour after the first day."""
    workload = load_workload(run.settings.workload)
    jobs = _jobs(run.settings.validation_jobs, workload)
    quarters = 24 * 60 + 120 + np.arange(22) * 6 * 60
    week = first_week(workload)
    return float(np.mean([mean_reward(model, run.base, job, week, quarters, spans=72) for job in jobs]))


def _next_job(run: Run) -> str:
    names = run.settings.jobs
    turn, place = divmod(run.update, len(names))
    return names[int(np.random.default_rng([run.settings.seed, turn]).permutation(len(names))[place])]


def _jobs(names: tuple[str, ...], workload: Workload) -> list[SizedJob]:
    return [load_job(name, workload) for name in names]


def _new_run(settings: TrainSettings, base: Base, statistics: Statistics) -> Run:
    sampling = SamplingCard(
        anchors=settings.anchors, neighbours_share=settings.neighbours_share, neighbours_max=settings.neighbours_max
    )
    model = Sure(statistics, settings.hidden, sampling)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    return Run(settings, base, model, optimiser, np.random.default_rng(settings.seed))


def _copy(model: Sure) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def save(run: Run, folder: Path) -> None:
    """Write the run's checkpoint, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "settings": json.dumps(asdict(run.settings)),
        "base": msgspec.json.encode(run.base),
        "statistics": msgspec.json.encode(run.model.statistics),
        "model": run.model.state_dict(),
        "best_state": run.best_state,
        "optimiser": run.optimiser.state_dict(),
        "generator": json.dumps(run.generator.bit_generator.state),
        "torch_generator": torch.get_rng_state(),
        **{name: getattr(run, name) for name in ("update", "best", "seconds", "rule")},
    }
    partial = folder / f"{CHECKPOINT}.partial"
    torch.save(document, partial)
    partial.replace(folder / CHECKPOINT)


def resume(folder: Path) -> Run:
    """Return the run that a checkpoint holds."""
    document = torch.load(folder / CHECKPOINT, weights_only=True)
    settings = msgspec.json.decode(document["settings"], type=TrainSettings)
    base = msgspec.json.decode(document["base"], type=Base)
    run = _new_run(settings, base, msgspec.json.decode(document["statistics"], type=Statistics))
    run.model.load_state_dict(document["model"])
    run.optimiser.load_state_dict(document["optimiser"])
    run.generator.bit_generator.state = json.loads(document["generator"])
    torch.set_rng_state(document["torch_generator"])
    run.best_state = document["best_state"]
    run.update, run.best, run.seconds, run.rule = (document[name] for name in ("update", "best", "seconds", "rule"))
    return run
