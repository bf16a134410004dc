"""Decisions: time, memory, windows a second: the same as `surescale bench agent`."""

from services.bench.agent import command

if __name__ == "__main__":
    command()
