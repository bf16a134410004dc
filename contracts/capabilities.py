"""What an engine can do, as data. Gate, planner, placement and explanations leave out what does not apply.

An engine states its capabilities in the cluster's topology (``contracts.messages.ClusterTopology.engine``), and an actuator
answers with the same struct.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine can do.

    Attributes:
        engine: kind of engine: ``simulated``, ``flink``, ``kubernetes``, ``kafka``.
        version: the engine's own version; empty if it has none.
        acts: what a command may name: nothing (the engine can only be watched), a parallelism per task, or parallel units.
        scope: whether tasks can be resized one by one, or only the whole job.
        warms: new subtasks restore state before they take over (learners).
        standbys: copies of state can be kept on other hosts.
        places: whether the command chooses the hosts, or the engine does.
        takes_part: what the engine does when it has room for only a part of a command: refuse, or run what fits.
        grows_hosts: hosts are added when subtasks need them.
        takes_effect: when a command takes effect: at once, at the next checkpoint, by a restart, instance by instance.
        cooldown_ms: least time that the engine itself leaves between two rescales.
        stabilization_ms: how long the engine itself waits for steady resources before it rescales.
        remembers: how a command can be found again in the engine: by our generation, by the id of the engine's requirements, or
            not at all, so that states must be compared.
        can_withdraw: a command that has not taken effect can be taken back.
        can_checkpoint_now: a checkpoint can be requested.
        can_rest: a job can be asked for no subtask at all, and started again later.
    """

    engine: Annotated[str, Meta(min_length=1, max_length=256)]
    version: Annotated[str, Meta(max_length=256)] = ""
    acts: Literal["none", "counts", "units"] = "none"
    scope: Literal["task", "job"] = "task"
    warms: bool = False
    standbys: bool = False
    places: Literal["commanded", "itself"] = "itself"
    takes_part: Literal["refuses", "as many as fit"] = "refuses"
    grows_hosts: bool = False
    takes_effect: Literal["at once", "checkpoint", "restart", "rolling"] = "restart"
    cooldown_ms: Annotated[int, Meta(ge=0)] | None = None
    stabilization_ms: Annotated[int, Meta(ge=0)] | None = None
    remembers: Literal["generation", "requirement", "nothing"] = "nothing"
    can_withdraw: bool = False
    can_checkpoint_now: bool = False
    can_rest: bool = False

    @property
    def is_simulated(self) -> bool:
        """Return whether nothing real is changed by a command, so jobs are acted on unless their settings say otherwise."""
        return self.engine == SIMULATED.engine


UNKNOWN = Capabilities(engine="unknown")
"""Of an engine that has not said what it can do: it is only watched."""

SIMULATED = Capabilities(
    engine="simulated",
    acts="units",
    warms=True,
    standbys=True,
    places="commanded",
    takes_part="refuses",
    takes_effect="at once",
    remembers="generation",
)
"""The project's own simulated engine."""
