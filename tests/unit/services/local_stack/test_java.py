"""Finding a Java runtime."""

from pathlib import Path

import pytest

from surescale.services.local_stack.errors import JavaError
from surescale.services.local_stack.java import find_java, parse_java_major


def fake_java(folder: Path, version: str) -> Path:
    """Write a `java` that answers like a runtime of this version, and return the folder above its `bin`."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_feature_release_is_read_from_what_java_prints(output: str, major: int | None) -> None:
    """Old and new version schemes are understood, and a stub without a runtime is not a version."""
    assert parse_java_major(output) == major


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """JAVA_HOME is taken at its word."""
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": f"{other / 'bin'}:/bin:/usr/bin"})
    assert (found.major, found.home) == (21, home)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    """An old JAVA_HOME does not hide a good runtime on the path."""
    old, good = fake_java(tmp_path / "old", "1.8.0_402"), fake_java(tmp_path / "good", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}).home == good


@pytest.mark.parametrize("version", ["11.0.2", "26.0.1"])
def test_an_unusable_java_is_named_with_the_command_that_installs_another(tmp_path: Path, version: str) -> None:
    """Spark does not start on Java 11, nobody has tried 26, and the message says what was found and what helps."""
    home = fake_java(tmp_path, version)
    with pytest.raises(JavaError, match=rf"is Java {version[:2]}\): .*apt-get install default-jre-headless.*brew"):
        find_java({"JAVA_HOME": str(home), "PATH": ""})


def test_no_java_at_all_is_said_so() -> None:
    """Without any candidate the message does not pretend to have seen one."""
    with pytest.raises(JavaError, match="no `java` in JAVA_HOME or PATH"):
        find_java({"PATH": ""})
