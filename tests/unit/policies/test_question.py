"""What a policy is asked: measured once per decision, asked only when enough is known."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.policies import features, question
from surescale.policies.answer import NotReady, RawAnswer
from surescale.policies.decide import decide
from surescale.policies.measure import Measured, measured_of
from surescale.policies.policy import MINUTES_KNOWN_MIN, ask
from surescale.policies.question import Question
from surescale.policies.registry import load_policy, policy_names
from tests.unit.policies.conftest import WindowMaker, chain_window
from tests.unit.policies.test_witness import real_window, written

SETTINGS = JobSettings(job="sim/chain")


@pytest.mark.parametrize("name", policy_names())
def test_a_window_is_measured_once_per_decision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever policy decides, with its guardrails and, if it fails, its stand-in."""
    calls: list[tuple[int, ...]] = []

    def counted(figures: np.ndarray, *others: object) -> Measured:
        calls.append(figures.shape)
        return measured_of(figures, *others)

    policy, window = load_policy(name), chain_window(load=170.0)
    for module, name_there in ((question, "measured_of"), (features, "measure")):
        monkeypatch.setattr(module, name_there, counted)
    decide(window, policy, SETTINGS, seed=0)
    assert calls == [window.figures.shape]


def test_a_policy_that_sees_other_minutes_measures_those(make_window: WindowMaker) -> None:
    """A window as long as the policy's is not measured again; a longer one is, over the policy's own minutes."""
    asked = Question.of(make_window(minutes=90, load=100.0), SETTINGS, 0)
    assert asked.measured_over(asked.figures) is asked.measured
    assert asked.measured_over(asked.figures[-60:]).load.shape == (60,)


@pytest.mark.parametrize("name", policy_names())
def test_no_policy_is_asked_before_enough_is_known(name: str) -> None:
    """The same minutes are missing for every policy; with them, every policy answers."""
    early, ready = (Question.of(chain_window(known=MINUTES_KNOWN_MIN - missing), SETTINGS, 0) for missing in (2, 0))
    assert ask(load_policy(name), early) == NotReady(missing_minutes=2)
    assert isinstance(ask(load_policy(name), ready), RawAnswer)


@pytest.mark.parametrize("name", policy_names())
def test_a_job_may_be_decided_on_earlier(name: str) -> None:
    """Its settings say after how many minutes; every policy answers on a single one."""
    eager = msgspec.structs.replace(SETTINGS, minutes_known_min=1)
    assert isinstance(ask(load_policy(name), Question.of(chain_window(known=1), eager, 0)), RawAnswer)


@pytest.mark.parametrize(("records", "service", "waits"), [(8.0, 0.5, 22.0), (8_000.0, 0.0005, 30.0)])
def test_long_records_that_subtasks_are_at_work_on_do_not_wait(records: float, service: float, waits: float) -> None:
    """Eight subtasks, thirty records that are not committed: where each takes half a minute eight of them are being worked on."""
    window = real_window(load=records, busy=records * service / 8.0, tasks=("parse",))
    window = written(window, "queued_records_last", 30.0, last=60)
    measured = Question.of(window, JobSettings(job=window.job), 0).measured
    assert measured.service_minutes == pytest.approx([service])
    assert measured.waiting_records.tolist() == [waits]


@pytest.mark.parametrize(("records", "share"), [(40.0, 0.0), (400.0, 0.022), (4_000.0, 0.057)])
def test_of_few_records_the_busiest_subtask_has_more_by_chance(records: float, share: float) -> None:
    """Its 40 % more than the mean are no hot key where each of eight subtasks gets five records a minute."""
    window = written(real_window(load=records, busy=0.5, tasks=("parse",)), "busy_ms_max", 0.7 * 60_000.0, last=60)
    assert Question.of(window, JobSettings(job=window.job), 0).measured.hot_share == pytest.approx([share], abs=0.001)


def test_a_member_that_comes_or_goes_while_the_others_read_on_is_no_restart() -> None:
    """As much is got through as before, or as came. Of any other engine, whose attempts stop all subtasks, each is one."""
    window = written(real_window(load=1_000.0), "restarts", 1.0, last=60)
    read = np.full((60, 2), 1_000.0)
    read[30], read[40], read[50:] = 400.0, 850.0, 100.0
    came = np.full((60, 2), 1_000.0)
    came[50:] = 100.0
    window = written(written(window, "records_in", read, last=60), "arrived", came, last=60)
    window = written(window, "records_out", read, last=60)
    group = replace(window, topology=msgspec.structs.replace(window.topology, engine="kafka"))
    stopped = np.flatnonzero(Question.of(group, JobSettings(job=window.job), 0).restarted)
    assert stopped.tolist() == [0, 30]  # of the first minute nobody knows what was usual
    assert Question.of(window, JobSettings(job=window.job), 0).restarted.all()
