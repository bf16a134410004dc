"""Kafka's clock, as a process learns it from what it writes and reads."""

import pytest

from surescale.runtime.kafka_clock import APART_MS, KafkaClock

MINUTE_MS = 60_000


class Clocks:
    """Those of this machine and of Kafka."""

    def __init__(self) -> None:
        self.kafka_ms, self.ahead_ms, self.booted_ms = 1_700_000_000_000, 0, 5_000
        self.known = KafkaClock(lambda: self.kafka_ms + self.ahead_ms, lambda: self.kafka_ms - 1_700_000_000_000 + self.booted_ms)

    def write(self, took_ms: int = 0) -> None:
        """Write a record that is appended in the middle of its way."""
        self.kafka_ms += took_ms
        self.known.appended(self.kafka_ms - took_ms // 2, took_ms)


def test_nobody_is_apart_from_what_nobody_knows() -> None:
    """Before the first record nothing can be said."""
    assert KafkaClock().ahead_ms() == 0


@pytest.mark.parametrize("apart_ms", [-24 * 60 * MINUTE_MS, -MINUTE_MS - 1, 5 * MINUTE_MS, 24 * 60 * MINUTE_MS])
def test_a_clock_that_is_apart_is_known_by_one_record(apart_ms: int) -> None:
    """Kafka's time is used in its place."""
    clocks = Clocks()
    clocks.ahead_ms = apart_ms
    clocks.write()
    assert abs(clocks.known.ahead_ms() - apart_ms) <= 1
    assert abs(clocks.known.now_ms() - clocks.kafka_ms) <= 1
    assert ("ahead of" if apart_ms > 0 else "behind") in clocks.known.apart_in_words()


def test_a_clock_that_jumps_shows_without_another_record_and_so_does_one_that_is_set_right() -> None:
    """A steady clock has gone on in between."""
    clocks = Clocks()
    clocks.write()
    clocks.kafka_ms, clocks.ahead_ms = clocks.kafka_ms + 10 * MINUTE_MS, -30 * MINUTE_MS
    assert clocks.known.ahead_ms() == -30 * MINUTE_MS
    clocks.ahead_ms = 0
    assert clocks.known.apart_in_words() == ""
    assert clocks.known.now_ms() == clocks.kafka_ms


def test_a_record_that_was_long_under_way_accuses_nobody() -> None:
    """It was appended some time in between; a later one that took less tells more."""
    clocks = Clocks()
    clocks.write(took_ms=10 * MINUTE_MS)
    assert clocks.known.ahead_ms() == 0
    clocks.ahead_ms = 3 * MINUTE_MS
    assert clocks.known.ahead_ms() == 0
    clocks.write()
    assert abs(clocks.known.ahead_ms() - 3 * MINUTE_MS) <= 1


def test_a_small_difference_is_left_alone() -> None:
    """Time servers let clocks differ a little, and nothing may jump for that."""
    clocks = Clocks()
    clocks.ahead_ms = APART_MS // 2
    clocks.write()
    assert clocks.known.now_ms() == clocks.kafka_ms + clocks.ahead_ms
    assert clocks.known.now_ms(apart_ms=0) <= clocks.kafka_ms + 1


def test_a_clock_of_kafka_that_is_set_is_believed() -> None:
    """What was known of it no longer holds."""
    clocks = Clocks()
    clocks.write()
    for moved_ms in (-5 * MINUTE_MS, 10 * MINUTE_MS):
        clocks.known.appended(clocks.kafka_ms + moved_ms, 0)
        assert abs(clocks.known.ahead_ms() + moved_ms) <= 1
    clocks.known.read(clocks.kafka_ms + 60 * MINUTE_MS)
    assert clocks.known.ahead_ms() == -60 * MINUTE_MS


def test_whoever_only_reads_learns_that_its_clock_is_behind() -> None:
    """Old records say nothing; none of them says that it is ahead."""
    clocks = Clocks()
    clocks.ahead_ms = -30 * MINUTE_MS
    clocks.known.read(clocks.kafka_ms - 24 * 60 * MINUTE_MS)
    assert clocks.known.ahead_ms() == 0
    clocks.known.read(clocks.kafka_ms)
    assert clocks.known.now_ms() == clocks.kafka_ms
    clocks.ahead_ms = 30 * MINUTE_MS
    clocks.known.read(clocks.kafka_ms)
    assert clocks.known.ahead_ms() == 0


def test_whoever_reads_at_the_end_learns_that_its_clock_is_ahead() -> None:
    """A record that a look did not find was appended after it; that which comes late, as after an outage, accuses nobody."""
    clocks = Clocks()
    clocks.ahead_ms = 30 * MINUTE_MS
    looked_ms = clocks.known.steady_ms()
    clocks.kafka_ms += 20_000
    clocks.known.read(clocks.kafka_ms, looked_ms)
    assert clocks.known.is_known
    assert 29 * MINUTE_MS < clocks.known.ahead_ms() <= 30 * MINUTE_MS
    assert abs(clocks.known.now_ms() - clocks.kafka_ms) <= 20_001
    clocks.ahead_ms = 0
    assert (clocks.known.ahead_ms(), clocks.known.apart_in_words()) == (0, "")
    # The broker was away for ten minutes: all looks found nothing, and then comes what was written when it went.
    appended_ms, looked_ms = clocks.kafka_ms, clocks.known.steady_ms() + 10 * MINUTE_MS
    clocks.kafka_ms += 10 * MINUTE_MS
    clocks.known.read(appended_ms, looked_ms)
    assert clocks.known.ahead_ms() == 0


def test_a_first_record_that_comes_late_accuses_nobody_for_longer_than_until_the_next() -> None:
    """Nothing was known before that would contradict it."""
    clocks = Clocks()
    clocks.kafka_ms += 10 * MINUTE_MS
    clocks.known.read(clocks.kafka_ms - 10 * MINUTE_MS, clocks.known.steady_ms())
    assert clocks.known.ahead_ms() > 0
    clocks.known.read(clocks.kafka_ms)
    assert clocks.known.ahead_ms() == 0
