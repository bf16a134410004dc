"""Writes `locked.py` anew: asks the repository what the two roots need, fetches it, and locks names, versions, hashes.

    python -m services.stack.resolve > new.py && mv new.py services/stack/locked.py

For maintainers who change a version. The local stack itself never resolves anything: it fetches what is locked.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

from services.stack.errors import ArtifactError
from services.stack.ivy import Coordinates, pyspark_jars, run_ivy
from services.stack.java import find_java

BROKER_ROOTS = (
    Coordinates("org.apache.kafka", "kafka_2.13", "4.1.1"),
    # Kafka's pom names no slf4j binding; without one the broker has no log at all.
    Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)
CONNECTOR_ROOTS = (Coordinates("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0"),)
_HEADER = '''"""The jars of the local stack, locked. Written by `python -m services.stack.resolve`; not edited by hand."""

from services.stack.artifacts import ArtifactSet, LockedJar
from services.stack.ivy import Coordinates
'''


def resolve(roots: tuple[Coordinates, ...]) -> dict[Coordinates, str]:
    """Return the SHA-256 of every jar that the roots need at run time, themselves included."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pattern = "[organisation]/[artifact]/[revision].[ext]"
        ended = run_ivy(find_java(), roots, folder=folder, pattern=pattern, with_dependencies=True)
        if ended.exit_code != 0 or ended.missing:
            raise ArtifactError(f"could not resolve {', '.join(map(str, ended.missing or roots))} ({ended.reason})")
        found = {}
        for path in sorted((folder / "jars").glob("*/*/*.jar")):
            name = Coordinates(path.parent.parent.name, path.parent.name, path.stem)
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


def without_pyspark(jars: dict[Coordinates, str]) -> dict[Coordinates, str]:
    """Leave out what pyspark carries, whatever its version there: Spark was built and tested with that one."""
    carried = {path.name.rsplit("-", 1)[0] for path in pyspark_jars().glob("*.jar")}
    return {name: sha256 for name, sha256 in jars.items() if name.name not in carried}


def as_source(constant: str, name: str, title: str, jars: dict[Coordinates, str]) -> str:
    """Return the Python source of one locked set."""
    lines = [f'\n{constant} = ArtifactSet(\n    name="{name}",\n    title="{title}",\n    jars=(\n']
    for each, sha256 in sorted(jars.items()):
        lines.append("        LockedJar(\n")
        lines.append(f'            Coordinates("{each.organisation}", "{each.name}", "{each.version}"),\n')
        lines.append(f'            "{sha256}",\n        ),\n')
    return "".join([*lines, "    ),\n)\n"])


def main() -> None:
    """Print the new `locked.py`."""
    broker = resolve(BROKER_ROOTS)
    connector = without_pyspark(resolve(CONNECTOR_ROOTS))
    sys.stdout.write(_HEADER)
    sys.stdout.write(as_source("KAFKA_BROKER", "kafka-broker-4.1.1", "Kafka broker 4.1.1", broker))
    sys.stdout.write(as_source("SPARK_KAFKA", "spark-kafka-4.0.0", "Kafka connector of Spark 4.0.0", connector))


if __name__ == "__main__":
    main()
