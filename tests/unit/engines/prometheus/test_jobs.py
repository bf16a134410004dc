"""The file that names jobs, tasks and expressions: what it means, and one line for each way to get it wrong."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_settings import JobSettings
from surescale.engines.prometheus.jobs import WatchedJob, read_jobs
from surescale.engines.prometheus.mappings import MAPPINGS, MappingName

OWN = """
[orders]
subtask = ["pod"]
mode = "advise"
fresh_s = 30
[orders.tasks.parse]
series = "Source: parse"
[orders.tasks.count]
upstream = ["parse"]
max_parallelism = 64
[orders.figures]
records_in = 'in_total{task=~"$tasks"}'
records_out = 'out_total{task=~"$tasks"}'
busy = { query = "busy_total", task = "stage", subtask = ["pod", "thread"], over = ["core"], unit = "ns" }
"""


def written(folder: Path, text: str, name: str = "jobs.toml") -> Path:
    """Return a file with a text."""
    path = folder / name
    path.write_text(text)
    return path


def job_of(folder: Path, text: str) -> WatchedJob:
    """Return the one job of a text."""
    (job,) = read_jobs(written(folder, text)).values()
    return job


def test_a_job_with_its_own_expressions(tmp_path: Path) -> None:
    """Labels that a figure does not name are the job's; names are filled in."""
    job = job_of(tmp_path, OWN)
    assert (job.name, job.fresh_ms, job.joined_by) == ("orders", 30_000, "buffers")
    assert job.upstream("count") == ("parse",)
    assert job.is_last("count")
    assert not job.is_last("parse")
    records, busy = job.figures["records_in"], job.figures["busy"]
    assert records.query == r'in_total{task=~"Source:\\ parse|count"}'
    assert (records.task, records.subtask) == ("task", ("pod",))
    assert (busy.task, busy.subtask, busy.over, busy.unit) == ("stage", ("pod", "thread"), ("core",), "ns")
    assert job.tasks_by_name(records) == {"Source: parse": ["parse"], "count": ["count"]}


def test_limits_become_labels_of_the_job(tmp_path: Path) -> None:
    """Beside its mode, whatever their type in the file; a slip is refused in one line."""
    labels = job_of(tmp_path, OWN.replace('mode = "advise"', 'mode = "advise"\nlimits = {max = 12, align = false}')).labels
    assert labels == {"surescale.mode": "advise", "surescale.max": "12", "surescale.align": "False"}
    found = in_force(JobSettings(job="prod/orders"), labels)
    assert (found.parallelism_max, found.align) == (12, False)
    with pytest.raises(SettingsError, match=r"jobs.toml: orders.limits: there is no limit 'maxx'; did you mean max"):
        job_of(tmp_path, OWN.replace('mode = "advise"', "limits = {maxx = 12}"))


def test_json_says_the_same(tmp_path: Path) -> None:
    """By the file's ending."""
    document = msgspec.toml.decode(OWN.encode())
    assert read_jobs(written(tmp_path, json.dumps(document), "jobs.json")) == read_jobs(written(tmp_path, OWN))


@pytest.mark.parametrize("name", MAPPINGS)
def test_every_ready_mapping_needs_no_more_than_tasks_and_topics(tmp_path: Path, name: MappingName) -> None:
    """All words are filled in, also the job's own matchers."""
    text = f"""
[j]
mapping = "{name}"
select = 'cluster="a"'
[j.tasks.parse]
reads = ["orders.eu"]
writes = ["parsed"]
[j.tasks.count]
reads = ["parsed"]
"""
    job = job_of(tmp_path, text)
    assert set(job.figures) == set(MAPPINGS[name].figures)
    assert job.upstream("count") == ("parse",)
    for figure in job.figures.values():
        assert 'cluster="a"' in figure.query
        assert "$" not in figure.query.replace('"$1"', "")
    if "arrived" in job.figures:
        arrived = job.figures["arrived"]
        assert r'"orders\\.eu|parsed"' in arrived.query
        assert job.tasks_by_name(arrived) == {"orders.eu": ["parse"], "parsed": ["count"]}


def test_figures_of_topics_are_left_out_where_no_task_has_any(tmp_path: Path) -> None:
    """They stay unknown."""
    job = job_of(tmp_path, '[j]\nmapping = "kafka-exporter"\n[j.tasks.parse]\n')
    assert "arrived" not in job.figures
    assert "records_out" not in job.figures


BASE: dict[str, Any] = {
    "j": {"subtask": ["pod"], "tasks": {"a": {}, "b": {"upstream": ["a"]}}, "figures": {"records_in": "x", "records_out": "y"}}
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no records": ({"figures": {"busy": "x"}}, r"j\.figures\.records_in: missing.*give it, or a mapping"),
    "no records out": ({"figures": {"records_in": "x"}}, r"j\.figures\.records_out: not given, and tasks come after a"),
    "no subtasks": ({"subtask": []}, r"j\.figures\.parallelism: not given.*j\.subtask = \[LABEL\]"),
    "figure": ({"figures": {"speed": "x"}}, r"'speed' is not one of .*queued.*docs/prometheus.md"),
    "mapping": ({"mapping": "storm"}, r"j\.mapping: 'storm' is not one of .*flink"),
    "field": ({"tusk": "a"}, r"there is no field 'tusk'; did you mean task"),
    "label": ({"task": "task-name"}, r"must fit the pattern"),
    "word": ({"figures": {"records_in": "x{$job}", "records_out": "y"}}, r"\$job is unknown; only \$tasks"),
    "topics": ({"figures": {"records_in": "x", "records_out": "y", "arrived": 'z{topic=~"$reads"}'}}, "no task has the topics"),
    "unit": (
        {"figures": {"records_in": {"query": "x", "unit": "ms"}, "records_out": "y"}},
        r"records_in\.unit: only busy, .* have one; leave it out",
    ),
    "names": (
        {"figures": {"records_in": {"query": "x", "names": "reads"}, "records_out": "y"}},
        r"records_in\.names: .* must name the task",
    ),
    "upstream": ({"tasks": {"a": {"upstream": ["c"]}}}, r"tasks\.a\.upstream: 'c' is not another task of the job"),
    "itself": ({"tasks": {"a": {"upstream": ["a"]}}}, r"tasks\.a\.upstream: 'a' is not another task"),
    "circle": ({"tasks": {"a": {"upstream": ["b"]}, "b": {"upstream": ["a"]}}}, "cycle.*correct upstream, reads and writes"),
    "series": ({"tasks": {"a": {"series": "b"}, "b": {}}}, r"tasks\.b\.series: b is also a"),
    "writers": ({"tasks": {"a": {"writes": ["t"]}, "b": {"writes": ["t"]}}}, r"tasks\.b\.writes: t is also written by a"),
    "no tasks": ({"tasks": {}}, "must be a table, at least 1 long"),
    "fresh": ({"fresh_s": 0}, "more than 0"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_one_line_with_the_field(tmp_path: Path, kind: str) -> None:
    """And the file."""
    changed, words = WRONG[kind]
    path = written(tmp_path, json.dumps({"j": {**BASE["j"], **changed}}), "jobs.json")
    with pytest.raises(SettingsError, match=words) as wrong:
        read_jobs(path)
    assert str(wrong.value).startswith(f"SURESCALE_PROMETHEUS_FILE: {path}: ")
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("text", ["[j", "", "\ud800"])
def test_a_file_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    """No TOML, no jobs, no text."""
    path = tmp_path / "jobs.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SettingsError, match=r"docs/prometheus\.md"):
        read_jobs(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_jobs(tmp_path)


@pytest.mark.parametrize(
    "text", ['{"j": {"tasks": {"a": {}}, "subtask": [1e999]}}', '{"\\u0000": {"tasks": {"a": {}}}}', '{"j": [1e999]}']
)
def test_what_json_lets_through_and_no_number_or_name_can_be_is_one_line(tmp_path: Path, text: str) -> None:
    """Also where the decoder itself refuses it, before anybody knows what it was to be."""
    with pytest.raises(SettingsError, match=r"docs/prometheus\.md") as wrong:
        read_jobs(written(tmp_path, text, "jobs.json"))
    assert str(wrong.value).isprintable()


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5_000, "a\0b"])
def test_a_name_that_no_file_can_have_is_one_line(tmp_path: Path, name: str) -> None:
    """No trace of whoever asks whether there is such a file."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_PROMETHEUS_FILE: "):
        read_jobs(tmp_path / name)


def test_a_thousand_tasks_are_read_in_no_time(tmp_path: Path) -> None:
    """What comes before a task is worked out once for all: asked of each pair of tasks it would take minutes."""
    links = "\n".join(f'[orders.tasks.t{n}]\nreads = ["a{n}"]\nwrites = ["a{n + 1}", "b{n}"]' for n in range(1_000))
    began_s = time.thread_time()
    job = job_of(tmp_path, f'[orders]\nmapping = "kafka-exporter"\n{links}\n')
    assert time.thread_time() - began_s < 5.0
    assert job.upstream("t500") == ("t499",)
    assert [task for task in job.tasks if job.is_last(task)] == ["t999"]
