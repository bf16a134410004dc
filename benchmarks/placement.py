"""Placement at scale: the second part of `surescale bench placement --scale`."""

from rescaler.commands.bench_placement import command

if __name__ == "__main__":
    command(["--scale-only"])
