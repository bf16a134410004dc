"""``surescale policy evaluate`` as a command: report, table, bad input in one line."""

import io
import json
import os
import resource
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts.errors import SettingsError
from surescale.services.cli import main
from tests.support.command_line import command_named

FAST = ["--policy", "hold", "--policy", "static", "--runs", "2", "--workers", "1"]
JOB = "job,task,upstream,duration_s\nchain,a,,30\nchain,b,a,20\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Write a job of two tasks and a day and a half of load; return their options."""
    job, load = tmp_path / "job.csv", tmp_path / "load.csv"
    job.write_text(JOB, encoding="utf-8")
    minutes = range(1080)
    load.write_text("minute,requests\n" + "".join(f"{m},{100 + m % 60}\n" for m in minutes), encoding="utf-8")
    return {"--job": str(job), "--workload": str(load)}


@dataclass(frozen=True)
class Done:
    """How the command ended."""

    exit_code: int
    stdout: str
    stderr: str


def evaluate(options: dict[str, str], *more: str) -> Done:
    """Run the command as a shell does."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(["policy", "evaluate", *(word for pair in options.items() for word in pair), *more])
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def test_a_report_file_and_a_table(files: dict[str, str], tmp_path: Path) -> None:
    """The report lands in the file, the table names every policy, progress goes to standard error."""
    done = evaluate(files, *FAST, "--out", str(tmp_path / "report.json"))
    assert done.exit_code == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert list(report["policies"]) == ["hold", "static"]
    assert len(report["runs"]) == 2
    assert "chain (4 tasks) under load, mode clean" in done.stdout
    assert "static: done (2 of 2)" in done.stderr


def test_a_report_that_cannot_be_written_in_the_end_is_shown_all_the_same(files: dict[str, str], tmp_path: Path) -> None:
    """A disk that was full by then, here a limit of 500 bytes a file: what took hours is not lost."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        done = evaluate(files, *FAST, "--out", str(tmp_path / "report.json"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.exit_code == 1
    assert "report.json cannot be written (file too large)" in done.stderr
    assert "chain (4 tasks) under load" in done.stdout
    assert not list(tmp_path.glob("*report*"))


def test_names_are_shown_as_they_are(files: dict[str, str], tmp_path: Path) -> None:
    """Brackets and colons in the name of a file are no markup."""
    named = Path(files["--workload"]).rename(tmp_path / "week[bold]:x:.csv")
    assert "under week[bold]:x:, mode" in evaluate(files | {"--workload": str(named)}, *FAST).stdout


def test_json_is_all_that_standard_output_gets(files: dict[str, str]) -> None:
    """So that it can be piped."""
    report = json.loads(evaluate(files, *FAST, "--json", "--seed", "7", "--lambda", "0.3").stdout)
    assert [run["seed"] for run in report["runs"]] == [7, 8]
    assert report["lambda"] == 0.3


def test_processes_change_no_figure(files: dict[str, str]) -> None:
    """Two workers give the same report as one, except for the time it took."""

    def figures(workers: str) -> dict[str, Any]:
        report = json.loads(
            evaluate(files, "--policy", "hold", "--policy", "ds2", "--runs", "1", "--workers", workers, "--json").stdout
        )
        for policy in report["policies"].values():
            del policy["wall_s"]
        return dict(report)

    assert figures("1") == figures("2")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--policy": "sure-papper"}, "--policy: there is no policy 'sure-papper'; did you mean sure-paper?"),
        ({"--job": "j_0"}, "job 'j_0' is neither a shipped job nor a CSV file"),
        ({"--workload": "none.csv"}, "workload 'none.csv' is neither a file nor one of"),
        ({"--calibrate": "7"}, "--calibrate: '7' is not A:B"),
        ({"--calibrate": "0:99999"}, "does not lie within the 1080 minutes"),
        ({"--runs": "90"}, "--runs: 720 minutes follow the calibration part"),
        ({"--out": "nowhere/report.json"}, "--out: folder nowhere does not exist"),
        ({"--out": "r" * 250}, "cannot be written (file name too long); name another file"),
    ],
)
def test_what_cannot_be_done_is_one_line_with_code_1(files: dict[str, str], changes: dict[str, str], words: str) -> None:
    """The line names the option."""
    refused = evaluate({"--policy": "hold"} | files | changes)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("surescale: ")
    assert refused.stderr.count("\n") == 1
    assert words in refused.stderr


@pytest.mark.parametrize("option", ["--job", "--workload"])
def test_a_report_never_takes_the_place_of_what_it_is_made_of(files: dict[str, str], option: str, tmp_path: Path) -> None:
    """Also by another path to the same file; the file stays as it was."""
    before = Path(files[option]).read_text()
    other = tmp_path / "link"
    other.symlink_to(files[option])
    for out in (files[option], str(other)):
        refused = evaluate({"--policy": "hold", "--out": out} | files)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
        assert f"--out: {out} is the file of {option}, which would be lost" in refused.stderr
    assert Path(files[option]).read_text() == before


@pytest.mark.parametrize(
    ("more", "mode", "seconds", "heading"),
    [
        ([], "clean", 60.0, "mode clean, world calm, load factor"),
        (["--world", "slo"], "slo", 60.0, "mode slo, world slo, load factor"),
        (["--world", "restart@90", "--world-seed", "3"], "clean", 90.0, "world restart@90 (seed 3), restart 90 s, load factor"),
        (["--restart-s", "0"], "clean", 0.0, "mode clean, world calm, restart 0 s, load factor"),
    ],
)
def test_a_report_says_what_was_played(
    files: dict[str, str], tmp_path: Path, more: list[str], mode: str, seconds: float, heading: str
) -> None:
    """The mode of the world, its seed and the restart: with the report alone it can be run again."""
    out = tmp_path / "report.json"
    done = evaluate(files, "--policy", "hold", "--runs", "1", "--workers", "1", *more, "--out", str(out))
    assert done.exit_code == 0, done.stderr
    report = json.loads(out.read_text())
    assert (report["mode"], report["restart_s"], report["world_seed"]) == (mode, seconds, 3 if "--world-seed" in more else 0)
    assert heading in " ".join(done.stdout.split())


def test_the_table_says_what_its_columns_count(files: dict[str, str]) -> None:
    """Without a look at the documentation; the latency of each mode is another."""
    for mode, latency in (("clean", "latency: minutes, at most 10"), ("compat", "latency: minutes a request")):
        given = ("--policy", "hold", "--runs", "1", "--workers", "1", "--mode", mode, "--lambda", "0.3")
        assert "reward" not in evaluate(files, *given).stdout
        shown = evaluate(files, *given, "--reward").stdout
        assert ("late min/day: minutes with a latency above 60 s" in " ".join(shown.split())) == (mode == "clean")
        assert "reward: 0.7 x utilisation - 0.3 x latency" in " ".join(shown.split())
        assert latency in " ".join(shown.split())
        assert "1 run of" in shown


def test_a_narrow_table_explains_the_columns_that_it_has(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And no others. What an operator pays and bears is there at any width, the reward's own columns go first."""
    for width, has in ((60, (False, False)), (80, (True, False)), (190, (True, True))):
        monkeypatch.setenv("COLUMNS", str(width))
        given = ("--policy", "hold", "--policy", "static", "--runs", "1", "--workers", "1", "--reward", "--price", "2")
        shown = " ".join(evaluate(files, *given).stdout.split())
        assert "policy $/day late min/day rescales/day" in shown
        assert ("latency: minutes, at most 10" in shown, "worst hour: its reward" in shown) == has


def test_the_cheapest_comes_first_and_what_breaks_a_bound_last(files: dict[str, str], tmp_path: Path) -> None:
    """Whatever its reward."""
    given = ("--policy", "static", "--policy", "lag", "--policy", "hold", "--runs", "1", "--workers", "1", "--as-shipped")

    def shown(*more: str) -> tuple[list[str], dict[str, Any]]:
        out = tmp_path / "report.json"
        rows = [line.split()[0] for line in evaluate(files, *given, *more, "--out", str(out)).stdout.splitlines() if line.strip()]
        return [name for name in rows if name in given], json.loads(out.read_text())["policies"]

    order, policies = shown()
    rents = [policies[name]["subtask_hours_per_day"] for name in order]
    assert rents == sorted(rents)
    assert order[0] == "hold"
    order, policies = shown("--objective", "latency=60@0.05")
    above = [policies[name]["share_above_bound"] for name in order]
    assert [share > 0.05 for share in above] == [False, True, True]
    assert order == ["static", "hold", "lag"]


def test_what_cannot_be_judged_is_refused_before_the_work(files: dict[str, str]) -> None:
    """The ceiling in another mode, after other policies: nothing is run for nothing."""
    for more in (["--mode", "slo"], ["--world", "slo"]):
        refused = evaluate(files, "--policy", "hold", "--policy", "ceiling", "--runs", "1", "--workers", "1", *more)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr.startswith("surescale: --policy: the ceiling is known in mode clean only")


def test_a_mode_that_a_world_is_not_played_in_is_named(files: dict[str, str]) -> None:
    """The world slo has a mode of its own."""
    for world, own in (("slo", "slo"), ("drift", "clean")):
        refused = evaluate({"--policy": "hold", "--world": world, "--mode": "compat"} | files)
        assert f"--world: {world} is played in mode {own} only, not compat" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--world": "drift", "--world=skew": "--json"}, "'--world': give it once; worlds are joined by +, as in drift+skew"),
        ({"--world": "shop.json@300"}, "--world: a file takes no seconds after it; leave out @300 and give --restart-s"),
        ({"--runs": "0"}, "--runs"),
        ({"--lambda": "1.5"}, "--lambda"),
        ({"--mode": "real"}, "--mode"),
        ({"--load-parallelism": "-1"}, "--load-parallelism"),
        ({"--nonsense": "1"}, "--nonsense"),
    ],
)
def test_options_out_of_range_are_one_line_with_code_2(files: dict[str, str], changes: dict[str, str], words: str) -> None:
    """As everywhere on the command line."""
    refused = evaluate({"--policy": "hold"} | files | changes)
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert words in refused.stderr


def test_a_policy_named_twice_is_refused(files: dict[str, str]) -> None:
    """Its figures would be in the report once."""
    refused = evaluate(files, "--policy", "hold", "--policy", "hold")
    assert (refused.exit_code, "--policy: hold is named twice" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("--workload", "minute,requests\n0,1\n2,1\n", "column minute"),
        ("--workload", "minute,requests\n0,1\n0,1\n", "column minute"),
        ("--workload", "minute,requests\n0,-1\n", "column requests"),
        ("--workload", "minute,requests\n0,many\n", "column requests"),
        ("--workload", "minute,count\n0,1\n", "minute,requests"),
        ("--workload", "minute,requests\n", "no rows"),
        ("--workload", "minute,requests\n0,5\n1,6\n", "--calibrate"),
        ("--job", "job,task,upstream,duration_s\nx,a,b,1\nx,b,a,1\n", "cycle"),
        ("--job", "job,task,upstream,duration_s\nx,a,zz,1\n", "zz"),
        ("--job", "job,task,upstream,duration_s\nx,a,,-1\n", "duration_s"),
        ("--job", "job,task\nx,a\n", "duration_s"),
    ],
)
def test_bad_workloads_and_jobs_are_refused(files: dict[str, str], file: str, text: str, words: str) -> None:
    """Row and column, a cycle, a missing parent, in one line."""
    Path(files[file]).write_text(text, encoding="utf-8")
    refused = evaluate(files, *FAST)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert words in refused.stderr


def test_a_damaged_model_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    """Before anything runs, with the file and what is wrong with it."""
    folder = tmp_path / "models" / "sure"
    folder.mkdir(parents=True)
    (folder / "card.json").write_text("{", encoding="utf-8")
    refused = evaluate(files, "--policy", "sure", "--policy-folder", str(folder.parent))
    assert refused.exit_code == 1
    assert "sure/card.json is not a valid card" in refused.stderr
    assert "sure" not in refused.stderr.partition("others here: ")[2].split(" (")[0].split(", ")


def test_a_report_into_a_pipe_is_refused_before_the_work(files: dict[str, str], tmp_path: Path) -> None:
    """A file would take its place; the same goes for a device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = evaluate(files, *FAST, "--out", str(pipe))
    assert refused.exit_code == 1
    assert "pipe is not a regular file" in refused.stderr
    assert "done" not in refused.stderr
    assert pipe.is_fifo()


def test_a_policy_folder_that_is_not_there_is_named(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from the environment, so no option was checked."""
    monkeypatch.setenv("SURESCALE_POLICY_FOLDER", "/nowhere")
    refused = evaluate(files, "--policy", "sure")
    assert refused.exit_code == 1
    assert "SURESCALE_POLICY_FOLDER: there is no folder /nowhere; name another" in refused.stderr


def test_debug_shows_the_trace(files: dict[str, str]) -> None:
    """With --debug the error itself comes through."""
    with pytest.raises(SettingsError, match="there is no policy 'nobody'"):
        main(["--debug", "policy", "evaluate", "--policy", "nobody", *(word for pair in files.items() for word in pair)])


def test_the_command_is_published() -> None:
    """``surescale policy evaluate`` leads here."""
    assert command_named("policy evaluate").name == "evaluate"
