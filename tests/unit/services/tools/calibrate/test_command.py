"""``surescale recording calibrate`` as a command: from a recording to a world and a judgement; bad input in one line."""

import json
from pathlib import Path

import pytest

from benchmarks.archive import where
from benchmarks.window_recording import write_recording
from surescale.simulation.load.workload import load_workload
from surescale.simulation.model.course import course_of
from surescale.simulation.model.worlds import CALM, world_named
from tests.support.command_line import surescale
from tests.support.simulated_recordings import FIRST_MINUTE, WORKLOAD, sized, windows_of

JOB = sized("j_2521346")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a recording of half a day in the world skew."""
    made = windows_of(JOB, world_named("skew", seed=1), 12)
    return write_recording(tmp_path_factory.mktemp("recorded") / "skewed.ssrec", made)


def load_of(tmp_path: Path) -> str:
    """Write a day of load that comes and goes."""
    path = tmp_path / "load.csv"
    path.write_text("minute,requests\n" + "".join(f"{m},{100 + m % 60}\n" for m in range(1080)), encoding="utf-8")
    return str(path)


def test_a_recording_becomes_a_world_that_evaluate_plays(recording: Path, tmp_path: Path) -> None:
    """The table shows every figure with its error, the file holds them, and policies are judged on the recorded job."""
    out = tmp_path / "world.json"
    code, shown, notes = surescale("recording", "calibrate", str(recording), "--out", str(out))
    assert code == 0, notes
    assert "sim/j_2521346: 720 minutes from" in shown
    assert "restart: 60 s (4 seen, deviation of the log 0.00)" in shown
    assert "errors over the last 180 minutes, predicted from those before: busy time" in shown
    assert "note: no task was ever held up" in notes
    world = json.loads(out.read_text())
    course = course_of(JOB, world_named("skew", seed=1))
    assert course is not None
    shares = [task["hot_share"] for task in world["tasks"]]
    assert max(shares) == pytest.approx(max(course.hot_share), rel=0.2)
    report = tmp_path / "report.json"
    given = ["--workload", load_of(tmp_path), "--policy", "hold", "--policy", "ds2-gate", "--runs", "1", "--workers", "1"]
    code, shown, said = surescale("policy", "evaluate", "--world", str(out), *given, "--as-shipped", "--out", str(report))
    assert code == 0, said
    judged = json.loads(report.read_text())
    assert (judged["job"], judged["tasks"]) == ("j_2521346", JOB.size)
    assert judged["world"] == str(out)


def test_a_single_restart_is_one_restart(tmp_path: Path) -> None:
    """A job that was resized once."""
    path = write_recording(tmp_path / "once.ssrec", windows_of(JOB, CALM, 4, widths=(6,)))
    code, shown, said = surescale("recording", "calibrate", str(path), "--out", str(tmp_path / "once.json"))
    assert code == 0, said
    flat = " ".join(shown.split())  # as wide as the terminal that it is run in
    assert " UTC, 1 restart" in flat
    assert "1 restarts" not in flat


def test_a_calm_job_is_judged_from_its_recording_as_from_its_graph(tmp_path: Path) -> None:
    """The same proportions and the same world: the same sizes, and rewards equal to five digits."""
    out, reports = tmp_path / "calm.json", []
    path = write_recording(tmp_path / "calm.ssrec", windows_of(JOB, CALM, 6))
    assert surescale("recording", "calibrate", str(path), "--out", str(out))[0] == 0
    for given in (["--world", str(out)], ["--job", where(JOB.name)]):
        report = tmp_path / "report.json"
        more = ["--workload", load_of(tmp_path), "--policy", "ds2-gate", "--runs", "1", "--workers", "1", "--as-shipped"]
        code, _, said = surescale("policy", "evaluate", *given, *more, "--out", str(report))
        assert code == 0, said
        reports.append(json.loads(report.read_text())["policies"]["ds2-gate"])
    here, there = reports
    assert here["task_minutes"] == there["task_minutes"]
    assert here["reward_mean"] == pytest.approx(there["reward_mean"], abs=1e-5)


def test_the_recorded_load_is_written_and_judged_as_it_was(recording: Path, tmp_path: Path) -> None:
    """Minute by minute what the simulated job was sent; with the measured service times it loads the job as it did."""
    out, load, report = tmp_path / "world.json", tmp_path / "load.csv", tmp_path / "report.json"
    code, shown, said = surescale("recording", "calibrate", str(recording), "--out", str(out), "--load-out", str(load))
    assert code == 0, said
    assert f"--workload {load} --load literal" in shown
    sent = WORKLOAD.requests[FIRST_MINUTE : FIRST_MINUTE + 12 * 60]
    assert (load_workload(str(load)).requests == sent).all()
    given = ["--world", str(out), "--workload", str(load), "--load", "literal", "--policy", "hold", "--runs", "1"]
    code, _, said = surescale("policy", "evaluate", *given, "--calibrate", "0:240", "--out", str(report))
    assert code == 0, said
    judged = json.loads(report.read_text())["policies"]["hold"]
    demand = WORKLOAD.requests[FIRST_MINUTE + 300 : FIRST_MINUTE + 12 * 60].mean() * JOB.service_minutes.sum()
    assert judged["utilisation"] == pytest.approx(demand / JOB.start_parallelism[1:-1].sum(), rel=0.05)
    code, _, said = surescale(
        "recording", "calibrate", str(recording), "--out", str(tmp_path / "other.json"), "--load-out", str(load)
    )
    assert code == 1
    assert "--load-out" in said


def test_measured_load_is_taken_as_it_is(recording: Path, tmp_path: Path) -> None:
    """With --load literal the service times are those measured: the load factor is a sixtieth of a minute a second."""
    out, report = tmp_path / "world.json", tmp_path / "report.json"
    assert surescale("recording", "calibrate", str(recording), "--out", str(out))[0] == 0
    given = ["--workload", load_of(tmp_path), "--policy", "hold", "--runs", "1", "--workers", "1", "--load", "literal"]
    code, _, said = surescale("policy", "evaluate", "--world", str(out), *given, "--out", str(report))
    assert code == 0, said
    assert json.loads(report.read_text())["load_factor"] == pytest.approx(1 / 60)


def test_bad_input_is_one_line(recording: Path, tmp_path: Path) -> None:
    """What cannot be read, a job that is not there, several jobs, too little, and a file in the way."""
    out = str(tmp_path / "world.json")
    short = write_recording(tmp_path / "short.ssrec", windows_of(JOB, CALM, 1))
    two = write_recording(tmp_path / "two.ssrec", windows_of(JOB, CALM, 1), windows_of(sized("j_1351665"), CALM, 1))
    text, taken = tmp_path / "notes.txt", tmp_path / "taken.json"
    text.write_text("hello", encoding="utf-8")
    taken.write_text("{}", encoding="utf-8")
    for given, message in (
        (["/nowhere.ssrec", "--out", out], "/nowhere.ssrec cannot be read (no such file or directory); name a recording"),
        ([str(tmp_path), "--out", out], "is a directory"),
        ([str(text), "--out", out], "not a recording of surescale"),
        ([str(recording), "--job", "sim/other", "--out", out], "has no job 'sim/other'; it has sim/j_2521346"),
        ([str(two), "--out", out], "--job: name one of the jobs in"),
        ([str(short), "--out", out], "60 minutes with figures are too few to fit a world; record at least 120"),
        ([str(recording), "--out", str(tmp_path / "world.toml")], "must end in .json"),
        ([str(recording), "--out", str(taken)], "exists; name another file or pass --force"),
        ([str(recording), "--out", out, "--restart-s", "-1"], "--restart-s"),
    ):
        code, shown, said = surescale("recording", "calibrate", *given)
        assert code, given
        assert shown == ""
        assert len(said.splitlines()) == 1, said
        assert message in said
    assert not Path(out).exists()


def test_no_file_takes_the_place_of_another(recording: Path, tmp_path: Path) -> None:
    """Not the load that of the world, nor one of them that of the recording, with --force either."""
    out, before = tmp_path / "world.json", recording.read_bytes()
    for load, of in ((out, "--out"), (recording, "RECORDING")):
        code, shown, said = surescale(
            "recording", "calibrate", str(recording), "--out", str(out), "--load-out", str(load), "--force"
        )
        assert (code, shown) == (1, "")
        assert f"--load-out: {load} is the file of {of}, which would be lost; name another one" in said
    assert not out.exists()
    assert recording.read_bytes() == before


def test_the_command_that_it_names_runs(tmp_path: Path) -> None:
    """Six hours are too short for evaluate, eight need its least part to tune on, and twelve nothing."""
    for hours, words in (
        (6, "surescale recording what-if"),
        (8, "--load literal --runs 1 --calibrate 0:240"),
        (12, "--load literal"),
    ):
        out, load = tmp_path / f"{hours}.json", tmp_path / f"{hours}.csv"
        path = write_recording(tmp_path / f"{hours}.ssrec", windows_of(JOB, CALM, hours))
        code, shown, said = surescale(
            "recording", "calibrate", str(path), "--out", str(out), "--load-out", str(load), "--restart-s", "90"
        )
        assert code == 0, said
        named = shown.splitlines()[-1]
        assert words in named
        if "--load literal" in named:
            given = named.partition("surescale ")[2].split()
            code, _, said = surescale(*given, "--policy", "hold", "--workers", "1")
            assert code == 0, said


def test_seconds_of_a_restart_that_are_not_used_are_said(recording: Path, tmp_path: Path) -> None:
    """The recording has restarts, and these count."""
    code, _, said = surescale(
        "recording", "calibrate", str(recording), "--out", str(tmp_path / "world.json"), "--restart-s", "300"
    )
    assert code == 0, said
    assert "note: --restart-s is not used, since restarts were recorded" in said


def test_evaluate_wants_a_job_or_a_world_with_one(recording: Path, tmp_path: Path) -> None:
    """Neither is missing, and not both are given; a file that is not a world names its field."""
    out = tmp_path / "world.json"
    assert surescale("recording", "calibrate", str(recording), "--out", str(out))[0] == 0
    load = ["--workload", load_of(tmp_path), "--policy", "hold"]
    assert "Missing option '--job'" in surescale("policy", "evaluate", *load)[2]
    assert "brings its own job" in surescale("policy", "evaluate", *load, "--job", where("j_1351665"), "--world", str(out))[2]
    assert "cannot be read (no such file" in surescale("policy", "evaluate", *load, "--world", str(tmp_path / "no.json"))[2]
    text = out.read_text()
    for before, after, message in (
        ('"hot_share": 0.0', '"hot_share": 1.5', "`$.tasks["),
        ('"visits": 1.0', '"visit": 1.0', "unknown field `visit`"),
        ('"surescale-world/1"', '"surescale-world/9"', "surescale-world/9"),
        ('"task": "', '"task": "source", "x": "', "unknown field"),
    ):
        assert before in text
        out.write_text(text.replace(before, after, 1), encoding="utf-8")
        code, _, said = surescale("policy", "evaluate", *load, "--world", str(out))
        assert (code, len(said.splitlines())) == (1, 1)
        assert message in said
    out.write_text(text, encoding="utf-8")
    assert "is played in mode clean only" in surescale("policy", "evaluate", *load, "--world", str(out), "--mode", "compat")[2]
