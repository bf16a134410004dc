"""Flink jobs that the Flink Kubernetes operator runs: their parallelism is asked for in the resource that describes them.

resource     which FlinkDeployment or FlinkSessionJob runs which job
answers      the fields of those resources that are read
overrides    how many subtasks of which vertex are asked for, in any form that the operator reads; pure
owners       who else decides that; pure
state        what the operator has made of it, what runs, and why a change cannot be asked for now; pure
requirement  what is asked for of a job, with its name and its epoch
actuator     carries commands out
doctor       checks of `surescale doctor`, and what an account must be allowed for all this
"""

from dataclasses import dataclass

import msgspec

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.settings import Settings
from surescale.engines.kubernetes import KubernetesSettings
from surescale.engines.registry import ActuatorKind


@dataclass(frozen=True, slots=True)
class FlinkOperatorSettings(Settings):
    """Of the engine flink with the actuator kubernetes."""

    flink_resources_file: str = ""
    """File (TOML or JSON) that says which FlinkDeployment or FlinkSessionJob of the Flink operator runs each job."""


OPERATED = Capabilities(
    engine="flink",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    grows_hosts=True,
    takes_effect="checkpoint",
    stabilization_ms=60_000,
    remembers="requirement",
    can_withdraw=True,
)
"""TaskManagers come as pods when slots are missing. The time is Flink's default."""

UPGRADED = msgspec.structs.replace(OPERATED, takes_part="refuses", takes_effect="restart", stabilization_ms=300_000)
"""Where a job is stopped and submitted again. The time is what upstream's autoscaler expects of a restart."""

BY_OPERATOR = ActuatorKind(
    make="surescale.engines.flink_operator.actuator:FlinkOperatorEngine.of",
    checks="surescale.engines.flink_operator.doctor:operated_jobs",
    requirements="surescale.engines.flink_operator.requirement:Operated",
    settings=(FlinkOperatorSettings, KubernetesSettings),
    needs=("flink_resources_file",),
)
"""An actuator for Flink."""
