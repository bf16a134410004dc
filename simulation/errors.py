"""What goes wrong before a simulated run begins.

SurescaleError
└── RunError    a run cannot be set up as asked
"""

from surescale.contracts.errors import SurescaleError


class RunError(SurescaleError):
    """A run cannot be set up as asked; the message names the option."""
