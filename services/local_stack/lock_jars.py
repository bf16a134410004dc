"""Prints a new `locked_jars.py`: resolves what each set needs, fetches it, and locks names, versions and hashes.

    python -m services.local_stack.lock_jars > new.py && mv new.py services/local_stack/locked_jars.py

For maintainers who change a version. The local stack never resolves anything; it fetches what is locked.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

from services.local_stack.errors import ArtifactError
from services.local_stack.ivy import Coordinates, pyspark_jars, run_ivy
from services.local_stack.java import find_java

BROKER_ROOTS = (
    Coordinates("org.apache.kafka", "kafka_2.13", "4.1.1"),
    # Kafka's pom names no slf4j binding; without one the broker has no log at all.
    Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)
CONNECTOR_ROOTS = (Coordinates("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0"),)
# The connector of Flink 2 carries its Kafka client; that of Flink 1 does not, and the rest of what it needs is in Flink.
FLINK_2_JARS = (Coordinates("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2"),)
FLINK_1_JARS = (
    Coordinates("org.apache.flink", "flink-connector-kafka", "3.4.0-1.20"),
    Coordinates("org.apache.kafka", "kafka-clients", "3.9.1"),
)
# Upstream's autoscaler with the client of the Flink it was built for. It talks REST only, and keeps nothing in a database.
AUTOSCALER_ROOTS = (
    Coordinates("org.apache.flink", "flink-autoscaler", "1.10.0"),
    Coordinates("org.apache.flink", "flink-clients", "1.19.1"),
)
AUTOSCALER_UNUSED = {
    "HikariCP", "async-profiler", "c3p0", "flink-rpc-akka-loader", "flink-shaded-zookeeper-3", "mchange-commons-java",
}  # fmt: skip
_HEADER = '''"""The jars of the local stack, locked. Written by `python -m services.local_stack.lock_jars`; not edited by hand."""

from services.local_stack.artifacts import ArtifactSet, LockedJar
from services.local_stack.ivy import Coordinates
'''


def resolve(roots: tuple[Coordinates, ...], *, with_dependencies: bool = True) -> dict[Coordinates, str]:
    """Return the SHA-256 of the roots and, if asked, of every jar they need at run time."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pattern = "[organisation]/[artifact]/[revision].[ext]"
        ended = run_ivy(find_java(), roots, folder=folder, pattern=pattern, with_dependencies=with_dependencies)
        if ended.exit_code != 0 or ended.missing:
            raise ArtifactError(f"could not resolve {', '.join(map(str, ended.missing or roots))} ({ended.reason})")
        found = {}
        for path in sorted((folder / "jars").glob("*/*/*.jar")):
            name = Coordinates(path.parent.parent.name, path.parent.name, path.stem)
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


def without_pyspark(jars: dict[Coordinates, str]) -> dict[Coordinates, str]:
    """Leave out jars that pyspark has, in whatever version: Spark was built and tested with that one."""
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
    """Print the new `locked_jars.py`."""
    broker = resolve(BROKER_ROOTS)
    connector = without_pyspark(resolve(CONNECTOR_ROOTS))
    sys.stdout.write(_HEADER)
    sys.stdout.write(as_source("KAFKA_BROKER", "kafka-broker-4.1.1", "Kafka broker 4.1.1", broker))
    sys.stdout.write(as_source("SPARK_KAFKA", "spark-kafka-4.0.0", "Kafka connector of Spark 4.0.0", connector))
    flink_2, flink_1 = (resolve(roots, with_dependencies=False) for roots in (FLINK_2_JARS, FLINK_1_JARS))
    sys.stdout.write(as_source("FLINK_2_KAFKA", "flink-kafka-5.0.0-2.2", "Kafka connector of Flink 2", flink_2))
    sys.stdout.write(as_source("FLINK_1_KAFKA", "flink-kafka-3.4.0-1.20", "Kafka connector of Flink 1.20", flink_1))
    autoscaler = {name: sha256 for name, sha256 in resolve(AUTOSCALER_ROOTS).items() if name.name not in AUTOSCALER_UNUSED}
    sys.stdout.write(as_source("FLINK_AUTOSCALER", "flink-autoscaler-1.10.0", "Flink's own autoscaler 1.10.0", autoscaler))


if __name__ == "__main__":
    main()
