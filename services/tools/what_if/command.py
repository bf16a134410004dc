"""``surescale recording what-if``: a recording in; policies and settings compared in a closed loop out."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.services.tools.what_if.document import WhatIfReport
    from surescale.services.tools.what_if.variants import OnProgress

TIME_LIMIT_S = 600.0


@click.command("what-if")
@click.argument("recording", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--try",
    "tried",
    metavar="CHANGE",
    multiple=True,
    required=True,
    help="What to try: a policy, FIELD=VALUE or @FILE of job settings, joined by commas; repeatable.",
)
@click.option("--baseline", metavar="CHANGE", default="", help="Compare with this instead of what was in force at the end.")
@click.option("--job", metavar="CLUSTER/NAME", help="Job of the recording (default: its only one).")
@click.option("--draws", type=click.IntRange(2, 50), default=5, show_default=True, help="Random draws of the fitted world.")
@click.option(
    "--price", type=options.FiniteRange(0, 1e9), help="Dollars per subtask and hour (default: that of the recorded hosts)."
)
@click.option(
    "--restart-s", type=options.FiniteRange(0.0, 3_600.0), help="Seconds of a restart, if the recording has none (default: 60)."
)
@click.option(
    "--time-limit",
    type=options.FiniteRange(1.0, 86_400.0),
    default=TIME_LIMIT_S,
    show_default=True,
    help="Seconds; draws that are not done by then are left out.",
)
@options.policy_folder
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a report with charts, one file, for a browser."
)
@click.option("--force", is_flag=True, help="Replace the file of --html if it exists.")
@click.option("--full", is_flag=True, help="List every stretch in which decisions differ.")
@options.as_json
def command(
    *,
    recording: Path,
    tried: tuple[str, ...],
    baseline: str,
    job: str | None,
    draws: int,
    price: float | None,
    restart_s: float | None,
    time_limit: float,
    policy_folder: str | None,
    html: Path | None,
    force: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Try other policies or settings on a recorded job.

    Fits a world to RECORDING, checks it on the last quarter, and plays the recorded load again, closing the loop.
    """
    import json

    import msgspec

    from surescale.runtime.atomic_files import check_new, write_atomically

    if html is not None:
        check_new(html, option="--html", force=force, others={"RECORDING": recording})
    report = _report(
        recording, tried, baseline, job, draws=draws, price=price, restart_s=restart_s, limit_s=time_limit, folder=policy_folder
    )
    if html is not None:
        from surescale.services.tools.what_if.what_if_page import page

        write_atomically(html, page(report), option="--html")
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(report), indent=1, allow_nan=False))
        return
    from surescale.runtime import terminal
    from surescale.services.tools.what_if.what_if_table import show

    show(report, terminal.console(), full=full)
    if html is not None:
        click.echo(f"report with charts: {html}", err=True)


def _report(
    recording: Path,
    tried: tuple[str, ...],
    baseline: str,
    job: str | None,
    *,
    draws: int,
    price: float | None,
    restart_s: float | None,
    limit_s: float,
    folder: str | None,
) -> "WhatIfReport":
    from dataclasses import replace

    from surescale.contracts.errors import SettingsError
    from surescale.services.tools.recording.sources import opened_for
    from surescale.services.tools.what_if.document import report_of
    from surescale.services.tools.what_if.variants import play_all, read_input, variant_of
    from surescale.simulation.calibration.fit import PRIOR_RESTART_S, fit
    from surescale.simulation.what_if.compare import check, compare
    from surescale.simulation.what_if.play import late_after_seconds
    from surescale.simulation.what_if.scenario import scenario_of

    opened, chosen = opened_for(recording, job)
    settings = options.pipeline_settings(policy_folder=folder)
    taken = read_input(opened, chosen, settings.policy_folder, settings.span_minutes)
    in_force = taken.in_force if price is None else replace(taken.in_force, price=price)
    variants = [variant_of(baseline, "--baseline", in_force), *(variant_of(each, "--try", in_force) for each in tried)]
    labels = [each.label for each in variants]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise SettingsError(f"--try: {twice[:80]!r} is named twice; name it once")
    prior_s = PRIOR_RESTART_S if restart_s is None else restart_s
    fitted = fit(taken.recorded, prior_s)
    scenario = scenario_of(taken.recorded, fitted)
    with _Progress() as told:
        checked = check(taken.recorded, prior_s, draws=draws, told=lambda share: told("checks the fitted world", share))
        late_seconds = late_after_seconds(variants[0].settings)
        played = play_all(scenario, variants, draws=draws, seed=taken.seed, limit_s=limit_s, told=told, late_seconds=late_seconds)
    comparison = compare(played, checked, scenario.job.path_minutes, seed=taken.seed)
    return report_of(scenario, fitted, checked, comparison, asked_draws=draws, late_seconds=late_seconds)


class _Lines:
    """Says where there is no terminal every so often how far the work is."""

    def __init__(self) -> None:
        self._tenth = -1

    def __call__(self, stage: str, share: float) -> None:
        tenth = int(10 * share)
        if tenth != self._tenth:
            self._tenth = tenth
            click.echo(f"{share:4.0%} {stage}", err=True)


class _Progress:
    """A bar on a terminal; lines elsewhere."""

    def __enter__(self) -> "OnProgress":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description:<40.40}", markup=False), BarColumn(bar_width=20), TimeElapsedColumn())
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self._bars.start()
        if not console.is_terminal:
            return _Lines()
        task = self._bars.add_task("", total=1.0)
        return lambda stage, share: self._bars.update(task, description=stage, completed=share)

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
