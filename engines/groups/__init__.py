"""Consumer groups of Kafka as jobs.

chains    which groups form a job
broker    what the broker tells of a group
busy      what a member tells of itself
source    what the monitor reads; job and hindrance are its parts
workers   what keeps the workers, for sources
actuator  what all actuators for workers share
doctor    checks of `surescale doctor`
"""

from dataclasses import dataclass

from surescale.contracts.settings import Settings
from surescale.engines.compose import SERVICES
from surescale.engines.kubernetes import WORKLOADS
from surescale.engines.processes import WORKERS
from surescale.engines.prometheus import PROMETHEUS
from surescale.engines.registry import NO_ACTUATOR, Engine, SourceKind


@dataclass(frozen=True, slots=True)
class GroupsSettings(Settings):
    """Of the engine kafka."""

    groups_file: str = ""
    """File (TOML or JSON) that says which consumer groups form a job, and how their workers are started; empty: each group is a
    job."""
    workers_max: int = 16
    """Of the actuators processes and compose: workers that this machine can hold, all groups together."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            SettingsError: there is room for no worker.
        """
        self.check_least(workers_max=1)


ENGINE = Engine(
    sources={
        "consumer-group": SourceKind(
            make="surescale.engines.groups.source:ConsumerGroupSource",
            checks="surescale.engines.groups.doctor:groups",
            follows_clock=True,
        ),
        "prometheus": PROMETHEUS,
    },
    actuators={
        "none": NO_ACTUATOR,
        "processes": WORKERS,
        "compose": SERVICES,
        "kubernetes": WORKLOADS,
    },
    checks="surescale.engines.groups.doctor:groups_file",
    settings=(GroupsSettings,),
    is_secured=False,
)
"""The engine kafka."""
