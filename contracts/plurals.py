"""Numbers in sentences. Pure."""

from collections.abc import Iterable


def counted(number: int, one: str) -> str:
    """Return a number with its noun, whose plural takes an s.

    >>> counted(1, "member"), counted(0, "record"), counted(2, "more minute")
    ('1 member', '0 records', '2 more minutes')
    """
    return f"{number} {one}{'' if number == 1 else 's'}"


def records(number: float) -> str:
    """Return how many records, whole ones.

    >>> records(1.2), records(14_418.0)
    ('1 record', '14,418 records')
    """
    whole = f"{number:,.0f}"
    return f"{whole} record{'' if whole == '1' else 's'}"


def listed(parts: Iterable[str], most: int = 6) -> str:
    """Return the first few parts in words, and how many there are besides.

    >>> listed("abcd", 2)
    'a, b and 2 more'
    """
    said = list(parts)
    more = len(said) - most
    return ", ".join(said) if more <= 0 else f"{', '.join(said[:most])} and {more} more"
