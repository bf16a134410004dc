"""What the resources of the Flink operator ask for, for sources."""

from collections.abc import Mapping
from pathlib import Path

from engines.flink_operator.overrides import OverridesUnreadable
from engines.flink_operator.requirement import Requirement, required_of
from engines.flink_operator.resource import SETTING, OperatedJob, read_operated_jobs
from engines.kubernetes.connect import client_of
from engines.kubernetes.errors import KubernetesError, NotFound
from monitor.settings import MonitorSettings
from monitor.sources.base import HELD, SourceUnavailable


class Operated:
    """The jobs of the file. Thread-safe."""

    def __init__(self, settings: MonitorSettings) -> None:
        """Read the file; ask nothing yet.

        Raises:
            SettingsError: the file or the API server's address cannot be used.
        """
        self.jobs: Mapping[str, OperatedJob] = read_operated_jobs(Path(settings.flink_resources_file))
        self._client = client_of(settings)

    def required(self, name: str) -> Requirement | None:
        """Return what the resource of a job asks for, None if the file names none.

        Raises:
            SourceUnavailable: it is unknown now.
        """
        job = self.jobs.get(name)
        if job is None:
            return None
        try:
            return required_of(self._client, job)
        except NotFound as problem:
            raise SourceUnavailable(f"{name}: {problem}; create it, or correct {SETTING}; {HELD}") from None
        except (KubernetesError, OverridesUnreadable) as problem:
            raise SourceUnavailable(f"{name}: {job.target}: {problem}; {HELD}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
