"""When a tournament's winner is left out: the job's last minutes against what the twin predicted."""

import numpy as np
import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.releases import Expectation
from surescale.contracts.windows import FIGURE, Window
from surescale.policies.departure import departure, per_record
from tests.support.builders import window_at

MAP, SOURCE = 1, 0
RECORDS, BUSY_MS = 600.0, 30_000.0
WINDOW = window_at(600)
EARLY = 0
AS_IT_IS = Expectation(work_least=40.0, work_most=60.0, waiting_most=0.5)


def window(*, work: float = 50.0, waiting: float = 0.0, minutes: int = 60, records: float = RECORDS) -> Window:
    """Return a window of which the last minutes had so much work on a record (ms), and so many minutes of waiting."""
    figures = np.tile(WINDOW.figures[-1], (len(WINDOW.figures), 1, 1))
    figures[:, SOURCE, FIGURE["records_in"]] = figures[:, SOURCE, FIGURE["records_out"]] = records
    figures[:, :, FIGURE["busy_ms"]] = 0.0
    figures[:, MAP, FIGURE["busy_ms"]] = 50.0 * records
    figures[:, :, FIGURE["queued_records_mean"]] = 0.0
    figures[-minutes:, MAP, FIGURE["busy_ms"]] = work * records
    figures[-minutes:, MAP, FIGURE["queued_records_mean"]] = waiting * records
    return Window(
        job=WINDOW.job,
        window_end_ms=WINDOW.window_end_ms,
        figures=figures,
        topology=WINDOW.topology,
        hourly_load=WINDOW.hourly_load,
        hourly_peak=WINDOW.hourly_peak,
    )


def test_a_job_that_is_as_foretold_keeps_the_winner() -> None:
    """Inside of all limits nothing is said."""
    assert departure(window(), AS_IT_IS, EARLY) == ""


@pytest.mark.parametrize(("work", "waiting", "said"), [(90.0, 0.0, "took"), (20.0, 0.0, "took"), (50.0, 2.0, "waited")])
def test_twenty_minutes_outside_are_enough(work: float, waiting: float, said: str) -> None:
    """More or less work on a record than in any stretch of the twin, or a longer wait, ends it at once."""
    told = departure(window(work=work, waiting=waiting, minutes=20), AS_IT_IS, EARLY)
    assert f"A record {said}" in told
    assert "last 20 minutes" in told


def test_the_winner_comes_back_only_after_an_hour_as_foretold() -> None:
    """The long mean still holds what the short one has forgotten."""
    late = window(waiting=4.0)
    late.figures[-20:, MAP, FIGURE["queued_records_mean"]] = 0.0
    told = departure(late, AS_IT_IS, EARLY)
    assert f"last {len(late.figures)} minutes" in told


def test_minutes_before_the_release_do_not_count() -> None:
    """What another policy left behind is not the winner's; until 20 minutes are its own, nothing is said."""
    late = window(work=90.0)
    assert departure(late, AS_IT_IS, late.window_end_ms - 19 * MINUTE_MS) == ""
    assert departure(late, AS_IT_IS, late.window_end_ms - 20 * MINUTE_MS) != ""


def test_a_handful_of_records_says_nothing() -> None:
    """At night a single slow record is no departure."""
    assert departure(window(work=90.0, records=2.0), AS_IT_IS, EARLY) == ""


def test_unknown_minutes_are_left_out_of_a_mean() -> None:
    """Work is summed over the minutes in which both figures are known, and a mean over too few records is unknown."""
    values, load = np.array([100.0, np.nan, 300.0]), np.array([200.0, 200.0, np.nan])
    assert per_record(values, load, 2)[0] == pytest.approx(0.5)
    assert np.isnan(per_record(values, load, 2)[1])


def test_an_expectation_says_what_it_was_compared_with() -> None:
    """The sentence holds both figures, so that the decision explains itself."""
    told = departure(window(work=90.0), replace(AS_IT_IS, work_most=70.0), EARLY)
    assert told == "A record took 90 ms of work over the last 20 minutes; the twin expected 40 to 70."
