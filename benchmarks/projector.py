"""The state projector: records a second, memory in Redis: the same as `surescale bench projector`."""

from services.bench.projector import command

if __name__ == "__main__":
    command()
