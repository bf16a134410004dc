"""What the demo refuses before it starts anything: one readable line each, naming the option, file or column."""

from pathlib import Path

import pytest

from surescale.contracts.errors import SurescaleError
from surescale.services.cli import main
from tests.support.command_line import Ran, surescale

DAG_HEADER = "job,task,upstream,instances,duration_s,plan_cpu,plan_mem,start_s,mean_instance_s\n"


def demo(*arguments: str) -> Ran:
    """Run ``surescale demo`` with these arguments."""
    return surescale("demo", *arguments)


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("--workload", "minute,visits\n0,5\n", "columns minute,requests"),
        ("--workload", "minute,requests\n", "no rows"),
        ("--workload", "minute,requests\n0,many\n", "row 2, column requests"),
        ("--job", DAG_HEADER + "j,M1,R2_1,1,5,50,0.1,0,\nj,R2_1,M1,1,5,50,0.1,0,\n", "cycle"),
        ("--job", DAG_HEADER + "j,M1,,1,soon,50,0.1,0,\n", "column duration_s"),
        ("--job", "job,task\nj,M1\n", "column upstream is missing"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_field(tmp_path: Path, option: str, text: str, says: str) -> None:
    """Exit code 1, nothing on standard output, and the file's name with the column or row."""
    file = tmp_path / "given.csv"
    file.write_text(text)
    done = demo(option, str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("surescale: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--policy", "clever"), "known: drs, ds2, ds2-gate"),
        (("--job", "ordrs"), "orders"),
        (("--workload", "/nowhere.csv"), "neither a file nor one of"),
        (("--start-minute", "20000"), "has 20160 minutes"),
        (("--minutes", "60", "--kill-host", "61"), "minute 61 is not among the run's 60 minutes"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(arguments: tuple[str, ...], says: str) -> None:
    """Policies, jobs and traces: the message helps to find the right one."""
    done = demo(*arguments)
    assert done.returncode == 1
    assert says in done.stderr


def test_a_report_that_cannot_be_written_is_refused_before_the_run() -> None:
    """Not after minutes of work, which would be lost with it. (Were it taken, the policy would be refused.)"""
    done = demo("--out", "/proc/nowhere/a.json", "--policy", "clever")
    assert (done.returncode, done.stderr) == (1, "surescale: --out: folder /proc/nowhere does not exist; create it first\n")


def test_debug_shows_the_trace() -> None:
    """``--debug`` anywhere on the line gives the Python trace."""
    with pytest.raises(SurescaleError, match="clever"):
        main(["demo", "--policy", "clever", "--debug"])


def test_an_option_of_the_simulated_demo_is_refused_before_the_name_of_another() -> None:
    """The other demo would not heed it; the line says where its own options go."""
    done = demo("--seed", "3", "flink")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--seed is an option of the simulated demo; put the options of `demo flink` after flink" in done.stderr
