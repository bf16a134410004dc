"""An address is shown without its password, whatever stands in it."""

from pathlib import Path

import pytest

from surescale.contracts.addresses import checkpoint_place, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://ana:secret@host:6379/0", "redis://ana:***@host:6379/0"),
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("redis://ana:sec/ret@host:6379/0", "redis://ana:***@host:6379/0"),
        ("redis://ana:6/ret@host/0", "redis://ana:***@host/0"),
        ("redis://ana:s@c?r#t@host/0", "redis://ana:***@host/0"),
        ("redis://h/0?password=secret", "redis://h/0?password=***"),
        ("redis://h/0?db=1&ssl_password=s@cret&timeout=5", "redis://h/0?db=1&ssl_password=***&timeout=5"),
        ("http://ana:secret@engine:8090", "http://ana:***@engine:8090"),
        ("redis://ana@host/0", "redis://ana@host/0"),
    ],
)
def test_a_password_in_an_address_is_never_shown(url: str, shown: str) -> None:
    """Logs and messages name the address without its secret."""
    assert without_password(url) == shown


@pytest.mark.parametrize("url", ["redis://[::1", "redis://ana:secret@[::1"])
def test_an_address_that_is_none_can_be_shown_without_its_password(url: str) -> None:
    """A message about a wrong address must not fail over the address, and must not tell its secret either."""
    assert "secret" not in without_password(url)
    assert without_password(url).startswith("redis://")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3://bucket/checkpoint", "s3://bucket/checkpoint"),
        ("S3A://bucket/checkpoint", "s3://bucket/checkpoint"),
        ("abfss://box@me.dfs.core.windows.net/c", "abfss://box@me.dfs.core.windows.net/c"),
        ("file:///var/checkpoint", "file:///var/checkpoint"),
        ("/var/checkpoint", "/var/checkpoint"),
    ],
)
def test_a_process_with_another_folder_is_told_the_same_checkpoint(text: str, told: str) -> None:
    """A URL stays one: `up` once made a folder named s3: of it."""
    assert checkpoint_place(text) == told


def test_a_folder_of_a_checkpoint_is_told_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles have working folders of their own."""
    monkeypatch.chdir(tmp_path)
    assert checkpoint_place("runs/checkpoint") == str(tmp_path / "runs/checkpoint")
