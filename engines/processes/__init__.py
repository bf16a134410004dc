"""Worker processes on this machine: started, kept running and drained as a requirement says, with nothing to lose.

launch         becomes one worker and holds its lock; whoever holds the lock is the worker
worker_store   the requirement of each job, and which workers live: all that there is to know, in one folder
reconcile      makes what runs what is required, as often as it is called
actuator       carries commands out
command        `surescale workers`
doctor         checks of `surescale doctor`
"""

from dataclasses import dataclass

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.settings import Settings
from surescale.engines.registry import ActuatorKind


@dataclass(frozen=True, slots=True)
class ProcessesSettings(Settings):
    """Of the actuator processes."""

    workers_folder: str = ""
    """Folder in which it keeps what it asked for, and a file and a log for each worker."""


PROCESSES = Capabilities(
    engine="kafka",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    takes_effect="rolling",
    stabilization_ms=2_000,
    remembers="requirement",
    can_withdraw=True,
    can_rest=True,
)
"""Workers come and go one by one, as many as the machine can hold; a change is withdrawn by asking for another number."""

WORKERS = ActuatorKind(
    make="surescale.engines.processes.actuator:ProcessesEngine.of",
    checks="surescale.engines.processes.doctor:processes",
    requirements="surescale.engines.processes.actuator:RequiredProcesses",
    settings=(ProcessesSettings,),
    needs=("groups_file", "workers_folder"),
)
"""An actuator for consumer groups."""
