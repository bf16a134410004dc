"""The same rescale in three ways: the same as `surescale bench rescale`."""

from rescaler.commands.bench_rescale import command

if __name__ == "__main__":
    command()
