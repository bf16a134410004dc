"""The one kind of text that people write into records: who they are, and why they do something. Pure."""

import unicodedata

from surescale.contracts.errors import SettingsError

LETTERS_MAX = 256


def checked_text(field: str, text: str) -> str:
    r"""Return what somebody wrote as records hold it: one line.

    Readers refuse a record with longer text, and a terminal would obey control characters.

    Args:
        field: the option or the field that it was given in; the error names it.
        text: what was given.

    Raises:
        SettingsError: it is empty, too long, has control characters, or is no text.

    >>> checked_text("--why", " a sale\nat noon")
    'a sale at noon'
    """
    text = " ".join(text.split())
    if not text:
        raise SettingsError(f"{field}: is empty; say it in a few words, for those who come later")
    if len(text) > LETTERS_MAX:
        raise SettingsError(f"{field}: has {len(text)} characters; give at most {LETTERS_MAX}")
    odd = next((letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs")), "")
    if odd:
        raise SettingsError(f"{field}: has {odd!a}, which is no letter of a text; write one line of plain text")
    return text
