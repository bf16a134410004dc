"""Starts Spark's Python workers with nothing but folders on their module path. Does nothing else.

Spark puts ``pyspark.zip`` and its own core jar there. Before every task a worker calls ``importlib.invalidate_caches``, and up to
Python 3.12 that reads the directory of such an archive anew for every importer that looks into it: 250 to 450 ms a task, more
than all the rest of a batch. The workers import the installed pyspark instead, the same code. ``spark.python.daemon.module``
names this module.
"""

import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec


def without_archives(path: Iterable[str]) -> list[str]:
    """Return the entries of a module path that are no files (zip, egg, jar)."""
    return [entry for entry in path if not os.path.isfile(entry)]


def main() -> None:
    """Run Spark's daemon; where pyspark is there only as an archive, with the path as it was."""
    given = list(sys.path)
    sys.path[:] = without_archives(given)
    sys.path_importer_cache.clear()
    if find_spec("pyspark") is None or find_spec("py4j") is None:
        sys.path[:] = given
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
