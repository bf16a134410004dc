"""Every command that a message, a comment of a manifest, the web page or a sentence of a page names exists, with its options."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from surescale.services.cli import cli

ROOT = Path(__file__).parents[3]
ROOMS = ("benchmarks", "compose", "contracts", "docs", "engines", "model_export", "monitor", "policies", "reproductions",
         "rescaler", "runtime", "services", "simulation", "spark_streaming")  # fmt: skip
KINDS = {".py", ".md", ".json", ".sh", ".ts", ".tsx", ".html", ".tpl", ".txt", ".yaml", ".yml", ".toml"}
MADE = {"node_modules", "built", "__pycache__"}
VALUE = " VALUE "
"""Stands for what a message puts in."""


def files() -> Iterator[Path]:
    """Yield the files to look into."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "Makefile"]
    found += [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / "compose/Dockerfile"]
    found += [path for room in ROOMS for path in sorted((ROOT / room).rglob("*")) if path.suffix in KINDS]
    yield from (path for path in found if not MADE & set(path.parts) and ROOT / "docs" / "reference" not in path.parents)


def literals(source: str) -> Iterator[str]:
    """Yield the string literals of a program; what an f-string puts in is one word."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def named(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the words after each `surescale`, to the end of the command; the first is "?" where it may be a sentence instead."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py" and not re.search(r"surescale\s", source):  # it imports it at most, and parsing takes time
        return
    for part in literals(source) if path.suffix == ".py" else [source]:
        text = re.sub(r"\\\n", " ", part)
        for words in re.findall(r"(?:`(?:\w+=\S* )*|<code>)surescale\s([^`<;&|()]+)", text):
            yield ("`", *re.sub(r"\{.*?\}|\$\S+", VALUE, words).split())
        for words in re.findall(r"(?:(?<![\w/`>-])|(?<=bin/)|(?<=BIN\)/))surescale +([^`<;&|()\"'\n#]+)", text):
            yield ("?", *re.sub(r"\{.*?\}|\$\S+", VALUE, words).split())
        if path.suffix in {".yaml", ".yml"}:
            for flow, block in re.findall(r"\[surescale, ([^\]]+)\]|- surescale\n((?: *- .*\n)+)", text):
                yield ("`", *re.findall(r"[^,\s\"]+", flow), *re.findall(r"(?m)^ *- (\S+)", block))


@cache
def command_of(group: click.Group, name: str) -> click.Command | None:
    """Return a command of a group."""
    return group.get_command(click.Context(group), name)


def wrong(words: tuple[str, ...]) -> str:
    """Return what is wrong with the words of a command, empty for nothing."""
    mark, *rest = words
    group: click.Command = cli
    while isinstance(group, click.Group) and rest and re.fullmatch(r"[a-z][a-z-]*[.,:]?", rest[0]):
        name = rest.pop(0)
        found = command_of(group, name.rstrip(".,:"))
        if found is None:
            return "" if mark == "?" and group is cli else f"no command {name!r}"
        group = found
        if name[-1] in ".,:":
            return ""  # the sentence goes on
    if mark == "?" and group is cli:
        return ""
    known = {
        option for each in (cli, group) for parameter in each.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    asked = {word.partition("=")[0].rstrip(".,:") for word in rest if re.match(r"--[a-z]", word)}
    return ", ".join(f"no option {option!r} of {group.name!r}" for option in sorted(asked - known - {"--help", "--version"}))


@cache
def all_named() -> list[tuple[Path, tuple[str, ...]]]:
    """Return every command that is named, with its file. Not when this module is imported, which each test process does."""
    return [(path, words) for path in files() for words in dict.fromkeys(named(path))]


def test_every_command_that_is_named_exists() -> None:
    """A remedy that names a command that there is not leaves its reader alone. Also in docstrings."""
    found = [f"{path.relative_to(ROOT)}: {' '.join(words[1:6])}: {why}" for path, words in all_named() if (why := wrong(words))]
    assert found == []


def test_commands_are_found() -> None:
    """Else nothing above would be tested."""
    assert sum(path.suffix == ".py" and words[0] == "`" for path, words in all_named()) > 100
    assert len(all_named()) > 400


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "`surescale policy check`"),
        ("a.md", "see surescale topics make"),
        ("a.md", "`surescale nosuch`"),
        ("a.md", "`surescale job list --nosuch`"),
        ("a.md", ".venv/bin/surescale job nosuch"),
        ("Makefile", "$(BIN)/surescale job nosuch"),
        ("pod.yaml", "command: [surescale, topics, make]\n"),
        ("pod.yaml", "command: [surescale, run, spark, --nosuch, x]\n"),
        ("pod.yaml", "command:\n  - surescale\n  - create-topics\nenv: []\n"),
    ],
)
def test_a_command_that_there_is_not_is_found(name: str, text: str, tmp_path: Path) -> None:
    """A group without the command, no such command, no such option; also as a list of words, as in a manifest."""
    (tmp_path / name).write_text(text)
    assert [bool(wrong(words)) for words in named(tmp_path / name)] == [True]
