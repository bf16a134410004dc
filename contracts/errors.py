"""Errors that the world causes. Our own mistakes are assertions and end the process.

SurescaleError
├── RecordRejected      one record does not parse or validate: it goes to dead letters, the rest goes on
└── SettingsError       a setting is missing or contradicts another: the process does not start
"""

import os


class SurescaleError(Exception):
    """Base of every error with a message meant for the user."""


class RecordRejected(SurescaleError):
    """A record that does not parse or validate.

    Attributes:
        reason: a word of the closed set ``REJECT_REASONS``.
        field: path of the offending field (``tasks[3].upstream``), or "" when the record as a whole is at fault.
        message: what is wrong, without the field; the error's text names the field before it.
    """

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
        super().__init__(f"{field}: {message}" if field else message)
        self.reason = reason
        self.field = field
        self.message = message


class SettingsError(SurescaleError):
    """A setting is missing, malformed or contradicts another; the message names it and the fix."""


def reason_of(error: OSError) -> str:
    """Return why the operating system refused, in its own words, without number and path."""
    # A server that cannot bind tells its own story under the system's number; a name that is not found has a number below 0.
    said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return said.lower()
