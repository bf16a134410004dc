"""How the simulated engine says no: a code from a closed set and a sentence.

SurescaleError
├── EngineRefusal    the request cannot be accepted; nothing has been changed
└── RunError         a run cannot be set up as asked
"""

from contracts.errors import SurescaleError

UNKNOWN = frozenset({"UNKNOWN_JOB", "UNKNOWN_HOST"})
CONFLICTS = frozenset(
    {
        "STALE_GENERATION",  # this or a newer generation has been accepted
        "RESCALE_IN_PROGRESS",  # the former command has not come to its end
        "BASE_CHANGED",  # the command starts from a parallelism that the task does not have
        "UNIT_OCCUPIED",  # a unit belongs to another job
        "NOT_ENOUGH_UNITS",
        "JOB_WAITING",  # the job has no units at all: nothing can be prepared beside it
        "HOST_EXISTS",
        "TOO_MANY_HOSTS",
    }
)
INVALID = frozenset(
    {
        "INVALID_COMMAND",
        "INVALID_HOST",
        "UNKNOWN_TASK",
        "NOT_SCALABLE",
        "PARALLELISM_OUT_OF_RANGE",
        "UNKNOWN_PARALLEL_UNIT",
    }
)


class EngineRefusal(SurescaleError):
    """A request that the engine refuses; ``code`` is of the closed sets above."""

    def __init__(self, code: str, message: str) -> None:
        assert code in UNKNOWN | CONFLICTS | INVALID, code
        super().__init__(message)
        self.code = code
        self.message = message


class RunError(SurescaleError):
    """A run cannot be set up as asked; the message names the option."""
