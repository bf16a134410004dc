"""``surescale recording what-if`` as a command: a recording in, tables, JSON and a page out; bad input in one line."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.window_recording import write_recording
from surescale.contracts.job_settings import JobSettings
from surescale.policies.registry import load_policy
from surescale.services.tools.recording.format import Recording
from surescale.services.tools.what_if.variants import TimeLimitReached, play_all, read_input
from surescale.simulation.calibration.fit import fit
from surescale.simulation.calibration.recorded import put_together
from surescale.simulation.model.worlds import CALM, world_named
from surescale.simulation.what_if.play import Variant
from surescale.simulation.what_if.scenario import scenario_of
from tests.support.command_line import surescale
from tests.support.simulated_recordings import sized, windows_of

JOB = sized("j_2521346")
UNITS = {"cost", "late", "rescales", "backlog", "latency", "utilisation"}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a recording of eight hours in the world drift."""
    made = windows_of(JOB, world_named("drift", seed=1), 8)
    return write_recording(tmp_path_factory.mktemp("recorded") / "drifts.ssrec", made)


RECORDED = windows_of(JOB, CALM, 4)
PUT_TOGETHER = put_together(RECORDED[0].job, RECORDED)
GROUND = scenario_of(PUT_TOGETHER, fit(PUT_TOGETHER))
VARIANTS = [Variant(name, load_policy(name), JobSettings(job=PUT_TOGETHER.job), None) for name in ("hold", "static")]
CALLS = 2 * GROUND.hours * 6  # of the clock, for one draw


class _Clock:
    """A clock that is a second later at every look."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        self._now_s += 1.0
        return self._now_s


class _Seen(HTMLParser):
    """What a page holds: its tags, and every address in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag."""
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in ("href", "src", "action", "data")]


def test_the_labels_of_the_recorded_job_are_its_limits(tmp_path: Path) -> None:
    """Where nobody set them, as for the policies that decided on it."""
    labels = {"surescale.within": "mon-fri 07:30-09:00: min 9; sat,sun: max 3, objective cost", "surescale.max": "9"}
    labelled = [replace(each, topology=structs.replace(each.topology, labels=labels)) for each in RECORDED]
    opened = Recording(write_recording(tmp_path / "labelled.ssrec", labelled))
    settings = read_input(opened, RECORDED[0].job, "", 10).in_force.settings
    assert settings.parallelism_max == 9
    assert [(each.least, each.most, each.objective) for each in settings.minimum_within or ()] == [
        (9, None, None),
        (1, 3, "cost"),
    ]


def test_two_changes_are_compared_with_what_was_in_force(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table fits 80 columns, the page opens without a network, and both tell the same as the JSON."""
    monkeypatch.setenv("COLUMNS", "80")
    page = tmp_path / "report.html"
    given = [
        "recording",
        "what-if",
        str(recording),
        "--baseline",
        "target-utilisation",
        "--try",
        "target-utilisation,utilisation=0.45",
    ]
    code, shown, said = surescale(*given, "--try", "hold", "--draws", "2", "--price", "0.1", "--html", str(page))
    assert code == 0, said
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "check: fitted without the last 120 minutes" in shown
    assert "100% draw 2 of 2: hold" in said
    text = page.read_text(encoding="utf-8")
    seen = _Seen()
    seen.feed(text)
    assert seen.addresses == []
    assert "script" not in seen.tags
    assert "://" not in text
    assert seen.tags.count("svg") == 6 + 2 + 3
    lost = surescale(*given, "--html", str(recording), "--force")[2]
    assert f"--html: {recording} is the file of RECORDING, which would be lost" in lost
    code, shown, said = surescale(*given, "--draws", "2", "--price", "0.1", "--json")
    assert code == 0, said
    report = json.loads(shown)
    base, wide = report["variants"]
    assert set(base["figures"]) == UNITS
    assert base["minus_baseline"] is None
    assert wide["minus_baseline"]["cost"]["is_shown"]
    assert wide["minus_baseline"]["cost"]["mean"] == pytest.approx(
        wide["figures"]["cost"]["mean"] - base["figures"]["cost"]["mean"], abs=1e-4
    )
    assert wide["partings"][0]["variant"] > wide["partings"][0]["baseline"]
    assert report["units"]["cost"] == "dollars a day"
    assert report["hours"] == 7
    assert surescale(*given, "--html", str(page))[2].endswith("exists; name another file or pass --force\n")


def test_a_baseline_that_is_missing_is_named(recording: Path) -> None:
    """Without recorded decisions there is nothing in force to compare with."""
    code, shown, said = surescale("recording", "what-if", str(recording), "--try", "hold")
    assert (code, shown, said) == (1, "", "surescale: --baseline: no decision is recorded, so name the policy\n")


def test_the_same_figures_every_time(recording: Path) -> None:
    """Draws and resamples follow from the recording's seed."""
    given = ["recording", "what-if", str(recording), "--baseline", "ds2", "--try", "hold", "--draws", "2", "--json"]
    assert surescale(*given)[1] == surescale(*given)[1]


def test_the_same_decisions_are_told_as_such(recording: Path) -> None:
    """A bound that never binds changes nothing, which is a finding and no error."""
    code, shown, _ = surescale(
        "recording", "what-if", str(recording), "--baseline", "hold", "--try", "hold,parallelism_max=9", "--draws", "2"
    )
    assert code == 0
    assert "the same decisions as the baseline, in every draw" in shown
    assert "subtask-hours; state one with --price" in " ".join(shown.split())


def test_differences_below_the_errors_of_the_world_are_refused(tmp_path: Path) -> None:
    """A job that drifts by half within minutes is no ground to tell 74 % from 75 %: one line, and no table."""
    made = windows_of(JOB, world_named("slow+drift", seed=3), 6)
    path = write_recording(tmp_path / "wild.ssrec", made)
    given = ["--baseline", "ds2-gate", "--try", "ds2-gate,utilisation=0.74", "--draws", "2"]
    code, shown, said = surescale("recording", "what-if", str(path), *given)
    told = said.splitlines()[-1]
    assert (code, shown) == (1, "")
    assert told.startswith("surescale: not compared: over the 90 minutes held back the fitted world was further off")
    assert "ds2-gate,utilisation=0.74: cost" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--try", "nope"], "--try 'nope': there is no policy 'nope'; known: drs, ds2, "),
        (["--try", "paralelism_max=6"], "there is no field 'paralelism_max'; did you mean parallelism_max?"),
        (["--try", "hold,ds2"], "'ds2' is a second policy; use the option once for each"),
        (["--try", "parallelism_max=6"], "no decision is recorded, so name the policy"),
        (["--try", "objective=fast"], "--try 'objective=fast': 'fast' is not an objective; give cost"),
        (["--try", "hold,price=-1"], "price=-1: give dollars per subtask and hour, 0 or more"),
        (["--try", "ds2,span_minutes=7"], "ds2 decides every 7 minutes; a divisor of 60 is needed"),
        (["--try", 'ds2,tasks={"M9":{"pinned":true}}'], "tasks: the job has no task 'M9'; it has "),
        (["--try", "ds2,within=mon: 20"], "--within: 'mon: 20' names no min, max or objective; write PERIOD: BOUNDS"),
        (["--try", 'ds2,within=[{"period":{},"lest":2}]'], "minimum_within: there is no field 'lest'; known: period, least"),
        (["--try", "ds2,@/nowhere.json"], "/nowhere.json cannot be read (no such file or directory)"),
        (["--try", ","], "name a policy or a change, e.g. parallelism_max=8"),
        (["--try", "hold", "--baseline", "hold"], "'hold' is named twice; name it once"),
        (["--try", "hold", "--job", "sim/other"], "has no job 'sim/other'; it has sim/j_2521346"),
    ],
)
def test_bad_input_is_one_line_that_names_it(recording: Path, words: list[str], told: str) -> None:
    """No traceback, no table, and what to do."""
    baseline = [] if "--baseline" in words else ["--baseline", "static"]
    code, shown, said = surescale("recording", "what-if", str(recording), *baseline, *words)
    assert (code, shown) == (1, "")
    assert told in said
    assert len(said.splitlines()) == 1


def test_periods_are_tried_as_people_write_them(recording: Path) -> None:
    """By the name of the option or of the record's field."""
    given = ["recording", "what-if", str(recording), "--baseline", "target-utilisation", "--draws", "2", "--json"]
    code, shown, said = surescale(
        *given,
        "--try",
        "target-utilisation,within=00:00-24:00 UTC: min 6; 00:00-24:00: objective cost",
        "--try",
        'target-utilisation,minimum_within=[{"period":{},"least":6}]',
    )
    assert code == 0, said
    _, *tried = json.loads(shown)["variants"]
    least = [min(size for parting in each["partings"] for _, size in parting["tasks"].values()) for each in tried]
    assert least == [6, 6]


def test_settings_come_from_a_file(recording: Path, tmp_path: Path) -> None:
    """Fields of a record of settings; who set it does not matter, and an unknown field is named."""
    path = tmp_path / "<wide>.json"
    path.write_text('{"type":"job-settings/1","job":"x/y","set_by":"ann","parallelism_min":6}', encoding="utf-8")
    given = ["recording", "what-if", str(recording), "--baseline", "target-utilisation", "--draws", "2"]
    code, shown, said = surescale(*given, "--try", f"target-utilisation,@{path}", "--json", "--html", str(tmp_path / "r.html"))
    assert code == 0, said
    variant = json.loads(shown)["variants"][1]
    assert min(size for parting in variant["partings"] for _, size in parting["tasks"].values()) == 6
    assert "<wide>" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    path.write_text('{"parallelism_mim":6}', encoding="utf-8")
    assert "did you mean parallelism_min?" in surescale(*given, "--try", f"target-utilisation,@{path}")[2]


def test_a_recording_that_is_too_short_or_foreign_is_refused(tmp_path: Path) -> None:
    """Each in one line that says what to record."""
    short = write_recording(tmp_path / "short.ssrec", windows_of(JOB, CALM, 3))
    code, _, said = surescale("recording", "what-if", str(short), "--baseline", "hold", "--try", "ds2")
    assert code == 1
    assert "180 minutes with figures are too few to try something on; record at least 240" in said
    (tmp_path / "foreign").write_bytes(b"something else")
    assert "not a recording" in surescale("recording", "what-if", str(tmp_path / "foreign"), "--try", "ds2")[2]


@pytest.mark.parametrize("done", [2, 3])
def test_work_ends_with_its_time(done: int) -> None:
    """Draws that are not done by then are left out."""
    told: list[str] = []
    played = play_all(
        GROUND, VARIANTS, draws=9, seed=0, limit_s=float(CALLS * done), told=lambda stage, _: told.append(stage), now_s=_Clock()
    )
    assert [len(draws) for _, draws in played] == [done, done]
    assert told[-1] == f"draw {done + 1} of 9: hold"


def test_too_little_time_is_an_error_that_tells_how_much_is_needed() -> None:
    """One draw says nothing about how far draws lie apart."""
    with pytest.raises(TimeLimitReached, match=r"--time-limit: 30 s are too few for 2 draws; all draws need about \d+ s"):
        play_all(GROUND, VARIANTS, draws=9, seed=0, limit_s=30.0, told=lambda *_: None, now_s=_Clock())
