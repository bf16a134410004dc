"""Records between the rescaler and its actuators: commands, outcomes, progress, looks at the hosts.

They follow the conventions of ``contracts.messages``.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from surescale.contracts.messages import Count, Identity, Label, Message, Part, Remark, Size, Text, TimeMs

GENERATION_LEAP_MAX = 2**32
"""Most that a generation may be ahead of the last known one. A higher claim is not believed, so that nobody can use up a
job's generations with one record."""
NOT_REPORTED = "NOT_REPORTED"
"""Code of a command that the rescaler gave up: no actuator reported its end in time, and the engine does not show it."""

NamedUnits = Annotated[tuple[Count, ...], Meta(max_length=65_536)]


class TaskChange(Part, frozen=True, kw_only=True):
    """The change a command makes to one task."""

    task: Text
    before: Size
    after: Size
    added_units: tuple[Count, ...] = ()
    removed_units: tuple[Count, ...] = ()
    units: tuple[Count, ...] = ()  # all units of the task after the change, in order of subtask index
    vnodes_moved: Count = 0


class Placement(Part, frozen=True, kw_only=True):
    """The hosts a job pays for after a command, and their price."""

    algorithm: Text
    hosts: tuple[Text, ...]
    rent_per_s: float  # dollars, of the hosts on which the job has at least one unit
    rent_before_per_s: float | None = None  # as the job ran when the command was made
    rent_round_robin_per_s: float | None = None  # for the same number of units dealt out host by host
    rent_default_per_s: float | None = None  # expected rent for the same number of units drawn at random, as Flink does


class SlotStandbys(Part, frozen=True, kw_only=True):
    """The hosts that keep a copy of one parallel unit's state in case its own host dies."""

    unit: Count
    hosts: tuple[Text, ...]


class Expected(Part, frozen=True, kw_only=True):
    """The state of the job that a command was made for. An engine where it has changed since refuses the command.

    ``required`` is the parallelism in force by task, as the engine was last asked for it.
    """

    epoch: Label = ""
    requirement_id: Label = ""
    required: dict[Text, Size] = msgspec.field(default_factory=dict)


class RescheduleCommand(Message, frozen=True, kw_only=True, tag="command/1"):
    """One step for an actuator. Identity: ``command_id``. Applying it twice changes nothing; an older one is refused.

    A rescale is either one ``commit``, or a ``prepare`` (learners restore the state that will move while the job runs on)
    followed by another step: ``commit``, a ``prepare`` elsewhere, or ``abort``. A commit without warm state runs cold.
    ``standby`` changes only the standbys.
    """

    command_id: Identity
    cluster: Text
    job: Text
    desired_generation: Annotated[int, Meta(ge=1)]
    step: Count
    steps: Annotated[int, Meta(ge=1)] = 1  # as far as known now: step < steps - 1 means another one follows
    action: Literal["prepare", "commit", "abort", "standby"] = "commit"
    base_placement_generation: Count
    decision_id: Identity
    gate_reason: Literal["desired", "sufficient", "forced"]
    gate_cause: Text
    issued_at_ms: TimeMs
    changes: tuple[TaskChange, ...]
    advice: bool = False  # true in mode advise: actuators ignore it
    placement: Placement | None = None
    deadline_ms: TimeMs | None = None
    standbys: tuple[SlotStandbys, ...] | None = None  # of a standby: every copy the job should have
    expected: Expected | None = None

    @property
    def targets(self) -> dict[str, int]:
        """Return the parallelism of the tasks that it changes."""
        return {change.task: change.after for change in self.changes}


class Outcome(Message, frozen=True, kw_only=True, tag="outcome/1"):
    """What the rescaler did with a decision. An act gets any number of ``pending`` outcomes, then exactly one of the others.

    ``pending`` promises another outcome for the same decision at ``until_ms``.
    """

    cluster: Text
    job: Text
    decision_id: Identity
    span_end_ms: TimeMs
    status: Literal["held", "pending", "commanded", "superseded", "refused"]
    reason: Text  # a word of a closed set: see rescaler.control.outcomes
    at_ms: TimeMs
    sequence: Count = 0  # 0, 1, ... within the decision
    until_ms: TimeMs | None = None
    command_id: Identity | None = None
    detail: Remark = ""
    code: Label = ""  # of a refusal: the closed set of rescaler.control.outcomes
    checkpoint: Count = 0  # sequence number of the latest checkpoint event taken into account


class Progress(Message, frozen=True, kw_only=True, tag="progress/1"):
    """What an actuator did with a command. Identity: (command_id, status); of several ``warming`` records the last counts.

    The rescaler writes it in the transaction that changes its memory, so a command ends exactly once, as the memory says. If no
    actuator reports an end in time, the rescaler ends the command by what the engine shows, and ``detail`` says so.

    ``partly``: the engine runs fewer subtasks than asked for and goes on by itself when it can.
    A ``prepare`` is ``applied`` when its learners are ready. ``lag_bytes`` is the state all of them still have to restore.
    """

    cluster: Text
    job: Text
    command_id: Identity
    desired_generation: Count
    status: Literal["accepted", "warming", "partly", "applied", "failed"]
    at_ms: TimeMs
    duration_ms: Count = 0
    code: Annotated[str, Meta(max_length=256)] = ""  # empty unless failed
    detail: Annotated[str, Meta(max_length=4_096)] = ""
    learners: Count = 0  # units that are restoring state or have restored it
    lag_bytes: Count | None = None
    units: NamedUnits = ()  # of a failed prepare: units that were lost, or whose learners were not ready in time
    reached: dict[Text, Size] = msgspec.field(default_factory=dict)  # of ``partly``: what runs now, by task
    waiting_for: Literal["", "checkpoint", "slots", "cooldown"] = ""
    waited_ms: Count | None = None  # of ``applied``: from the request until the job stopped for the change
    still_ms: Count | None = None  # of ``applied``: how long the job processed nothing


class SlotMove(Part, frozen=True, kw_only=True):
    """Everything a job has on one parallel unit moves to another."""

    job: Text
    unit: Count
    host: Label
    to_unit: Count
    to_host: Text


class Balance(Message, frozen=True, kw_only=True, tag="balance/1"):
    """The rescaler's reaction to hosts that joined, leave or died. Identity: (cluster, generation, sequence).

    ``generation`` counts changes to the set of hosts. ``moving`` promises another look at ``until_ms``; after ``settled``
    nothing moves until the hosts change again.
    """

    cluster: Text
    generation: Count
    sequence: Count  # 0, 1, ... of the looks within the generation
    status: Literal["moving", "settled"]
    reason: Text  # a word of a closed set: see rescaler.control.hosts
    at_ms: TimeMs
    hosts_version: Count  # of the cluster topology this look used
    until_ms: TimeMs | None = None
    moves: tuple[SlotMove, ...] = ()  # started at this look
    detail: Remark = ""


class Drift(Message, frozen=True, kw_only=True, tag="drift/1"):
    """Somebody else changed what a job's engine is asked for, or such a change was settled. Identity: (job, at_ms, status).

    ``adopted``: the change is ours now. ``returned``: what we asked for is in force again.
    """

    cluster: Text
    job: Text
    status: Literal["changed", "adopted", "returned"]
    at_ms: TimeMs
    epoch: Label = ""
    ours: dict[Text, Size]  # that we last asked for, by task
    theirs: dict[Text, Size]
    returned: Count = 0  # times in a row that somebody put back what was there before us


EventRecord = Outcome | Progress | Balance | Drift


RescaleState = Literal["pending", "warming", "restarting", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Rescale:
    """The last command that an engine accepted, and its progress."""

    command_id: str
    state: RescaleState
    """``warming``: a ``prepare`` under way."""
    effective_at_ms: int
    """When the job changes; for a ``prepare``, when its hosts start to restore."""
    done_at_ms: int
    """When the job runs again; for a ``prepare``, when its learners are ready, an estimate while ``warming``."""
    code: str = ""
    """Why it failed."""
    learners: int = 0
    """Units that restore state for it."""
    lag_bytes: int = 0
    """State that they still have to restore."""
    units: tuple[int, ...] = ()
    """For a failed ``prepare``, the units that were lost or not ready in time."""

    @property
    def is_under_way(self) -> bool:
        """Return whether the job is about to change or changing; learners do not count."""
        return self.state in ("pending", "restarting")
