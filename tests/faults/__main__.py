"""``make faults``: hurts whole pipelines, one scenario after the other, prints what they suffered and what the checker found."""

import sys
from pathlib import Path

import click

from benchmarks.machine import conditions, conditions_line
from tests.support.faults.brokers import NoSmallDisk
from tests.support.faults.catalogue import SHORT, fleet, scenarios, soak
from tests.support.faults.pipeline import JOBS, FaultOptions
from tests.support.faults.run import Report, run, table, trace_minutes

NAMES = [each.name for each in (*scenarios(0, 0, 0), soak(0), fleet(0, 0), SHORT)]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@click.command()
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the faults and of the trace.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="Wall time of the kills, of the soak, and of the fleet.",
)
@click.option("--kills", type=click.IntRange(min=1), default=100, show_default=True, help="Kills in one run.")
@click.option("--fleet", "fleet_jobs", type=click.IntRange(min=1), default=1_000, show_default=True, help="Jobs of the fleet.")
@click.option("--speed", type=click.FloatRange(1, 600), default=60.0, show_default=True, help="Event seconds per second.")
@click.option("--job", "jobs", multiple=True, default=JOBS, show_default=True, help="Job of the trace; repeatable.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Scenario to run; repeatable. [all but short]")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write the report here, after each scenario.")
def main(
    seed: int,
    minutes: float,
    kills: int,
    fleet_jobs: int,
    speed: float,
    jobs: tuple[str, ...],
    only: tuple[str, ...],
    out: Path | None,
) -> None:
    """Hurt whole pipelines in every way there is, and check afterwards that nothing was lost, doubled or left undone."""
    machine = conditions_line(conditions(seed))
    reports: list[Report] = []
    for scenario in (*scenarios(seed, kills, minutes), soak(minutes), fleet(fleet_jobs, minutes), SHORT):
        if scenario.name in only or (not only and scenario is not SHORT):
            _say(f"== {scenario.name}: {len(scenario.faults)} faults")
            pace = scenario.speed or speed
            options = FaultOptions(
                minutes=trace_minutes(scenario.seconds, pace),
                speed=pace,
                seed=seed,
                jobs=jobs,
                policy="target-utilisation" if scenario.fleet else "sure",
            )
            try:
                reports.append(run(scenario, options, _say))
            except NoSmallDisk as reason:
                _say(f"{scenario.name}: left out: {reason}")
            if out is not None:
                out.write_text("\n".join([machine, "", *table(reports), ""]), encoding="utf-8")
    print("\n".join([machine, "", *table(reports)]))
    sys.exit(any(report.findings.violations for report in reports))


if __name__ == "__main__":
    main()
