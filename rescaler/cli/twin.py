"""`surescale policy twin`: runs other policies on the same jobs and trace, in a closed loop in the simulator."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.policies.policy import Policy
    from surescale.rescaler.service.settings import RescalerSettings
    from surescale.simulation.engine.cluster import RunOptions
    from surescale.simulation.load.jobs import SizedJob
    from surescale.simulation.load.workload import Workload

POLICIES = ("static", "target-utilisation")


@click.command("twin")
@options.simulated_run
@options.policies(*POLICIES)
@options.policy_folder
@options.span_minutes("each policy's own")
@click.option("--window-minutes", type=click.IntRange(min=1), help="Minutes a policy sees (default: 60).")
@options.control_options
@options.seed
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures to this file, not to standard output."
)
def command(*, run: dict[str, Any], policies: tuple[str, ...], span_minutes: int | None, out: Path | None, **given: Any) -> None:
    """Run other policies on the jobs and trace of `run engine`.

    Prints each policy's figures as JSON. Gate, planning and the cost of a rescale are those of a pipeline in lockstep, in
    this one process.
    """
    from surescale.contracts.settings import from_environment
    from surescale.rescaler.service.settings import RescalerSettings
    from surescale.runtime.atomic_files import check_folder
    from surescale.simulation.engine.cluster import simulated_run

    if out is not None:
        check_folder(out, option="--out")
    settings = from_environment(RescalerSettings, **given)
    sized, trace, run_options = simulated_run(settings.cluster, **run)
    _write(_figures(settings, run_options, sized, trace, policies, span_minutes), out)


def _figures(
    settings: "RescalerSettings",
    run_options: "RunOptions",
    sized: "list[SizedJob]",
    trace: "Workload",
    policies: tuple[str, ...],
    span_minutes: int | None,
) -> dict[str, object]:
    from surescale.rescaler.twin import run_twin
    from surescale.simulation.engine.job_report import RunFigures

    loaded = {name: _policy(name, settings) for name in policies}
    jobs_figures: dict[str, dict[str, dict[str, object]]] = {}
    rent: dict[str, dict[str, float]] = {}
    for name, policy in loaded.items():
        twin = run_twin(
            sized,
            trace,
            policy,
            seed=settings.seed,
            options=run_options,
            settings=settings.control(),
            span_minutes=span_minutes,
            window_minutes=settings.window_minutes,
        )
        rent[name] = {"dollars": round(twin.rent_costs.dollars, 6)}
        for job, report in twin.reports.items():
            figures = {figure: getattr(report, figure) for figure in RunFigures.__struct_fields__}
            jobs_figures.setdefault(job, {})[name] = figures | {"rent": twin.rent_costs.jobs[job].document()}
    return {"jobs": jobs_figures, "rent": rent}


def _policy(name: str, settings: "RescalerSettings") -> "Policy":
    from surescale.contracts.errors import SettingsError
    from surescale.policies.registry import Unavailable, check_policy, load_policy, policy_names
    from surescale.runtime.limited_graphs import opener_for

    folder = settings.policy_folder
    check_policy(name, policy_names(folder))
    policy = load_policy(name, folder, span_minutes=settings.span_minutes, opener=opener_for(folder))
    if isinstance(policy, Unavailable):
        raise SettingsError(f"--policy: {name}: {policy.reason}")
    return policy


def _write(figures: dict[str, object], out: Path | None) -> None:
    import json

    text = json.dumps(figures, sort_keys=True)
    if out is None:
        click.echo(text)
        return
    from surescale.runtime.atomic_files import write_atomically

    write_atomically(out, text + "\n", option="--out")
