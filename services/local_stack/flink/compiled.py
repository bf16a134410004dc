"""Compiles a Java source of this package at first use, and keeps its jar in the user's cache folder."""

import hashlib
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from services.local_stack.artifacts import cache_folder
from services.local_stack.errors import ArtifactError, Say, silent
from services.local_stack.java import JavaRuntime, find_compiler, find_java

_COMPILE_TIMEOUT_S: Final = 180.0
_MANIFEST: Final = "Manifest-Version: 1.0\nMain-Class: {main}\n"


def compiled(
    source: Path,
    jars: Sequence[Path],
    against: str,
    *,
    java: JavaRuntime | None = None,
    cache: Path | None = None,
    progress: Say = silent,
) -> Path:
    """Return the jar of a source whose class has the name of its file, compiled unless the cache has it.

    Args:
        source: the file.
        jars: what it is compiled against.
        against: their name and version, for people.
        java: whose compiler is taken; None: find one.
        cache: folder for downloads and jars; None: the user's.
        progress: told of a compilation.

    Raises:
        JavaError: it must be compiled, and only a Java runtime is installed.
        ArtifactError: it does not compile.
    """
    class_path = ":".join(map(str, jars))
    digest = hashlib.sha256(class_path.encode() + source.read_bytes()).hexdigest()[:12]
    jar = (cache or cache_folder()) / "flink" / "jobs" / f"{source.stem}-{digest}.jar"
    if jar.exists():
        return jar
    compiler = find_compiler(java or find_java())
    progress(f"{source.name}: compiling (once)")
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".job-", dir=jar.parent) as made:
        classes = Path(made) / "classes"
        options = ["-nowarn", "-proc:none", "--release", "17", "-cp", class_path, "-d", str(classes)]
        command = [str(compiler), *options, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise ArtifactError(f"{source.name} does not compile against {against}:\n{done.stderr.rstrip()}")
        _pack(classes, Path(made) / jar.name, source.stem)
        (Path(made) / jar.name).rename(jar)
    return jar


def _pack(classes: Path, jar: Path, main: str) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/MANIFEST.MF", _MANIFEST.format(main=main))
        for path in sorted(classes.rglob("*.class")):
            archive.write(path, path.relative_to(classes).as_posix())
