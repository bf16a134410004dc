"""Finds a Java runtime that the broker and Spark can start on. Installs nothing.

Kafka 4.1 needs Java 17, and so does Spark 4.2. The upper limit is the newest one that both were started on.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from surescale.services.local_stack.errors import JavaError

JAVA_MAJOR_MIN = 17
JAVA_MAJOR_MAX = 25
INSTALL_HINT = (
    "install one with `apt-get install default-jre-headless` (Debian 12, Ubuntu 24.04 and newer) or `brew install openjdk@21` "
    "(macOS, then set JAVA_HOME to its folder)"
)
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A `java` program and its version."""

    executable: Path
    major: int

    @property
    def home(self) -> Path:
        """The value of JAVA_HOME that makes every child use this runtime."""
        return self.executable.resolve().parent.parent


def parse_java_major(version_output: str) -> int | None:
    """Return the feature release from what `java -version` prints (8 for "1.8.0_402"), None if it names no version."""
    match = _VERSION.search(version_output)
    if match is None:
        return None
    first, second = match.groups()
    return int(second) if first == "1" and second is not None else int(first)


def find_java(environ: Mapping[str, str] = os.environ) -> JavaRuntime:
    """Return the first runtime in JAVA_HOME and PATH that is new enough, and not too new for Spark.

    Raises:
        JavaError: none was found; the message names what was seen and the command that installs one.
    """
    seen: list[str] = []
    for executable in _candidates(environ):
        major = _ask_version(executable)
        if major is not None and JAVA_MAJOR_MIN <= major <= JAVA_MAJOR_MAX:
            return JavaRuntime(executable, major)
        seen.append(f"{executable} is {'not a working Java' if major is None else f'Java {major}'}")
    found = "; ".join(seen) if seen else "no `java` in JAVA_HOME or PATH"
    raise JavaError(f"a Java runtime of version {JAVA_MAJOR_MIN} to {JAVA_MAJOR_MAX} is needed ({found}): {INSTALL_HINT}")


def find_compiler(java: JavaRuntime, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the `javac` that belongs to a runtime, else the one in PATH.

    Raises:
        JavaError: only a runtime is installed.
    """
    beside, on_path = java.home / "bin" / "javac", shutil.which("javac", path=environ.get("PATH", ""))
    if beside.exists():
        return beside
    if on_path is not None:
        return Path(on_path)
    raise JavaError(
        f"{java.executable} is a Java runtime without the compiler javac: install a JDK with `apt-get install "
        f"openjdk-{java.major}-jdk-headless` (Debian, Ubuntu) or `brew install openjdk@{java.major}` (macOS)"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path)


def _ask_version(executable: Path) -> int | None:
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_major(answer.stderr + answer.stdout) if answer.returncode == 0 else None
