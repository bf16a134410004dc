"""A what-if as tables for people, readable at 80 columns."""

from functools import partial

from rich.console import Console

from surescale.runtime.terminal import Column, fitting
from surescale.services.tools.what_if.document import BaselineDifference, HoldoutCheck, VariantResult, WhatIfReport
from surescale.simulation.what_if.compare import CHECKED, Estimate

PARTINGS_SHOWN = 8
_FIGURES = (("cost", 1), ("late", 1), ("rescales", 2), ("latency", 3), ("backlog", 4), ("utilisation", 5))
_TITLES = {
    "late": "late min/day",
    "rescales": "rescales/day",
    "latency": "latency s",
    "backlog": "backlog-s/h",
    "utilisation": "busy",
}


def show(report: WhatIfReport, console: Console, *, full: bool = False) -> None:
    """Print what the world predicted, the figures of every variant, and where decisions part."""
    say = partial(console.print, markup=False, emoji=False, soft_wrap=False)
    recorded = f"{_short(report.recorded_first)} to {_short(report.recorded_last)} UTC"
    say(f"{report.job}: recorded {recorded}, {report.recorded_minutes} minutes")
    for line in _held_back(report.held_back):
        say(line)
    less = "" if report.draws == report.asked_draws else f", of {report.asked_draws} asked for: the time was up"
    say(f"played: {report.hours} hours from {_short(report.first)}, {report.draws} draws{less}")
    say(f"± is half a 95 % interval, brackets hold one; late: latency above {report.late_seconds:g} s")
    say("")
    console.print(_figures(report, console.width))
    changed = [each for each in report.variants if each.minus_baseline is not None]
    for each in changed:
        say("")
        _difference(each, report, console, full=full)
    for line in _notes(report):
        say(line)


def _held_back(part: HoldoutCheck) -> list[str]:
    def pair(name: str, predicted: float | None, found: float | None) -> str:
        told = "unknown" if found is None else f"{found:.4g}"
        return f"{name} {'unknown' if predicted is None else f'{predicted:.4g}'} (recorded {told})"

    errors = []
    if part.busy_error is not None:
        errors.append(f"busy time {part.busy_error:.1%}")
    unchecked = "latency unchecked: nothing waited" if part.waiting_recorded is not None else "latency unchecked"
    errors.append(unchecked if part.latency_error_s is None else f"latency {part.latency_error_s:.3g} s")
    return [
        f"check: fitted without the last {part.minutes} minutes, the world predicted for them "
        f"{pair('busy subtasks', part.busy, part.busy_recorded)}, {pair('waiting records', part.waiting, part.waiting_recorded)}",
        f"error: {', '.join(errors)}",
    ]


def _figures(report: WhatIfReport, width: int) -> object:
    rows = report.variants
    cost = "$/day" if report.units["cost"].startswith("dollars") else "subtask-h/day"
    columns = [Column("", [each.label for each in rows])]
    for name, rank in _FIGURES:
        title = cost if name == "cost" else _TITLES[name]
        columns.append(Column(title, [span(each.figures[name]) for each in rows], rank=rank, right=True))
    return fitting(columns, width)


def _difference(tried: VariantResult, report: WhatIfReport, console: Console, *, full: bool) -> None:
    say = partial(console.print, markup=False, emoji=False)
    if tried.same:
        say(f"{tried.label}: the same decisions as the baseline, in every draw")
        return
    if tried.refused:
        say(f"{tried.label}: not compared: all differences are smaller than the errors of the fitted world")
        return
    say(f"{tried.label} against the baseline: {tried.differing_decisions:.0%} of the decisions differ")
    for line in difference_told(tried, report):
        say(f"  {line}")
    shown = tried.partings if full else tried.partings[:PARTINGS_SHOWN]
    if shown:
        rows = [
            Column("from", [_short(each.first)[5:] for each in shown]),
            Column("to", [_short(each.last)[11:] for each in shown], rank=2),
            Column("sizes", [f"{each.baseline} -> {each.variant}" for each in shown], right=True),
            Column("tasks that differ", [_tasks(each.tasks) for each in shown], rank=1),
        ]
        console.print(fitting(rows, console.width))
    if len(shown) < len(tried.partings):
        say(f"and {len(tried.partings) - len(shown)} more stretches with other sizes (--full), in the first draw")


def difference_told(tried: VariantResult, report: WhatIfReport) -> list[str]:
    """Return a line for each figure: how much a variant is above the baseline, and whether that says anything."""
    minus = tried.minus_baseline or {}
    return [_sentence(name, minus[name], report) for name, _ in _FIGURES if name in minus]


def _sentence(name: str, minus: BaselineDifference, report: WhatIfReport) -> str:
    units = {
        "cost": report.units["cost"],
        "late": "late minutes a day",
        "rescales": "rescales a day",
        "latency": "s of latency",
        "utilisation": "busy",
    }
    told = f"{_signed(minus.mean)} {units.get(name, 'record-seconds waited an hour')}"
    if not minus.mean:
        return f"{told}: no difference"
    told += f" ({_signed(minus.low)} to {_signed(minus.high)})"
    if minus.is_shown:
        return f"{told}: unchecked" if name in CHECKED and minus.model_error is None else told
    is_off = minus.model_error is not None and abs(minus.mean) <= minus.model_error
    return f"{told}: not significant, {f'the world was off by {minus.model_error:.3g}' if is_off else 'may be chance'}"


def _notes(report: WhatIfReport) -> list[str]:
    notes = [f"note: {note}" for note in report.notes]
    if report.not_played:
        notes.append(f"note: set for this job, but not played: {', '.join(report.not_played)}")
    if not report.units["cost"].startswith("dollars"):
        notes.append("note: the recorded hosts have no price, so costs are in subtask-hours; state one with --price")
    notes.extend(
        f"note: {each.label}: the stand-in rule answered {each.stand_ins} times: {each.stand_in_reason}"
        for each in report.variants
        if each.stand_ins
    )
    return notes


def _tasks(tasks: dict[str, tuple[int, int]], shown: int = 2) -> str:
    ordered = sorted(tasks.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    listed = ", ".join(f"{name} {before} -> {after}" for name, (before, after) in ordered[:shown])
    return listed if len(ordered) <= shown else f"{listed}, {len(ordered) - shown} more"


def span(found: Estimate) -> str:
    """Return a mean with half its interval."""
    return f"{number_told(found.mean)} ± {number_told((found.high - found.low) / 2)}"


def number_told(value: float) -> str:
    """Return a number with three digits, or whole thousands."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number_told(value)


def _short(instant: str) -> str:
    return instant.replace("T", " ")
