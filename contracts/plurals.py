"""Numbers in sentences. Pure."""


def counted(number: int, one: str) -> str:
    """Return a number with its noun, whose plural takes an s.

    >>> counted(1, "member"), counted(0, "record"), counted(2, "more minute")
    ('1 member', '0 records', '2 more minutes')
    """
    return f"{number} {one}{'' if number == 1 else 's'}"
