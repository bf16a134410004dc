"""The snapshot stage: records a second, lag, freshness: the same as `surescale bench spark`."""

from services.bench.spark import command

if __name__ == "__main__":
    command()
