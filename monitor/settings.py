"""The monitor's own settings."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from contracts.errors import SettingsError
from contracts.modes import LABEL_PREFIX
from engines.source_settings import SourceSettings


@dataclass(frozen=True, slots=True)
class MonitorSettings(SourceSettings):
    """Settings of ``surescale monitor``, from ``SURESCALE_*`` and its options."""

    trace_file: str = ""
    """File of recorded task metrics (JSON lines) to send; empty: ask the engine."""
    jobs: str = ""
    """Names of the jobs to watch, separated by commas; ``*`` and ``?`` stand for other characters. Empty: every job."""
    jobs_label: str = ""
    """surescale.NAME=VALUE: watch jobs whose own parameters say so (Flink: ``pipeline.global-job-parameters``). Empty: all."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            SettingsError: a label without a name and a value, or what `SourceSettings` refuses; names the setting.
        """
        SourceSettings.__post_init__(self)
        name, _, value = self.jobs_label.partition("=")
        if self.jobs_label and not (name.strip().startswith(LABEL_PREFIX) and value.strip()):
            raise SettingsError(
                f"SURESCALE_JOBS_LABEL: {self.jobs_label!r} is not {LABEL_PREFIX}NAME=VALUE; set one like surescale.watch=true"
            )

    def watches(self, name: str) -> bool:
        """Return whether a job of this name is to be watched."""
        patterns = [pattern.strip() for pattern in self.jobs.split(",") if pattern.strip()]
        return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)

    def watches_labels(self, labels: dict[str, str]) -> bool:
        """Return whether a job with these labels is to be watched."""
        name, _, value = (part.strip() for part in self.jobs_label.partition("="))
        return not name or labels.get(name) == value
