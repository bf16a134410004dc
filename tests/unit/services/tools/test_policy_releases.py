"""Which release holds when, what a rollback brings back, and the policy folder, without Kafka."""

import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.releases import Release, Releases, Slot
from surescale.contracts.windows import encode_window
from surescale.policies.paper.models import SubgraphModel
from surescale.policies.paper.policy import PaperPolicy
from surescale.policies.registry import SHIPPED, Unavailable
from surescale.policies.released_policy import card_hash, released_policy
from surescale.policies.rules.fixed import Hold
from surescale.policies.scores import JobScores, PolicyScore, Scores, ScoreSummary, summed_up, write_scores
from surescale.runtime.limited_graphs import LimitedSession
from surescale.services.agent.decider import Decider
from surescale.services.tools.policy_releases.folder import policies_in, verified
from surescale.services.tools.policy_releases.scope import check_cluster, rolled_back, start_ms, withdrawn
from tests.support.builders import JOB, window_at

MINUTE_MS = 60_000
SIM = Slot("sim", "serve", "cluster")


def release(policy: str, minute: int, *, sha256: str = "", cluster: str = "sim") -> Release:
    """Return a release that holds from a minute on."""
    return Release(cluster=cluster, policy=policy, sha256=sha256, valid_from_ms=minute * MINUTE_MS, set_by="ann")


@pytest.mark.parametrize(("cluster", "known"), [("sim", ["sim", "shop"]), ("any", [])])
def test_a_cluster_that_is_known_is_taken_and_any_before_the_first(cluster: str, known: list[str]) -> None:
    """A release may be written before the monitor has started."""
    check_cluster(cluster, known)


@pytest.mark.parametrize(("known", "named"), [(["shop", "sim"], "sim"), (["a", "b", "c", "d"], "a, b, c")])
def test_a_cluster_that_is_not_known_is_refused_with_the_nearest(known: list[str], named: str) -> None:
    """Or with the first few, if none is near."""
    with pytest.raises(SettingsError, match=f"^--cluster: there is no cluster 'smi'; known: {named}$"):
        check_cluster("smi", known)


def back_from(releases: list[Release], slot: Slot = SIM, *, minute: int = 9) -> Release:
    """Return what a rollback at a minute writes."""
    return rolled_back(Releases(releases), slot, next_minute_ms=minute * MINUTE_MS, by="bob")


def test_rollback_brings_the_policy_before_the_newest() -> None:
    """The newest release is undone from the next minute on, also when it was released twice."""
    back = back_from([release("hold", 1), release("static", 2), release("static", 3)])
    assert (back.policy, back.valid_from_ms, back.set_by, back.withdrawn) == ("hold", 9 * MINUTE_MS, "bob", False)


def test_a_rollback_of_a_release_to_come_takes_its_place() -> None:
    """A release that has not begun never takes effect."""
    before: list[Release] = [release("hold", 1), release("static", 50)]
    after = Releases([*before, back_from(before)])
    assert {held.policy for minute in range(1, 99) if (held := after.serving(JOB, minute * MINUTE_MS))} == {"hold"}


def test_a_rollback_of_the_first_release_ends_it_and_the_next_one_brings_it_back() -> None:
    """Agents use their own policy again: the first release is the one that is most likely to be a mistake."""
    releases: list[Release] = [release("hold", 1)]
    releases.append(back_from(releases))
    assert [Releases(releases).serving(JOB, minute * MINUTE_MS) is None for minute in (8, 9)] == [False, True]
    releases.append(back_from(releases, minute=20))
    held = Releases(releases).serving(JOB, 20 * MINUTE_MS)
    assert held is not None
    assert held.policy == "hold"


def test_a_rollback_of_a_canary_brings_its_smaller_share_back_and_leaves_other_scopes_alone() -> None:
    """A share is part of what is undone."""
    small, large = (replace(release("static", minute), share_permille=share) for minute, share in ((1, 100), (2, 500)))
    releases: list[Release] = [release("hold", 3), small, large]
    back = back_from(releases, Slot("sim", "serve", "canary"))
    assert (back.policy, back.share_permille, back.withdrawn) == ("static", 100, False)


@pytest.mark.parametrize("slot", [Slot("sim", "serve", "cluster"), Slot("sim", "serve", "job", JOB)])
def test_without_any_release_there_is_no_rollback_and_nothing_to_withdraw(slot: Slot) -> None:
    """The message names the scope."""
    for undo in (rolled_back, withdrawn):
        with pytest.raises(SettingsError, match=f"^policy: nothing .* for .*{slot.job or slot.cluster}"):
            undo(Releases([release("hold", 1, cluster="other")]), slot, next_minute_ms=0, by="bob")


def test_a_release_that_is_withdrawn_is_withdrawn_once() -> None:
    """From the next minute on, with the name of who did it."""
    end = withdrawn(Releases([release("hold", 1)]), SIM, next_minute_ms=9 * MINUTE_MS, by="bob")
    assert (end.withdrawn, end.valid_from_ms, end.set_by) == (True, 9 * MINUTE_MS, "bob")
    with pytest.raises(SettingsError, match="nothing is released for cluster sim"):
        withdrawn(Releases([release("hold", 1), end]), SIM, next_minute_ms=20 * MINUTE_MS, by="bob")


@pytest.mark.parametrize(("text", "expected"), [("now", 180_000), ("240000", 240_000), ("1970-01-01T00:05", 300_000)])
def test_a_start_is_a_whole_minute_to_come(text: str, expected: int) -> None:
    """Milliseconds, ISO time and now give an event minute after the pipeline's clock."""
    assert start_ms(text, 120_000) == expected


@pytest.mark.parametrize("text", ["120000", "240001", "soon", "1970-01-01", "9" * 40])
def test_a_start_that_is_past_or_no_minute_is_refused(text: str) -> None:
    """Past, broken and impossible starts name the option."""
    with pytest.raises(SettingsError, match=r"^--from: "):
        start_ms(text, 120_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a policy folder with the shipped package under its name."""
    shutil.copytree(SHIPPED / "sure", tmp_path / "sure")
    return tmp_path


def test_a_damaged_package_fails_its_check(tmp_path: Path) -> None:
    """One changed byte in a graph is found, and the message names the file."""
    shutil.copytree(SHIPPED / "sure-paper", tmp_path / "sure-paper")
    graph = tmp_path / "sure-paper" / "policy.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"\0")
    with pytest.raises(SettingsError, match=r"policy sure-paper: sure-paper/policy.onnx is damaged"):
        verified("sure-paper", str(tmp_path))


def test_a_package_under_a_foreign_name_fails_its_check(folder: Path) -> None:
    """A folder that is called otherwise than its card is refused, unless it is called by its hash."""
    sha256 = card_hash(folder / "sure")
    (folder / "sure").rename(folder / "better")
    with pytest.raises(SettingsError, match="its card names it 'sure'"):
        verified("better", str(folder))
    (folder / "better").rename(folder / sha256)
    assert verified(sha256, str(folder)).name == "sure"


def test_a_released_package_is_found_by_its_hash(folder: Path) -> None:
    """When the name holds another version by now, the folder called by the hash is used."""
    sha256 = card_hash(folder / "sure")
    shutil.copytree(folder / "sure", folder / sha256)
    card = folder / "sure" / "card.json"
    card.write_bytes(card.read_bytes() + b"\n")
    assert released_policy("sure", sha256, str(folder)).sha256 == sha256


def test_another_hash_than_the_released_one_is_not_used(folder: Path) -> None:
    """The folder holds the name, but not the package that was released: it is not taken for it."""
    policy = released_policy("sure", "f" * 64, str(folder))
    assert isinstance(policy, Unavailable)
    assert "ffffffffffff is not in the policy folder" in policy.reason


def released_answerer(released: Release, settings: JobSettings | None = None) -> Decider:
    """Return an agent's answerer that knows one release."""
    releases = Releases([released])
    return Decider(
        lambda job: settings or JobSettings(job=job),
        policy="target-utilisation",
        folder="",
        seed=7,
        released=releases.serving,
    )


@pytest.mark.parametrize(("minute", "policy"), [(590, "target-utilisation"), (600, "hold"), (610, "hold")])
def test_the_end_of_the_span_picks_the_release(minute: int, policy: str) -> None:
    """Spans that end before the release's minute have the policy before it; at it and after it the released one."""
    decision = released_answerer(release("hold", 600)).answer(encode_window(window_at(minute)))
    assert decision is not None
    assert decision.policy.name == policy


def test_the_policy_of_a_job_wins_over_the_release() -> None:
    """A job whose settings name a policy does not follow releases."""
    answerer = released_answerer(release("hold", 0), JobSettings(job=JOB, policy="static", version=1))
    decision = answerer.answer(encode_window(window_at(600)))
    assert decision is not None
    assert decision.policy.name == "static"


def test_the_scores_of_a_package_kept_under_its_hash_are_its_own(folder: Path) -> None:
    """Beside a newer one of the same name, which was judged on one job."""
    shutil.copytree(folder / "sure", folder / card_hash(folder / "sure"))
    (folder / "sure" / "card.json").write_text("{}")
    write_scores(judged({"j": {"sure": 0.5}}), folder / "sure")
    kept = next(row for row in policies_in(str(folder)) if row.sha256)
    assert kept.policy == "sure"
    assert kept.scores.jobs > 1


def test_each_policy_that_ships_says_in_a_line_what_it_does() -> None:
    """Short enough for 80 columns, as `policy list` indents it, and without the marks of a docstring."""
    said = {row.policy: row.what for row in policies_in("")}
    assert said["hold"] == "Never changes anything."
    assert {name for name, what in said.items() if not what.endswith(".") or "`" in what or len(what) > 76} == set()
    assert len(set(said.values())) == len(said)


def test_what_a_class_does_not_say_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataclass without a docstring lists its fields there; the docstring of what stands in for a package is not about it."""
    monkeypatch.setattr(Hold, "__doc__", "Hold(name: str = 'hold')")
    (folder / "sure" / "card.json").write_text("{}")
    said = {row.policy: row.what for row in policies_in(str(folder))}
    assert (said["hold"], said["sure"]) == ("", "")
    assert said["static"]


def test_judging_leaves_a_packages_hash_alone(folder: Path) -> None:
    """Scores lie beside the card: a package that was judged after its release is still the released one."""
    sha256 = card_hash(folder / "sure")
    write_scores(judged({"j": {"sure": 0.5}}), folder / "sure")
    assert card_hash(folder / "sure") == sha256
    assert released_policy("sure", sha256, str(folder)).sha256 == sha256
    (row,) = (row for row in policies_in(str(folder)) if row.sha256)
    assert row.scores == ScoreSummary(1, PolicyScore(reward=0.5))


def judged(rewards: dict[str, dict[str, float]]) -> Scores:
    """Return the scores of a package named sure from rewards by job and policy."""
    jobs = {
        job: JobScores(tasks=3, policies={name: PolicyScore(reward=reward) for name, reward in found.items()})
        for job, found in rewards.items()
    }
    return Scores(policy="sure", terms={}, jobs=jobs)


def test_a_released_hash_that_is_not_there_falls_back_and_says_so() -> None:
    """The rule answers and the decision names what was asked and why."""
    decision = released_answerer(release("sure", 0, sha256="f" * 64)).answer(encode_window(window_at(600)))
    assert decision is not None
    assert (decision.policy.name, decision.policy.asked) == ("target-utilisation", "sure")
    assert "ffffffffffff" in (decision.policy.fallback_reason or "")


def test_scores_of_a_package_are_means_over_its_jobs() -> None:
    """Constant sizes stand beside them only if every job was run with them: a mean over other jobs says nothing."""
    found = summed_up(judged({"a": {"sure": 0.2, "static": 0.1}, "b": {"sure": 0.4, "static": 0.2}}))
    assert (found.jobs, found.own.reward, found.static.reward) == (2, pytest.approx(0.3), pytest.approx(0.15))
    assert summed_up(judged({"a": {"sure": 0.2, "static": 0.1}, "b": {"sure": 0.4, "hpa": 0.3}})).static is None


def test_the_list_tells_what_a_shipped_package_costs_and_does() -> None:
    """Rent, latency and rescales; a paper's package knows no rent but how busy its subtasks were."""
    lines = {row.policy: row.scores.line() for row in policies_in("") if row.scores}
    assert re.fullmatch(
        r"on 11 jobs \d+% less rent than static, latency [\d.]+ s \(static [\d.]+ s\), "
        r"[\d.]+ rescales a day \(static [\d.]+\)",
        lines["sure"],
    )
    assert re.fullmatch(r"on 4 jobs \d+% busy, latency [\d.]+ s", lines["sure-paper"])


def test_a_figure_that_one_job_lacks_is_not_told() -> None:
    """A mean over other jobs would be compared with it."""
    known, reward = PolicyScore(reward=0.2, utilisation=0.5, rescales_per_day=3.0), PolicyScore(reward=0.4, utilisation=0.7)
    jobs = {name: JobScores(tasks=3, policies={"sure": score}) for name, score in (("a", known), ("b", reward))}
    assert summed_up(Scores(policy="sure", terms={}, jobs=jobs)).line() == "on 2 jobs 60% busy"


def test_a_package_that_was_judged_on_no_job_has_no_summary() -> None:
    """Other policies' rewards are not taken for its own."""
    assert summed_up(judged({})) is None
    assert summed_up(judged({"a": {"static": 0.1}})) is None


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """A slip of the pen in a release names what there is."""
    with pytest.raises(SettingsError, match=r"policy shure: there is no such policy in .*; did you mean sure\?"):
        verified("shure", "")
    for nothing in ("", " "):
        with pytest.raises(SettingsError, match=r"^policy: it has no name; write a policy's name, or leave it out$"):
            verified(nothing, "")


def test_graphs_that_did_not_ship_with_surescale_are_verified_in_a_process_of_their_own(tmp_path: Path) -> None:
    """Within the agent's limits: a graph may ask for all memory, and verifying is for packages that nobody trusts yet."""
    shutil.copytree(SHIPPED / "sure-paper", tmp_path / "sure-paper")
    policy = verified("sure-paper", str(tmp_path))
    assert isinstance(policy, PaperPolicy)
    assert isinstance(policy.model, SubgraphModel)
    assert isinstance(policy.model.sampler, LimitedSession)
