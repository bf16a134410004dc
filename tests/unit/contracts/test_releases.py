"""Which release serves a job: the most specific one in force, and who belongs to a canary."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import Tuning
from surescale.contracts.releases import (
    SHADOWS_MAX,
    Release,
    Releases,
    Slot,
    is_in_share,
)
from surescale.contracts.wire import decode, encode
from tests.support.builders import JOB

JOBS = [f"sim/j{number}" for number in range(2_000)]
names = st.sampled_from(JOBS)


def release(policy: str, from_ms: int = 0, **more: object) -> Release:
    """Return a release to the cluster, or as asked."""
    return Release(cluster="sim", policy=policy, sha256="", valid_from_ms=from_ms, **more)  # type: ignore[arg-type]


def served(releases: Releases, at_ms: int, job: str = JOB) -> str | None:
    """Return the name of the policy that serves a job."""
    found = releases.serving(job, at_ms)
    return found.policy if found else None


def test_a_release_holds_from_its_minute_on_for_its_cluster() -> None:
    """Before its minute nothing holds; at it and after it the release does; other clusters are not touched."""
    releases = Releases([release("hold", 10), release("static", 20), replace(release("static", 5), cluster="other")])
    assert [served(releases, at_ms) for at_ms in (9, 10, 19, 20)] == [None, "hold", "hold", "static"]
    assert served(releases, 30, "third/job") is None


def test_of_two_releases_for_one_minute_the_later_record_holds() -> None:
    """A release that is to come can be taken back by another one for the same minute, in whatever order the minutes come."""
    releases = Releases([release("hold", 10), release("ds2", 5), release("static", 10)])
    assert [each.policy for each in releases.timeline(Slot("sim", "serve", "cluster"))] == ["ds2", "static"]


def test_the_most_specific_release_serves_and_its_end_uncovers_the_next_wider_one() -> None:
    """Job, then canary, then cluster, then nothing."""
    own, canary = release("ds2", 10, job=JOB), release("lag", 20, share_permille=999)
    assert canary.is_for(JOB)
    releases = Releases([release("hold", 0), canary, own])
    assert [served(releases, at_ms) for at_ms in (5, 15, 25)] == ["hold", "ds2", "ds2"]
    for part in (own, canary, release("hold")):
        releases.add(replace(part, withdrawn=True, valid_from_ms=100))
    releases.add(replace(own, withdrawn=True, valid_from_ms=30))
    releases.add(replace(canary, withdrawn=True, valid_from_ms=40))
    assert [served(releases, at_ms) for at_ms in (30, 40, 99, 100)] == ["lag", "hold", "hold", None]


@given(names, st.integers(0, 1000), st.integers(0, 1000), st.text("ab", max_size=3))
def test_a_larger_share_keeps_the_jobs_of_a_smaller_one(job: str, share: int, other: int, salt: str) -> None:
    """A canary that grows takes no job back; nobody is in no share, everybody in all."""
    small, large = sorted((share, other))
    assert is_in_share(job, large, salt=salt) or not is_in_share(job, small, salt=salt)
    assert (is_in_share(job, 0, salt=salt), is_in_share(job, 1000, salt=salt)) == (False, True)


@pytest.mark.parametrize("share", [10, 100, 500])
def test_a_share_is_about_that_part_of_the_jobs_and_another_for_another_policy(share: int) -> None:
    """Else the same few jobs would try every policy first. Four standard deviations of a draw of that size."""
    first, second = ({job for job in JOBS if is_in_share(job, share, salt=salt)} for salt in ("sure/a", "sure/b"))
    spread = 4 * (len(JOBS) * share / 1000 * (1 - share / 1000)) ** 0.5
    assert abs(len(first) - len(JOBS) * share / 1000) < spread
    assert first != second


def test_policies_in_the_shadow_of_all_scopes_look_on_together_but_not_more_than_the_limit() -> None:
    """One that is named in two scopes looks on once; one that is withdrawn looks on no longer."""
    shadows = [release(f"p{number}", 0, role="shadow") for number in range(SHADOWS_MAX + 2)]
    releases = Releases([release("hold"), *shadows, release("p4", 0, role="shadow", job=JOB)])
    assert [each.policy for each in releases.shadows(JOB, 5)] == ["p4", "p0", "p1"]
    releases.add(replace(shadows[0], withdrawn=True, valid_from_ms=10))
    assert [each.policy for each in releases.shadows(JOB, 10)] == ["p4", "p1", "p2"]
    assert releases.shadows("other/job", 10) == ()
    assert served(releases, 10) == "hold"


def test_every_kind_of_release_is_written_as_it_is() -> None:
    """To a cluster, a job or a share of them, in the shadow, with constants of its own, or its end."""
    tuned = Tuning(constants={"utilisation": 0.6})
    for each in (release("sure", 5, set_by="ana", set_at_ms=7), release("sure", job=JOB), release("sure", share_permille=10),
                 release("sure", role="shadow"), release("ds2", tuned=tuned), release("sure", withdrawn=True)):  # fmt: skip
        assert decode(encode(each), Release) == each


@pytest.mark.parametrize(
    "wrong",
    [{"job": "other/x"}, {"job": JOB, "share_permille": 10}, {"share_permille": 0}, {"share_permille": 1000}, {"job": "x"}],
)
def test_a_release_with_a_scope_that_contradicts_itself_is_refused(wrong: dict[str, object]) -> None:
    """A job of another cluster, a job and a share, a share of nobody or of all."""
    document = msgspec.to_builtins(release("sure"))
    with pytest.raises(RecordRejected) as refused:
        decode(msgspec.json.encode({"type": "policy-release/1", **document, **wrong}), Release)
    assert refused.value.reason == "invalid_field"
