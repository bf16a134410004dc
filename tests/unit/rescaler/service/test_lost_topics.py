"""The hold of a cluster whose rescaler has lost its memory: a pause like any other."""

from surescale.contracts.job_settings import JobSettings, Pause
from surescale.contracts.pauses import pauses_of
from surescale.contracts.wire import encode
from surescale.rescaler.service.loop import BY, held_from, newest
from tests.support.controller_world import CLUSTER, JOB, START_MS

ALL = f"{CLUSTER}/*"
LOST = ("rescaler-state", "job-settings")


def test_every_job_of_the_cluster_is_paused_until_somebody_resumes_it() -> None:
    """In both directions, with the topics and the way out in its words."""
    held = held_from(JobSettings(job=ALL), LOST, CLUSTER, START_MS)
    pauses = pauses_of(JOB, {ALL: held}, START_MS + 10**12)
    assert pauses.stops_all
    assert f"`surescale cluster resume {CLUSTER}`" in str(pauses)
    assert all(topic in str(pauses) for topic in LOST)
    assert (held.version, held.set_by, held.set_at_ms) == (1, BY, START_MS)


def test_what_somebody_paused_in_part_or_for_a_time_becomes_a_whole_pause() -> None:
    """And a whole one stays, with the words of whoever set it."""
    for given in (Pause(direction="up", why="w", by="ann", at_ms=1), Pause(until_ms=2, why="w", by="ann", at_ms=1)):
        before = JobSettings(job=ALL, version=3, pause=given)
        held = held_from(before, LOST, CLUSTER, START_MS)
        assert (held.version, held.pause is not None and held.pause.by) == (4, BY)
    before = JobSettings(job=ALL, version=3, pause=Pause(why="w", by="ann", at_ms=1))
    assert held_from(before, LOST, CLUSTER, START_MS) is before


def test_the_words_of_a_cluster_with_a_long_name_fit() -> None:
    """A pause says why in 256 letters."""
    held = held_from(JobSettings(job="c" * 250), LOST, "c" * 250, START_MS)
    assert held.pause is not None
    assert len(held.pause.why) == 256


def test_the_newest_settings_of_a_name_count_whatever_else_lies_there() -> None:
    """Records that cannot be read, tombstones and other jobs are passed."""
    two, one = (JobSettings(job=ALL, version=version) for version in (2, 1))
    other = JobSettings(job=JOB, version=9)
    records = [(ALL, encode(two)), (ALL, b"x"), (ALL, None), (JOB, encode(other)), (ALL, encode(one))]
    foreign = (JOB, encode(JobSettings(job=ALL, version=9)))
    assert newest([(key.encode(), value) for key, value in (*records, foreign)], ALL) == two
    assert newest([], ALL) == JobSettings(job=ALL)
