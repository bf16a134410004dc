"""Which advice a name means, without Kafka."""

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.rescaler_state import OpenAdvice
from surescale.services.job_settings.advice import chosen

CLICKS, ORDERS = "sim/clicks", "sim/orders"
OPEN = {
    job: OpenAdvice(decision_id=f"{job}@{span_end_ms}/sure", targets={"map": 4})
    for job, span_end_ms in ((CLICKS, 600_000), (ORDERS, 1_200_000))
}


@pytest.mark.parametrize("target", [CLICKS, "sim/clicks@600000/sure"])
def test_a_job_or_a_decision_names_an_advice(target: str) -> None:
    """A job's name means its newest advice, which is the only one that is open."""
    assert chosen(OPEN, target) == (CLICKS, OPEN[CLICKS])


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (OPEN, "'sim/clicks@0/sure' is not open advice: a newer decision was made, it was carried out, or"),
        (OPEN, "; open: sim/clicks@600000/sure"),
        ({}, "; none is open at all"),
    ],
)
def test_what_is_not_open_is_one_line(found: dict[str, OpenAdvice], named: str) -> None:
    """It says why that may be, and which advice is open."""
    with pytest.raises(SettingsError) as refused:
        chosen(found, "sim/clicks@0/sure")
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
