"""The packages that ship: complete, small, alive, and enough for the short form without torch."""

import subprocess
import sys

import numpy as np
import pytest

from reproductions.sure import quick
from reproductions.sure.inference import MEMORY_MAX_MIB, graph_of, peak_mib, timed
from reproductions.sure.packages import SHIPPED, served, shipped
from reproductions.sure.zscores import VARIANTS
from surescale.contracts.job_settings import JobSettings
from surescale.policies import registry
from surescale.policies.answer import NotReady, PolicyFailed
from surescale.policies.decide import decide
from surescale.policies.paper.policy import PaperPolicy
from surescale.policies.policy import ask
from surescale.policies.question import Question
from tests.unit.policies.conftest import chain_window


@pytest.fixture(scope="module")
def policy() -> PaperPolicy:
    """Return the shipped sure-paper."""
    loaded = registry.load_policy("sure-paper")
    assert isinstance(loaded, PaperPolicy), loaded
    return loaded


def test_a_job_ships_with_every_learned_variant_or_not_at_all() -> None:
    """The nine of the tables except HPA, each under its own method; z needs all of them."""
    jobs = [folder.name for folder in SHIPPED.iterdir()]
    assert "j_2521346" in jobs
    for job in jobs:
        assert set(shipped(job)) == set(VARIANTS) - {"HPA"}


def test_what_ships_is_small() -> None:
    """All variants and sure-paper together stay below three megabytes."""
    folders = [SHIPPED, registry.SHIPPED / "sure-paper"]
    assert sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()) < 3_000_000


def test_sure_paper_is_listed_and_decides_by_the_hour(policy: PaperPolicy) -> None:
    """Its decision is the same bytes every time."""
    assert "sure-paper" in registry.policy_names()
    assert policy.span_minutes == 60
    settings = JobSettings(job="sim/chain")
    first, again = (decide(chain_window(), policy, settings, seed=0) for _ in range(2))
    assert first == again
    assert first.policy.name == "sure-paper"
    assert not first.policy.fallback_reason


def test_sure_paper_says_when_it_cannot_answer(policy: PaperPolicy) -> None:
    """Too little history is no alarm; stale figures are a failure, and the rule takes over."""
    settings = JobSettings(job="sim/chain")
    assert isinstance(ask(policy, Question.of(chain_window(known=3), settings, 0)), NotReady)
    window = chain_window()
    window.figures[-5:] = np.nan
    assert isinstance(ask(policy, Question.of(window, settings, 0)), PolicyFailed)


def test_sure_paper_asks_for_more_where_work_piles_up(policy: PaperPolicy) -> None:
    """It learned from utilisation: an overloaded job gets more subtasks than an idle one."""
    settings = JobSettings(job="sim/chain")
    busy = ask(policy, Question.of(chain_window(load=190.0, queued=(4000.0, 3000.0)), settings, 0))
    idle = ask(policy, Question.of(chain_window(load=10.0), settings, 0))
    assert busy.ratios[1:3].mean() > idle.ratios[1:3].mean() + 0.1


def test_the_short_form_judges_all_nine_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of three decisions each: tables, standing and attention come out."""
    monkeypatch.setattr(quick, "RUNS", 2)
    monkeypatch.setattr(quick, "DECISIONS", 3)
    monkeypatch.setattr(quick, "STATES", 10)
    text = quick.run(lambda _: None).markdown()
    assert all(f"| {name} |" in text or f"| **{name}** |" in text for name in VARIANTS)
    assert "SURE is first on" in text
    assert "Spearman" in text


def test_the_command_imports_no_torch() -> None:
    """Neither the command nor the short form imports torch."""
    rooms = ", ".join(f"reproductions.sure.{name}" for name in ("commands", "quick", "report"))
    code = f"import sys, {rooms}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_a_thousand_tasks_fit_into_300_mib() -> None:
    """Measured in a separate process, including imports; time grows more slowly than the number of tasks."""
    assert peak_mib(1000) < MEMORY_MAX_MIB
    package = served(registry.SHIPPED / "sure-paper")
    small, large = (timed(package, graph_of(tasks), 3, 10).median_ms for tasks in (100, 400))
    assert large < 8 * small
