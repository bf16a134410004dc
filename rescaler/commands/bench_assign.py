"""`surescale bench assign`: learner assignment at scale, beside Kafka Streams' figures."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rescaler.bench.assign import Outcome

TARGET_S = 1.0
"""The longest round allowed."""


@click.command("assign")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(as_json: bool) -> None:
    """Measure rounds of learner assignment up to 100,000 tasks on 110 hosts: seconds, moves, rounds until converged.

    Exit code 1 if a case moved more than the minimum or took more rounds than its bound; times are only printed. Takes about a
    minute. Times are processor seconds.
    """
    from rescaler.bench.assign import SIZES, VARIANTS, play
    from runtime.conditions import conditions, conditions_line

    found = conditions()
    if not as_json:
        click.echo(conditions_line(found))
    sizes, variants = [play(case) for case in SIZES], [play(case) for case in VARIANTS]
    if as_json:
        click.echo(json.dumps(_document(found, sizes, variants), indent=2))
    else:
        _show(sizes, variants)
    sys.exit(0 if all(outcome.holds for outcome in sizes + variants) else 1)


def _document(found: dict[str, Any], sizes: list[Outcome], variants: list[Outcome]) -> dict[str, Any]:
    from dataclasses import asdict

    from rescaler.bench.assign import PUBLISHED

    return {
        "conditions": found,
        "target_round_s": TARGET_S,
        "sizes": [outcome.as_json() for outcome in sizes],
        "kafka_streams_4_0_given": [asdict(given) for given in PUBLISHED],
        "variants_of_100000_tasks": [outcome.as_json() for outcome in variants],
    }


def _show(sizes: list[Outcome], variants: list[Outcome]) -> None:
    from rich.console import Console
    from rich.table import Table

    from rescaler.bench.assign import PUBLISHED

    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table("case", "s a round", "given, s", "moves", "minimum", "given", "rounds", "bound", "given", title="Sizes")
    for outcome, given in zip(sizes, PUBLISHED, strict=True):
        moves, rounds = (f"{value:,}" if value else "-" for value in (given.moves, given.rounds))
        cells = [f"{outcome.moves:,}", f"{outcome.minimum:,}", moves, str(outcome.rounds), str(outcome.bound), rounds]
        table.add_row(outcome.case.name, _seconds(outcome), given.round_s, *cells)
    console.print(table)
    console.print("given: Kafka Streams 4.0.0, high-availability assignor, one core; not measured here.")
    table = Table("case", "s a round", "moves", "minimum", "rounds", "bound", title="100,000 tasks, 100 + 10 hosts")
    for outcome in variants:
        cells = [f"{outcome.moves:,}", f"{outcome.minimum:,}", str(outcome.rounds), str(outcome.bound)]
        table.add_row(outcome.case.name, _seconds(outcome), *cells)
    console.print(table)
    worst = max(max(outcome.round_s) for outcome in sizes + variants)
    console.print(f"longest round: {worst:.2f} s of processor time (target: {TARGET_S:g} s)")


def _seconds(outcome: Outcome) -> str:
    low, high = min(outcome.round_s), max(outcome.round_s)
    return f"{low:.3f} to {high:.3f}" if high < 0.1 else f"{low:.2f} to {high:.2f}"
