"""Makes text from records safe for a person's terminal. Pure."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with every character escaped that a terminal would obey or nobody would see, but those in ``keep``.

    Names and reasons come from records, which anybody may have written: an escape sequence would clear the screen or set the
    window's title, and a line break would forge another line.

    >>> printable("alice\n\x1b[2J")
    'alice\\n\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text)


def one_line(text: str, letters_max: int = 400) -> str:
    r"""Return what somebody else said as one line that is safe to print, cut where it is very long.

    >>> one_line("disk\n  full \x1b[2J")
    'disk full \\x1b[2J'
    """
    words = printable(" ".join(text.split()))
    return words if len(words) <= letters_max else f"{words[: letters_max - 3]}..."
