"""What a name that is none was meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches

NEAR_MAX = 3


def meant(name: str, known: Iterable[str], form: str = "{}", *, otherwise: str = "") -> str:
    """Return the question after the nearest name; if none is near, all of them, or ``otherwise``.

    >>> meant("shure", ["hold", "sure"]), meant("MAX", ["min", "max"])
    ('did you mean sure?', 'did you mean max?')
    >>> meant("x", ["settings", "up"], "[{}]")
    'known: [settings], [up]'
    """
    several = list(known)
    close = _close(name, several, 1, 0.6)
    if close:
        return f"did you mean {form.format(close[0])}?"
    return otherwise or f"known: {', '.join(map(form.format, several))}"


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that are like one, at most `NEAR_MAX`; if none is, the first ones there are.

    >>> near("sim/clik", ["sim/clicks", "kafka/x"]), near("x", ["a", "b", "c", "d"])
    (['sim/clicks'], ['a', 'b', 'c'])
    """
    names = list(known)
    return _close(name, names, NEAR_MAX, 0.4) or names[:NEAR_MAX]


def _close(name: str, known: list[str], most: int, cutoff: float) -> list[str]:
    """Return the names that are like one, the nearest first, whatever their case."""
    by_letters = {each.casefold(): each for each in known}
    return [by_letters[each] for each in get_close_matches(name.casefold(), by_letters, n=most, cutoff=cutoff)]
