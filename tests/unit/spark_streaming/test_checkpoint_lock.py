"""One process at a time works on a checkpoint."""

import fcntl
import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.spark_streaming.checkpoint_lock import held
from surescale.spark_streaming.places import place_of
from surescale.spark_streaming.settings import SparkSettings
from surescale.spark_streaming.streaming_job import Job

LOG = logging.getLogger("test")


def test_a_second_holder_is_told_who_the_first_one_is(tmp_path: Path) -> None:
    """By process and host, with the way out; when the first one has ended the folder is free."""
    words = rf"SURESCALE_SPARK_CHECKPOINT: .* is in use by process {os.getpid()} on {socket.gethostname()};.*--checkpoint"
    with held(place_of(str(tmp_path)), LOG), pytest.raises(SettingsError, match=words), held(place_of(str(tmp_path)), LOG):
        pass
    with held(place_of(str(tmp_path)), LOG):
        pass


def test_a_holder_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    """Nobody has to remove a file by hand."""
    code = (
        "import logging, os, sys; from surescale.spark_streaming.checkpoint_lock import held\n"
        "from surescale.spark_streaming.places import place_of\n"
        "with held(place_of(sys.argv[1]), logging.getLogger()): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    with held(place_of(str(tmp_path)), LOG):
        assert (tmp_path / "lock").exists()


def test_a_disk_without_locks_is_said_and_worked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With such a disk the operator must see to it that one process runs."""

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with held(place_of(str(tmp_path)), LOG):
        assert "make sure that no other process uses it" in caplog.text


def test_a_second_job_touches_nothing_of_the_first(tmp_path: Path) -> None:
    """It keeps its scratch folder and what it is about to write."""
    theirs = [tmp_path / "scratch" / "blocks", tmp_path / "windows" / ".half-written"]
    for file in theirs:
        file.parent.mkdir()
        file.touch()
    second = Job(SparkSettings(spark_checkpoint=str(tmp_path)), stop=threading.Event(), log=LOG)
    with held(place_of(str(tmp_path)), LOG), pytest.raises(SettingsError, match="is in use"):
        second.run()
    assert all(file.exists() for file in theirs)
