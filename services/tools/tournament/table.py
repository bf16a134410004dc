"""A tournament as a table for people, readable at 80 columns."""

from rich.console import Console

from runtime.instants import to_the_minute
from runtime.printable import printable
from runtime.terminal import Column, fitting
from services.tools.tournament.report import Report, Row

_HEADS = {"wins": "wins", "ends": "serves again", "stays": "stays"}


def show(report: Report, console: Console) -> None:
    """Print who took part, by reward, and what follows."""
    when = f"{to_the_minute(report.from_ms)} to {to_the_minute(report.until_ms)}"
    console.print(
        printable(
            f"{report.job}: {when} UTC, {report.draws} draws; the twin is off by {report.busy_error:.1%} of the work "
            f"and {report.waiting_error:.0%} of the waiting"
        ),
        markup=False,
    )
    rows = report.rows
    console.print(
        fitting(
            [
                Column("", [_name(row, report) for row in rows]),
                Column("reward", [f"{row.reward:.4f}" for row in rows], right=True),
                Column("ahead", [_signed(row.difference) for row in rows], rank=1, right=True),
                Column("95 %", [_interval(row) for row in rows], rank=2, right=True),
                Column("twin's error", ["" if row.twin_error is None else f"{row.twin_error:.4f}" for row in rows], 3, True),
                Column("busy", [f"{row.utilisation:.3f}" for row in rows], rank=4, right=True),
                Column("rescales/day", [f"{row.rescales_per_day:.1f}" for row in rows], rank=5, right=True),
            ],
            console.width,
        )
    )
    console.print(printable(f"{report.winner.words} {_HEADS[report.change]}: {report.why}"), markup=False)


def _name(row: Row, report: Report) -> str:
    serves = " *" if row.version == report.serving else ""
    return f"{row.version.words}{serves}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}"


def _interval(row: Row) -> str:
    low, high = row.difference_low, row.difference_high
    return "" if low is None or high is None else f"{low:+.4f} to {high:+.4f}"
