"""The CETSA / LBA-CE placement paper, run again in a model: its claims and figures with ours next to them."""
