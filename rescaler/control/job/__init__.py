"""Control of one job: its memory, its gate, its rescales, and the acts that the rescaler starts by itself."""
