"""What a forge reads: workflows that call what is there, forms and rules that parse, a hook that is the own lint."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE" / "config.yml"})
MANIFESTS = {"npm": "package.json", "gomod": "go.mod", "github-actions": ".github/workflows"}
"""What the update service looks for in the folder of each kind."""


def read(path: Path) -> Any:
    """Return a YAML document, whose key `on` stays a word."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def steps(workflow: Path) -> list[dict[str, Any]]:
    """Return the steps of all jobs of a workflow."""
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_complete(workflow: Path) -> None:
    """It says when it runs and what it may do; each job has a machine and a limit, each step one thing to do."""
    document = read(workflow)
    assert {"name", "on", "permissions", "jobs"} <= set(document)
    for job in document["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        assert set(job.get("needs", "").split()) <= set(document["jobs"])
        assert [step for step in job["steps"] if ("uses" in step) == ("run" in step)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_what_is_there(workflow: Path) -> None:
    """Targets of the Makefile, scripts that can be run, and actions by their major version."""
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"]), step
        commands = step.get("run", "")
        assert set(re.findall(r"\bmake ([a-z-]+)", commands)) <= targets()
        for script in re.findall(r"(?<![\w/])(?:\./|\.ci/)[\w./-]+", commands):
            assert (ROOT / script).stat().st_mode & 0o100, script


def test_ci_runs_every_part_of_the_script() -> None:
    """What `.ci/run` runs in one go, the workflow runs side by side."""
    parts = set(re.findall(r"^make (\w+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), flags=re.MULTILINE))
    called = {
        word for step in steps(GITHUB / "workflows" / "ci.yml") for word in re.findall(r"make ([a-z-]+)", step.get("run", ""))
    }
    assert {"check", "live"} <= parts <= called


def test_updates_name_folders_that_hold_what_they_update() -> None:
    """Every folder with a lock of Node or Go is looked after, and none that is gone."""
    watched = set()
    for update in read(GITHUB / "dependabot.yml")["updates"]:
        kind = update["package-ecosystem"]
        for folder in update.get("directories", [update.get("directory")]):
            watched.add(ROOT / folder.strip("/") / MANIFESTS[kind])
    there = {path for room in ("services", "tests") for name in ("package.json", "go.mod") for path in (ROOT / room).rglob(name)}
    there = {path for path in there if "node_modules" not in path.parts}
    assert {path for path in watched if not path.exists()} == set()
    assert watched - {ROOT / ".github" / "workflows"} == there


def test_the_version_could_be_tagged() -> None:
    """The release's workflow finds what it asks for: a heading of the changelog, and frozen messages."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert any((ROOT / "tests" / "wire" / "releases" / version).iterdir())


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_for_issues_is_complete(form: Path) -> None:
    """A form without a name, a description or labelled fields is not shown at all."""
    document = read(form)
    assert {"name", "description", "body"} <= set(document)
    asked = [field for field in document["body"] if field["type"] != "markdown"]
    assert len({field["attributes"]["label"] for field in asked}) == len(asked) > 0
    named = [field["id"] for field in asked if "id" in field]
    assert len(set(named)) == len(named)


def test_the_hook_is_the_own_lint() -> None:
    """It downloads no other version of a tool."""
    (repo,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    for hook in repo["hooks"]:
        make, target = hook["entry"].split()
        assert (make, hook["language"]) == ("make", "system")
        assert target in targets()
