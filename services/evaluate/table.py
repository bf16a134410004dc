"""The report of an evaluation as a table for people."""

from functools import partial
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_COLUMNS = ("policy", "reward", "95 %", "latency", "utilisation", "rescales/day", "worst hour", "task minutes")


def show(report: dict[str, Any], console: Console) -> None:
    """Print the table, best reward first, clairvoyant policies last and apart."""
    say = partial(console.print, markup=False, emoji=False)  # names may hold brackets and colons
    say(
        f"{report['job']} ({report['tasks']} tasks) under {report['workload']}, mode {report['mode']}, "
        f"lambda {report['lambda']:g}, load factor {report['load_factor']:.3g}"
    )
    part = report["calibration"]
    how = "calibrated on" if part["tuned"] else "rules as shipped; kept free:"
    say(
        f"{how} minutes {part['first_minute']} to {part['end_minute']}; {len(report['runs'])} runs of "
        f"{report['scored_hours']} scored hours from minutes {', '.join(str(run['offset']) for run in report['runs'])}"
    )
    for gap in report["gaps"]:
        say(f"gap: minutes {gap['first_minute']} to {gap['last_minute']} without requests, left out")
    console.print(_table(report))
    _notes(report, console)


def _table(report: dict[str, Any]) -> Table:
    comparison = report["comparison"]
    best, shares = comparison["best_rule"], (comparison["static_to_oracle"] or {}).get("shares", {})
    table = Table(box=SIMPLE)
    headings = [*_COLUMNS, *([f"minus {best}"] if best else []), *(["static to oracle"] if shares else [])]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "policy" else "right", no_wrap=True)
    ranked = sorted(report["policies"].items(), key=lambda item: (item[1]["clairvoyant"], -item[1]["reward_mean"]))
    for name, figures in ranked:
        low, high = figures["reward_ci95"]
        cells = [
            escape(f"{name} *" if figures["clairvoyant"] else name),
            f"{figures['reward_mean']:.4f}",
            f"{low:.4f} .. {high:.4f}",
            f"{figures['latency_mean']:.3f}",
            f"{figures['utilisation']:.3f}",
            f"{figures['rescales_per_day']:.1f}",
            f"{figures['worst_hour']:.3f}",
            f"{figures['task_minutes']:.0f}",
        ]
        if best:
            cells.append(_difference(comparison["to_best_rule"].get(name)))
        if shares:
            share = shares.get(name)
            cells.append("" if share is None else f"{share:.0%}")
        table.add_row(*cells)
    return table


def _difference(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    error = found["standard_error"]
    return f"{found['mean']:+.4f}" + ("" if error is None else f" ± {error:.4f}")


def _notes(report: dict[str, Any], console: Console) -> None:
    if any(figures["clairvoyant"] for figures in report["policies"].values()):
        console.print("* knows the coming minutes; an upper end, not ranked")
    gap = report["comparison"]["static_to_oracle"]
    if gap is not None:
        console.print(f"static to oracle: {gap['width']:.4f}")
    for name, figures in report["policies"].items():
        if figures["stand_ins"]:
            told = f"{name}: the stand-in rule answered {figures['stand_ins']} times: {figures['stand_in_reason']}"
            console.print(told, markup=False, emoji=False)
