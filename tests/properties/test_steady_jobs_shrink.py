"""A job that is too wide for a constant load: it shrinks once that pays for a restart within hours, however long a restart is."""

import numpy as np
import pytest

from surescale.policies.dealt import larger, needed
from surescale.policies.registry import load_policy
from tests.support.dealt_loop import Cell, run


@pytest.mark.parametrize(
    ("things", "busy", "begin", "noise"), [(8, 1.04, 8, 0.02), (8, 1.6, 8, 0.05), (12, 3.96, 12, 0.05), (60, 4.4, 12, 0.02)]
)
def test_a_restart_of_five_minutes_keeps_no_steady_job_wide(things: int, busy: float, begin: int, noise: float) -> None:
    """Half of a job that is a fifth busy pays for it within two hours. It stayed for the twelve that made a load constant."""
    course = run(Cell("kafka", things, busy, noise, begin, seed=3), load_policy("sure"), 480, restart_s=300.0)
    dealt = np.array([things])
    assert course.sizes[-1] <= larger(needed(np.array([busy / 0.75]), dealt).astype(np.int64), dealt)[0]
    assert all(after < before for _, before, after in course.rescales)
