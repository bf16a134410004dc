"""What may be changed of a job's settings, without Kafka."""

from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from surescale.contracts.capabilities import UNKNOWN, Capabilities
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_labels import FIELDS
from surescale.contracts.job_settings import SETTINGS, ExcludedPeriod, JobSettings, TaskLimits
from surescale.contracts.limits_in_words import read_within
from surescale.contracts.messages import ClusterTopology, JobTopology, TaskSpec
from surescale.contracts.wire import decode, encode
from surescale.services import command_table
from surescale.services.job_settings.changes import (
    REQUESTS,
    STEPS,
    Recorded,
    changed,
    differences,
    newest,
    value_in_words,
    without_effect,
)
from surescale.services.job_settings.snapshot import SettingsSnapshot, note
from surescale.services.tools.job_settings.options import (
    as_settings,
    changes_of,
    limits_in_force,
    overview,
    overview_in_lines,
    with_tasks,
)
from tests.support.command_line import command_named
from tests.support.command_line import job_command as command

JOB = "sim/clicks"
TOPOLOGY = JobTopology(
    job=JOB,
    version=1,
    at_ms=0,
    tasks=(
        TaskSpec(task="source", scalable=False, max_parallelism=1),
        TaskSpec(task="map", upstream=("source",), max_parallelism=12),
        TaskSpec(task="reduce", upstream=("map",), max_parallelism=6, label="Reduce by key"),
    ),
)


def test_a_field_that_is_true_or_false_is_shown_as_its_option_has_it() -> None:
    """``--spread calibrated`` is shown as ``calibrated``, and what is not set as ``default``."""
    for field, setting in SETTINGS.items():
        for word in setting.words or ():
            assert value_in_words(field, as_settings({field: word})[field]) == word
        assert value_in_words(field, None) == "default"


def given(before: JobSettings | None = None, **options: object) -> JobSettings:
    """Return the next version of the settings after these options of the command."""
    settings = before or JobSettings(job=JOB)
    return change(settings, **with_tasks(as_settings(options), settings, TOPOLOGY))


def change(before: JobSettings | None = None, **wanted: object) -> JobSettings:
    """Return the next version of the settings."""
    return changed(before or JobSettings(job=JOB), wanted, TOPOLOGY, by="ann@desk", at_ms=60_000)


def recorded(**fields: object) -> Recorded:
    """Return one record of the history."""
    return Recorded(JobSettings(job=JOB, **fields), append_ms=1)  # type: ignore[arg-type]


def test_a_change_has_a_version_a_who_and_a_when() -> None:
    """The version grows by one, who and when are kept, and what was not named stays."""
    after = change(JobSettings(job=JOB, version=4, priority=2), mode="advise")
    assert (after.version, after.set_by, after.set_at_ms) == (5, "ann@desk", 60_000)
    assert (after.mode, after.priority) == ("advise", 2)


def test_settings_of_the_highest_version_can_still_be_changed() -> None:
    """Its writer must not have the last word: the record is one that readers accept, and the later of equal versions."""
    forged = JobSettings(job=JOB, version=2**53, mode="observe")
    after = change(forged, mode="act")
    assert decode(encode(after), JobSettings) == after
    assert newest([Recorded(forged, 1), Recorded(after, 2)], JOB) == after


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"parallelism_min": 5, "parallelism_max": 4}, "--min: 5 is more than --max 4"),
        ({"parallelism_min": 11}, "--min: 11 is more than --max 10"),
        ({"parallelism_min": 3, "total_limit": 5}, "--total: 5 is less than 2 scalable tasks"),
        ({"parallelism_min": 7}, "--min: 7 is more than task Reduce by key can have"),
    ],
)
def test_contradictory_bounds_name_the_option(wanted: dict[str, object], named: str) -> None:
    """Bounds that contradict each other or the job are refused, and the message begins with the option."""
    with pytest.raises(SettingsError, match=f"^{named}"):
        change(**wanted)


def test_bounds_that_just_fit_are_taken() -> None:
    """The total may be exactly what the least parallelism of all scalable tasks needs."""
    assert change(parallelism_min=3, total_limit=6).total_limit == 6


def test_of_equal_versions_the_later_record_counts() -> None:
    """Two who chose the same version: the last wins; a lower version behind it changes nothing."""
    history = [recorded(version=1, priority=1), recorded(version=2), recorded(version=2, priority=7), recorded(version=1)]
    assert newest(history, JOB).priority == 7


def test_differences_leave_out_what_no_user_sets() -> None:
    """Version, who and when are no difference; a changed bound is."""
    before = JobSettings(job=JOB)
    assert differences(before, change(before)) == {}
    assert differences(before, change(before, parallelism_max=8)) == {"parallelism_max": (None, 8)}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--min", "0"],
        ["--step", "1"],
        ["--step-up", "0.5"],
        ["--step-down", "many"],
        ["--rescales-a-day", "-1"],
        ["--on-drift", "fight"],
        ["--mode", "maybe"],
    ],
)
def test_a_value_out_of_range_is_refused_by_its_option(arguments: list[str]) -> None:
    """What no settings record can hold is refused before Kafka is asked."""
    result = CliRunner().invoke(command, ["set", JOB, *arguments])
    assert result.exit_code == 2
    assert arguments[0] in result.output


def test_nothing_to_change_is_said() -> None:
    """`job set` without any option names the options."""
    result = CliRunner().invoke(command, ["set", JOB])
    assert isinstance(result.exception, SettingsError)
    assert "--mode" in str(result.exception)


@pytest.mark.parametrize("wanted", [{"mode": "observe"}, {"policy": "hold"}, {"priority": 3}])
def test_a_job_that_has_outgrown_its_bounds_can_still_be_paused(wanted: dict[str, object]) -> None:
    """Bounds that fitted the job of yesterday, and that nobody names now, must not forbid to stop the job of today."""
    before = JobSettings(job=JOB, version=4, parallelism_min=7, total_limit=8)
    assert differences(before, change(before, **wanted)).keys() == wanted.keys()
    with pytest.raises(SettingsError, match=r"^--total"):
        change(before, **wanted, total_limit=9)


def test_limits_of_tasks_are_joined_to_those_there_are() -> None:
    """By name or by label; a task that is freed has none any more, and others keep theirs."""
    first = given(tasks=("map=2..8", "Reduce by key=pinned"))
    assert first.tasks == {"map": TaskLimits(parallelism_min=2, parallelism_max=8), "Reduce by key": TaskLimits(pinned=True)}
    second = given(first, tasks=("map=free",))
    assert second.tasks == {"Reduce by key": TaskLimits(pinned=True)}
    assert given(second, tasks=("Reduce by key=free",)).tasks == {}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tasks": ("mapp=2..8",)}, "--task: job sim/clicks has no task 'mapp'; known: map"),
        ({"tasks": ("map=9..8",)}, "--task: '9..8' of task map: 9 is more than 8; write NAME=MIN..MAX"),
        ({"tasks": ("map=11..",)}, "--task: map=11.. is more than --max 10; give the task a maximum too, like map=11..11"),
        ({"tasks": ("reduce=7..9",)}, "--task: Reduce by key=7.. is more than task Reduce by key can have"),
        ({"tasks": ("map=9..9", "reduce=2..2"), "total_limit": 10}, "--total: 10 is less than 2 scalable tasks with --task and"),
        ({"parallelism_min": 5, "tasks": ("map=..4",)}, "--min: 5 is more than the 4 that task map may have"),
        ({"minimum_within": ("mon: min 11",), "parallelism_max": 10}, "--within: mon UTC: min 11 is more than --max 10;"),
        (
            {"minimum_within": ("mon: max 2",), "parallelism_min": 3},
            "--within: mon UTC: max 2 is less than --min 3; give at least",
        ),
        (
            {"minimum_within": ("mon: max 2",), "tasks": ("map=4..",)},
            "--within: mon UTC: max 2 is less than --task map=4..; give",
        ),
        ({"minimum_within": ("mon 07:30-09:00",)}, "--within: 'mon 07:30-09:00' names no min, max or objective; write"),
        ({"minimum_within": ("none", "sat: min 2")}, "--within: none takes all of them away"),
        ({"excluded": ("none", "sat")}, "--exclude: none takes all of them away"),
    ],
)
def test_contradictory_limits_of_tasks_name_the_option(options: dict[str, object], named: str) -> None:
    """The message begins with the option and says what to give."""
    with pytest.raises(SettingsError, match=f"^{named}"):
        given(**options)


def test_a_pinned_task_keeps_its_size_whatever_its_bounds() -> None:
    """It counts as it runs: a minimum of more than it can have is no contradiction."""
    assert given(tasks=("reduce=pinned",), parallelism_min=7, total_limit=200).parallelism_min == 7


def test_one_step_is_both_steps() -> None:
    """--step is short for the two; one of them may say otherwise, and default is the engine's."""
    assert (given(step=3.0).step_up_max, given(step=3.0).step_down_max) == (3.0, 3.0)
    assert (given(step=3.0, step_up_max=5.0).step_up_max, given(step=3.0, step_up_max="default").step_up_max) == (5.0, None)


def test_default_and_none_take_limits_away() -> None:
    """The words of the command line become what a record without the limit has."""
    quotas: dict[str, object] = {"cpu_limit": 8.0, "memory_limit": 6.0, "calibrated_spread": "calibrated"}
    limited = given(rescales_a_day_max=4, excluded=("sat,sun",), block_ineffective="block", emergency_growth="wait", **quotas)
    assert limited.excluded == (ExcludedPeriod(days=("sat", "sun")),)
    assert (limited.rescales_a_day_max, limited.block_ineffective, limited.emergency_growth) == (4, True, False)
    assert limited.calibrated_spread is True
    assert given(limited, calibrated_spread="shipped").calibrated_spread is False
    options: dict[str, object] = {"rescales_a_day_max": "default", "excluded": ("none",), "block_ineffective": "default"}
    options |= {"emergency_growth": "default", "cpu_limit": "default", "memory_limit": "default", "calibrated_spread": "default"}
    freed = given(limited, **options)
    assert freed.excluded == ()  # a label cannot set it any more
    freed = given(freed, excluded="default")
    assert {name for name in SETTINGS if getattr(freed, name) != getattr(JobSettings(job=JOB), name)} == set()


def test_every_field_that_a_user_sets_has_an_option() -> None:
    """A limit without an option could be set by nobody."""
    kept = {"job", "version", "request", "set_by", "set_at_ms", "applied_from"}
    assert set(SETTINGS) | set(REQUESTS) | set(STEPS) == set(JobSettings.__struct_fields__) - kept
    assert set(REQUESTS.values()) <= set(command_table.JOB.commands())
    offered = {option for parameter in command_named("job set").params for option in parameter.opts}
    assert {f"--{setting.option}" for setting in SETTINGS.values()} <= offered


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (Capabilities(engine="kafka"), "nothing can act on it, so act is no more than advise: set SURESCALE_ACTUATOR of monitor"),
        (Capabilities(engine="flink"), "set SURESCALE_ACTUATOR of monitor and rescaler, or give Flink the adaptive scheduler"),
        (Capabilities(engine="flink", acts="counts"), None),
        (None, None),
    ],
)
def test_act_where_nothing_can_act_is_said_once(engine: Capabilities | None, said: str | None) -> None:
    """Not of an engine that nobody knows yet, and not again when something else is changed."""
    hosts = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(), engine=engine) if engine else None
    seen = SettingsSnapshot(job=JOB, known=TOPOLOGY, history=(), now_ms=0, release=None, hosts=hosts)
    before = JobSettings(job=JOB)
    act = change(before, mode="act")
    told = note(before, act, seen)
    assert (told is None) if said is None else (told is not None and said in told)
    assert note(act, change(act, parallelism_max=3), seen) is None


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (Capabilities(engine="flink", acts="counts"), "--idle-to-zero 30 has no effect: its engine keeps at least one subtask"),
        (Capabilities(engine="kafka"), "--idle-to-zero 30 has no effect: nothing starts and stops its workers; set SURESCALE_AC"),
        (Capabilities(engine="kafka", acts="counts", can_rest=True), None),
        (UNKNOWN, None),
        (None, None),
    ],
)
def test_a_rest_that_the_engine_cannot_give_is_said_at_once(engine: Capabilities | None, said: str | None) -> None:
    """And once; to switch it off has an effect everywhere."""
    hosts = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(), engine=engine) if engine else None
    seen = SettingsSnapshot(job=JOB, known=TOPOLOGY, history=(), now_ms=0, release=None, hosts=hosts)
    before = JobSettings(job=JOB)
    after = change(before, idle_to_zero_minutes=30)
    told = note(before, after, seen)
    assert (told is None) if said is None else (told is not None and said in told)
    assert note(after, change(after, parallelism_max=3), seen) is None
    assert note(after, change(after, idle_to_zero_minutes=0), seen) is None


@pytest.mark.parametrize(
    ("bound", "said"), [(13, "at most 12 subtasks of a task, so --max 13 has no effect"), (12, None), (6, None)]
)
def test_a_maximum_above_the_engines_is_taken_and_said_to_have_no_effect(bound: int, said: str | None) -> None:
    """Of the tasks that can be scaled the one that may grow most counts. A bound that was there before is not told again."""
    before = JobSettings(job=JOB)
    after = change(before, parallelism_max=bound)
    note = without_effect(before, after, TOPOLOGY)
    assert note is None if said is None else note is not None and note.endswith(said)
    assert without_effect(after, change(after, mode="advise"), TOPOLOGY) is None


def test_what_is_set_to_its_own_default_is_set() -> None:
    """A label cannot change it any more, until somebody says default."""
    one = given(parallelism_min=1, excluded=("none",))
    assert (one.parallelism_min, one.excluded) == (1, ())
    assert differences(JobSettings(job=JOB), one) == {"parallelism_min": (None, 1), "excluded": (None, ())}
    assert given(one, parallelism_min="default").parallelism_min is None


def test_a_bound_within_a_period_that_is_weaker_than_the_jobs_own_is_said_to_have_no_effect() -> None:
    """The strictest counts, so a period cannot lift what holds always."""
    before = JobSettings(job=JOB, parallelism_min=2, parallelism_max=8)
    told = [
        without_effect(before, change(before, minimum_within=tuple(map(read_within, texts))), TOPOLOGY)
        for texts in (("mon: max 9",), ("mon: min 3", "tue: min 1 max 8"))
    ]
    assert told == ["--max 8 holds within mon UTC too, so max 9 has no effect", None]
    wide = msgspec.structs.replace(before, parallelism_min=5)
    after = change(wide, minimum_within=(read_within("mon: min 3"),))
    assert without_effect(wide, after, TOPOLOGY) == "--min 5 holds within mon UTC too, so min 3 has no effect"
    assert without_effect(after, change(after, mode="advise"), TOPOLOGY) is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"safe_size": 9}, "no task may have more than 8 subtasks, so --safe-size 9 counts as 8"),
        ({"safe_size": 8}, None),
        ({"safe_size": 5, "parallelism_max": 4}, "no task may have more than 4 subtasks, so --safe-size 5 counts as 4"),
        ({"safe_size": 9, "tasks": {"map": TaskLimits(parallelism_max=10)}}, None),
        ({"safe_size": 9, "parallelism_max": None}, None),
    ],
)
def test_a_safe_size_above_the_maximum_is_said_to_count_as_that(wanted: dict[str, Any], said: str | None) -> None:
    """Unless a task's own maximum lets it grow that far. One that was there before is not told again."""
    before = JobSettings(job=JOB, parallelism_max=8)
    after = change(before, **wanted)
    assert without_effect(before, after, TOPOLOGY) == said
    assert without_effect(after, change(after, mode="advise"), TOPOLOGY) is None


def test_what_holds_now_counts_the_periods() -> None:
    """`job settings` names what they decide now, and what of it does not run yet."""
    topology = JobTopology(job=JOB, version=1, at_ms=0, tasks=(TaskSpec(task="map", parallelism=3, max_parallelism=128),))
    own = JobSettings(job=JOB, version=1, minimum_within=(read_within("thu 00:00-09:00: min 5"), read_within("fri: max 2")))
    shown = []
    for now_ms in (0, 24 * 3_600_000, 12 * 3_600_000):  # 1970-01-01 was a Thursday
        seen = SettingsSnapshot(job=JOB, known=topology, history=(Recorded(own, append_ms=1),), now_ms=now_ms, release=None)
        document = overview(seen, "sure")
        shown.append((document["within_now"], limits_in_force(document, topology, own, now_ms)[-1].partition(": it ")[0]))
    assert shown == [
        ("min 5 until 09:00 UTC", "now: map runs with 3, below its minimum of 5: the next decision widens it"),
        ("max 2 within fri UTC", "now: map runs with 3, above its maximum of 2"),
        ("none", "now: what runs is within these limits"),
    ]


def test_limits_in_force_have_a_source_and_an_effect() -> None:
    """Yours, the job's label's or the engine's; and which tasks are outside of them."""
    tasks = (TaskSpec(task="map", label="Map", parallelism=40, max_parallelism=128), TaskSpec(task="sink", parallelism=2))
    labels = {"surescale.max": "12", "surescale.total": "many"}
    topology = JobTopology(job=JOB, version=1, at_ms=0, tasks=tasks, engine="flink", labels=labels)
    own = JobSettings(job=JOB, version=1, utilisation=0.5, mode="act")
    seen = SettingsSnapshot(job=JOB, known=topology, history=(Recorded(own, append_ms=1),), now_ms=0, release=None)
    lines = limits_in_force(overview(seen, "sure"), topology, own, seen.now_ms)
    assert {line.split(None, 1)[0]: " ".join(line.split()[1:]) for line in lines[1:]} | {
        "max": "12 (label)",
        "total": "none (default of flink)",
        "utilisation": "0.5 (set for this job)",
        "scale-down-after": "30 (default of flink)",
    } == {line.split(None, 1)[0]: " ".join(line.split()[1:]) for line in lines[1:]}
    assert any(line.startswith("label surescale.total is ignored: 'many' cannot be read") for line in lines)
    assert lines[-1] == "now: Map runs with 40, above its maximum of 12: it goes there in steps, as the load allows"


def test_an_overview_has_what_somebody_set_with_who_and_when_and_the_rest_together() -> None:
    """Of several changes of a setting the last one counts; what was never in force is nobody's; a label is named as such."""
    topology = msgspec.structs.replace(TOPOLOGY, engine="flink", labels={"surescale.max": "12", "surescale.total": "many"})
    records = (
        JobSettings(job=JOB, version=1, utilisation=0.5, set_by="demo"),
        JobSettings(job=JOB, version=2, utilisation=0.5, mode="advise", set_by="ann", set_at_ms=60_000),
        JobSettings(job=JOB, version=1, utilisation=0.9, set_by="late", set_at_ms=90_000),
        JobSettings(job=JOB, version=3, utilisation=0.5, mode="act", set_by="bob", set_at_ms=120_000, applied_from="team.toml"),
    )
    history = tuple(Recorded(each, append_ms=1) for each in records)
    seen = SettingsSnapshot(job=JOB, known=topology, history=history, now_ms=0, release=None)
    lines = overview_in_lines(overview(seen, "sure"), seen)
    begins = lines.index("set for this job:")
    assert [" ".join(line.split()) for line in lines[begins + 1 : -2]] == [
        "mode act (bob from team.toml, 1970-01-01 00:02:00)",
        "max 12 (label)",
        "utilisation 0.5 (demo, before the pipeline's clock ran)",
    ]
    assert "policy_in_use sure (SURESCALE_POLICY)" in {" ".join(line.split()) for line in lines[:begins]}
    assert any(line.startswith("labels_ignored") and "surescale.total" in line for line in lines[:begins])
    assert lines[-2].startswith("defaults of flink: ")
    assert "scale-down-after 30" in lines[-2]
    assert lines[-1].startswith("no limit, or as the policy has it: ")
    named = {part.split()[0] for line in lines[-2:] for part in line.partition(": ")[2].split(", ")}
    assert named == FIELDS.keys() - {"max", "utilisation", "policy"}
    assert "default" not in "".join(lines[:-2])


def test_the_history_and_the_overview_have_one_clock() -> None:
    """The pipeline's; the broker's is beside it, for programs."""
    own = JobSettings(job=JOB, version=1, priority=2, set_by="ann", set_at_ms=60_000)
    seen = SettingsSnapshot(job=JOB, known=TOPOLOGY, history=(Recorded(own, append_ms=7),), now_ms=0, release=None)
    (change,) = changes_of(seen)
    assert overview(seen, "sure")["set_at"] == change.when == "1970-01-01 00:01:00"
    assert change.at_ms == 7


def test_a_time_that_no_calendar_has_is_shown_as_it_is() -> None:
    """Anybody may write it into a record: neither command may end with an error."""
    own = JobSettings(job=JOB, version=1, priority=2, set_by="ann", set_at_ms=2**53)
    seen = SettingsSnapshot(job=JOB, known=TOPOLOGY, history=(Recorded(own, append_ms=7),), now_ms=0, release=None)
    assert changes_of(seen)[0].when == overview(seen, "sure")["set_at"] == "9007199254740992 ms"


def test_an_overview_of_a_job_that_nobody_touched_says_so() -> None:
    """Nothing that is not there has a line of its own."""
    seen = SettingsSnapshot(job=JOB, known=TOPOLOGY, history=(), now_ms=0, release=None)
    lines = overview_in_lines(overview(seen, "sure"), seen)
    assert lines[-3] == "nothing is set for this job"
    assert {"applied_from", "changed_by_hand", "labels_ignored"}.isdisjoint(line.split()[0] for line in lines)


def test_settings_of_a_job_that_is_not_known_yet_need_only_a_name() -> None:
    """Any task may be named; what the settings say of themselves is still checked where it can be."""
    read = as_settings({"tasks": ("parse=2..8",), "mode": "act"})
    settings = changed(JobSettings(job="prod/new"), with_tasks(read, JobSettings(job="prod/new"), None), None, by="ann", at_ms=1)
    assert (settings.mode, settings.tasks) == ("act", {"parse": TaskLimits(parallelism_min=2, parallelism_max=8)})
