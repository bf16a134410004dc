"""Puts the jars of Spark's Kafka connector into a folder, by the project's own lock. Run while the Spark image is built."""

import shutil
import sys
from pathlib import Path

from surescale.services.local_stack.artifacts import SPARK_KAFKA, fetch


def main(target: Path) -> None:
    """Fetch, check and move the jars."""
    jars = fetch(SPARK_KAFKA, progress=lambda line: print(line, flush=True))
    target.mkdir(parents=True)
    for jar in jars:
        shutil.move(jar, target / jar.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
