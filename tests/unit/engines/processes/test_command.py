"""`surescale workers`: the workers on this machine, shown, stopped and started without a rescaler."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from surescale.contracts.errors import SettingsError
from surescale.engines.processes.command import command
from surescale.engines.processes.worker_store import WorkerStore
from tests.support.waiting import wait_until
from tests.support.worker_processes import CLUSTER, chain_of, kill_all, reconciled, reconciler_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of workers, named by the environment."""
    (tmp_path / "groups.json").write_text(
        json.dumps({"orders": {"groups": {"parse": {"workers": {"command": ["true"], "start": 3}}}}})
    )
    variables = {"ENGINE": "kafka", "ACTUATOR": "processes", "CLUSTER": CLUSTER}
    variables |= {"GROUPS_FILE": str(tmp_path / "groups.json"), "WORKERS_FOLDER": str(tmp_path / "workers")}
    for name, value in variables.items():
        monkeypatch.setenv(f"SURESCALE_{name}", value)
    yield tmp_path / "workers"
    kill_all(WorkerStore(tmp_path / "workers", CLUSTER))


def run(*arguments: str) -> str:
    """Return what the command says."""
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_workers_are_listed_stopped_and_asked_for_again(folder: Path) -> None:
    """Also those of a job that the groups file no longer has; each with its uptime and its log."""
    assert "no worker lives here" in run("list")
    reconciler = reconciler_of(folder, chain_of({"parse": 1}), chain_of({"count": 1}, name="old"))
    (parse,) = reconciled(reconciler, "orders", {"parse": 1})
    reconciled(reconciler, "old", {"count": 1})
    file = reconciler.store.file("orders", "parse", 0)
    ten_hours_ago_ms = parse.started_ms - 10 * 3_600_000
    file.write_text(json.dumps(json.loads(file.read_text()) | {"started_ms": ten_hours_ago_ms}))
    parse = dataclasses.replace(parse, started_ms=ten_hours_ago_ms)
    shown = run("list")
    assert "old: count 1 asked for; not in the groups file, `surescale workers stop old` ends them" in shown
    assert f"orders: parse 1 asked for\n  parse 0: pid {parse.pid}, up 10 h, port {parse.port}, log {folder}" in shown
    run("stop", "old")
    assert reconciler.store.workers("old") == []
    assert reconciler.store.workers("orders") == [parse]
    run("stop", "orders")
    assert reconciler.store.workers("orders") == []
    run("start", "orders")
    required = reconciler.store.requirement("orders")
    assert required is not None
    assert required.counts == {"parse": 3}


def test_what_a_worker_said_last_is_obeyed_by_no_terminal(folder: Path) -> None:
    """It may have quoted a record, which anybody may have written."""
    reconciler = reconciler_of(
        folder, chain_of({"parse": 1}, script=r"print('\x1b[2Jno topic', flush=True); raise SystemExit(3)")
    )
    wait_until(lambda: reconciler.reconcile() or reconciler.store.failure("orders", "parse", 0), what="a failure")
    shown = run("list")
    assert r"with exit code 3; its last output: \x1b[2Jno topic" in shown
    assert "\x1b" not in shown


def test_to_stop_one_job_says_nothing_of_another(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever obeyed would stop what works. A job may be named as everywhere else, with its cluster."""
    reconciler = reconciler_of(folder, chain_of({"parse": 1}), chain_of({"count": 1}, name="quiet"))
    (parse,) = reconciled(reconciler, "orders", {"parse": 1})
    reconciled(reconciler, "quiet", {"count": 1})
    caplog.clear()
    run("stop", f"{CLUSTER}/quiet")
    assert caplog.text == ""
    assert (reconciler.store.workers("quiet"), reconciler.store.workers("orders")) == ([], [parse])


def test_an_unknown_job_is_refused_with_those_that_there_are(folder: Path) -> None:
    """In one line."""
    done = CliRunner().invoke(command, ["start", "clicks"])
    assert done.exit_code == 2
    assert "there is no job 'clicks'; there are: orders" in done.output


def test_another_actuator_has_no_workers_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers and pods are their engine's to list; nothing is looked for in a folder."""
    monkeypatch.setenv("SURESCALE_ACTUATOR", "compose")
    monkeypatch.delenv("SURESCALE_WORKERS_FOLDER")
    done = CliRunner().invoke(command, ["list"])
    assert isinstance(done.exception, SettingsError)
    assert "SURESCALE_ACTUATOR: not processes" in str(done.exception)
