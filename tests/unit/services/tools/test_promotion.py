"""When a policy may leave the shadow, and for which jobs."""

import pytest
from msgspec.structs import replace

from surescale.contracts.errors import SettingsError
from surescale.contracts.releases import SHADOWS_MAX, Release, Releases, Slot
from surescale.services.state.fleet_documents import ShadowSummary
from surescale.services.state.read.shadows import summaries
from surescale.services.tools.policy_releases.promotion import Least, check_evidence, dollars, lines, note_of
from surescale.services.tools.policy_releases.scope import check_job, check_room, reach, release_to, shadow_slot, slot_of
from tests.support.builders import JOB
from tests.support.shadow_records import answer

LEAST = Least(answers=6, hours=1.0)


def record(answers: int, *, late: int = 0, every_minutes: int = 20) -> ShadowSummary:
    """Return the record of a policy that wants one subtask more each time; windows without an answer come first."""
    asked = [
        answer(each * every_minutes, shadow=5, status="late" if each < late else "answered") for each in range(late + answers)
    ]
    return summaries(asked, {"sim": 0.01})[0]


def test_a_record_that_is_long_enough_is_taken() -> None:
    """Six answers over 100 minutes; its note says what it is."""
    check_evidence(record(6), "ds2", "sim", LEAST)
    assert note_of(record(6)) == (
        "Promoted from the shadow: 6 answers over 1.7 h, 0.0% of decisions and 50.0% of tasks equal, +1.00 subtasks a job."
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "ds2 has no answers from the shadow for sim; first run it in shadow with `surescale policy shadow ds2`"),
        (record(5), "ds2 has 5 answers over 1.3 h from the shadow for sim; a promotion needs 6 over 1 h"),
        (record(9, every_minutes=5), "ds2 has 9 answers over 0.7 h"),
        (record(9, late=1), r"ds2 answered 90.0% of its windows in shadow; a promotion needs 95% \(0 failed, 1 late"),
    ],
)
def test_a_record_that_is_too_short_is_refused_in_one_line_that_names_the_way_out(found: ShadowSummary | None, said: str) -> None:
    """None at all, too few answers, too short a time, too many windows without an answer."""
    with pytest.raises(SettingsError, match=rf"^policy: {said}.*--force promotes it anyway") as refused:
        check_evidence(found, "ds2", "sim", LEAST)
    assert "\n" not in str(refused.value)


def test_a_record_is_printed_with_its_units() -> None:
    """And a record without any answer without figures."""
    printed = dict(lines(record(6)))
    assert printed["cost"] == "+$14.40 a day, at the mean price of a unit"
    assert printed["agreement"] == "0.0% of decisions, 50.0% of tasks"
    silent = summaries([answer(10, status="failed")], {})[0]
    assert dict(lines(silent)).keys() == {"shadow", "time", "answers", ""}
    assert dollars(-0.001) == "-$0.00"


def shadow(policy: str, **more: object) -> Release:
    """Return a shadow policy."""
    return Release(cluster="sim", policy=policy, sha256="", valid_from_ms=0, role="shadow", **more)  # type: ignore[arg-type]


def test_one_policy_more_than_may_look_on_is_refused() -> None:
    """Of another job's there is no question, and one that looks on already may be named again."""
    releases = Releases([shadow(f"p{number}") for number in range(SHADOWS_MAX - 1)] + [shadow("mine", job="sim/other")])
    check_room(releases, shadow("next", job=JOB))
    for full in (shadow("next"), shadow("next", job="sim/other")):
        with pytest.raises(SettingsError, match="a job has at most 3 shadow policies, and these run already: mine, p0, p1"):
            check_room(releases, full)
    check_room(releases, shadow("mine", job="sim/other"))


def test_a_policy_in_the_shadow_is_found_by_its_name_and_scope() -> None:
    """Of two versions the newer one; one that has ended does not look on."""
    old, new = replace(shadow("sure"), sha256="a" * 64), replace(shadow("sure"), sha256="b" * 64, valid_from_ms=5)
    assert shadow_slot(Releases([old, new]), "sure", "sim", None, False).sha256 == "b" * 64
    with pytest.raises(SettingsError, match=r"^policy: ds2 does not run in shadow for sim; these do: sure$"):
        shadow_slot(Releases([old, new]), "ds2", "sim", None, False)
    with pytest.raises(SettingsError, match=r"^policy: sure does not run in shadow for sim/clicks$"):
        shadow_slot(Releases([replace(old, withdrawn=True)]), "sure", "any", JOB, False)


def test_the_options_name_one_scope() -> None:
    """A job's cluster is the job's own."""
    own = release_to("serve", "hold", "", cluster="other", job=JOB, canary=None, start_ms=0, by="ana")
    assert (own.cluster, own.scope, slot_of("other", JOB, False)) == ("sim", "job", Slot("sim", "serve", "job", JOB))
    assert release_to("serve", "hold", "", cluster="sim", job=None, canary=12.5, start_ms=0, by="ana").share_permille == 125
    assert slot_of("sim", None, True).scope == "canary"
    for contradiction in (
        lambda: release_to("serve", "hold", "", cluster="sim", job=JOB, canary=5.0, start_ms=0, by="ana"),
        lambda: slot_of("sim", JOB, True),
    ):
        with pytest.raises(SettingsError, match=r"^--job and --canary: give one of them"):
            contradiction()


def test_a_canary_says_which_jobs_it_reaches() -> None:
    """A share that nobody falls into would look like a release that does nothing."""
    canary = release_to("serve", "hold", "", cluster="sim", job=None, canary=0.1, start_ms=0, by="ana")
    assert reach(canary, ["sim/a", "sim/b", "other/c"]) == "none of 2 jobs falls into that share; give a larger one"
    assert reach(replace(canary, share_permille=999), [f"sim/{name}" for name in "abcdefg"]).endswith(" and 2 more")
    assert (reach(canary, []), reach(replace(canary, share_permille=None), [])) == ("no job is known yet", "")


@pytest.mark.parametrize(
    ("job", "said"),
    [("clicks", "'clicks' is not of the form CLUSTER/NAME"), ("sim/click", "no job 'sim/click'; known: sim/clicks")],
)
def test_a_job_that_does_not_exist_is_refused(job: str, said: str) -> None:
    """A slip would otherwise be kept for ever and change nothing."""
    with pytest.raises(SettingsError, match=f"^--job: .*{said}"):
        check_job(job, [JOB])
