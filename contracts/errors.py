"""Errors the outside world causes. Our own mistakes are assertions and end the process.

SurescaleError
├── RecordRejected      one record does not parse or validate: it goes to dead letters and work continues
└── SettingsError       a setting is missing or contradicts another: the process does not start
"""

import os

UNREADABLE = (ValueError, RecursionError)
"""All that decoding of foreign bytes raises: malformed, no text, a number of thousands of digits, or nested too deep."""


class SurescaleError(Exception):
    """Base of every error whose message is meant for the user."""


class RecordRejected(SurescaleError):
    """A record that does not parse or validate.

    Attributes:
        reason: a word of the closed set ``REJECT_REASONS``.
        field: path of the offending field (``tasks[3].upstream``), or "" when the record as a whole is at fault.
        message: what is wrong, without the field; the error's text names the field before it. Cut to ``CHARACTERS_MAX``: it may
            repeat what the record says.
    """

    CHARACTERS_MAX = 1_024

    REJECT_REASONS = frozenset(
        {
            "not_json",
            "unknown_type",
            "invalid_field",
            "unknown_job",
            "unknown_task",
            "cyclic_topology",
            "ahead_of_clock",
            "unknown_layout",
            "too_large",
        }
    )

    def __init__(self, reason: str, field: str, message: str) -> None:
        assert reason in self.REJECT_REASONS, reason
        field, message = field[: self.CHARACTERS_MAX], message[: self.CHARACTERS_MAX]
        super().__init__(f"{field}: {message}" if field else message)
        self.reason = reason
        self.field = field
        self.message = message


class SettingsError(SurescaleError):
    """A setting is missing, malformed or contradicts another; the message names it and the fix."""


PATH_SHOWN_MAX = 200  # characters of a path in a message; some paths are refused for being too long


def reason_of(error: OSError) -> str:
    """Return the operating system's own reason, without error number and path."""
    # asyncio words a failed bind itself under the system's number; a failed name lookup has a number below 0.
    said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return said.lower()
