"""How the simulated engine refuses: a code from a closed set and a sentence.

SurescaleError
└── EngineRefusal    the request was refused and nothing changed
"""

from contracts.errors import SurescaleError

UNKNOWN = frozenset({"UNKNOWN_JOB", "UNKNOWN_HOST"})
CONFLICTS = frozenset(
    {
        "STALE_GENERATION",  # this or a newer generation was accepted before
        "RESCALE_IN_PROGRESS",  # the previous command is still under way
        "BASE_CHANGED",  # the command starts from another parallelism than the task has
        "UNIT_OCCUPIED",  # a unit belongs to another job
        "NOT_ENOUGH_UNITS",
        "JOB_WAITING",  # the job has no units, so nothing can be prepared while it runs
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
    """A request that the engine refuses; ``code`` is one of the sets above."""

    def __init__(self, code: str, message: str) -> None:
        assert code in UNKNOWN | CONFLICTS | INVALID, code
        super().__init__(message)
        self.code = code
        self.message = message
