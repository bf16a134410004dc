"""Settings of jobs as files, without Kafka: read, matched, compared, written back."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import SETTINGS, ExcludedPeriod, JobSettings, LatencyBound, PeriodBounds, TaskLimits
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.releases import Releases
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.wire import decode, encode
from surescale.services.job_settings.changes import Recorded, applied_to
from surescale.services.job_settings.files import Plan, exported, plans, read_entries
from surescale.services.job_settings.snapshot import KnownJobs
from surescale.services.tools.job_settings.file_commands import checked_entries

NAME = "jobs.toml"
TASKS = (TaskSpec(task="source", scalable=False, max_parallelism=1), TaskSpec(task="map", upstream=("source",), label="Map it"))


def known(*records: JobSettings, jobs: tuple[str, ...] = ("sim/clicks", "sim/views")) -> KnownJobs:
    """Return what Kafka knows: these jobs, and these records in their order."""
    history: dict[str, tuple[Recorded, ...]] = {}
    for each in records:
        history[each.job] = (*history.get(each.job, ()), Recorded(each, append_ms=1))
    topologies = {job: JobTopology(job=job, version=1, at_ms=0, tasks=TASKS) for job in jobs}
    return KnownJobs(topologies, {}, history, Releases([]), now_ms=60_000)


def planned(folder: Path, text: str, *records: JobSettings, prune: bool = False) -> dict[str, Plan]:
    """Return what a file would do."""
    (folder / NAME).write_text(text)
    made = plans(read_entries(folder / NAME), known(*records), NAME, "ann", prune=prune)
    return {plan.after.job: plan for plan in made}


def applied(plan: Plan) -> JobSettings:
    """Return what a plan writes."""
    assert plan.is_change
    return plan.after


def test_a_table_sets_what_it_names_and_leaves_the_rest_to_labels_and_engine(tmp_path: Path) -> None:
    """What somebody set before and the file leaves out is taken back; the version rises, and the record names the file."""
    before = JobSettings(job="sim/clicks", version=4, parallelism_max=3, priority=9, set_by="bob")
    text = '[jobs."sim/clicks"]\nmode = "act"\nmax = 12\nalign = false\ntask = ["map=2..6"]\nstep = 3\nstep-up = 5\n'
    plan = planned(tmp_path, text, before)["sim/clicks"]
    after = applied(plan)
    assert (after.version, after.set_by, after.applied_from) == (5, "ann", NAME)
    assert (after.mode, after.parallelism_max, after.priority, after.align) == ("act", 12, None, False)
    assert (after.step_up_max, after.step_down_max) == (5.0, 3.0)
    assert after.tasks == {"map": TaskLimits(parallelism_min=2, parallelism_max=6)}
    assert plan.differences["priority"] == (9, None)


def test_a_pattern_is_for_all_jobs_that_fit(tmp_path: Path) -> None:
    """Each gets a record of its own."""
    made = planned(tmp_path, '[jobs."sim/*"]\nmax = 5\n')
    assert {job: plan.after.parallelism_max for job, plan in made.items()} == {"sim/clicks": 5, "sim/views": 5}


def test_a_period_that_is_over_is_said_once(tmp_path: Path) -> None:
    """It is 1970-01-01 00:01 UTC; one that runs, comes or has no last day is not over."""
    periods = ["1969-12-24..1969-12-26", "1969-12-31 Asia/Tokyo", "1969-12-31 22:00-06:00", "1970-01-01", "mon", "..1969-01-01"]
    text = f'[jobs."sim/clicks"]\nexclude = {json.dumps(periods)}\nwithin = ["1969-12-31 America/New_York: min 2"]\n'
    plan = planned(tmp_path, text)["sim/clicks"]
    over = "'1969-12-24..1969-12-26 UTC', '1969-12-31..1969-12-31 Asia/Tokyo', '..1969-01-01 UTC'"
    assert plan.note == f"{over} are over, so nothing comes of it"
    assert planned(tmp_path, text, applied(plan))["sim/clicks"].note is None


def test_jobs_that_a_pattern_may_mean_are_named(tmp_path: Path) -> None:
    """The nearest, whatever their case, and not the first of hundreds."""
    jobs = (*(f"flink/a-{number}" for number in range(300)), "flink/orders", "kafka/views")
    for pattern, meant in (("flink/oders*", "flink/orders"), ("Flink/ORDERS*", "flink/orders"), ("kafka/vews-?", "kafka/views")):
        (tmp_path / NAME).write_text(f'[jobs."{pattern}"]\nmax = 3\n')
        with pytest.raises(SettingsError, match=rf"no job fits; correct or remove it \(jobs known: {meant}"):
            plans(read_entries(tmp_path / NAME), known(jobs=jobs), NAME, "ann")


def test_the_same_again_is_no_change(tmp_path: Path) -> None:
    """Also after a pause, which is nobody's setting, and not the file's."""
    text = '[jobs."sim/clicks"]\nmax = 12\n'
    first = applied(planned(tmp_path, text)["sim/clicks"])
    paused = msgspec.structs.replace(first, version=2, adopted_at_ms=5, applied_from=None)
    for records in ((first,), (first, paused)):
        assert not planned(tmp_path, text, *records)["sim/clicks"].is_change


def test_what_was_changed_by_hand_is_said_and_set_again(tmp_path: Path) -> None:
    """With both values."""
    text = '[jobs."sim/clicks"]\nmax = 12\n'
    first = applied(planned(tmp_path, text)["sim/clicks"])
    by_hand = msgspec.structs.replace(first, version=2, parallelism_max=30, set_by="bob", applied_from=None)
    plan = planned(tmp_path, text, first, by_hand)["sim/clicks"]
    assert plan.by_hand == {"parallelism_max": (12, 30)}
    assert (applied(plan).version, plan.after.parallelism_max) == (3, 12)


def test_settings_that_are_as_wanted_become_the_files(tmp_path: Path) -> None:
    """So that it can take them back later."""
    plan = planned(tmp_path, '[jobs."sim/clicks"]\nmax = 12\n', JobSettings(job="sim/clicks", version=1, parallelism_max=12))
    assert plan["sim/clicks"].differences == {}
    assert applied(plan["sim/clicks"]).applied_from == NAME


def test_pruning_takes_back_what_the_file_no_longer_names_and_nothing_else(tmp_path: Path) -> None:
    """Once; other files' jobs and those set by hand stay, and so does a job's pause."""
    gone = JobSettings(job="sim/clicks", version=1, parallelism_max=12, applied_from=NAME)
    others = JobSettings(job="sim/other", version=1, parallelism_max=3, applied_from="other.toml")
    hand = JobSettings(job="sim/hand", version=1, parallelism_max=3)
    text = '[jobs."sim/views"]\nmax = 5\n'
    assert planned(tmp_path, text, gone, others, hand).keys() == {"sim/views"}
    made = planned(tmp_path, text, gone, others, hand, prune=True)
    assert made.keys() == {"sim/views", "sim/clicks"}
    after = applied(made["sim/clicks"])
    assert (after.parallelism_max, after.applied_from, after.version) == (None, "", 2)
    assert decode(encode(after), JobSettings) == after
    assert applied_to([Recorded(gone, 1), Recorded(after, 2)], "sim/clicks") is None
    assert planned(tmp_path, text, gone, after, prune=True).keys() == {"sim/views"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[jobs."sim/clicks"]\nmaxx = 3', "[jobs.\"sim/clicks\"]: there is no setting 'maxx'; did you mean max?"),
        ('[jobs."sim/clicks"]\nmax = "many"', '[jobs."sim/clicks"]: max = "many": must be a whole number'),
        ('[jobs."sim/clicks"]\nmax = 0', "max = 0: must be a whole number, at least 1"),
        ('[jobs."sim/clicks"]\nmode = "acts"', "'acts' is not one of act, advise, observe; did you mean act?"),
        ('[jobs."sim/clicks"]\ntask = ["map=8..2"]', "'8..2' of task map: 8 is more than 2; write NAME=MIN..MAX"),
        ('[jobs."sim/clicks"]\nmax = [3]', "max: cannot be read: write a number or a text, or a list of texts"),
        ('[jobs."sim/clicks"]\nmax = 2026-12-24', "max: cannot be read: write a number or a text, or a list of texts"),
        ('[jobs."sim/clicks"]\nmax = 07:30:00', "max: cannot be read: "),
        ('[jobs."sim/clicks"]\npolicy = 2026-12-24', "policy: cannot be read: "),
        ('[jobs."sim/clicks"]\nmax = 0x' + "f" * 5_000, "max: cannot be read: "),
        ('[jobs."sim/clicks"]\nexclude = [2026-12-24]', "exclude: cannot be read: "),
        ('[jobs."sim/clicks"]\nsafe-after = "5 min"', 'safe-after = "5 min": must be a whole number (Minutes without figures'),
        ('[jobs."sim/clicks"]\nutilisation = "80%"', 'utilisation = "80%": must be a number ('),
        ('[jobs."sim/clicks"]\nexclude = ["mon 09:00-09:00"]', "ends when it begins; leave the times out for whole days"),
        ('[jobs."sim/clicks"]\nmax = ["3"]', "max: takes one value, not a list"),
        ('[jobs."sim/clicks"]\nexclude = "sat"', 'exclude: write a list, like exclude = ["PERIOD"]'),
        ('[jobs."sim/clicks"]\nexclude = ["someday"]', "'someday' in 'someday' is not a day, time or time zone"),
        ('[jobs."sim/clicks"]\nexclude = ["2026-12-26..2026-12-24"]', "never comes: it ends before it begins"),
        ('[jobs."sim/clicks"]\nwithin = ["mon 2026-12-25..2026-12-26: min 2"]', "never comes: no mon is among its days"),
        ('[jobs."sim/clicks"]\ntask = ["map=2..", "map=3.."]', "a task is named twice; name each once"),
        ('[jobs."sim/clicks"]\nspread = "wide"', 'spread = "wide": give calibrated or shipped'),
        ('[jobs."sim/clicks"]\nmin = 9\nmax = 3', '[jobs."sim/clicks"]: --min: 9 is more than --max 3'),
        ('[jobs."sim/clicks"]\ntask = ["nap=2.."]', "there is no task 'nap'; known: Map it, map, source"),
        ('[jobs."sim/clicks"]\nmax = 3\n[jobs."sim/c*"]\nmax = 4', '[jobs."sim/c*"]: sim/clicks has an entry already, '),
        ('[jobs."sim/x*"]\nmax = 3', '[jobs."sim/x*"]: no job fits; correct or remove it (jobs known: sim/views, sim/clicks)'),
        ('[jobs."clicks"]\nmax = 3', "is no name of a job; write CLUSTER/NAME"),
        ("[job.x]\nmax = 3", "there is no 'job'; write [jobs.\"CLUSTER/NAME\"]"),
        ("[jobs]", "names no job"),
        ("jobs.x = 3", '[jobs."x"]: is not a table of settings'),
        ("[jobs", "is not TOML: "),
        ('[jobs."sim/a"]\n[jobs."sim/a"]', "is not TOML: "),
        ('[jobs."sim/other"]\nmax = 3', "sim/other is set by other.toml; take it out there"),
    ],
)
def test_bad_input_is_one_line_with_the_file_and_the_entry(tmp_path: Path, text: str, said: str) -> None:
    """Before anything is planned."""
    with pytest.raises(SettingsError) as refused:
        planned(tmp_path, text, JobSettings(job="sim/other", version=1, applied_from="other.toml"))
    assert str(refused.value).startswith(f"{tmp_path / NAME}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mark_before_the_text_does_not_count_and_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    """As editors of Windows write them."""
    text = '[jobs."sim/clicks"]\r\npolicy = "café"\r\n'
    (tmp_path / NAME).write_bytes(text.encode("utf-8-sig"))
    (entry,) = read_entries(tmp_path / NAME)
    assert (entry.name, entry.wanted["policy"]) == ("sim/clicks", "café")
    for encoding, line in (("latin-1", 2), ("utf-16", 1)):
        (tmp_path / NAME).write_bytes(text.encode(encoding))
        with pytest.raises(SettingsError) as refused:
            read_entries(tmp_path / NAME)
        assert str(refused.value) == f"{tmp_path / NAME}: is not TOML: line {line} is no UTF-8; save the file as UTF-8"


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    """Two of them may not name one job; one without files is refused."""
    with pytest.raises(SettingsError, match=r"holds no file that ends in \.toml"):
        read_entries(tmp_path)
    for name, job in (("a.toml", "sim/clicks"), ("b.toml", "sim/views"), ("notes.txt", "no TOML at all")):
        (tmp_path / name).write_text(f'[jobs."{job}"]\nmax = 3\n')
    assert [entry.name for entry in read_entries(tmp_path)] == ["sim/clicks", "sim/views"]
    (tmp_path / "b.toml").write_text('[jobs."sim/clicks"]\nmax = 4\n')
    with pytest.raises(SettingsError, match=r"b\.toml: .*has an entry already, .*a\.toml"):
        plans(read_entries(tmp_path), known(), "jobs", "ann")


def test_every_file_of_a_folder_that_is_wrong_is_named(tmp_path: Path) -> None:
    """A line each, so that they can be mended at once."""
    for name, line in (("a.toml", "max = 3"), ("b.toml", "maxx = 3"), ("c.toml", "max = "), ("d.toml", 'mode = "acts"')):
        (tmp_path / name).write_text(f'[jobs."sim/clicks"]\n{line}\n')
    with pytest.raises(SettingsError) as refused:
        read_entries(tmp_path)
    lines = str(refused.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [str(tmp_path / name) for name in ("b.toml", "c.toml", "d.toml")]
    assert "'maxx'; did you mean max?" in lines[0]


PERIOD = ExcludedPeriod(days=("mon", "sun"), starts="22:00", ends="06:00", zone="Europe/Berlin")
WITHIN = (
    PeriodBounds(period=ExcludedPeriod(days=("sat",)), most=4, objective="cost"),
    PeriodBounds(period=PERIOD, least=2, most=9, objective=LatencyBound(seconds=30.0)),
)
VALUES: dict[str, Any] = {
    "mode": st.sampled_from(["act", "advise", "observe"]),
    "safe_after_minutes": st.integers(20, 50),
    "parallelism_min": st.integers(1, 4),  # within what the periods below ask for
    "parallelism_max": st.integers(20, 50),
    "tasks": st.dictionaries(
        st.text("abc é\"'\\\x7f=;", min_size=1).filter(lambda name: name == name.strip()),
        st.sampled_from([TaskLimits(pinned=True), TaskLimits(parallelism_min=2), TaskLimits(parallelism_max=3)]),
        max_size=3,
    ),
    "excluded": st.sampled_from([(), (PERIOD,), (PERIOD, ExcludedPeriod(days=("sat",), emergencies=False))]),
    "minimum_within": st.sampled_from([(), (PeriodBounds(period=PERIOD, least=20),), WITHIN]),
    "objective": st.sampled_from(["cost", "latency", LatencyBound(seconds=30.0, share=0.05)]),
    "on_drift": st.sampled_from(["adopt", "insist", "stop"]),
    "policy": st.sampled_from(["hold", "target-utilisation"]),
}
FLOATS = {"step_up_max", "step_down_max"}
SHARES = {"utilisation", "gc_pressure_max", "heap_usage_max"}


def values_of(field: str) -> st.SearchStrategy[Any]:
    """Return what a field may hold."""
    if field in VALUES:
        return VALUES[field]  # type: ignore[no-any-return]
    if SETTINGS[field].words:
        return st.booleans()
    if field in FLOATS | SHARES:
        return st.floats(0.1, 0.9) if field in SHARES else st.floats(1.5, 9.0)
    return st.integers(1, 50)


@given(st.fixed_dictionaries({}, optional={field: values_of(field) for field in SETTINGS}))
def test_what_is_exported_sets_the_same(tmp_path_factory: pytest.TempPathFactory, chosen: dict[str, Any]) -> None:
    """Every setting, whatever it holds."""
    given_settings = msgspec.convert(
        msgspec.to_builtins({"type": "job-settings/1", "job": "sim/cl icks", **chosen}), JobSettings, strict=False
    )
    text = exported([given_settings])
    if not chosen:
        assert text == ""
        return
    path = tmp_path_factory.mktemp("exported") / NAME
    path.write_text(text, encoding="utf-8")
    (entry,) = read_entries(path)
    assert entry.name == "sim/cl icks"
    assert entry.wanted == {field: getattr(given_settings, field) for field in SETTINGS}


def test_every_policy_that_is_not_there_is_named_in_the_order_of_the_files(tmp_path: Path) -> None:
    """By the first entry that names it."""
    for name, policy in (("a.toml", ""), ("b.toml", "sure"), ("c.toml", "shure"), ("d.toml", "shure")):
        (tmp_path / name).write_text(f'[jobs."sim/{name}"]\npolicy = "{policy}"\n')
    with pytest.raises(SettingsError) as refused:
        checked_entries(PipelineSettings(), tmp_path)
    first, second = str(refused.value).splitlines()
    assert first == f'{tmp_path}/a.toml: [jobs."sim/a.toml"]: policy: it has no name; write a policy\'s name, or leave it out'
    assert second.startswith(f'{tmp_path}/c.toml: [jobs."sim/c.toml"]: policy shure: there is no such policy')
