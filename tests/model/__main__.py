"""Explores the rescale protocol to the end: ``python -m tests.model [SCENARIO [--faults N]]``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from tests.model.explore import explore
from tests.model.scenarios import SCENARIOS, TIMELESS, TO_THE_END
from tests.model.verified import Verified


def main() -> int:
    """Explore, print a table, and return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("scenario", nargs="?", choices=list(SCENARIOS), help="default: all that end within minutes")
    parser.add_argument("--faults", type=int, default=2, help="crashes, wrong suspicions and dead hosts, in all")
    parser.add_argument("--no-clock", action="store_true", help=f"let no time pass; for {' and '.join(TIMELESS)}")
    parser.add_argument("--states-max", type=int, help="give up after this many states")
    chosen = parser.parse_args()
    if chosen.no_clock and chosen.scenario not in TIMELESS:
        parser.error(f"--no-clock: only {' and '.join(TIMELESS)} can end while no time passes")
    runs = [(chosen.scenario, chosen.faults, not chosen.no_clock)] if chosen.scenario else TO_THE_END
    print(f"{'scenario':10} {'faults':>6} {'clock':>6} {'states':>10} {'transitions':>12} {'ends':>8} {'seconds':>8}  found")
    failed = False
    for name, faults, clock in runs:
        pipeline = replace(SCENARIOS[name](faults), clock=clock)
        found = explore(Verified(pipeline), states_max=chosen.states_max, on_progress=_say)
        verdict = found.broken or ("nothing" if found.is_complete else "nothing yet: not explored to the end")
        line = f"{found.states:>10,} {found.transitions:>12,} {found.ends:>8,} {found.seconds:>8.1f}"
        print(f"{name:10} {faults:>6} {'yes' if clock else 'no':>6} {line}  {verdict}", flush=True)
        for step in found.path:
            print(f"    {step}")
        failed |= bool(found.broken) or not found.is_complete
    return int(failed)


def _say(states: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{states:,} states", end="\r", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
