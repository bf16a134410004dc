"""Where tables for people are printed: as wide as the terminal, or a fixed width where there is none (a file, a pipe, a test)."""

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 160


def console(width_without_terminal: int = WIDTH_WITHOUT_TERMINAL) -> Console:
    """Return a console on standard output that colours nothing but what is marked."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=width_without_terminal)
