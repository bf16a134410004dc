"""What becomes of windows on their way to Kafka: what is refused is refused before a broker is asked."""

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DEAD_LETTERS, SNAPSHOTS
from surescale.contracts.windows import FIGURES, Window, unknown_hours
from surescale.spark_streaming.publisher import Publisher
from tests.support.builders import JOB, topology


class Noting:
    """Takes records in the place of a producer, and notes their topics."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def produce(self, topic: str, *_: object, **__: object) -> None:
        """Take a record."""
        self.topics.append(topic)


def window(minutes: int) -> Window:
    """A window of so many minutes, of noise: it does not compress."""
    figures = np.random.default_rng(0).random((minutes, 3, len(FIGURES)), dtype=np.float32)
    return Window(JOB, 3 * MINUTE_MS, figures, topology(), unknown_hours())


def test_a_window_beyond_the_limit_is_told_of_and_the_others_go_on() -> None:
    """It counts as refused, not as written."""
    client = Noting()
    publisher = Publisher(PipelineSettings(), client)  # type: ignore[arg-type]  # the one method that is used
    too_large = publisher.windows([window(3), window(150_000), window(3)])
    assert [rejected.reason for rejected in too_large] == ["too_large"]
    assert client.topics == [SNAPSHOTS, DEAD_LETTERS, SNAPSHOTS]
