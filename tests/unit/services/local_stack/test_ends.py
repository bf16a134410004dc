"""How the local stack ends when something comes in between: signals at the wrong moment, a listener that is gone, a full disk."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from surescale.contracts.errors import SettingsError
from surescale.runtime.ports import free_port
from surescale.services.local_stack import pipeline as pipeline_module
from surescale.services.local_stack import servers
from surescale.services.local_stack import supervisor as supervisor_module
from surescale.services.local_stack.artifacts import KAFKA_BROKER, fetch
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.errors import ArtifactError, RoleError, ServerError
from surescale.services.local_stack.java import JavaRuntime
from surescale.services.local_stack.local_pipeline import LocalPipeline, PipelineOptions, fetch_engine_report
from surescale.services.local_stack.servers import LocalBroker
from surescale.services.local_stack.supervisor import Role, StopRequested, Supervisor
from surescale.services.local_stack.up_command import command as up
from tests.support.small_processes import FOREVER, ROOT, python
from tests.support.waiting import wait_until

SLOW_JAVA = """#!/bin/sh
[ "$1" = -version ] && { echo 'openjdk version "17.0.1"' >&2; exit 0; }
echo $$ > "$PID_FILE"
exec sleep 60
"""


class _InterruptedStart(ChildProcess):
    """A process during whose start the supervisor is told to stop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_while_a_process_is_being_started_waits_until_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would stop that process: it would run on until this one ends."""
    monkeypatch.setattr(supervisor_module, "ChildProcess", _InterruptedStart)
    supervisor = Supervisor(tmp_path)
    with pytest.raises(StopRequested), supervisor:
        supervisor.launch(Role("late", python(FOREVER)))
    assert supervisor.has_finished("late")


def test_roles_are_stopped_in_order_although_nobody_listens_any_more(tmp_path: Path) -> None:
    """As behind ``| head``: each is asked to end, and none is left to be killed with this process."""
    said: list[str] = []

    def gone(line: str) -> None:
        said.append(line)
        if "stopping" in line:
            raise BrokenPipeError

    with Supervisor(tmp_path, progress=gone) as supervisor:
        supervisor.start(Role("first", python(FOREVER)))
        supervisor.start(Role("second", python(FOREVER)))
    assert said[-2:] == ["second: stopping", "first: stopping"]
    assert all(map(supervisor.has_finished, ("first", "second")))


def test_a_folder_that_will_not_go_yet_is_left_to_the_janitor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may still write into it; nobody waits for that, and it is removed anyway."""
    monkeypatch.setattr(supervisor_module.janitor, "remove", lambda _folder, patience_s: False)
    with Supervisor() as supervisor:
        (supervisor.folder / "late").write_text("")
    wait_until(lambda: not supervisor.folder.exists(), 20, "the janitor to remove the folder")


def test_a_pipeline_that_cannot_be_entered_gives_signals_and_folder_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that catches the error goes on as if nothing had been tried."""
    before = signal.getsignal(signal.SIGTERM)

    def missing(_folder: Path) -> None:
        raise ServerError("no redis-server found")

    monkeypatch.setattr(pipeline_module, "LocalRedis", missing)
    pipeline = LocalPipeline(PipelineOptions(policy="static"))
    with pytest.raises(ServerError, match="no redis-server"):
        pipeline.__enter__()
    assert signal.getsignal(signal.SIGTERM) is before
    assert not pipeline.supervisor.folder.exists()


def test_an_engine_that_is_just_dying_is_blamed_and_not_its_port(tmp_path: Path) -> None:
    """Its port is closed before its process has ended; the last lines of its log tell more than a refused connection."""
    dying = "import time; time.sleep(0.3); raise SystemExit('the trace is broken')"
    with Supervisor(tmp_path) as supervisor:
        supervisor.launch(Role("engine", python(dying)))
        with pytest.raises(RoleError, match="the trace is broken"):
            fetch_engine_report(supervisor, f"http://127.0.0.1:{free_port()}")


def test_a_cache_that_cannot_be_written_names_its_variable(tmp_path: Path) -> None:
    """A full or read-only disk: another folder helps."""
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(ArtifactError, match=r"cannot keep the jars in .+/cache/jars \(.+\); name .* with SURESCALE_CACHE"):
        fetch(KAFKA_BROKER, cache=tmp_path / "cache", java=JavaRuntime(Path("/nowhere/java"), 17))


def test_a_run_folder_that_cannot_be_made_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything starts."""
    monkeypatch.setenv("SURESCALE_RUN_FOLDER", f"{os.devnull}/up")
    refused = CliRunner().invoke(up, ["--http-port", "0"]).exception
    assert isinstance(refused, SettingsError)
    assert str(refused) == "SURESCALE_RUN_FOLDER: /dev/null/up cannot be created (not a directory); name another folder"


def test_storage_that_is_not_formatted_in_time_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a trace with the whole class path."""
    slow = tmp_path / "java"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(servers, "_FORMAT_TIMEOUT_S", 0.2)
    broker = LocalBroker(tmp_path / "kafka", java=JavaRuntime(slow, 17))
    with pytest.raises(ServerError, match=r"^kafka: its storage was not formatted within 0 s"):
        broker.prepare()


def test_a_demo_that_is_told_to_end_while_it_downloads_leaves_nothing(tmp_path: Path) -> None:
    """The process that downloads ends, and its half-filled folder is removed."""
    (tmp_path / "bin").mkdir()
    java, pid_file, cache = tmp_path / "bin" / "java", tmp_path / "pid", tmp_path / "cache"
    java.write_text(SLOW_JAVA)
    java.chmod(0o755)
    environment = os.environ | {"JAVA_HOME": str(tmp_path), "PID_FILE": str(pid_file), "SURESCALE_CACHE": str(cache)}
    command = [sys.executable, "-m", "surescale.services.cli", "demo", "--policy", "static"]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL) as demo:
        pid = int(wait_until(lambda: pid_file.exists() and pid_file.read_text(), 60))
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(20) == 128 + signal.SIGTERM
    wait_until(lambda: not psutil.pid_exists(pid), 5, "the download to end")
    assert [path.name for path in (cache / "jars").iterdir()] == ["spark-kafka-4.2.0.lock"]
