"""The job that demos and tests scale: `java/ScaledJob.java`, compiled at first use and submitted through REST.

Four vertices, from Kafka to Kafka: source -> parse (work) -> count (keyed, with state) -> sink. A record is `KEY,NUMBER`; the
output is `KEY,NUMBER,COUNT`, where the count is how often the key was seen, so that losses and repeats show.
"""

import hashlib
import json
import subprocess
import tempfile
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.request import Request

from surescale.runtime.http import ErrorAnswer, NoAnswer, ask
from surescale.services.local_stack.artifacts import cache_folder
from surescale.services.local_stack.errors import ArtifactError, Say, ServerError, silent
from surescale.services.local_stack.flink.distribution import Flink
from surescale.services.local_stack.java import find_compiler, find_java

SOURCE: Final = Path(__file__).parent / "java" / "ScaledJob.java"
_SUBMIT_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What one job reads, does and writes.

    Attributes:
        bootstrap: the Kafka broker.
        from_topic: the topic it reads, from its beginning.
        to_topic: the topic it writes.
        name: the job's name, also its consumer group and the prefix of its transactions.
        uid_prefix: put before the uid of every operator, so that the vertices of two jobs have different ids.
        parallelism: of every vertex at the start.
        max_parallelism: key groups: the most that a vertex may have.
        parse_rounds, count_rounds: arithmetic per record; a million rounds take about a millisecond of a core.
        parse_wait_micros, count_wait_micros: waiting per record, which takes time of the subtask but of no core.
        exactly_once: results are written in transactions, to be read with `isolation.level=read_committed`.
        forward: edges from source to parse and from count to sink are forward edges, so their ends must be scaled together.
        checkpoint_s: seconds between checkpoints; None: the job has none, so a rescale would begin all over.
        labels: the job's own labels (`surescale.mode`, `surescale.job`), set as `pipeline.global-job-parameters`.
        settings: more of Flink's settings for this job.
    """

    bootstrap: str
    from_topic: str
    to_topic: str
    name: str = "orders"
    uid_prefix: str = ""
    parallelism: int = 1
    max_parallelism: int = 64
    parse_rounds: int = 200_000
    parse_wait_micros: int = 1_500
    count_rounds: int = 0
    count_wait_micros: int = 0
    exactly_once: bool = True
    forward: bool = False
    checkpoint_s: int | None = 10
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Return the arguments of the job's `main`."""
        given = {
            "bootstrap": self.bootstrap,
            "from": self.from_topic,
            "to": self.to_topic,
            "name": self.name,
            "group": self.name,
            "uid-prefix": self.uid_prefix,
            "parallelism": self.parallelism,
            "max-parallelism": self.max_parallelism,
            "parse-rounds": self.parse_rounds,
            "parse-wait-micros": self.parse_wait_micros,
            "count-rounds": self.count_rounds,
            "count-wait-micros": self.count_wait_micros,
            "exactly-once": str(self.exactly_once).lower(),
            "forward": str(self.forward).lower(),
        }
        return [part for name, value in given.items() for part in (f"--{name}", str(value))]

    def configuration(self) -> dict[str, str]:
        """Return the job's Flink settings, labels included."""
        labels = ",".join(f"{name}:{value}" for name, value in self.labels.items())
        return {
            **({"execution.checkpointing.interval": f"{self.checkpoint_s}s"} if self.checkpoint_s else {}),
            **self.settings,
            **({"pipeline.global-job-parameters": labels} if labels else {}),
        }


def job_jar(flink: Flink, *, source: Path = SOURCE, progress: Say = silent) -> Path:
    """Return the jar of a job, compiled against a distribution unless the cache has it.

    Raises:
        JavaError: it must be compiled, and only a Java runtime is installed.
        ArtifactError: it does not compile.
    """
    return compiled(source, flink.jars, f"Flink {flink.version}", progress=progress)


def submit(rest_url: str, jar: Path, options: JobOptions, *, savepoint: str | None = None) -> str:
    """Run a job on a session cluster, from a savepoint if one is given; return Flink's id of the job.

    Raises:
        ServerError: the cluster refused or did not answer.
    """
    uploaded = _post(f"{rest_url}/jars/upload", *_as_form(jar))
    body = {
        "programArgsList": options.arguments(),
        "flinkConfiguration": options.configuration(),
        **({"savepointPath": savepoint} if savepoint else {}),
    }
    jar_id = str(uploaded["filename"]).rpartition("/")[2]
    started = _post(f"{rest_url}/jars/{jar_id}/run", json.dumps(body).encode(), "application/json")
    return str(started["jobid"])


def stop(rest_url: str, job_id: str) -> None:
    """Ask a job to take a last savepoint and finish: everything it has read comes out and is committed.

    Raises:
        ServerError: the cluster refused or did not answer.
    """
    _post(f"{rest_url}/jobs/{job_id}/stop", b'{"drain": false}', "application/json")


def _as_form(jar: Path) -> tuple[bytes, str]:
    """Return a form with one file, and its content type."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{jar.name}"\r\n'
    kind = "Content-Type: application/java-archive\r\n\r\n"
    return (
        head + kind
    ).encode() + jar.read_bytes() + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def _post(url: str, body: bytes, content_type: str) -> Any:
    request = Request(url, data=body, headers={"Content-Type": content_type}, method="POST")
    try:
        return json.loads(ask(request, timeout_s=_SUBMIT_TIMEOUT_S))
    except ErrorAnswer as answer:
        raise ServerError(f"Flink refused {url}: {_reason(answer)}") from None
    except NoAnswer as problem:
        raise ServerError(f"Flink does not answer at {url}: {problem}") from None


def _reason(answer: ErrorAnswer) -> str:
    """Return the deepest cause that Flink's answer names."""
    try:
        lines = "\n".join(json.loads(answer.body)["errors"]).splitlines()
    except (ValueError, KeyError, TypeError):
        return str(answer)
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [str(answer)])[-1]


_COMPILE_TIMEOUT_S: Final = 180.0
_MANIFEST: Final = "Manifest-Version: 1.0\nMain-Class: {main}\n"


def compiled(source: Path, jars: Sequence[Path], against: str, *, progress: Say = silent) -> Path:
    """Return the jar of a source whose class has the name of its file, compiled unless the cache has it.

    Args:
        source: the file.
        jars: what it is compiled against.
        against: their name and version, for people.
        progress: told of a compilation.

    Raises:
        JavaError: it must be compiled, and only a Java runtime is installed.
        ArtifactError: it does not compile.
    """
    class_path = ":".join(map(str, jars))
    digest = hashlib.sha256(class_path.encode() + source.read_bytes()).hexdigest()[:12]
    jar = cache_folder() / "flink" / "jobs" / f"{source.stem}-{digest}.jar"
    if jar.exists():
        return jar
    compiler = find_compiler(find_java())
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
