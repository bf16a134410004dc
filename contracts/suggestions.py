"""What a name that is none was meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches

NEAR_MAX = 3


def meant(name: str, known: Iterable[str], form: str = "{}", *, otherwise: str = "") -> str:
    """Return the question after the nearest name; if none is near, all of them, or ``otherwise``.

    >>> meant("shure", ["hold", "sure"])
    'did you mean sure?'
    >>> meant("x", ["settings", "up"], "[{}]")
    'known: [settings], [up]'
    """
    several = list(known)
    near = get_close_matches(name, several, n=1)
    if near:
        return f"did you mean {form.format(near[0])}?"
    return otherwise or f"known: {', '.join(map(form.format, several))}"


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that are like one, at most `NEAR_MAX`; if none is, the first ones there are.

    >>> near("sim/clik", ["sim/clicks", "kafka/x"]), near("x", ["a", "b", "c", "d"])
    (['sim/clicks'], ['a', 'b', 'c'])
    """
    names = list(known)
    return get_close_matches(name, names, n=NEAR_MAX, cutoff=0.4) or names[:NEAR_MAX]
