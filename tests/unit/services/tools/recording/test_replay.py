"""Open loop over hand-made windows: the diff, the figures, and agreement with what was recorded."""

import io

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision, PolicyUsed, TaskDecision
from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.ids import decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import SNAPSHOTS
from surescale.policies.registry import load_policy
from surescale.services.tools.recording.diff import PolicyTally, RecordDifference, SpanDiff, TaskTarget
from surescale.services.tools.recording.format import RawRecord
from surescale.services.tools.recording.replay import Replayed, agreement, chosen_policies, learn, replay
from surescale.services.tools.recording.replay_tables import agreement_line, document, print_replay
from tests.support.builders import JOB
from tests.unit.services.tools.recording.windows import FIRST_MINUTE, Held, decided, windows

LAST_MINUTE = FIRST_MINUTE + 30
QUIET = dict.fromkeys(range(FIRST_MINUTE - 19, LAST_MINUTE + 1), 84_000.0)  # 1.4 subtasks busy: two at 0.7 are right
BUSY = QUIET | dict.fromkeys(range(FIRST_MINUTE + 1, LAST_MINUTE + 1), 240_000.0)  # four subtasks busy from then on


def run(source: Held, *policies: str, jobs: frozenset[str] = frozenset()) -> Replayed:
    """Replay a source by policies."""
    known = learn(source, jobs)
    return replay(source, [load_policy(name) for name in policies], known, seed=0, jobs=jobs)


def test_the_same_policy_decides_the_same_bytes() -> None:
    """Every recorded decision is made again byte for byte, with the seed it was recorded with."""
    made = windows(BUSY)
    found = run(Held(made, decided(made, "target-utilisation", seed=7)), "target-utilisation")
    agreed = found.policies[0].recorded
    assert (agreed.same, agreed.different, agreed.unmatched, agreed.differences) == (5, 0, 0, [])


def test_a_decision_that_was_made_otherwise_is_found_and_its_fields_named() -> None:
    """One altered figure among the recorded ones shows."""
    made = windows(QUIET)
    first, *others = decided(made, "hold")
    found = run(Held(made, [msgspec.structs.replace(first, minutes_known=3), *others]), "hold")
    assert (found.policies[0].recorded.same, found.policies[0].recorded.different) == (4, 1)
    assert found.policies[0].recorded.differences == [RecordDifference(first.decision_id, ["minutes_known"])]


def test_decisions_of_another_package_are_not_compared() -> None:
    """The same name with another hash is counted apart."""
    made = windows(QUIET)
    used = [msgspec.structs.replace(d, policy=msgspec.structs.replace(d.policy, sha256="ab" * 32)) for d in decided(made, "hold")]
    agreed = run(Held(made, used), "hold").policies[0].recorded
    assert (agreed.other_hash, agreed.same, agreed.different) == (5, 0, 0)


def test_recorded_decisions_without_a_window_are_counted() -> None:
    """Windows that cannot be decided again are reported."""
    made = windows(QUIET)
    found = run(Held(made[:-1], decided(made, "hold")), "hold")
    assert (found.policies[0].recorded.same, found.policies[0].recorded.unmatched) == (4, 1)


def test_the_first_of_repeated_decisions_counts() -> None:
    """A repeated delivery changes nothing, nor does a repeated window."""
    made = windows(QUIET)
    decisions = decided(made, "hold")
    found = run(Held([*made, made[-1]], [*decisions, msgspec.structs.replace(decisions[0], minutes_known=1)]), "hold")
    assert (found.policies[0].decisions, found.policies[0].recorded.same) == (5, 5)


def test_each_decision_is_made_under_the_settings_it_names() -> None:
    """Settings of the recorded version hold, also where a newer version was appended in between."""
    made = windows(BUSY)
    tight = JobSettings(job=JOB, version=1, parallelism_max=3)
    decisions = decided(made, "target-utilisation", settings=tight)
    settings = [(1, tight), (2, JobSettings(job=JOB, version=2, parallelism_max=9))]
    assert run(Held(made, decisions, settings), "target-utilisation").policies[0].recorded.same == 5


def test_without_a_recorded_decision_the_settings_in_force_hold() -> None:
    """The newest version appended before the window bounds the answer."""
    late_ms = (LAST_MINUTE + 1) * MINUTE_MS
    settings = [(1, JobSettings(job=JOB, version=1, parallelism_max=3)), (late_ms, JobSettings(job=JOB, version=2))]
    last = run(Held(windows(BUSY), settings=settings), "target-utilisation").spans[-1]
    assert [task.desired for task in last.tasks] == [(3,)]


def test_the_diff_shows_what_each_policy_changes() -> None:
    """Policies side by side: the task that one of them changes, from what it has to what each wants."""
    found = run(Held(windows(BUSY)), "target-utilisation", "hold")
    last = found.spans[-1]
    assert (last.actions, last.current, last.desired) == (("act", "hold"), 2, (last.tasks[0].desired[0], 2))
    assert [(task.task, task.current, task.desired[1]) for task in last.tasks] == [("map", 2, 2)]
    assert last.tasks[0].desired[0] > 2


def test_a_minute_is_over_capacity_when_demand_passes_what_was_wanted_before_it() -> None:
    """Two subtasks under a demand of three: every minute behind the first decision counts, none where the target suffices."""
    heavy = dict.fromkeys(range(FIRST_MINUTE - 9, FIRST_MINUTE + 11), 180_000.0)
    found = run(Held(windows(heavy)), "hold", "target-utilisation")
    hold, rule = found.policies
    assert (hold.minutes, hold.minutes_over_capacity, hold.subtask_minutes) == (10, 10, 20)
    assert (rule.minutes, rule.minutes_over_capacity) == (10, 0)
    assert (found.ran.minutes, found.ran.minutes_over_capacity, found.ran.rescales) == (10, 10, 0)


def test_a_wish_repeated_is_many_acts_and_one_rescale() -> None:
    """The pipeline stays at 2 while ``static`` wants 3 at every span."""
    tally = run(Held(windows(QUIET)), "static").policies[0]
    assert (tally.decisions, tally.acts, tally.rescales) == (5, 5, 1)


def test_where_windows_were_made_again_the_settings_in_force_are_those_of_their_closing() -> None:
    """A window made again is appended now, behind all changes of settings; what closed its minute is as old as ever."""
    change_ms = LAST_MINUTE - 5  # windows here say the minute's number as the append time of what closed them
    settings = [(1, JobSettings(job=JOB, version=1, parallelism_max=3)), (change_ms, JobSettings(job=JOB, version=2))]
    source = Held(windows(BUSY), (), settings)
    chosen = [load_policy("target-utilisation")]
    again = replay(source, chosen, learn(source), seed=0, made_again=True)
    assert [span.desired[0] for span in again.spans][-3:] == [3, 3, 4]


def test_a_window_that_does_not_parse_is_left_out_and_counted() -> None:
    """The others are decided on."""
    source = Held(windows(QUIET))
    source.held[-1] = msgspec.structs.replace(source.held[-1], value=b"SSW\x09")
    found = run(source, "hold")
    assert (found.refused, found.policies[0].decisions) == (1, 4)


def test_a_job_without_windows_is_named() -> None:
    """Asked for a job that is not there, it says which; asked for none and nothing there, it says so too."""
    with pytest.raises(SurescaleError, match="no windows of sim/ghost"):
        run(Held(windows(QUIET)), "hold", jobs=frozenset({"sim/ghost"}))
    with pytest.raises(SurescaleError, match="no windows of any job"):
        run(Held([]), "hold")


def test_windows_none_of_which_can_be_read_are_not_called_absent() -> None:
    """Nobody must be sent to record them again: they are of another version, and the reason says so."""
    source = Held(windows(QUIET))
    source.held = [RawRecord(SNAPSHOTS, 0, 0, 0, b"sim/a", b"another layout")]
    with pytest.raises(SurescaleError, match="its 1 windows cannot be read or decided on, the first because"):
        run(source, "hold")


def _of(job: str, decision: Decision, span_end_ms: int) -> Decision:
    """Return the decision for another job and span."""
    own = decision_id(job, span_end_ms, decision.policy.asked)
    return msgspec.structs.replace(decision, decision_id=own, job=job, span_end_ms=span_end_ms, figures_until_ms=None)


def test_the_default_policy_is_that_of_the_jobs_named() -> None:
    """Another job with more decisions of another policy does not matter; one without any decision is asked what most are."""
    made = windows(QUIET)
    mine = decided(made, "static")[:1]
    others = [_of("sim/other", each, each.span_end_ms) for each in decided(made, "hold")]
    source = Held(made, [*mine, *others])
    assert [learn(source, jobs).policy() for jobs in (frozenset({JOB}), frozenset(), frozenset({"sim/new"}))] == [
        "static", "hold", "hold",
    ]  # fmt: skip


def test_the_policy_that_was_asked_is_the_default() -> None:
    """Nothing named: the recorded one; nothing recorded either: it must be named; an unknown one is refused."""
    made = windows(QUIET)
    assert [policy.name for policy in chosen_policies([], learn(Held(made, decided(made, "static"))), "")] == ["static"]
    with pytest.raises(SettingsError, match="name the policy"):
        chosen_policies([], learn(Held(made)), "")
    with pytest.raises(SettingsError, match="there is no policy 'best'"):
        chosen_policies(["best"], learn(Held(made)), "")


def test_two_sources_are_compared_decision_by_decision() -> None:
    """What only the first holds is unmatched."""
    made = windows(QUIET)
    whole, part = learn(Held(made, decided(made, "hold"))), learn(Held(made, decided(made, "hold")[:3]))
    found = agreement(whole, part, "hold")
    assert (found.same, found.unmatched, found.different) == (3, 2, 0)


def test_the_length_of_windows_and_the_seed_are_those_of_the_decisions() -> None:
    """Both are told by what was recorded, and by default where nothing was."""
    made = windows(QUIET)
    known = learn(Held(made, decided(made, "hold", seed=3)))
    assert (known.window_minutes(60), known.seed(0)) == (20, 3)
    assert (learn(Held(made)).window_minutes(60), learn(Held(made)).seed(1)) == (60, 1)


def test_how_often_rules_decided_is_told_by_their_decisions() -> None:
    """The greatest span that fits all of them, over jobs and gaps; a package's decisions and a single one tell nothing."""
    (one, *_) = decided(windows(QUIET), "hold")

    def span(*ends: tuple[str, int], default: int = 10, sha256: str = "") -> int:
        used = msgspec.structs.replace(one.policy, sha256=sha256)
        made = [msgspec.structs.replace(_of(job, one, end * MINUTE_MS), policy=used) for job, end in ends]
        return learn(Held([], made)).span_minutes(default)

    assert span() == span((JOB, 60)) == span((JOB, 60), ("sim/other", 61)) == 10
    assert span((JOB, 60), (JOB, 61), (JOB, 62)) == 1
    assert span((JOB, 60), (JOB, 64), (JOB, 70)) == 2
    assert span((JOB, 60), ("sim/other", 6), (JOB, 75), ("sim/other", 26), default=7) == 5
    assert span((JOB, 60), (JOB, 61), sha256="ab" * 32) == 10


def test_the_tables_show_changes_figures_and_agreement() -> None:
    """One screen for people: spans with changes, one row of figures a policy, one sentence on agreement."""
    made = windows(BUSY)
    console = Console(record=True, width=140, file=io.StringIO())
    print_replay(run(Held(made, decided(made, "hold")), "hold", "target-utilisation"), console)
    text = console.export_text()
    assert "hold: replays to the same decisions, byte for byte: 5 of 5" in text
    assert "target-utilisation: it has no recorded decisions to compare with" in text
    assert "spans without any change are left out" in text
    assert "↑" in text


def test_spans_with_equal_answers_share_a_row_unless_something_lies_between() -> None:
    """What a policy wishes again and again on an unchanged job is said once, with the first and the last span."""
    target = (TaskTarget("map", 2, (3,)),)
    spans = [SpanDiff(JOB, 600_000 * n, ("act",), 2, (3,), target if n != 4 else (), ("",)) for n in range(1, 6)]
    console = Console(record=True, width=140, file=io.StringIO())
    print_replay(Replayed([], PolicyTally("as it ran"), [JOB], spans, windows=50), console)
    text = console.export_text()
    assert text.count("│ 1970-01-01 00:10 ") == text.count("│ 1970-01-01 00:50 ") == 1
    assert "to 00:30, 3 spans" in text
    assert "1 of 5 spans without any change" in text


def test_the_document_is_plain_json() -> None:
    """Programs get the same figures."""
    made = windows(QUIET)
    found = document(run(Held(made, decided(made, "hold")), "hold"), source="x", through="windows")
    again = msgspec.json.decode(msgspec.json.encode(found))
    assert again["policies"][0]["recorded"] | {"differences": None} == {
        "same": 5, "different": 0, "other_hash": 0, "unmatched": 0, "differences": None,
    }  # fmt: skip
    assert again["windows"] == len(made)


def test_every_kind_of_disagreement_has_its_words() -> None:
    """Different, other package, no window: each is said."""
    made = windows(QUIET)
    altered = [msgspec.structs.replace(d, minutes_known=1) for d in decided(made, "hold")]
    assert "5 of 5 decisions differ" in agreement_line(run(Held(made, altered), "hold").policies[0].recorded)


def test_names_with_brackets_stand_in_the_tables_as_they_are() -> None:
    """Tasks and jobs of SQL are named so; they are no markup."""
    target = (TaskTarget("map(select=[id, n])", 2, (3,)), TaskTarget("in[/x]", 4, (5,)))
    spans = [
        SpanDiff("sim/a[b]", 600_000, ("act",), 6, (8,), target, ("",)),
        SpanDiff("sim/a[b]", 1_200_000, ("hold",), 6, (6,), (), ("",)),
    ]
    console = Console(record=True, width=140, file=io.StringIO())
    print_replay(Replayed([], PolicyTally("as it ran"), ["sim/a[b]"], spans, windows=50), console)
    text = console.export_text()
    assert all(name in text for name in ("map(select=[id, n])", "in[/x]", "sim/a[b]: 1 of 2 spans"))
    assert text.startswith("sim/a[b]")


def test_only_what_a_policy_asked_for_counts_as_its_rescale() -> None:
    """Not what the pipeline did meanwhile; and a target that is repeated counts once."""
    task = TaskDecision(task="map", current=2, ratio=1.0, proposed=2, desired=2)
    hold = Decision(
        decision_id=f"{JOB}@0/hold", job=JOB, span_end_ms=0, window_id="w", policy=PolicyUsed(name="hold"), seed=0,
        settings_version=0, topology_version=0, action="hold", reason="r", completeness=1.0, minutes_known=1, tasks=(task,),
    )  # fmt: skip
    act = replace(hold, action="act", tasks=(replace(task, desired=4),))
    tally = PolicyTally("any")
    tally.decided(hold, {"map": 3})  # the pipeline went from 3 to 2
    tally.decided(act, {"map": 2})
    tally.decided(act, {"map": 4})
    assert (tally.acts, tally.rescales) == (2, 1)
