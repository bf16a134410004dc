"""The pipeline's clock for sources that look at the end of every minute, where it does not run like the wall's.

A demo publishes one segment that runs several times as fast, so that minutes are short. Real deployments have no such clock.
"""

import threading
import time
from collections.abc import Callable

from surescale.contracts.clock import pipeline_time_ms
from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import ClockSegment
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK
from surescale.engines.ports.minutes import Clock
from surescale.runtime.beats import pause
from surescale.runtime.topic_records import parsed, read_topics


class SegmentClock:
    """The clock of one segment that runs free."""

    def __init__(self, segment: ClockSegment, closed: threading.Event) -> None:
        """``closed`` ends all waiting."""
        self._segment, self._closed = segment, closed

    def now_ms(self) -> int:
        """Return the present time."""
        return pipeline_time_ms(self._segment, time.time_ns() // 1_000_000)

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds of this clock."""
        return pause(self._closed, max(0.0, seconds / self._segment.speed))


def clock_of_pipeline(settings: PipelineSettings) -> tuple[Callable[[threading.Event], Clock], float]:
    """Return what makes the clocks of a pipeline, and how fast they run.

    Raises:
        SettingsError: nobody has published its clock.
        ConnectionError: Kafka does not answer or refuses.
    """
    segments = parsed(read_topics(settings, [CLOCK])[CLOCK], ClockSegment)
    own = [segment for segment in segments if segment.pipeline == settings.pipeline]
    if not own:
        raise SettingsError(
            f"SURESCALE_PIPELINE_CLOCK: no clock has been published for {settings.pipeline!r}; unset it for the wall clock"
        )
    return lambda closed: SegmentClock(own[-1], closed), own[-1].speed
