"""Names in tables for people: several of them in one cell."""

from collections.abc import Sequence

NAMES_SHOWN = 2


def several(names: Sequence[str], shown: int = NAMES_SHOWN) -> str:
    """Return the first names and how many more there are.

    >>> several(["map"]), several(["map", "join", "sink", "R1"])
    ('map', 'map, join and 2 more, each')
    """
    listed = ", ".join(names[:shown])
    return listed if len(names) <= shown else f"{listed} and {len(names) - shown} more, each"
