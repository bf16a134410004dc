"""What runs on a road with a real Flink."""

from dataclasses import dataclass
from typing import Literal

from services.local_stack.compared.load import PARTITIONS
from services.local_stack.compared.road import STATIC, LoadOptions

SlowVertex = Literal["parse", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkRoadOptions(LoadOptions):
    """What runs on the road.

    Attributes:
        policies: one job each; `static` is a job that nobody scales, `upstream` one that Flink's own autoscaler scales.
        span_minutes: how often a rule decides; a learned policy has its own span, so give it a longer run.
        parallelism_max: of each vertex.
        catch_up_minutes: in which a backlog is to be worked off.
        slow_vertex: the one that does the work of a record. ``count`` is keyed, so its hottest key keeps one subtask busier.
        rounds, wait_micros: that work, as ``JobOptions`` has it.
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
    version: str = "2.3.0"

    def work(self, vertex: SlowVertex) -> tuple[int, int]:
        """Return the rounds and the wait of a record at a vertex."""
        return (self.rounds, self.wait_micros) if vertex == self.slow_vertex else (0, 0)
