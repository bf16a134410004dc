"""Environment steps a second of the simulator: the same as `surescale bench simulator`."""

from services.bench.simulator import command

if __name__ == "__main__":
    command()
