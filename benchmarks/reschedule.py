"""Plans for a thousand fragments: the same as `surescale bench reschedule`."""

from rescaler.commands.bench_control import reschedule

if __name__ == "__main__":
    reschedule()
