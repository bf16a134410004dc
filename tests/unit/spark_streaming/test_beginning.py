"""Where a query begins."""

import pytest

from surescale.spark_streaming.beginning import EARLIEST, beginnings
from surescale.spark_streaming.restarts import RecordsLost


def test_a_query_begins_where_the_state_ends() -> None:
    """At the end, in the middle, at the oldest record; a partition that it has nothing of from the oldest record on."""
    bounds = {0: (0, 9), 1: (4, 9), 2: (4, 9), 3: (4, 9)}
    assert beginnings(bounds, {0: 9, 1: 7, 2: 4}, must_have_all=True) == {0: 9, 1: 7, 2: 4, 3: EARLIEST}


@pytest.mark.parametrize(("bounds", "says"), [({0: (8, 9)}, "8 to 9"), ({0: (0, 6)}, "0 to 6"), ({1: (0, 9)}, "0 to 0")])
def test_records_that_are_gone_stop_the_job_unless_it_may_go_on(bounds: dict[int, tuple[int, int]], says: str) -> None:
    """Expired ones, a topic that is shorter than it was, and one without the partition."""
    with pytest.raises(RecordsLost, match=rf"partition 0 holds offsets {says}, and 7 comes next.*DATA_LOSS=false"):
        beginnings(bounds, {0: 7}, must_have_all=True)
    assert beginnings(bounds, {0: 7}, must_have_all=False) == dict.fromkeys(bounds, EARLIEST)
