"""The shell scripts of compose/ without a container engine: what is wrong is one line, and the exit code is not 0."""

import os
import re
import shutil
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "compose"
CI = ROOT / ".ci"
SCRIPTS = sorted([*COMPOSE.glob("*.sh"), *CI.iterdir()])


def run(script: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run a script with no engine to find; return exit code and standard error."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ["bash", str(COMPOSE / script), *arguments]
    nowhere = {"DOCKER_HOST": "unix:///nonexistent/engine.sock"}
    done = subprocess.run(command, env=kept | nowhere | environment, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


def test_images_hold_the_licence_and_the_notices_and_no_research_data() -> None:
    """The wheel in them takes along what pyproject.toml names, if it is sent to the engine; what is not sent is in no image."""
    licences = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
    function = re.search(r"^context\(\) \{.*?^\}", (COMPOSE / "build.sh").read_text(), re.DOTALL | re.MULTILINE)
    assert function is not None
    sent = subprocess.run(
        ["bash", "-c", f"{function[0]}\ncontext | tar --list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = set(sent.stdout.splitlines())
    assert set(licences) <= names
    research = {path.name for path in (ROOT / "reproductions" / "data").glob("*.csv")}
    assert research
    assert {Path(name).name for name in names} & research == set()


def prepared(folder: Path, **environment: str) -> str:
    """Let CI look for an engine, and return the variables it leaves to the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    nowhere = {"DOCKER_HOST": "unix:///nonexistent/engine.sock"}
    command = [str(CI / "containers"), "start", str(folder)]
    done = subprocess.run(command, env=kept | nowhere | environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return (folder / "variables").read_text()


def left_our_network(process: subprocess.Popen[str]) -> bool:
    """Whether a process has a network namespace of its own, or has ended."""
    here = os.stat("/proc/self/ns/net").st_ino
    return process.poll() is not None or os.stat(f"/proc/{process.pid}/ns/net").st_ino != here


def one_line(error: str) -> str:
    """Return the only line, which is ours."""
    (line,) = error.splitlines()
    assert line.startswith("surescale: ")
    return line


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses(script: Path) -> None:
    """Bash itself has nothing to object."""
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_without_an_engine_up_says_so() -> None:
    """Either there is no command, or nobody answers it."""
    code, error = run("pipeline.sh", "up")
    assert code == 1
    assert "no container engine answers" in one_line(error) or "no docker command" in one_line(error)


def test_without_an_engine_no_stand_in_is_built() -> None:
    """The page that helps is named."""
    code, error = run("local-images.sh")
    assert code == 1
    assert "docs/deploy.md" in one_line(error)


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    """A settings file without the engine's address is refused before anything starts."""
    settings = tmp_path / "settings"
    settings.write_text("SURESCALE_PIPELINE_CLOCK=true\n")
    code, error = run("pipeline.sh", "up", ENV_FILE=str(settings))
    assert code == 1
    assert "SURESCALE_ENGINE_URL is not set" in one_line(error)


def test_a_line_that_is_no_setting_is_shown(tmp_path: Path) -> None:
    """The file and the line are named."""
    settings = tmp_path / "settings"
    settings.write_text("SURESCALE_PIPELINE_CLOCK=true\nexport nothing\n")
    code, error = run("pipeline.sh", "up", ENV_FILE=str(settings))
    assert code == 1
    assert "'export nothing' is not NAME=value" in one_line(error)


@pytest.mark.parametrize(
    "text",
    [
        "SURESCALE_ENGINE_URL=http://engine:8090\nSURESCALE_PIPELINE_CLOCK=true",
        "SURESCALE_ENGINE_URL=http://engine:8090\r\nSURESCALE_PIPELINE_CLOCK=true\r\n\r\n",
    ],
)
def test_lines_may_end_as_editors_end_them(tmp_path: Path, text: str) -> None:
    """The last one by nothing, or all of them as on Windows; what is missing then is only the engine."""
    settings = tmp_path / "settings"
    settings.write_bytes(text.encode())
    _, error = run("pipeline.sh", "up", ENV_FILE=str(settings))
    assert "no container engine answers" in one_line(error) or "no docker command" in one_line(error)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('SURESCALE_CLUSTER="east"', "east"),
        ("SURESCALE_CLUSTER='east'", "east"),
        ("SURESCALE_CLUSTER=\"east'", "\"east'"),
        ("SURESCALE_CLUSTER=east\r", "east"),
    ],
)
def test_values_are_read_as_compose_reads_them(tmp_path: Path, line: str, value: str) -> None:
    """The environment wins over the file, so a quote that stayed would reach the roles."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text('#!/bin/sh\nenv | grep ^SURESCALE_CLUSTER= > "$SEEN"\nexit 1\n')
    docker.chmod(0o755)
    settings = tmp_path / "settings"
    settings.write_text(f"SURESCALE_ENGINE_URL=http://engine:8090\nSURESCALE_PIPELINE_CLOCK=true\n{line}\n", newline="")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    run("pipeline.sh", "up", ENV_FILE=str(settings), PATH=path, SEEN=str(tmp_path / "seen"))
    assert (tmp_path / "seen").read_text() == f"SURESCALE_CLUSTER={value}\n"


def test_an_engine_of_ones_own_is_a_file_more(tmp_path: Path) -> None:
    """Its network and its files; a network that is not there is named before anything starts."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text('#!/bin/sh\necho "$@" >> "$SEEN"\ntest "$1" != network\n')
    docker.chmod(0o755)
    settings = tmp_path / "settings"
    settings.write_text(
        "SURESCALE_ENGINE=flink\nSURESCALE_ENGINE_URL=http://jobmanager:8081\nSURESCALE_PIPELINE_CLOCK=false\n"
        f"ENGINE_NETWORK=flink_default\nENGINE_FILES={tmp_path}\n"
    )
    given = {"ENV_FILE": str(settings), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SEEN": str(tmp_path / "seen")}
    code, error = run("pipeline.sh", "up", **given)
    assert (code, one_line(error)) == (
        1,
        "surescale: ENGINE_NETWORK: no network flink_default; start the engine first, and see docker network ls",
    )
    run("pipeline.sh", "logs", **given)
    assert "--file own-engine/network.yaml --file own-engine/files.yaml" in (tmp_path / "seen").read_text()
    code, error = run("pipeline.sh", "up", **given, ENGINE_FILES="nowhere")
    assert (code, one_line(error)) == (1, "surescale: ENGINE_FILES: nowhere is no folder; give its whole path")


def test_a_command_runs_where_kafka_and_redis_are_reached(tmp_path: Path) -> None:
    """In the state service's container, with its words as they are; if the pipeline is not up, that is said."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text('#!/bin/sh\nif [ "$1" = ps ]; then cat "$UP"; else printf "%s|" "$@" >> "$SEEN"; fi\n')
    docker.chmod(0o755)
    (tmp_path / "up").write_text("")
    given = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SEEN": str(tmp_path / "seen"), "UP": str(tmp_path / "up")}
    code, error = run("pipeline.sh", "surescale", "job", "list", **given)
    assert (code, one_line(error)) == (1, "surescale: the pipeline is not up; start it with make up")
    (tmp_path / "up").write_text("0123456789ab\n")
    code, _ = run("pipeline.sh", "surescale", "job", "pause", "sim/a job", **given)
    assert code == 0
    assert (tmp_path / "seen").read_text().endswith("|exec|-T|state|surescale|job|pause|sim/a job|")


def test_images_are_had_and_built_on_by_the_digests_that_are_given(tmp_path: Path) -> None:
    """The references go to the engine as they are; nothing is had by a tag beside them."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text('#!/bin/sh\necho "$@" >> "$SEEN"\ncase "$1" in image) exit 1;; build) cat > /dev/null; exit 1;; esac\n')
    docker.chmod(0o755)
    names = {"KAFKA_IMAGE": "kafka", "REDIS_IMAGE": "redis", "PROMETHEUS_IMAGE": "prometheus", "GRAFANA_IMAGE": "grafana"}
    pinned = {variable: f"registry.example/{name}@sha256:{'ab' * 32}" for variable, name in names.items()}
    base = f"registry.example/python@sha256:{'cd' * 32}"
    settings = tmp_path / "settings"
    settings.write_text("SURESCALE_ENGINE_URL=http://engine:8090\nSURESCALE_PIPELINE_CLOCK=false\n")
    given = {"ENV_FILE": str(settings), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SEEN": str(tmp_path / "seen")}
    run("pipeline.sh", "up", **given, **pinned, PYTHON_IMAGE=base, COMPOSE_PROFILES="observability")
    seen = (tmp_path / "seen").read_text().splitlines()
    assert [line.split()[-1] for line in seen if line.startswith("pull")] == list(pinned.values())
    (built,) = [line for line in seen if line.startswith("build")]
    assert f"--build-arg PYTHON_IMAGE={base} " in built


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """It is not taken for the demo, which drops its volumes."""
    code, error = run("pipeline.sh", "down", ENV_FILE=str(tmp_path / "mine.env"))
    assert code == 1
    assert f"ENV_FILE: {tmp_path}/mine.env is no file" in one_line(error)


def test_an_unknown_action_shows_the_usage() -> None:
    """Exit code 2, as for any wrong command line."""
    code, error = run("pipeline.sh", "restart")
    assert code == 2
    assert "usage: pipeline.sh up | down" in one_line(error)


def test_an_unknown_role_is_not_built() -> None:
    """The name is shown."""
    code, error = run("build.sh", "gateway")
    assert code == 2
    assert "no such role: gateway" in one_line(error)


@pytest.mark.parametrize("arguments", [(), ("start",), ("start", "relative"), ("restart", "/tmp/engine")])
def test_an_engine_of_ones_own_needs_a_verb_and_a_folder(arguments: tuple[str, ...]) -> None:
    """Nothing is started or stopped without both."""
    code, error = run("engine.sh", *arguments)
    assert code == 2
    assert "usage: engine.sh start|stop FOLDER" in one_line(error)


def test_an_engine_that_does_not_run_is_not_stopped(tmp_path: Path) -> None:
    """The folder is named, and left alone."""
    code, error = run("engine.sh", "stop", str(tmp_path))
    assert (code, tmp_path.exists()) == (1, True)
    assert f"no engine runs in {tmp_path}" in one_line(error)


def test_what_an_engine_left_that_has_ended_is_cleared_away(tmp_path: Path) -> None:
    """Its process number may belong to somebody else by now, who is left alone."""
    folder = tmp_path / "engine"
    for number in (os.getpid(), 2**22 + 1):
        folder.mkdir()
        (folder / "docker.pid").write_text(f"{number}\n")
        code, error = run("engine.sh", "stop", str(folder))
        assert (code, error, folder.exists()) == (0, "", False)


def test_file_systems_an_engine_left_mounted_are_let_go(tmp_path: Path) -> None:
    """A container that outlives the engine keeps its file system mounted, which no folder can be removed with."""
    folder = tmp_path / "engine"
    inner = folder / "data" / "overlay2" / "merged"
    inner.mkdir(parents=True)
    (folder / "docker.pid").write_text(f"{2**22 + 1}\n")
    for place in (folder / "data", inner):
        command = ["mount", "-t", "tmpfs", "surescale-test", str(place)]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"nothing may be mounted here: {mounted.stderr.strip()}")
        inner.mkdir(parents=True, exist_ok=True)
    code, error = run("engine.sh", "stop", str(folder))
    assert (code, error, folder.exists()) == (0, "", False)


def test_networks_a_killed_engine_left_are_gone_before_the_next_one_starts(tmp_path: Path) -> None:
    """A namespace keeps its address on the bridge even with nobody in it, and answers for the next container there."""
    folder = tmp_path / "killed"
    network = folder / "exec" / "netns" / "b7b4cc9d8993"
    network.parent.mkdir(parents=True)
    network.touch()
    (folder / "docker.pid").write_text(f"{2**22 + 1}\n")
    (folder / "forward").write_text("")
    next_one = tmp_path / "bin" / "dockerd"
    next_one.parent.mkdir()
    next_one.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    next_one.chmod(0o755)
    # In a network of its own the script finds no engine that runs.
    with subprocess.Popen(["unshare", "--net", "sleep", "600"], stderr=subprocess.PIPE, text=True) as container:
        try:
            wait_until(lambda: left_our_network(container), what="the container's network")
            command = ["mount", "--bind", f"/proc/{container.pid}/ns/net", str(network)]
            mounted = subprocess.run(command, capture_output=True, text=True, check=False)
            if container.poll() is not None or mounted.returncode != 0:
                pytest.skip(f"no network may be made here: {mounted.stderr.strip()}")
            command = ["unshare", "--net", "bash", str(COMPOSE / "engine.sh"), "start", str(tmp_path / "next")]
            path = f"{next_one.parent}:{os.environ['PATH']}"
            done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=60)
            assert container.wait(timeout=10) == -signal.SIGKILL
        finally:
            container.kill()
    assert f"surescale: clearing away what a killed engine left in {folder}" in done.stderr.splitlines()
    assert not folder.exists()
    assert str(network) not in Path("/proc/self/mounts").read_text()


def test_an_engine_that_cannot_be_started_is_said_so(tmp_path: Path) -> None:
    """Here the program is not on the search path."""
    empty = tmp_path / "bin"
    empty.mkdir()
    for tool in ("bash", "id"):
        (empty / tool).symlink_to(shutil.which(tool) or tool)
    code, error = run("engine.sh", "start", str(tmp_path / "engine"), PATH=str(empty))
    assert code == 1
    assert "no dockerd" in one_line(error) or "an engine needs root" in one_line(error)


def test_a_second_engine_is_not_started_beside_the_first(tmp_path: Path) -> None:
    """Both would use the bridge docker0, and containers of one would have addresses of the other's."""
    first = tmp_path / "dockerd"
    shutil.copy(shutil.which("sleep") or "sleep", first)
    process = subprocess.Popen([first, "600"])
    try:
        code, error = run("engine.sh", "start", str(tmp_path / "engine"), PATH=f"{tmp_path}:{os.environ['PATH']}")
    finally:
        process.kill()
        process.wait()
    assert code == 1
    assert "is an engine already" in one_line(error) or "an engine needs root" in one_line(error)


def test_without_an_engine_ci_goes_on_and_says_why(tmp_path: Path) -> None:
    """Here there is neither an engine nor a way to install one; the tests get the reason, and nothing fails."""
    empty = tmp_path / "bin"
    empty.mkdir()
    for tool in ("bash", "dirname", "timeout", "df", "awk", "cat", "env"):
        (empty / tool).symlink_to(shutil.which(tool) or tool)
    (empty / "id").write_text("#!/bin/sh\necho 0\n")
    (empty / "id").chmod(0o755)
    said = prepared(tmp_path, PATH=str(empty))
    assert said.startswith("export SURESCALE_NO_CONTAINERS=no\\ engine\\ answers")


def test_ci_can_be_told_to_leave_containers_out(tmp_path: Path) -> None:
    """By a variable, whose name is then the reason."""
    assert prepared(tmp_path, SURESCALE_CI_CONTAINERS="no") == "export SURESCALE_NO_CONTAINERS=SURESCALE_CI_CONTAINERS=no\n"
