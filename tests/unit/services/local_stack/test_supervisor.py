"""The supervisor, with small real processes."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from surescale.services.local_stack import supervisor as supervisor_module
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.errors import RoleError
from surescale.services.local_stack.janitor import remove
from surescale.services.local_stack.supervisor import Role, StopRequested, Supervisor
from tests.support.small_processes import FOREVER, ROOT, python
from tests.support.waiting import wait_until

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)\n" + FOREVER
OWNER = """
import sys
from surescale.services.local_stack.supervisor import Role, StopRequested, Supervisor
with_child = '''
import subprocess, sys, os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
print(os.getpid(), child.pid, flush=True)
signal.pause()
'''
try:
    with Supervisor() as supervisor:
        role = Role("family", [sys.executable, "-S", "-c", with_child], stop_grace_s=0.5)
        supervisor.launch(role)
        supervisor.wait(lambda: supervisor.last_log_lines("family"), timeout_s=20)
        print(supervisor.folder, *supervisor.last_log_lines("family"), flush=True)
        supervisor.wait(lambda: False)
except StopRequested as request:
    sys.exit(request.exit_code)
"""


def is_gone(pid: int) -> bool:
    """Say whether a process has ended, reaped or not."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def restart_and_watch(supervisor: Supervisor, name: str) -> None:
    """Bring a role back and wait for the end of any."""
    supervisor.restart(name)
    supervisor.wait(lambda: False, timeout_s=20)


def start_owner() -> tuple[subprocess.Popen[str], Path, list[int]]:
    """Start a process that supervises a stubborn role with a child; return it, its folder and the two pids."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    folder, *pids = owner.stdout.readline().split()
    assert len(pids) == 2
    return owner, Path(folder), [int(pid) for pid in pids]


def test_roles_start_in_order_and_stop_in_reverse(tmp_path: Path) -> None:
    """What was started first is needed by the others and goes last."""
    said: list[str] = []
    with Supervisor(tmp_path, progress=said.append) as supervisor:
        supervisor.start(Role("first", python(FOREVER)))
        supervisor.start(Role("second", python(FOREVER)))
    told = [line.partition(" after")[0] for line in said]
    assert told == [
        "first: starting", "first: ready", "second: starting", "second: ready", "second: stopping", "first: stopping",
    ]  # fmt: skip


def test_start_waits_until_the_role_is_ready(tmp_path: Path) -> None:
    """The next role may rely on the one before."""
    mark = tmp_path / "mark"
    write_late = "import pathlib, sys, time; time.sleep(0.2); pathlib.Path(sys.argv[1]).touch()\n" + FOREVER
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Role("late", python(write_late, str(mark)), ready=mark.exists))
        assert mark.exists()


def test_roles_that_start_together_wait_for_each_other(tmp_path: Path) -> None:
    """The second is started before the first is ready."""
    mark = tmp_path / "mark"
    touch = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()\n" + FOREVER
    with Supervisor(tmp_path) as supervisor:
        supervisor.start_together([Role("first", python(FOREVER), ready=mark.exists), Role("second", python(touch, str(mark)))])
        assert mark.exists()


def test_waiting_while_roles_start_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a broker that is away is seen at once, and not in a log after minutes."""
    monkeypatch.setattr(supervisor_module, "STILL_STARTING_EVERY_S", 0.1)
    said: list[str] = []
    waits = python("print('agent WARNING waiting for Kafka at nowhere since 3 s: refused', flush=True)\n" + FOREVER)
    with Supervisor(tmp_path, progress=said.append) as supervisor:
        told = lambda: any(line.endswith(" s: agent for Kafka at nowhere: refused | slow starting") for line in said)  # noqa: E731
        supervisor.start_together([Role("agent", waits), Role("slow", python(FOREVER), ready=told, ready_timeout_s=20.0)])


def test_a_role_that_ends_while_starting_is_named_with_its_last_lines(tmp_path: Path) -> None:
    """The reason is in the message, not in a file to look for."""
    with Supervisor(tmp_path) as supervisor, pytest.raises(RoleError) as caught:
        supervisor.start(Role("broken", python("raise SystemExit('no such setting')"), ready=lambda: False))
    assert caught.value.role == "broken"
    assert "role 'broken' ended with exit code 1" in str(caught.value)
    assert "no such setting" in str(caught.value)


def test_a_command_that_does_not_exist_is_said_so(tmp_path: Path) -> None:
    """A program that is missing reads like any other role that did not start."""
    with Supervisor(tmp_path) as supervisor, pytest.raises(RoleError, match="cannot start /nowhere/program"):
        supervisor.start(Role("absent", ["/nowhere/program"], ready=lambda: False))


def test_a_role_that_is_never_ready_fails_after_its_time(tmp_path: Path) -> None:
    """Waiting has an end, and progress is told until then."""
    with Supervisor(tmp_path) as supervisor, pytest.raises(RoleError, match="'slow' was not ready after 0 s; wait longer"):
        supervisor.start(Role("slow", python(FOREVER), ready=lambda: False, ready_timeout_s=0.2, ready_hint="; wait longer"))


def test_the_death_of_one_role_stops_the_others(tmp_path: Path) -> None:
    """Nothing limps on when a part of the pipeline is gone."""
    supervisor = Supervisor(tmp_path)

    def pipeline() -> None:
        with supervisor:
            supervisor.start(Role("survivor", python("import os; print(os.getpid(), flush=True)\n" + FOREVER)))
            wait_until(lambda: supervisor.last_log_lines("survivor"))
            supervisor.start(Role("mortal", python("raise SystemExit(3)")))
            supervisor.wait(lambda: False, timeout_s=20)

    with pytest.raises(RoleError, match="'mortal' ended with exit code 3"):
        pipeline()
    assert is_gone(int(supervisor.last_log_lines("survivor")[0]))


def test_a_role_that_may_finish_is_no_failure(tmp_path: Path) -> None:
    """A batch ends by itself, and its exit code 0 is success."""
    with Supervisor(tmp_path) as supervisor:
        supervisor.launch(Role("batch", python("pass"), finishes=True))
        supervisor.wait(lambda: supervisor.has_finished("batch"), timeout_s=20)
        supervisor.check()


def test_a_role_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    """Stopping has an end too."""
    said: list[str] = []
    with Supervisor(tmp_path, progress=said.append) as supervisor:
        supervisor.start(Role("deaf", python(STUBBORN), stop_grace_s=0.2))
        wait_until(lambda: supervisor.last_log_lines("deaf"))
    assert said[-1] == "deaf: did not stop by itself, killing it"
    assert supervisor.has_finished("deaf")


def test_a_killed_role_is_no_failure_and_can_be_started_again(tmp_path: Path) -> None:
    """Tests of recovery kill a role on purpose and bring it back."""
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Role("phoenix", python("import os; print(os.getpid(), flush=True)\n" + FOREVER)))
        (first,) = wait_until(lambda: supervisor.last_log_lines("phoenix"))
        supervisor.kill("phoenix")
        supervisor.check()
        assert is_gone(int(first))
        supervisor.restart("phoenix")
        (second,) = wait_until(lambda: supervisor.last_log_lines("phoenix"))
        assert second != first
        assert not is_gone(int(second))


def test_a_role_that_was_restarted_is_watched_again(tmp_path: Path) -> None:
    """The pardon of a kill does not outlast the restart."""
    once = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.exists() and sys.exit(4); p.touch()\n" + FOREVER
    mark = tmp_path / "mark"
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Role("once", python(once, str(mark)), ready=mark.exists))
        with pytest.raises(RoleError, match="exit code 4"):
            restart_and_watch(supervisor, "once")


def test_waiting_for_something_that_does_not_come_names_it(tmp_path: Path) -> None:
    """A wait that fails says what it waited for."""
    with Supervisor(tmp_path) as supervisor, pytest.raises(TimeoutError, match="the trace"):
        supervisor.wait(lambda: False, timeout_s=0.1, what="the trace")


def test_a_supervisor_that_is_killed_outright_leaves_nothing() -> None:
    """After kill -9 its roles, their children and its temporary folder are gone."""
    owner, folder, pids = start_owner()
    assert folder.exists()
    assert not any(map(is_gone, pids))
    owner.kill()
    owner.communicate()
    wait_until(lambda: all(map(is_gone, pids)), 20, "the roles to die with their supervisor")
    wait_until(lambda: not folder.exists(), 20, "the temporary folder to be removed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_in_order(number: signal.Signals) -> None:
    """Ctrl-C and kill end with the exit code of the signal; children of roles and the folder are gone by then."""
    owner, folder, pids = start_owner()
    owner.send_signal(number)
    owner.communicate(timeout=20)
    assert owner.returncode == 128 + number
    assert all(map(is_gone, pids))
    assert not folder.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's parent death signal is Linux's")
def test_a_command_dies_with_its_wrapper(tmp_path: Path) -> None:
    """Even the process between supervisor and role may be killed."""
    process = ChildProcess(python("import os; print(os.getpid(), flush=True)\n" + FOREVER), log_path=tmp_path / "log")
    (pid,) = wait_until(lambda: process.last_log_lines(1))
    psutil.Process(int(pid)).parent().kill()
    wait_until(lambda: is_gone(int(pid)), 10, "the command to die with its wrapper")
    assert process.describe_end() == "was ended by SIGKILL"


def test_the_end_of_a_role_takes_its_children_along(tmp_path: Path) -> None:
    """A driver that exits does not leave its virtual machine running."""
    code = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-S', '-c', sys.argv[1]]).pid)"
    process = ChildProcess(python(code, FOREVER), log_path=tmp_path / "log")
    assert process.wait(120)
    assert wait_until(lambda: is_gone(int(process.last_log_lines(1)[0])), 10)


def test_a_signal_during_the_stop_hurries_it(tmp_path: Path) -> None:
    """A second Ctrl-C does not wait for the grace to pass."""
    interrupt_again = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Role("deaf", python(STUBBORN), stop_grace_s=600))
        wait_until(lambda: supervisor.last_log_lines("deaf"))
        with pytest.raises(StopRequested):
            signal.raise_signal(signal.SIGINT)
        interrupt_again.start()
    assert supervisor.has_finished("deaf")


def test_the_janitor_waits_out_those_who_still_write(tmp_path: Path) -> None:
    """A dying process may put a file back; the folder is removed anyway."""
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    assert remove(tmp_path / "folder", patience_s=5)
    assert remove(tmp_path / "folder", patience_s=0)


def test_a_port_that_a_server_needs_is_reported_when_taken(tmp_path: Path) -> None:
    """Two servers on one port: the second is refused by name and number."""
    from surescale.services.local_stack.errors import ServerError
    from surescale.services.local_stack.servers import LocalRedis

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"redis cannot start: port {port} of 127.0.0.1 is taken"):
            LocalRedis(tmp_path, port=port).start()
