"""The backlog of a job as time, as overviews have it."""

import pytest

from surescale.services.state.read.overviews import backlog_ms


@pytest.mark.parametrize(
    ("backlog", "load", "behind_ms"),
    [(300.0, 600.0, 30_000.0), (0.0, 0.0, 0.0), (5.0, 0.0, None), (None, 600.0, None), (5.0, None, None)],
)
def test_a_backlog_is_as_long_as_the_same_number_takes_to_come(
    backlog: float | None, load: float | None, behind_ms: float | None
) -> None:
    """Where nothing comes or a figure is unknown, only an empty backlog has a length."""
    assert backlog_ms(backlog, load) == behind_ms
