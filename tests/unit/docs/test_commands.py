"""Every command line that a page shows: the real command line reads it, and what is cheap and changes nothing is run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from surescale.services.cli import cli

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "reference" not in page.parts]
# What each make target that takes DEMO_ARGS runs.
DEMOS = {"demo": ("demo",), "demo-flink": ("demo", "flink"), "demo-consumers": ("demo", "consumers")}
# Words that stand for one of several.
STANDS_FOR = {"COMMAND": "doctor", "ROLE": "agent"}
# Commands that need no server and change nothing.
PURE = ("dev assign", "dev gate", "dev place", "dev reschedule", "demo jobs", "policy verify", "topics acls", "topics list")


class Shown(NamedTuple):
    """A command line: its words after `surescale`, what it reads (a file, `|` or nothing), whether it is in a code block."""

    words: tuple[str, ...]
    stdin: str | None
    is_whole: bool


def blocks(text: str) -> tuple[list[str], str]:
    """Return a page's code blocks and its prose."""
    fenced = re.findall(r"^ *```[^\n]*\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^ {4}[^\n]*\n)+", prose, flags=re.MULTILINE)
    return [*fenced, *(re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in indented)], prose


def shown(line: str, is_whole: bool) -> Iterator[Shown]:
    """Yield what a line of shell runs of surescale, by itself or through make."""
    lexer = shlex.shlex(re.sub(r"\s#.*", "", line, flags=re.MULTILINE), posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "", True
    words = list(lexer)
    for variable, _, given in (word.partition("=") for word in words):
        if variable == "DEMO_ARGS" and words[0] == "make":
            yield Shown((*DEMOS[words[1]], *shlex.split(given)), None, is_whole)
    for at, word in enumerate(words):
        starts = at == 0 or set(words[at - 1]) <= set("|;&($") or "=" in words[at - 1] or words[at - 1] in ("do", "time")
        if word.rpartition("/")[2] != "surescale" or not starts:
            continue
        rest = words[at + 1 :]
        end = next(
            (index for index, other in enumerate(rest) if other in ("...", "…") or set(other) <= set("|;&<>()")), len(rest)
        )
        is_fed = at > 0 and words[at - 1] == "|"
        stdin = "|" if is_fed else rest[end + 1] if end < len(rest) and rest[end] == "<" else None
        if end:
            yield Shown(tuple(rest[:end]), stdin, is_whole and "..." not in rest)


def statements(block: str) -> Iterator[str]:
    """Yield the lines of a code block, joined where a quotation, a pipe or a backslash goes on; of output, whatever comes."""
    rest = iter(re.sub(r"\\\n|(?<=\|)\n", " ", block).splitlines())
    for first in rest:
        line = first.strip().removeprefix("$ ")
        while re.match(r"\S*surescale ", line) and re.sub(r"\s#.*", "", line, flags=re.MULTILINE).count("'") % 2:
            line += "\n" + next(rest)
        yield line


def lines(page: Path) -> Iterator[Shown]:
    """Yield every command line of a page."""
    code, prose = blocks(page.read_text(encoding="utf-8"))
    for block in code:
        for line in statements(block):
            if re.match(r"(\w+=\S* )*(make|\S*surescale|for) ", line):
                yield from shown(line, is_whole=True)
    for span in re.findall(r"`([^`]+)`", re.sub(r"^ {4}.*$", "", prose, flags=re.MULTILINE)):
        if re.match(r"(\w+=\S* )*(\S*surescale|make)\s", span):
            yield from shown(" ".join(span.split()), is_whole=False)


EVERY = list(dict.fromkeys(line for page in PAGES for line in lines(page)))
NAMED = [
    pytest.param(page, line, id=f"{page.stem}: {' '.join(line.words)}") for page in PAGES for line in dict.fromkeys(lines(page))
]


@pytest.mark.parametrize(("page", "line"), NAMED)
def test_the_command_line_reads_what_a_page_shows(page: Path, line: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command, its options and their values exist. Files need not; a command in a sentence may leave out arguments."""
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    monkeypatch.setattr(click.Command, "invoke", lambda self, ctx: None)  # what would carry the command out
    words = [STANDS_FOR.get(word, re.sub(r"\bPORT\b|\$\w+", "7", word)) for word in line.words]
    try:
        cli.main(words, prog_name="surescale", standalone_mode=False)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        assert not line.is_whole
    except click.BadOptionUsage:
        assert (line.is_whole, words[-1][:2]) == (False, "--")  # a sentence names the option alone


def is_runnable(line: Shown) -> bool:
    """Say whether a line is complete with what is in the repository, and cheap."""
    if "--help" in line.words:
        return True
    has_input = (ROOT / line.stdin).exists() if line.stdin else line.is_whole
    return has_input and " ".join(line.words).startswith(PURE)


@pytest.mark.parametrize("line", [line for line in EVERY if is_runnable(line)], ids=lambda line: " ".join(line.words))
def test_a_pure_command_of_a_page_runs(line: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the repository's folder, with the input that the page names."""
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli, line.words, input=(ROOT / line.stdin).read_text() if line.stdin else None)
    assert (done.exit_code, bool(done.output)) == (0, True), done.output


def test_the_pages_show_commands() -> None:
    """Else nothing above would be tested."""
    assert len(EVERY) > 150
    assert sum(line.is_whole for line in EVERY) > 80


def test_make_has_every_target_that_a_page_names() -> None:
    """`make NAME` in code blocks and code font."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in PAGES:
        code, prose = blocks(page.read_text(encoding="utf-8"))
        named = re.findall(r"(?m)^make ([a-z-]+)", "\n".join(code)) + re.findall(r"`make\s([a-z-]+)", prose)
        assert set(named) <= targets, page
