"""Writes `locks/`: resolves what each set of jars needs, fetches it, and locks names, versions and hashes.

    python -m surescale.services.local_stack.lock_jars

For maintainers who change a version. The local stack never resolves anything; it fetches what is locked.
"""

import hashlib
import tempfile
from pathlib import Path

from surescale.services.local_stack.artifacts import LOCKS
from surescale.services.local_stack.errors import ArtifactError
from surescale.services.local_stack.ivy import JarCoordinates, pyspark_jars, run_ivy
from surescale.services.local_stack.java import find_java

BROKER_ROOTS = (
    JarCoordinates("org.apache.kafka", "kafka_2.13", "4.2.1"),
    # Kafka's pom names no slf4j binding; without one the broker has no log at all.
    JarCoordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)
# An application of it, for tests. Its stores on disk are left out, which need 70 MB of RocksDB.
STREAMS_JARS = (JarCoordinates("org.apache.kafka", "kafka-streams", "4.2.1"),)
CONNECTOR_ROOTS = (JarCoordinates("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),)
# AWS' login for the Kafka client of Spark's connector.
MSK_IAM_ROOTS = (JarCoordinates("software.amazon.msk", "aws-msk-iam-auth", "2.3.5"),)
# The connector of Flink 2 carries its Kafka client; that of Flink 1 does not, and the rest of what it needs is in Flink.
FLINK_2_JARS = (JarCoordinates("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2"),)
FLINK_1_JARS = (
    JarCoordinates("org.apache.flink", "flink-connector-kafka", "3.4.0-1.20"),
    JarCoordinates("org.apache.kafka", "kafka-clients", "3.9.1"),
)
# Upstream's autoscaler with the client of the Flink it was built for. It talks REST only, and keeps nothing in a database.
AUTOSCALER_ROOTS = (
    JarCoordinates("org.apache.flink", "flink-autoscaler", "1.10.0"),
    JarCoordinates("org.apache.flink", "flink-clients", "1.19.1"),
)
AUTOSCALER_UNUSED = {
    "HikariCP", "async-profiler", "c3p0", "flink-rpc-akka-loader", "flink-shaded-zookeeper-3", "mchange-commons-java",
}  # fmt: skip


def resolve(roots: tuple[JarCoordinates, ...], *, with_dependencies: bool = True) -> dict[JarCoordinates, str]:
    """Return the SHA-256 of the roots and, if asked, of every jar they need at run time."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pattern = "[organisation]/[artifact]/[revision].[ext]"
        ended = run_ivy(find_java(), roots, folder=folder, pattern=pattern, with_dependencies=with_dependencies)
        if ended.exit_code != 0 or ended.missing:
            raise ArtifactError(f"could not resolve {', '.join(map(str, ended.missing or roots))} ({ended.reason})")
        found = {}
        for path in sorted((folder / "jars").glob("*/*/*.jar")):
            name = JarCoordinates(path.parent.parent.name, path.parent.name, path.stem)
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


def without_pyspark(jars: dict[JarCoordinates, str]) -> dict[JarCoordinates, str]:
    """Leave out jars that pyspark has, in whatever version: Spark was built and tested with that one."""
    carried = {path.name.rsplit("-", 1)[0] for path in pyspark_jars().glob("*.jar")}
    return {name: sha256 for name, sha256 in jars.items() if name.name not in carried}


def write(name: str, title: str, jars: dict[JarCoordinates, str]) -> None:
    """Write the file of one locked set."""
    lines = [f"# {title}\n", *(f"{each} {sha256}\n" for each, sha256 in sorted(jars.items()))]
    (LOCKS / f"{name}.txt").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Write the file of every set; a new version needs its new name in `artifacts.py` too."""
    write("kafka-broker-4.2.1", "Kafka broker 4.2.1", resolve(BROKER_ROOTS))
    write("kafka-streams-4.2.1", "Kafka Streams 4.2.1", resolve(STREAMS_JARS, with_dependencies=False))
    connector, iam = without_pyspark(resolve(CONNECTOR_ROOTS)), without_pyspark(resolve(MSK_IAM_ROOTS))
    write("spark-kafka-4.2.0", "Kafka connector of Spark 4.2.0", connector)
    write("msk-iam-2.3.5", "AWS MSK's IAM 2.3.5", {name: sha256 for name, sha256 in iam.items() if name not in connector})
    write("flink-kafka-5.0.0-2.2", "Kafka connector of Flink 2", resolve(FLINK_2_JARS, with_dependencies=False))
    write("flink-kafka-3.4.0-1.20", "Kafka connector of Flink 1.20", resolve(FLINK_1_JARS, with_dependencies=False))
    autoscaler = {name: sha256 for name, sha256 in resolve(AUTOSCALER_ROOTS).items() if name.name not in AUTOSCALER_UNUSED}
    write("flink-autoscaler-1.10.0", "Flink's own autoscaler 1.10.0", autoscaler)


if __name__ == "__main__":
    main()
