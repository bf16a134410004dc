"""Starts Spark's Python workers with only folders on their module path.

Spark adds ``pyspark.zip`` and its core jar to the path. Before every task a worker calls ``importlib.invalidate_caches``, and up
to Python 3.12 that re-reads each archive's directory for every importer that uses it (docs/decisions/0003-snapshot-stage.md
says what that costs). The workers import the installed pyspark instead, which is the same code. ``spark.python.daemon.module``
names this module.
"""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec


def without_archives(path: Iterable[str]) -> list[str]:
    """Return the entries of a module path that are not archives (zip, egg, jar)."""
    return [entry for entry in path if not os.path.isfile(entry)]


def main() -> None:
    """Run Spark's daemon; keep the path unchanged if pyspark exists only as an archive."""
    given = list(sys.path)
    sys.path[:] = without_archives(given)
    sys.path_importer_cache.clear()
    if find_spec("pyspark") is None or find_spec("py4j") is None:
        sys.path[:] = given
    from pyspark.daemon import manager

    import_module("surescale.spark_streaming.merging")  # once, before workers are forked; it opens nothing
    manager()


if __name__ == "__main__":
    main()
