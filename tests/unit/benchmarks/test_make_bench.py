"""``make bench`` runs what ``surescale dev bench`` offers."""

import re
from pathlib import Path

from surescale.services.command_table import BENCH

REPOSITORY = Path(__file__).parents[3]


def test_make_bench_runs_every_benchmark() -> None:
    """The target lists each of them once, with or without options."""
    recipe = (REPOSITORY / "Makefile").read_text(encoding="utf-8").partition("\nbench:")[2].partition("\n\n")[0]
    listed = recipe.partition("for name in ")[2].partition("; do")[0].replace("\\\n", " ")
    names = [quoted.split()[0] if quoted else plain for quoted, plain in re.findall(r'"([^"]+)"|(\S+)', listed)]
    assert sorted(names) == sorted(BENCH.commands())
