"""The reference pages are what the code makes, and what they say holds."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from surescale.services import command_table
from surescale.services.tools.reference.command import (
    DEFAULT_FOLDER,
    OutOfDate,
    command,
    message_kinds,
    out_of_date,
    pages,
    schema_name,
    tag_of,
)

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (it comes with kubernetes-validate)")

ROOT = Path(__file__).parents[4]
ROOMS = ("contracts", "runtime", "policies", "simulation", "monitor", "spark_streaming", "services", "rescaler", "model_export")
GOLDEN = sorted(
    path
    for path in (ROOT / "tests/wire/releases").rglob("*.json")
    if not path.stem.startswith("summary")  # no record: a header
)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """What the code makes."""
    return pages()


@pytest.fixture
def run(made: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command on what was made already: making it takes seconds, and is the same each time."""
    monkeypatch.setattr("surescale.services.tools.reference.command.pages", lambda: made)
    return lambda *words: CliRunner().invoke(command, words)


def test_the_committed_pages_are_what_the_code_makes() -> None:
    """`make reference` writes them; in a process of its own, because click remembers how a command was called before."""
    check = [sys.executable, "-m", "surescale.services.cli", "dev", "reference", "--check", "--out", DEFAULT_FOLDER]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_page_that_differs_is_missing_or_superfluous_is_named(
    run: Callable[..., Result], made: dict[str, str], tmp_path: Path
) -> None:
    """With --check nothing is written; without it all is put right, and nothing is left of what is not made any more."""
    assert run("--out", str(tmp_path)).exit_code == 0
    assert out_of_date(tmp_path, made) == []
    (tmp_path / "topics.md").write_text("by hand")
    (tmp_path / "settings.md").unlink()
    (tmp_path / "schemas/old-1.json").write_text("{}")
    result = run("--out", str(tmp_path), "--check")
    assert isinstance(result.exception, OutOfDate)
    assert "schemas/old-1.json, settings.md, topics.md" in str(result.exception)
    run("--out", str(tmp_path))
    assert out_of_date(tmp_path, made) == []


def test_a_type_says_its_bounds_in_numbers(made: dict[str, str]) -> None:
    """Not by the name of a constant that only the code has."""
    assert "| `TimeMs` | `Annotated[int, Meta(ge=0, le=9007199254740992)]` |" in made["messages.md"]


def test_a_folder_that_is_not_there_is_not_called_out_of_date(run: Callable[..., Result], tmp_path: Path) -> None:
    """The usual reason: the command was called outside of the repository."""
    result = run("--out", str(tmp_path / "docs"), "--check")
    assert str(result.exception).startswith(f"--out: there is no folder {tmp_path / 'docs'};")


def test_what_was_not_made_from_code_is_left_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    """A folder that is not the reference's own may be named by a slip: nothing of it is lost."""
    others = [tmp_path / name for name in ("README.md", "notes/schemas/mine.json", "schemas/mine.json")]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert run("--out", str(tmp_path)).exit_code == 0
    assert [path.read_text() for path in others] == ["{}"] * 3


def test_a_page_of_the_same_name_that_somebody_wrote_is_not_written_over(run: Callable[..., Result], tmp_path: Path) -> None:
    """It is named, and nothing is written beside it either."""
    (tmp_path / "settings.md").write_text("# Our settings\n")
    refused = run("--out", str(tmp_path)).exception
    assert "settings.md was not made from code" in str(refused)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("settings.md", "# Our settings\n")]


@pytest.mark.parametrize("kind", message_kinds(), ids=tag_of)
def test_a_schema_is_one(kind: type, made: dict[str, str]) -> None:
    """Valid by its own draft, and for this kind alone."""
    schema = json.loads(made[f"schemas/{schema_name(kind)}"])
    jsonschema.Draft202012Validator.check_schema(schema)
    assert tag_of(kind) in json.dumps(schema)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_records_as_they_travel_fit_their_schema(path: Path, made: dict[str, str]) -> None:
    """The golden bytes of every kind."""
    record = json.loads(path.read_bytes())
    schema = json.loads(made[f"schemas/{record['type'].replace('/', '-')}.json"])
    jsonschema.validate(record, schema, cls=jsonschema.Draft202012Validator)


def test_every_variable_that_the_code_names_is_explained(made: dict[str, str]) -> None:
    """One that is in a message is on the page."""
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")] + [ROOT / "compose/Dockerfile"]
    named = {name for path in files for name in re.findall(r"SURESCALE_[A-Z][A-Z_]*[A-Z]", path.read_text())}
    explained = set(re.findall(r"`(SURESCALE_[A-Z_]+)`", made["settings.md"]))
    assert named - explained <= {
        "SURESCALE_NAME",
        "SURESCALE_LOG",
        "SURESCALE_KAFKA",
        "SURESCALE_KAFKA_OAUTH",
        "SURESCALE_SOURCE_KAFKA",
        "SURESCALE_KUBERNETES",
        "SURESCALE_NOTIFY",
        "SURESCALE_PROMETHEUS",
    }  # a placeholder, and names that are put together


def test_every_metric_and_every_command_has_its_place(made: dict[str, str]) -> None:
    """Those of the tables, those of the command line."""
    tables = [point.load() for point in entry_points(group="surescale.metrics")]
    assert all(f"`{metric.name}`" in made["metrics.md"] for table in tables for metric in table)
    assert all(f"## `{path}`" in made["commands.md"] for _, path in command_table.ROOT.paths())
