"""Start-up and recovery of the whole road: the same as `surescale bench road`."""

from services.bench.road import command

if __name__ == "__main__":
    command()
