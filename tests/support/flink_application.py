"""A real Flink in application mode: the JobManager runs one job, which lies on its class path, and ends with it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from surescale.services.local_stack.flink.cluster import FlinkCluster, JobManager
from surescale.services.local_stack.flink.scaled_job import JobOptions, job_jar


class ApplicationCluster(FlinkCluster):
    """A cluster for one job, whose settings and labels are those of the cluster."""

    def __init__(self, folder: Path, options: JobOptions, **more: Any) -> None:
        super().__init__(folder, settings=options.configuration(), **more)
        self.flink = replace(self.flink, jars=(*self.flink.jars, job_jar(self.flink)))
        self.job_manager = ApplicationJobManager(self, options)


class ApplicationJobManager(JobManager):
    """The JobManager, with the job's arguments."""

    def __init__(self, cluster: FlinkCluster, options: JobOptions) -> None:
        super().__init__(cluster)
        self._options = options

    def command(self) -> list[str]:
        """Return the command that runs it, and the job, in the foreground."""
        session = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        application = "org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint"
        start = [application if part == session else part for part in super().command()]
        return [*start, "--job-classname", "ScaledJob", *self._options.arguments()]
