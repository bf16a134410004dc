"""Runs the fuzz campaign: ``python -m tests.fuzz --seconds 600 --processes 2 --seed 1 --target decide``."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.campaign import Count, all_targets, keep, limited, run


def main() -> int:
    """Run the campaign, print a table, and return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="in all, over all targets (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", default=[], help="only targets whose name contains this; repeatable")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), help="folder for inputs that broke something")
    chosen = parser.parse_args()
    for given in chosen.target:
        if not any(given in name for name in all_targets()):
            parser.error(f"--target: no target is named like {given!r}; there are: {', '.join(all_targets())}")
    names = [name for name in all_targets() if not chosen.target or any(given in name for given in chosen.target)]
    each_s = chosen.seconds * chosen.processes / len(names)
    print(f"{'target':28} {'inputs':>12} {'accepted':>12} {'declined':>12} {'slowest ms':>11}  found")
    total, broken = Count(), 0
    with ProcessPoolExecutor(chosen.processes, get_context("spawn"), limited) as pool:
        for name, count in zip(names, pool.map(partial(run, seed=chosen.seed, seconds=each_s), names), strict=True):
            _print(name, count)
            for what, inputs in count.findings.items():
                broken += 1
                print(f"    {what}: {', '.join(str(keep(name, raw, chosen.findings)) for raw in inputs[:1])}")
            total.inputs, total.accepted, total.declined = (
                total.inputs + count.inputs,
                total.accepted + count.accepted,
                total.declined + count.declined,
            )
            total.slowest_s = max(total.slowest_s, count.slowest_s)
    _print("all", total)
    return int(broken > 0)


def _print(name: str, count: Count) -> None:
    found = ", ".join(count.findings) and f"{len(count.findings)} kinds"
    line = f"{count.inputs:>12,} {count.accepted:>12,} {count.declined:>12,} {1000 * count.slowest_s:>11.1f}"
    print(f"{name:28} {line}  {found or '-'}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
