"""Decides what the end of the query means: Kafka or the store went away, or a worker was killed, and it starts again, or the
process ends.

Pauses grow with each restart that follows no progress. After too many of those the trouble isn't passing, and the process ends
with the cause so that its supervisor notices. A right that is missing is waited for: a new process would have it no sooner.
"""

import logging
import re
from collections.abc import Callable
from typing import Self

from confluent_kafka import KafkaError, KafkaException

from surescale.contracts.errors import SurescaleError
from surescale.spark_streaming.places import StoreAway

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
FRUITLESS_MAX = 10
"""Restarts in a row without progress. With their pauses they take more than a minute; a leader election needs less."""

_NO_RIGHT = re.compile(r"(?:Topic|Group|Cluster)AuthorizationException: ([^\n]{1,300})")
_RIGHTS = "`surescale topics acls` prints the rights that are needed"
_LOST = re.compile(r"Some data may have been lost.*?Reason: ([^\n]{1,300}?)\.?\n", re.DOTALL)
_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_WORKER_KILLED = "Python worker exited unexpectedly"
_KILLED = "a Python worker was killed, perhaps because its machine or container ran out of memory"
_BROKER_AWAY = ("org.apache.kafka.common.errors", "java.util.concurrent.TimeoutException")


class NoProgress(SurescaleError):
    """Kafka answers and keeps refusing the query's work, the store does not come back, or workers are killed again and again."""


class RecordsLost(SurescaleError):
    """Kafka no longer has records that the query has not read."""

    @classmethod
    def at(cls, where: str) -> Self:
        """Return the error with the way out; ``where`` says what is lost."""
        return cls(
            f"task-metrics no longer has what the checkpoint comes to next ({where}): records expired unread, the topic was made "
            "again, or this is another Kafka. Start once with SURESCALE_SPARK_FAIL_ON_DATA_LOSS=false to go on with what comes, "
            "or give the job another checkpoint folder (it then reads task-metrics from the beginning)"
        )


class CheckpointFull(SurescaleError):
    """The disk of the checkpoint has no room."""


class Restarts:
    """Counts restarts and pauses before each.

    Args:
        checkpoint: folder of the checkpoint.
        pause: waits up to this many seconds; returns early when the process is told to stop (``threading.Event.wait``).
        log: where each restart is reported.
    """

    def __init__(self, checkpoint: str, pause: Callable[[float], object], log: logging.Logger) -> None:
        self._checkpoint, self._pause = checkpoint, pause
        self._log = log
        self._fruitless = 0
        self.count = 0

    def after(self, error: BaseException, *, made_progress: bool) -> None:
        """Pause before the query starts again, if its end means that Kafka or the store went away or a Python worker was killed.

        Raises:
            NoProgress: too many restarts in a row made no progress.
            CheckpointFull: what the query must remember cannot be written.
            RecordsLost: the query cannot go on where its checkpoint ends.
            BaseException: ``error`` itself, if it has another cause.
        """
        if (full := _FULL.search(str(error))) is not None:
            raise CheckpointFull(
                f"{self._checkpoint}: the checkpoint cannot be written ({full.group()}); make room there. Nothing is lost: "
                "the next start goes on with the last whole batch (SURESCALE_SPARK_CHECKPOINT names the folder)"
            ) from error
        lost = _LOST.search(str(error))
        if lost is not None:  # before anything else: the text may name the broker's answer too
            raise RecordsLost.at(lost.group(1)) from error
        # If an executor can't fetch a batch, the query fails inside our batch and only Spark's text holds the reason.
        is_killed = _WORKER_KILLED in str(error)  # on a cluster four times in a row: else Spark has repeated the task
        is_away = isinstance(error, KafkaException | TimeoutError | StoreAway) or any(word in str(error) for word in _BROKER_AWAY)
        if not (is_killed or is_away):
            raise error
        if made_progress:
            self._fruitless = 0
        reason = _KILLED if is_killed else _in_words(error)
        if self._fruitless >= FRUITLESS_MAX and not lacks_right(error):
            raise NoProgress(f"the query restarted {self._fruitless} times without progress: {reason}") from error
        self.count += 1
        lost_what = "" if is_killed else f"lost the {'store' if isinstance(error, StoreAway) else 'broker'} and "
        self._log.warning("the query %sstarts again: %s", lost_what, reason)
        self._pause(min(FIRST_PAUSE_S * 2**self._fruitless, LONGEST_PAUSE_S))
        self._fruitless += 1


def lacks_right(error: BaseException) -> bool:
    """Return whether Kafka refused something because this user has no right to it."""
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return error.args[0].code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
    return _NO_RIGHT.search(str(error)) is not None


def _in_words(error: BaseException) -> str:
    """Return the reason in one line. Java's names the topic, but somewhere among its frames."""
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return str(error.args[0].str())
    found = _NO_RIGHT.search(str(error))
    if found is not None:
        return f"{found.group(1).strip()}; {_RIGHTS}"
    return next(iter(str(error).splitlines()), type(error).__name__)
