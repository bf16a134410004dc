"""What is to be done with a job, and what became of it: commands, outcomes, progress, looks at the hosts.

The kinds of record between the rescaler and its actuators, in the manner of ``contracts.messages``.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contracts.messages import Count, Identity, Message, Parallelism, Part, Text, TimeMs


class TaskChange(Part, frozen=True, kw_only=True):
    """What a command does to one task."""

    task: Text
    before: Parallelism
    after: Parallelism
    added_units: tuple[Count, ...] = ()
    removed_units: tuple[Count, ...] = ()
    units: tuple[Count, ...] = ()  # all units of the task afterwards, in order of subtask index
    vnodes_moved: Count = 0


class Placement(Part, frozen=True, kw_only=True):
    """Which hosts a job pays for after a command, and what they cost."""

    algorithm: Text
    hosts: tuple[Text, ...]
    rent_per_s: float  # dollars, of the hosts on which the job has at least one unit
    rent_before_per_s: float | None = None  # as the job ran when the command was made
    rent_round_robin_per_s: float | None = None  # of as many units dealt out host by host
    rent_default_per_s: float | None = None  # of as many units drawn at random, as Flink does: the expected rent


class SlotStandbys(Part, frozen=True, kw_only=True):
    """On which hosts copies of the state of one parallel unit are kept for the day on which its own host dies."""

    unit: Count
    hosts: tuple[Text, ...]


class RescheduleCommand(Message, frozen=True, kw_only=True, tag="command/1"):
    """One step for an actuator. Identity: ``command_id``; the same twice changes nothing, an older one is refused.

    A rescale is one ``commit``, or a ``prepare`` (learners restore the state that will move, the job runs on) that is followed by
    the next step: ``commit``, a ``prepare`` elsewhere, or ``abort``. A commit whose state is not warm is carried out cold.
    ``standby`` changes nothing but the standbys.
    """

    command_id: Identity
    cluster: Text
    job: Text
    desired_generation: Annotated[int, Meta(ge=1)]
    step: Count
    steps: Annotated[int, Meta(ge=1)] = 1  # as far as known now: step < steps - 1 means that another one follows
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
    standbys: tuple[SlotStandbys, ...] | msgspec.UnsetType = msgspec.UNSET  # of a standby: all that the job shall have


class Outcome(Message, frozen=True, kw_only=True, tag="outcome/1"):
    """What the rescaler did with a decision. Every act gets any number of ``pending`` and one last of the others.

    ``pending`` promises another outcome of the same decision at ``until_ms``.
    """

    cluster: Text
    job: Text
    decision_id: Identity
    span_end_ms: TimeMs
    status: Literal["held", "pending", "commanded", "superseded", "refused"]
    reason: Text  # a word of a closed set: see rescaler.control.reasons
    at_ms: TimeMs
    sequence: Count = 0  # 0, 1, ... within the decision
    until_ms: TimeMs | None = None
    command_id: str | None = None
    detail: str = ""
    code: str = ""  # of a refusal: the closed set of rescaler.control.reasons
    checkpoint: Count = 0  # sequence of the newest engine event on a checkpoint of the job that this answer knew of


class Progress(Message, frozen=True, kw_only=True, tag="progress/1"):
    """What an actuator did with a command. Identity: (command_id, status); of several ``warming`` ones the last counts.

    A ``prepare`` is ``applied`` when its learners are ready. ``lag_bytes`` is what they all together have still to restore.
    """

    cluster: Text
    job: Text
    command_id: Identity
    desired_generation: Count
    status: Literal["accepted", "warming", "applied", "failed"]
    at_ms: TimeMs
    duration_ms: Count = 0
    code: str = ""  # empty unless failed
    detail: str = ""
    learners: Count = 0  # units that restore state, or did
    lag_bytes: Count | None = None
    units: tuple[Count, ...] = ()  # of a prepare that failed: units that were lost, or whose learners were not ready in time


class SlotMove(Part, frozen=True, kw_only=True):
    """All that a job has on one parallel unit goes to another one."""

    job: Text
    unit: Count
    host: str
    to_unit: Count
    to_host: Text


class Balance(Message, frozen=True, kw_only=True, tag="balance/1"):
    """What the rescaler makes of hosts that joined, leave or died. Identity: (cluster, generation, sequence).

    ``generation`` counts changes of the set of hosts. ``moving`` promises another look at ``until_ms``; after ``settled`` nothing
    moves until the hosts change again.
    """

    cluster: Text
    generation: Count
    sequence: Count  # 0, 1, ... of the looks within the generation
    status: Literal["moving", "settled"]
    reason: Text  # a word of a closed set: see rescaler.control.balance
    at_ms: TimeMs
    hosts_version: Count  # of the cluster's topology that was looked at
    until_ms: TimeMs | None = None
    moves: tuple[SlotMove, ...] = ()  # begun at this look
    detail: str = ""


EventRecord = Outcome | Progress | Balance
