"""`surescale bench gate` and `surescale bench reschedule`: the rescaler's pure cores at scale."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")

GATE_S, GATE_GROWN_MB = 5.0, 5.0
PLAN_S = 1.0


@click.command("gate")
@click.option("--events", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@_AS_JSON
def gate(events: int, as_json: bool) -> None:
    """Run one gate over seeded events: processor seconds, and how memory grows. Exit code 1 if memory does."""
    from rescaler.bench.control import SEED, run_gate
    from runtime.conditions import conditions, conditions_line

    taken_under = conditions(SEED)
    found = run_gate(events)
    if as_json:
        click.echo(json.dumps({"conditions": taken_under, "target_s": GATE_S, **asdict(found)}, indent=2))
    else:
        click.echo(conditions_line(taken_under))
        click.echo(f"{found.events:,} events: {found.seconds:.2f} s (target for a million: {GATE_S:g} s)")
        click.echo(f"{found.phases:,} phases entered, {found.transitions:,} transitions; memory grew by {found.grown_mb:.1f} MB")
    sys.exit(0 if found.grown_mb <= GATE_GROWN_MB else 1)


@click.command("reschedule")
@_AS_JSON
def reschedule(as_json: bool) -> None:
    """Plan 1,000 fragments on 1,000 parallel units: processor seconds, and vnodes moved against the least possible.

    Exit code 1 if more vnodes move than must.
    """
    from rescaler.bench.control import SEED, run_plans
    from runtime.conditions import conditions, conditions_line

    taken_under = conditions(SEED)
    found = run_plans()
    if as_json:
        document = {"conditions": taken_under, "target_s": PLAN_S, "plans": [asdict(each) for each in found]}
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(conditions_line(taken_under))
        for each in found:
            click.echo(f"{each.name:<26}{each.seconds:5.2f} s   {each.moved:>9,} vnodes moved, least {each.least:,}")
        click.echo(f"target: {PLAN_S:g} s each")
    sys.exit(0 if all(each.moved == each.least for each in found) else 1)
