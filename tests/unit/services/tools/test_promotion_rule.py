"""When a rule promotes a policy: what it says, how much evidence it takes, and that it does so once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import SettingsError
from surescale.contracts.releases import Release
from surescale.services.state.fleet_documents import ShadowSummary, StoredAnswer
from surescale.services.state.read.shadows import summaries
from surescale.services.tools.policy_releases.promotion import FIGURES, RULE_CHARACTERS_MAX, Least, evidence_from_ms, rule_of
from tests.support.builders import JOB
from tests.support.shadow_records import answer

LEAST = Least(answers=4, hours=1.0)
WANTED = Release(cluster="sim", policy="ds2", sha256="", valid_from_ms=0, set_by="ana")


def record(answers: list[StoredAnswer], from_ms: int = 0) -> ShadowSummary | None:
    """Return the record of these answers from an event time on."""
    found = summaries([each for each in answers if each.span_end_ms >= from_ms], {"sim": 0.01})
    return found[0] if found else None


def missing(rule: str, shadow_sizes: list[int]) -> str:
    """Return what is missing if the shadow policy wanted these sizes, every 20 minutes, and the decisions four."""
    answers = [answer(20 * at, shadow=size) for at, size in enumerate(shadow_sizes)]
    whole = record(answers)
    assert whole is not None
    return rule_of(rule).missing("ds2", "sim", LEAST, whole, record(answers, (whole.from_ms + whole.to_ms) // 2 + 1))


@pytest.mark.parametrize(
    ("rule", "sizes", "said"),
    [
        ("subtasks<=-1", [3] * 8, ""),
        ("subtasks <= -1, cost<0 more-overload<=100% hours>=2", [3] * 8, ""),
        ("subtasks<=-1", [3] * 3, "ds2 has 3 answers over 0.7 h from the shadow for sim; a promotion needs 4 over 1 h"),
        ("hours>=24 subtasks<=-1", [3] * 8, "hours is 2.333, not >=24"),
        ("subtasks<=-1 cost<=-100", [3] * 8, "cost is -14.4, not <=-100"),
        ("subtasks<0", [4, 4, 4, 4, 4, 4, 3, 3], ""),
        ("subtasks<0", [3, 3, 3, 3, 4, 4, 4, 4], "in the newer half of the time subtasks is 0, not <0"),
        ("answered>=1", [3] * 8, ""),
    ],
)
def test_a_rule_holds_over_the_whole_record_and_its_newer_half(rule: str, sizes: list[int], said: str) -> None:
    """What is missing is said with the figure; a gain that has gone is none; shares may be written in percent."""
    assert missing(rule, sizes) == said


def test_figures_that_are_not_known_fulfil_nothing() -> None:
    """Without prices there is no cost; without any answer there is no record."""
    unpriced = summaries([answer(20 * at, shadow=3) for at in range(8)], {})[0]
    assert rule_of("cost<=0").missing("ds2", "sim", LEAST, unpriced, unpriced) == "cost is unknown, not <=0"
    assert rule_of("cost<=0").missing("ds2", "sim", LEAST, None, None).startswith("ds2 has no answers from the shadow for sim")
    assert rule_of("cost<=0").missing("ds2", "sim", LEAST, replace(unpriced, dollars_per_day=-1.0), None) == (
        "there is no answer in the newer half of the time"
    )


@pytest.mark.parametrize(
    "text", ["", "hours", "hours>=x", "hours>=24 and cost<0", "hours=>24", "hours>=24;", "HOURS>=1", "cost<=nan"]
)
def test_what_is_no_rule_is_refused_with_an_example(text: str) -> None:
    """Nothing of it is left out in silence."""
    with pytest.raises(SettingsError, match=r'^--when: .* is not a condition; write them like "cost<=-5'):
        rule_of(text)


def test_a_figure_that_records_do_not_have_is_refused_with_those_they_have() -> None:
    """And a rule that would fill the record."""
    with pytest.raises(SettingsError, match=r"^--when: a record has no figure 'gain'; it has hours, answers, .*cost"):
        rule_of("gain>=0.02 hours>=24")
    with pytest.raises(SettingsError, match=r"^--when: a rule has at most 160 characters, this one has 161"):
        rule_of("hours>=1".ljust(RULE_CHARACTERS_MAX + 1))


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(FIGURES)), st.sampled_from([">=", "<=", ">", "<"]), st.integers(-999, 999)),
        min_size=1,
        max_size=5,
    )
)
def test_every_rule_that_is_written_is_read(conditions: list[tuple[str, str, int]]) -> None:
    """With all of its conditions, in their order."""
    rule = rule_of(" ".join(f"{figure}{sign}{bound}" for figure, sign, bound in conditions))
    assert [(each.figure, each.sign, each.bound) for each in rule.conditions] == conditions


def shadow(minute: int, **more: object) -> Release:
    """Return the shadow policy from a minute on."""
    return replace(WANTED, role="shadow", valid_from_ms=minute * MINUTE_MS, **more)


def served(minute: int, policy: str = "ds2", **more: object) -> Release:
    """Return a release from a minute on."""
    return replace(WANTED, policy=policy, valid_from_ms=minute * MINUTE_MS, **more)


def test_evidence_counts_beside_what_serves_now() -> None:
    """From the beginning of the shadow, or from the newest release, if that came later."""
    assert evidence_from_ms([shadow(10)], WANTED) == 10 * MINUTE_MS
    assert evidence_from_ms([served(5, "hold"), shadow(10)], WANTED) == 10 * MINUTE_MS
    assert evidence_from_ms([shadow(10), served(30, "hold")], WANTED) == 30 * MINUTE_MS
    assert evidence_from_ms([shadow(10), served(20)], WANTED) is None
    assert evidence_from_ms([shadow(10, job=JOB)], replace(WANTED, job=JOB)) == 10 * MINUTE_MS


def test_a_rule_promotes_once() -> None:
    """What a person has taken back stays so until the policy looks on again; an earlier release is no hindrance."""
    undone = [shadow(10), served(20), served(30, withdrawn=True, set_by="ben")]
    with pytest.raises(
        SettingsError, match=r"^policy: ds2 has been released for cluster sim .* ben rolled that back.*promotes once"
    ):
        evidence_from_ms(undone, WANTED)
    with pytest.raises(SettingsError, match="promotes once"):
        evidence_from_ms([shadow(10), served(20), served(30, "hold", set_by="ben")], WANTED)
    at_once = [shadow(10), served(10), served(10, withdrawn=True, set_by="ben")]
    with pytest.raises(SettingsError, match="ben rolled that back"):
        evidence_from_ms(at_once, WANTED)
    again = [*undone, shadow(40, withdrawn=True), shadow(50)]
    assert evidence_from_ms(again, WANTED) == 50 * MINUTE_MS
    assert evidence_from_ms([served(1), served(2, withdrawn=True), shadow(10)], WANTED) == 10 * MINUTE_MS


def test_who_does_not_look_on_is_not_promoted() -> None:
    """Nor one that looks at one job only, for the whole cluster. So ending the shadow cancels the rule."""
    for releases in ([], [shadow(10), shadow(20, withdrawn=True)], [shadow(10, sha256="ab" * 32)], [shadow(10, job=JOB)]):
        with pytest.raises(SettingsError, match=r"^policy: ds2 \(rule\) does not run in shadow for sim, so no rule promotes it"):
            evidence_from_ms(releases, WANTED)
