"""Flink's own autoscaler as a rival in the demo: `--policy upstream` gives it a job of its own under the same load.

What collects metrics, evaluates and decides is upstream's library `flink-autoscaler` as published, fetched by name and locked
hash. The program around it, which is part of the operator's sources and published nowhere, is `UpstreamAutoscaler.java`.
Windows are as long as surescale's span, since with upstream's defaults nothing would happen within a quarter of an hour.
"""

from pathlib import Path
from typing import Final

from surescale.policies.sizing import CALIBRATED
from surescale.services.local_stack.artifacts import fetch, locked_set
from surescale.services.local_stack.errors import Say, silent
from surescale.services.local_stack.flink.distribution import Flink
from surescale.services.local_stack.flink.flink_pipeline import FlinkPipelineOptions
from surescale.services.local_stack.flink.scaled_job import compiled
from surescale.services.local_stack.java import find_java

FLINK_AUTOSCALER: Final = locked_set("flink-autoscaler-1.10.0")
SOURCE: Final = Path(__file__).parent / "UpstreamAutoscaler.java"
DECIDES_EVERY_S: Final = 10
"""As upstream's standalone program does by default."""


def peer_settings(limits: FlinkPipelineOptions) -> dict[str, str]:
    """Return upstream's settings in the demo: it aims at the utilisation of `target-utilisation`. All others are its defaults."""
    window = f"{60 * limits.span_minutes}s"
    return {
        "jobmanager.scheduler": "adaptive",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.metrics.window": window,
        "job.autoscaler.stabilization.interval": "10s",
        "job.autoscaler.scale-down.interval": window,
        "job.autoscaler.target.utilization": str(CALIBRATED.utilisation),
        # With the default of 0.3 a task would have to be busy for more than all of its time.
        "job.autoscaler.target.utilization.boundary": "0.2",
        "job.autoscaler.catch-up.duration": f"{round(60 * limits.catch_up_minutes)}s",
        "job.autoscaler.restart.time": "30s",
        "job.autoscaler.restart.time-tracking.enabled": "true",
        "job.autoscaler.vertex.max-parallelism": str(limits.parallelism_max),
        "job.autoscaler.scaling.event.interval": "0s",
    }


class Peer:
    """The autoscaler with its jars, in the cache of this machine."""

    def __init__(self, flink: Flink, *, progress: Say = silent) -> None:
        """Fetch and compile what the cache does not hold; the logging library is that of ``flink``.

        Raises:
            StackError: no JDK, or a download failed.
        """
        library = fetch(FLINK_AUTOSCALER, progress=progress)
        own = compiled(SOURCE, library, FLINK_AUTOSCALER.title, progress=progress)
        logging = [jar for jar in flink.jars if jar.name.startswith("log4j-")]
        self._class_path = ":".join(map(str, [own, *library, *logging]))

    def command(self, rest_url: str, job: str, limits: FlinkPipelineOptions, logging: Path) -> list[str]:
        """Return the command that lets it act on one job of a cluster; ``logging`` are settings of log4j."""
        settings = [f"{name}={value}" for name, value in peer_settings(limits).items()]
        start = [str(find_java().executable), "-Xmx128m", "-XX:+UseSerialGC", f"-Dlog4j.configurationFile={logging}"]
        return [*start, "-cp", self._class_path, SOURCE.stem, rest_url, job, str(DECIDES_EVERY_S), *settings]
