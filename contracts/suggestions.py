"""What a name that is none was meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches


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
