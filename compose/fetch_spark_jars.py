"""Puts the jars of Spark's Kafka connector into a folder, by the project's own lock. Run while the Spark image is built.

``--msk`` adds those of AWS MSK's IAM.
"""

import shutil
import sys
from pathlib import Path

from surescale.services.local_stack.artifacts import MSK_IAM, SPARK_KAFKA, fetch


def main(target: Path, *, msk: bool) -> None:
    """Fetch, check and move the jars."""
    target.mkdir(parents=True)
    for wanted in (SPARK_KAFKA, *(MSK_IAM,) * msk):
        for jar in fetch(wanted, progress=lambda line: print(line, flush=True)):
            shutil.move(jar, target / jar.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), msk="--msk" in sys.argv[2:])
