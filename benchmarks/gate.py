"""One gate over a million events: the same as `surescale bench gate`."""

from rescaler.commands.bench_control import gate

if __name__ == "__main__":
    gate()
