"""What `surescale job pause` writes, without Kafka."""

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings, Pause
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.pauses import pauses_of
from surescale.contracts.wire import decode, encode
from surescale.services.job_settings.changes import Recorded, changed, differences
from surescale.services.job_settings.pause import pause_of
from surescale.services.job_settings.snapshot import SettingsSnapshot
from surescale.services.tools.job_settings.options import changes_of, overview

JOB = "sim/clicks"
NOW_MS = 36_000_000  # 10:00


def pause(*, until: str | None = None, lasting: str | None = None, why: str = "release day", by: str = "ana") -> Pause:
    """Return what these options make."""
    return pause_of("up", until=until, lasting=lasting, why=why, by=by, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("until", "lasting", "ends_ms"),
    [(None, None, None), (None, "90m", NOW_MS + 5_400_000), (None, "45s", NOW_MS + 45_000), (None, "2h", NOW_MS + 7_200_000),
     (None, "1d", NOW_MS + 86_400_000), ("1970-01-01T18:00", None, 64_800_000), ("1970-01-01T18:00+02:00", None, 57_600_000)],
)  # fmt: skip
def test_a_pause_says_who_when_why_and_until(until: str | None, lasting: str | None, ends_ms: int | None) -> None:
    """Times are the pipeline's; without one the pause has no end. It is a record that readers accept."""
    made = pause(until=until, lasting=lasting)
    assert made == Pause(direction="up", until_ms=ends_ms, why="release day", by="ana", at_ms=NOW_MS)
    settings = JobSettings(job=JOB, pause=made)
    assert decode(encode(settings), JobSettings) == settings


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"until": "1970-01-01T18:00", "lasting": "2h"}, "--until and --for"),
        ({"lasting": "soon"}, "--for: 'soon' is not a duration"),
        ({"lasting": "0m"}, "--for: '0m' is not a duration"),
        ({"lasting": "-5m"}, "--for: '-5m' is not a duration"),
        ({"until": "tomorrow"}, "--until: 'tomorrow' is not a time"),
        ({"until": "1970-01-01T09:00"}, "--until: 1970-01-01T09:00 is not ahead: it is 1970-01-01 10:00:00"),
        ({"until": "9" * 30}, "is not ahead"),
        ({"why": "  "}, "--why: is empty"),
        ({"why": "x" * 257}, "--why: has 257 characters"),
        ({"why": "a sale\x1b[2J"}, "--why: has '\\x1b'"),
    ],
)
def test_what_makes_no_sense_is_one_line(options: dict[str, str], named: str) -> None:
    """It names the option and what to give."""
    with pytest.raises(SettingsError) as refused:
        pause(**options)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def snapshot(**pauses: Pause) -> SettingsSnapshot:
    """Return a snapshot of the job, with what is said of it and of all jobs of its cluster."""
    topology = JobTopology(job=JOB, version=1, at_ms=0, tasks=(TaskSpec(task="map"),))
    own = JobSettings(job=JOB, version=1, set_by="ana", **({"pause": pauses["own"]} if "own" in pauses else {}))
    shared = JobSettings(job="sim/*", version=1, pause=pauses["shared"]) if "shared" in pauses else None
    return SettingsSnapshot(
        job=JOB, known=topology, history=(Recorded(own, append_ms=1),), now_ms=NOW_MS, release=None, of_all_jobs=shared
    )


def test_show_tells_what_is_paused_for_the_job_and_for_its_cluster() -> None:
    """Both, by the pipeline's clock; one that has passed is none."""
    over = Pause(direction="both", until_ms=NOW_MS, why="over", by="bob", at_ms=0)
    both = overview(snapshot(own=pause(lasting="1h"), shared=Pause(direction="down", why="audit", by="bob", at_ms=0)), "sure")[
        "paused"
    ]
    assert both == (
        "scaling up of sim/clicks is paused by ana until 1970-01-01 11:00:00: release day; "
        "scaling down of sim is paused by bob until further notice: audit"
    )
    assert overview(snapshot(own=over), "sure")["paused"] == "no"


def test_the_history_names_a_pause_and_its_end() -> None:
    """A resumed job has no pause, and JSON can say so."""
    before, made = JobSettings(job=JOB, version=1), pause()
    after = changed(before, {"pause": made}, None, by="ana", at_ms=NOW_MS)
    assert differences(before, after) == {"pause": (None, made)}
    assert (after.version, after.set_by, after.set_at_ms) == (2, "ana", NOW_MS)
    assert changes_of(snapshot(own=made))[0].changed == {"pause": (None, made)}


def test_settings_of_another_job_or_cluster_pause_nothing() -> None:
    """Only the job's own and those for all jobs of its cluster count."""
    paused = JobSettings(job="any", pause=pause())
    assert not pauses_of(JOB, {"sim/orders": paused, "flink/*": paused}, NOW_MS).paused
    assert [each.scope for each in pauses_of(JOB, {JOB: paused, "sim/*": paused}, NOW_MS).paused] == [JOB, "sim"]
