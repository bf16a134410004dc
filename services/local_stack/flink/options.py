"""What runs in a pipeline with a real Flink."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from contracts.errors import SettingsError
from services.local_stack.comparison.load import PARTITIONS
from services.local_stack.comparison.pipeline import STATIC, LoadOptions

SlowVertex = Literal["parse", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkPipelineOptions(LoadOptions):
    """What runs in the pipeline.

    Attributes:
        policies: one job each; `static` is a job that nobody scales, `upstream` one that Flink's own autoscaler scales.
        span_minutes: how often a rule decides; a learned policy has its own span, so give it a longer run.
        parallelism_max: of each vertex.
        catch_up_minutes: in which a backlog is to be worked off.
        slow_vertex: the one that does the work of a record. ``count`` is keyed, so its hottest key keeps one subtask busier.
        rounds, wait_micros: that work, as ``JobOptions`` has it.
        job_settings: more of Flink's settings, for every job.
    """

    seconds: int = 210
    mean: float = 220.0
    policies: tuple[str, ...] = ("target-utilisation", STATIC)
    span_minutes: int = 1
    parallelism_max: int = PARTITIONS
    catch_up_minutes: float = 2.0
    slow_vertex: SlowVertex = "parse"
    rounds: int = 50_000
    wait_micros: int = 1_800
    job_settings: Mapping[str, str] = field(default_factory=dict)
    version: str = "2.3.0"

    def work(self, vertex: SlowVertex) -> tuple[int, int]:
        """Return the rounds and the wait of a record at a vertex."""
        return (self.rounds, self.wait_micros) if vertex == self.slow_vertex else (0, 0)


def read_job_settings(given: Iterable[str]) -> dict[str, str]:
    """Return the settings that texts ``NAME=VALUE`` mean; of one name the last.

    Raises:
        SettingsError: one is no such text.

    >>> read_job_settings(["execution.checkpointing.unaligned.enabled=true"])
    {'execution.checkpointing.unaligned.enabled': 'true'}
    """
    settings: dict[str, str] = {}
    for text in given:
        name, is_pair, value = (part.strip() for part in text.partition("="))
        if not (name and is_pair and value):
            raise SettingsError(f"--job-setting: {text!r} is not NAME=VALUE, like execution.checkpointing.unaligned.enabled=true")
        settings[name] = value
    return settings
