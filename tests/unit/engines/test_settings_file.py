"""What the readers of all files that settings name do alike."""

from collections.abc import Callable
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.engines.flink_operator.resource import read_operated_jobs
from surescale.engines.groups.chains import read_chains
from surescale.engines.prometheus.jobs import read_jobs

READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "SURESCALE_FLINK_RESOURCES_FILE": (read_operated_jobs, "docs/kubernetes.md"),
    "SURESCALE_GROUPS_FILE": (read_chains, "docs/consumers.md"),
    "SURESCALE_PROMETHEUS_FILE": (read_jobs, "docs/prometheus.md"),
}


@pytest.mark.parametrize("setting", READERS)
@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("deep.toml", b"x = " + b"[" * 100_000, "it is nested too deep"),
        ("deep.json", b'{"x": {"y": ' + b"[" * 100_000, ""),
        ("none.toml", b"[x", "Expected ']' at the end of a table declaration"),
        ("none.json", b"{", "Input data was truncated"),
        ("latin.toml", b'x = "\xe9"', "line 1 is no UTF-8; save the file as UTF-8"),
        ("latin.json", b'{"\xe9": {}}', ""),
    ],
)
def test_a_file_of_another_form_is_one_line(tmp_path: Path, setting: str, name: str, text: bytes, what: str) -> None:
    """With the setting, the file, and the page that shows the form."""
    reader, page = READERS[setting]
    file = tmp_path / name
    file.write_bytes(text)
    with pytest.raises(SettingsError) as wrong:
        reader(file)
    said = str(wrong.value)
    assert said.startswith(f"{setting}: {file}: ")
    assert what in said
    assert said.endswith(f"; {page} shows the form")
    assert "\n" not in said


@pytest.mark.parametrize("setting", READERS)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, setting: str) -> None:
    """With the system's reason and the fix."""
    with pytest.raises(SettingsError) as wrong:
        READERS[setting][0](tmp_path)
    assert str(wrong.value) == f"{setting}: {tmp_path} cannot be read (is a directory); name a readable file"


def test_only_a_file_of_groups_may_name_no_job(tmp_path: Path) -> None:
    """Somebody may have taken the last job out, whose workers are still to be stopped."""
    file = tmp_path / "empty.toml"
    file.touch()
    assert read_chains(file) == {}
    for reader in (read_operated_jobs, read_jobs):
        with pytest.raises(SettingsError, match="names no job"):
            reader(file)
