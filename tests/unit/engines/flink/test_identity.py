"""Names of jobs: labels first, one job per name, no slashes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.ids import JOB_LETTERS_MAX, NAME_LETTERS_MAX, split_job
from surescale.contracts.messages import JobTopology
from surescale.contracts.modes import AMBIGUOUS_LABEL
from surescale.contracts.wire import decode, encode
from surescale.engines.flink.answers import JobEntry
from surescale.engines.flink.identity import identify, labels_of, safe_name
from tests.support.builders import topology


def entry(jid: str, name: str, state: str = "RUNNING") -> JobEntry:
    """A job as Flink lists it."""
    return JobEntry(jid=jid, name=name, state=state, start_time=0)


def test_a_label_wins_over_the_name() -> None:
    """And only labels are kept of a job's parameters: the others may hold secrets."""
    parameters = {"1": {"surescale.job": "orders", "surescale.mode": "advise", "db.password": "secret"}}
    found = identify("prod", [entry("1", "Orders v17 (2026-11-22)")], parameters)["1"]
    assert (found.job, found.engine_name) == ("prod/orders", "Orders v17 (2026-11-22)")
    assert found.labels == {"surescale.job": "orders", "surescale.mode": "advise"}
    assert not found.ambiguous
    assert found.flink_job == "1"


def test_two_live_jobs_of_one_name_are_ambiguous() -> None:
    """Each has a name of its own, and a sentence says what to do. A third one that has ended does not count."""
    jobs = [entry("aaaaaaaaaa", "team a/job"), entry("bbbbbbbbbb", "team a/job"), entry("cccccccccc", "team a/job", "CANCELED")]
    found = identify("prod", jobs, {})
    assert {each.job for each in found.values()} == {"prod/team a_job~aaaaaaaa", "prod/team a_job~bbbbbbbb"}
    for each in found.values():
        assert each.ambiguous == "2 jobs are named 'team a_job'; give each its own label surescale.job"
        assert each.labels[AMBIGUOUS_LABEL] == each.ambiguous
        assert each.engine_name == "team a/job"
    assert {jid: each.flink_job for jid, each in found.items()} == {"aaaaaaaaaa": "aaaaaaaaaa", "bbbbbbbbbb": "bbbbbbbbbb"}


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a/b", "a_b"),
        ("a\u200bb", "a_b"),
        ("", "_"),
        ("  ", "_"),
        (" a ", "a"),
        ("\x00", "_"),
        ("*", "_"),
        ("..", "_"),
        (".", "_"),
    ],
)
def test_what_a_name_may_not_have_becomes_an_underscore(name: str, safe: str) -> None:
    """One each, and one alone where nothing is left."""
    assert safe_name(name) == safe


def test_an_upgrade_keeps_the_name() -> None:
    """The old submission has ended, the new one has another id and the same name."""
    found = identify("prod", [entry("1", "orders", "FINISHED"), entry("2", "orders")], {})
    assert {jid: each.job for jid, each in found.items()} == {"2": "prod/orders"}


def test_an_empty_label_counts_as_none() -> None:
    """The name is used."""
    assert identify("prod", [entry("1", "orders")], {"1": {"surescale.job": ""}})["1"].job == "prod/orders"


@given(st.text(max_size=300))
def test_any_name_becomes_a_valid_job_id(name: str) -> None:
    """Slashes, control characters and blanks included."""
    cluster, safe = split_job(f"prod/{safe_name(name)}")
    assert (cluster, safe) == ("prod", safe_name(name))
    assert safe_name(safe) == safe


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=400)))
def test_only_our_own_labels_are_kept(parameters: dict[str, str]) -> None:
    """Each at most 256 characters long."""
    labels = labels_of(parameters)
    assert all(key.startswith("surescale.") and len(value) <= 256 for key, value in labels.items())


ODD_NAMES = (
    "orders",
    "orders~aaaaaaaa",
    "ord\u0435rs",
    "orders\u200b",
    "orders\x00",
    "\u202esredro",
    "x" * 300,
    "x" * 300 + "y",
    "\U0001f680" * 300,
    "x" * 199 + " y",
    ".",
    "..",
    "*",
    "/",
    "",
)


@pytest.mark.parametrize("cluster", ["c", "c" * 46, "c" * NAME_LETTERS_MAX])
@pytest.mark.parametrize("name", ODD_NAMES)
def test_whatever_jobs_are_called_their_ids_are_distinct_and_fit_into_a_record(cluster: str, name: str) -> None:
    """Long names, look-alikes, names that become one by cutting, and one that looks like another's with its id behind it."""
    ids = ("aaaaaaaa1", "aaaaaaaa2", "bbbbbbbb1", "cccccccc1")
    jobs = [entry(jid, each) for jid, each in zip(ids, (name, name, f"{name}~aaaaaaaa", f"{name}~aaaaaaaa1x"), strict=True)]
    found = [each.job for each in identify(cluster, jobs, {}).values()]
    assert len(set(found)) == len(jobs)
    assert max(map(len, found)) <= JOB_LETTERS_MAX
    for job in found:
        assert decode(encode(msgspec.structs.replace(topology(), job=job)), JobTopology).job == job


def test_the_name_that_a_job_would_have_alone_is_remembered() -> None:
    """However much of it was cut for what tells it from others."""
    jobs = [entry("aaaaaaaa1", "x" * 300), entry("aaaaaaaa2", "x" * 300)]
    for each in identify("c" * NAME_LETTERS_MAX, jobs, {}).values():
        assert each.shared_job == f"{'c' * NAME_LETTERS_MAX}/{'x' * 155}"
        assert len(each.job) == JOB_LETTERS_MAX
