"""A tournament's releases beside those of people: whose choice counts, and what is written."""

import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Tuning
from surescale.contracts.releases import Expectation, Release, Releases, Slot
from surescale.contracts.wire import decode, encode
from surescale.services.tools.policy_releases.scope import rolled_back, withdrawn
from surescale.services.tools.tournament.pipeline_tournament import check_eligible, former_winner
from surescale.services.tools.tournament.tournament_report import NoTournament, PolicyVersion, Row, TournamentReport, release_of
from tests.support.builders import JOB

PLAIN = JobSettings(job=JOB)
SLOT = Slot("sim", "serve", "job", JOB)
EXPECTED = Expectation(work_least=1.0, work_most=2.0, waiting_most=0.5)
OURS, RULE = (
    PolicyVersion(policy="sure", sha256="ab" * 32),
    PolicyVersion(policy="ds2-gate", tuned=Tuning(constants={"utilisation": 0.62})),
)


def row(version: PolicyVersion, reward: float, difference: float | None) -> Row:
    """Return a row of a table."""
    return Row(
        version=version, reward=reward, waiting=0.1, utilisation=0.6, rescales_per_day=4.0, subtask_hours_per_day=240.0,
        late_minutes_per_day=3.0, difference=difference, difference_low=None if difference is None else difference / 2,
        difference_high=None, twin_error=0.001, has_won=False,
    )  # fmt: skip


def report(change: str, serving: PolicyVersion = OURS, winner: PolicyVersion = RULE) -> TournamentReport:
    """Return a report of two candidates."""
    return TournamentReport(
        job=JOB, from_ms=0, until_ms=MINUTE_MS, known_minutes=4_320, draws=4, late_seconds=60.0, busy_error=0.01,
        waiting_error=0.2, change=change, why="ds2-gate is ahead of sure by 0.0200.",  # type: ignore[arg-type]
        serving=serving, winner=winner, rows=(row(winner, 0.27, 0.02), row(serving, 0.25, None)),
        expected=EXPECTED if change == "wins" else None,
    )  # fmt: skip


def won(start_ms: int = 1_000) -> Release:
    """Return the release of a winner."""
    release = release_of(report("wins"), None, start_ms=start_ms, by="ana")
    assert release is not None
    return release


def allowed(*records: Release, settings: JobSettings = PLAIN, again: bool = False) -> str:
    """Return why no tournament may be held; empty: one may."""
    try:
        check_eligible(JOB, settings, records, 5_000, again=again)
    except NoTournament as why:
        return str(why)
    return ""


def test_a_winner_becomes_a_record_that_explains_itself() -> None:
    """Who won, by how much, with which error, on which days, against what, and what must stay true."""
    release = won()
    assert (release.job, release.policy, release.set_by) == (JOB, "ds2-gate", "tournament (set by ana)")
    assert release.tuned == RULE.tuned
    assert release.expected == EXPECTED
    assert release.tournament is not None
    found = release.tournament
    assert (found.against, found.against_reward, found.reward) == ("sure", 0.25, 0.27)
    assert (found.difference, found.difference_low, found.twin_error) == (0.02, 0.01, 0.001)
    assert (found.from_ms, found.until_ms, found.policies, found.draws) == (0, MINUTE_MS, 2, 4)
    assert decode(encode(release), Release) == release


def test_nothing_is_written_where_nothing_changes() -> None:
    """A day on which all stays as it is leaves no record."""
    assert release_of(report("stays"), None, start_ms=1, by="ana") is None
    assert release_of(report("ends"), None, start_ms=1, by="ana") is None


def test_the_end_of_a_winner_uncovers_what_people_chose() -> None:
    """From its minute on the wider release serves again, and the record says why."""
    wider = Release(cluster="sim", policy="forecast", sha256="", valid_from_ms=0)
    ended = release_of(report("ends", RULE, OURS), won(), start_ms=2_000, by="ana")
    assert ended is not None
    assert ended.note == "ds2-gate is ahead of sure by 0.0200."
    releases = Releases([wider, won(), ended])
    served = [releases.serving(JOB, at_ms) for at_ms in (999, 1_000, 2_000)]
    assert [each.policy for each in served if each] == ["forecast", "ds2-gate", "forecast"]


def test_an_agent_falls_back_to_what_would_serve_without_any_tournament() -> None:
    """Not to an earlier winner, whose figures are older still."""
    wider = Release(cluster="sim", policy="forecast", sha256="", valid_from_ms=0)
    releases = Releases([wider, won(500), won(1_000)])
    found = releases.serving(JOB, 1_500, has_tournaments=False)
    assert found is not None
    assert found.policy == "forecast"


def test_a_release_by_a_person_to_the_cluster_that_came_later_counts() -> None:
    """A tournament never hides a newer choice."""
    later = Release(cluster="sim", policy="hold", sha256="", valid_from_ms=1_500)
    found = Releases([won(1_000), later]).serving(JOB, 2_000)
    assert found is not None
    assert found.policy == "hold"
    assert former_winner(JOB, Releases([won(1_000), later]), 2_000) is None
    assert former_winner(JOB, Releases([won(1_000)]), 2_000) is not None


def test_a_persons_choice_is_left_alone() -> None:
    """A policy in the settings, a release to the job, a canary that it falls into."""
    assert allowed() == ""
    assert "ben set its policy to hold" in allowed(settings=JobSettings(job=JOB, policy="hold", set_by="ben"))
    own = Release(cluster="sim", policy="ds2", sha256="", valid_from_ms=1, job=JOB, set_by="ben")
    assert "ben released ds2 for this job" in allowed(own)
    assert "ben released ds2" in allowed(replace(own, valid_from_ms=9_000))  # also one that is still to come
    assert allowed(own, withdrawn(Releases([own]), SLOT, next_minute_ms=2, by="ben")) == ""
    canary = Release(cluster="sim", policy="lag", sha256="", valid_from_ms=1, share_permille=999)
    assert canary.is_for(JOB)
    assert "canary of lag" in allowed(canary)
    assert allowed(won()) == ""


def test_what_somebody_took_back_stays_so_until_somebody_wants_another() -> None:
    """Also if the rollback came in the release's own minute."""
    for start_ms in (1_000, 3_000):
        back = rolled_back(Releases([won(3_000)]), SLOT, next_minute_ms=start_ms, by="ben")
        assert back.withdrawn
        assert not back.is_of_tournament
        assert "ben took back what a tournament had released" in allowed(won(3_000), back)
        assert allowed(won(3_000), back, again=True) == ""


def test_a_rollback_to_an_earlier_winner_is_a_persons_choice() -> None:
    """It serves with its constants, and the next tournament leaves it alone."""
    first = replace(won(1_000), tuned=Tuning(constants={"utilisation": 0.7}))
    back = rolled_back(Releases([first, won(2_000)]), SLOT, next_minute_ms=3_000, by="ben")
    assert (back.tuned, back.is_of_tournament) == (first.tuned, False)
    assert "ben released ds2-gate" in allowed(first, won(2_000), back)


@pytest.mark.parametrize("again", [False, True])
def test_a_tournaments_own_end_does_not_stop_the_next_one(again: bool) -> None:
    """Only people stop it."""
    ended = release_of(report("ends", RULE, OURS), won(), start_ms=2_000, by="ana")
    assert ended is not None
    assert allowed(won(), ended, again=again) == ""


def test_a_policy_that_a_label_names_stays() -> None:
    """The job's author chose it; the message says what to take away."""
    with pytest.raises(NoTournament, match=r"its label surescale\.policy names static"):
        check_eligible(JOB, JobSettings(job=JOB, policy="static"), (), 0, again=True, by_label=True)
