"""Commands of the rescaler: the pure parts behind JSON on standard input and output."""
