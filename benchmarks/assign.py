"""Learner assignment at scale: the same as `surescale bench assign`."""

from rescaler.commands.bench_assign import command

if __name__ == "__main__":
    command()
