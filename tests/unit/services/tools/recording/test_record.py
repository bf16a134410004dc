"""Which records a recording takes, and what is refused before anything is read."""

import msgspec
import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import MinuteMarker
from surescale.contracts.releases import Release
from surescale.contracts.topics import CLOCK, DECISIONS, JOB_SETTINGS, POLICY_RELEASES, SNAPSHOTS, TASK_METRICS
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.services.tools.recording.format import RawRecord, event_ms, is_about, is_between, job_of
from surescale.services.tools.recording.record import RecordingRequest, checked, known_jobs, ordered
from tests.support.builders import JOB, sample, topology
from tests.unit.services.tools.recording.windows import FIRST_MINUTE, Held, decided, windows

MINUTE = 60_000
WINDOW = windows({FIRST_MINUTE: 1.0})[0]
OTHER = frozenset({"sim/other"})


def on(topic: str, value: bytes | None, key: bytes | None = None) -> RawRecord:
    """Return a record of a topic."""
    return RawRecord(topic, 0, 0, 1, key, value)


def test_the_event_time_is_that_of_the_kind() -> None:
    """Samples, markers, decisions and windows each tell their own; a text that does not parse tells none."""
    marker = MinuteMarker(job=JOB, minute_end_ms=2 * MINUTE, topology=topology())
    found = [
        event_ms(on(TASK_METRICS, encode(sample(sampled_at_ms=45_000)))),
        event_ms(on(TASK_METRICS, encode(marker))),
        event_ms(on(DECISIONS, encode(decided([WINDOW], "hold")[0]))),
        event_ms(on(SNAPSHOTS, encode_window(WINDOW))),
        event_ms(msgspec.structs.replace(on(SNAPSHOTS, b"?"), headers=(("minute", b"60000"),))),
        event_ms(on(TASK_METRICS, b"{not json")),
        event_ms(on(SNAPSHOTS, b"?")),
    ]
    assert found == [45_000, 2 * MINUTE, FIRST_MINUTE * MINUTE, FIRST_MINUTE * MINUTE, MINUTE, None, None]


def test_a_stretch_of_time_begins_behind_its_first_minute_end() -> None:
    """The samples of a minute lie in (end before, end]; settings are kept whenever they were said."""
    at = on(TASK_METRICS, encode(sample(sampled_at_ms=MINUTE)))
    assert not is_between(at, MINUTE, None)
    assert is_between(at, 0, MINUTE)
    assert not is_between(at, None, MINUTE - 1)
    assert is_between(on(JOB_SETTINGS, encode(JobSettings(job=JOB))), 10 * MINUTE, None)
    assert is_between(on(TASK_METRICS, b"{not json"), 0, 1)


def test_a_job_is_known_by_key_or_by_what_the_record_says() -> None:
    """Topics keyed by job tell it without being parsed, those keyed by cluster in the record."""
    decision = encode(decided([WINDOW], "hold")[0])
    assert job_of(on(TASK_METRICS, b"{not json", JOB.encode())) == JOB
    assert job_of(on(DECISIONS, decision, b"sim")) == JOB
    assert not is_about(on(DECISIONS, decision, b"sim"), OTHER)


def test_what_concerns_a_cluster_belongs_to_its_jobs() -> None:
    """A release is part of every job's recording of that cluster, the clock of all."""
    release = encode(Release(cluster="sim", policy="sure", sha256="", valid_from_ms=0))
    assert is_about(on(POLICY_RELEASES, release, b"sim"), OTHER)
    assert not is_about(on(POLICY_RELEASES, release, b"sim"), frozenset({"prod/other"}))
    assert is_about(on(CLOCK, b"{}"), OTHER)


def test_the_newest_settings_stand_in_the_header() -> None:
    """A job that was asked for is listed even when nothing is known of it."""
    said = enumerate((1, 3, 2))  # the last one was never in force
    source = Held([], settings=[(at, JobSettings(job=JOB, version=version)) for at, version in said])
    found = known_jobs(source, frozenset({JOB, "sim/other"}))
    assert [(each.job, each.settings and each.settings.version) for each in found] == [(JOB, 3), ("sim/other", None)]


def test_windows_come_last_in_a_recording() -> None:
    """Facts are left to the beginning, each topic stands once."""
    assert ordered((SNAPSHOTS, JOB_SETTINGS, TASK_METRICS, SNAPSHOTS)) == (TASK_METRICS, SNAPSHOTS)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (RecordingRequest(topics=("payments",)), "there is no topic 'payments'"),
        (RecordingRequest(jobs=("clicks",)), "not of the form cluster/name"),
        (RecordingRequest(jobs=("sim/\udcff",)), r"--job: 'sim/\\udcff' is not UTF-8"),
        (RecordingRequest(from_ms=5, until_ms=5), "--from: must lie before --until"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_once(asked: RecordingRequest, message: str) -> None:
    """One line names the option."""
    with pytest.raises(SettingsError, match=message):
        checked(asked, "")


def test_a_topic_may_be_named_with_its_prefix() -> None:
    """Both names mean the same topic."""
    assert checked(RecordingRequest(topics=("blue-snapshots", "decisions")), "blue-").topics == (SNAPSHOTS, DECISIONS)
