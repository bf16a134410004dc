"""Instants as people write and read them."""

import pytest

from surescale.runtime.instants import event_time_ms, to_the_minute, to_the_second


@pytest.mark.parametrize("text", ["1995-08-28T10:00", "1995-08-28T12:00+02:00", "1995-08-28 10:00:00Z", "809604000000"])
def test_an_instant_may_be_written_in_several_ways(text: str) -> None:
    """Without an offset it is UTC; digits are milliseconds."""
    assert event_time_ms(text) == 809_604_000_000


@pytest.mark.parametrize("text", ["yesterday", "", "-5", "1995-13-01T00:00", "²"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """The caller says which option it was."""
    with pytest.raises(ValueError, match=r"isoformat|month"):
        event_time_ms(text)


def test_an_instant_is_told_to_the_second_or_the_minute() -> None:
    """In UTC."""
    assert (to_the_second(809_604_061_000), to_the_minute(809_604_061_000)) == ("1995-08-28 10:01:01", "1995-08-28 10:01")
