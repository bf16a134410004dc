"""`surescale twin`: what other policies would have made of the same run, closed loop in the simulator."""

from pathlib import Path
from typing import Any

import click

from rescaler.commands.options import control_options
from runtime.options import FiniteRange

DEFAULT_JOB = "j_1351665"
DEFAULT_POLICIES = ("static", "target-utilisation")
FIGURES = (
    "reward",
    "latency_mean_s",
    "latency_p99_s",
    "utilisation",
    "task_minutes",
    "rescales",
    "overload_minutes",
    "parallelism",
)


@click.command("twin")
@click.option("--workload", default="clarknet", show_default=True, help="clarknet, nasa, or a CSV with columns minute,requests.")
@click.option("--job", "jobs", multiple=True, help=f"Job by name, or a CSV file of a graph; repeatable. [{DEFAULT_JOB}]")
@click.option("--minutes", type=click.IntRange(min=1), default=240, show_default=True, help="Minutes of the trace to run.")
@click.option("--start-minute", type=click.IntRange(min=0), help="Minute of the trace to start at (clarknet: a Friday, 07:00).")
@click.option("--policy", "policies", multiple=True, help=f"Policy by name; repeatable. [{', '.join(DEFAULT_POLICIES)}]")
@click.option("--policy-folder", help="Folder of policy packages (default: SURESCALE_POLICY_FOLDER, or those shipped).")
@click.option("--span-minutes", type=click.IntRange(min=1), help="How often policies decide (default: as each wants).")
@click.option("--window-minutes", type=click.IntRange(min=1), help="Minutes that a policy sees. [60]")
@click.option("--load-parallelism", type=FiniteRange(min=0.1, max=100), default=7.0, show_default=True,
              help="Subtasks that the heaviest task needs at the workload's P99.")  # fmt: skip
@click.option("--sample-interval-ms", type=int, default=15_000, show_default=True, help="15000, 30000 or 60000.")
@click.option("--rescale", type=click.Choice(["learners", "restart"]), default="learners", show_default=True,
              help="State is restored before it moves, or the job restarts.")  # fmt: skip
@click.option("--restart-ms", type=int, default=60_000, show_default=True,
              help="How long a restart takes; a multiple of 15000.")  # fmt: skip
@click.option("--restore-mib-per-s", type=FiniteRange(min=0.001), default=8.0, show_default=True,
              help="State that one host restores in a second (learners).")  # fmt: skip
@click.option(
    "--checkpoint-interval-ms", type=click.IntRange(min=60_000), default=60_000, show_default=True, help="Whole minutes."
)
@click.option("--kill-host", "kill_host_minutes", type=click.IntRange(min=1), multiple=True,
              help="Minute of the run at whose end the busiest host dies; repeatable.")  # fmt: skip
@click.option("--join-host", "join_host_minutes", type=click.IntRange(min=1), multiple=True,
              help="Minute of the run at whose end another host joins; repeatable.")  # fmt: skip
@control_options
@click.option("--seed", type=int, help="Seed of every decision. [0]")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures there instead of standard output."
)
def command(
    *,
    workload: str,
    jobs: tuple[str, ...],
    minutes: int,
    start_minute: int | None,
    policies: tuple[str, ...],
    span_minutes: int | None,
    load_parallelism: float,
    sample_interval_ms: int,
    restart_ms: int,
    rescale: str,
    restore_mib_per_s: float,
    checkpoint_interval_ms: int,
    kill_host_minutes: tuple[int, ...],
    join_host_minutes: tuple[int, ...],
    output: Path | None,
    **given: Any,
) -> None:
    """Run each policy on the same jobs, trace and engine as `surescale engine`, and answer with its figures as JSON.

    Gate, planning and the cost of a rescale are those of the road in lockstep; no process but this one is needed.
    """
    from contracts.settings import from_environment
    from rescaler.service.settings import RescalerSettings
    from runtime.whole_files import check_folder
    from simulation.costs import chosen_cost
    from simulation.engine import RunOptions

    if output is not None:
        check_folder(output, option="--output")
    settings = from_environment(RescalerSettings, **given)
    options = RunOptions(
        minutes=minutes,
        start_minute=start_minute,
        cluster=settings.cluster,
        sample_interval_ms=sample_interval_ms,
        cost=chosen_cost(rescale, restart_ms, restore_mib_per_s),
        checkpoint_interval_ms=checkpoint_interval_ms,
        kill_host_minutes=kill_host_minutes,
        join_host_minutes=join_host_minutes,
    )
    figures = _figures(
        settings,
        options,
        workload=workload,
        jobs=jobs or (DEFAULT_JOB,),
        policies=policies or DEFAULT_POLICIES,
        load_parallelism=load_parallelism,
        span_minutes=span_minutes,
    )
    _write(figures, output)


def _figures(  # type: ignore[no-untyped-def]  # its types are imported only when it is called
    settings,
    options,
    *,
    workload: str,
    jobs: tuple[str, ...],
    policies: tuple[str, ...],
    load_parallelism: float,
    span_minutes: int | None,
) -> dict[str, Any]:
    from rescaler.episode import run_twin
    from simulation.jobs import load_job
    from simulation.workload import load_workload

    loaded = {name: _policy(name, settings.policy_folder) for name in policies}
    trace = load_workload(workload)
    sized = [load_job(job, trace, load_parallelism) for job in jobs]
    jobs_figures: dict[str, dict[str, Any]] = {}
    rent: dict[str, Any] = {}
    for name, policy in loaded.items():
        twin = run_twin(
            sized,
            trace,
            policy,
            seed=settings.seed,
            options=options,
            settings=settings.control(),
            span_minutes=span_minutes,
            window_minutes=settings.window_minutes,
        )
        rent[name] = {"dollars": round(twin.rents.dollars, 6)}
        for job, report in twin.reports.items():
            figures = {figure: getattr(report, figure) for figure in FIGURES}
            jobs_figures.setdefault(job, {})[name] = figures | {"rent": twin.rents.jobs[job].document()}
    return {"jobs": jobs_figures, "rent": rent}


def _policy(name: str, folder: str):  # type: ignore[no-untyped-def]
    from contracts.errors import SettingsError
    from policies.registry import load_policy, policy_names

    known = policy_names(folder)
    if name not in known:
        raise SettingsError(f"--policy: there is no policy {name!r}; known: {', '.join(known)}")
    return load_policy(name, folder)


def _write(figures: dict[str, Any], output: Path | None) -> None:
    import json

    text = json.dumps(figures, sort_keys=True)
    if output is None:
        click.echo(text)
        return
    from runtime.whole_files import write_whole

    write_whole(output, text + "\n", option="--output")
