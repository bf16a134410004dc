"""The documents of the HTTP API that show one record of Kafka. Public, as those in `documents` and `fleet_documents`.

Each has the fields of its record (`contracts.messages`, `contracts.decisions`, `contracts.commands`) and beside them
``appended_ms``, the broker's time. Records leave out fields that have their default; documents write all of them, so that nobody
needs to know the defaults.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from contracts.capabilities import SIMULATED, Capabilities
from contracts.commands import Balance, Outcome, Progress, RescheduleCommand, TaskChange
from contracts.decisions import Amendment, ChangeScore, FeatureDrift, LoadOutlook, Overload, PolicyUsed, SampledMinute
from contracts.job_settings import ExcludedPeriod, JobSettings, Pause
from contracts.messages import (
    Checkpointing,
    ClockSegment,
    ClusterTopology,
    DeadLetter,
    EngineEvent,
    Host,
    Input,
    JobTopology,
    TaskSpec,
)
from contracts.minute_figures import TaskMinutes
from contracts.own_acts import OwnAct
from contracts.releases import TunedRelease
from contracts.rescaler_state import BalanceMemory, ClusterMemory
from contracts.summaries import WindowSummary


class ViewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the documents that do not take over all fields of a record."""


# --- records of Kafka -------------------------------------------------------------------------------------------------------


class InputDocument(Input, frozen=True, kw_only=True, omit_defaults=False):
    """One edge into a task."""


class TaskDocument(TaskSpec, frozen=True, kw_only=True, omit_defaults=False):
    """One task of a job's graph."""

    inputs: tuple[InputDocument, ...] = ()
    """The edges of ``upstream``, and how records travel along them; empty if that is unknown."""


class CheckpointingDocument(Checkpointing, frozen=True, kw_only=True, omit_defaults=False):
    """How a job takes checkpoints."""


class TopologyDocument(JobTopology, frozen=True, kw_only=True, tag=False, omit_defaults=False):
    """A job's newest topology."""

    tasks: tuple[TaskDocument, ...]
    """Its tasks."""
    checkpointing: CheckpointingDocument | UnsetType | None = UNSET
    """How it takes checkpoints; null: it takes none; absent: the engine does not say."""
    appended_ms: int
    """Broker's time of the record."""


class ExcludedPeriodDocument(ExcludedPeriod, frozen=True, kw_only=True, omit_defaults=False):
    """A time in which nothing is rescaled."""


class PauseDocument(Pause, frozen=True, kw_only=True, omit_defaults=False):
    """Somebody has stopped rescales in these directions; what is in force says the condition ``Paused``."""


class SettingsDocument(JobSettings, frozen=True, kw_only=True, tag=False):
    """A job's settings, in their highest version."""

    excluded: tuple[ExcludedPeriodDocument, ...] = ()
    """Times in which nothing is rescaled."""
    pause: PauseDocument | UnsetType = UNSET
    """What somebody has paused last, also if its time has passed; absent if it was resumed."""
    appended_ms: int
    """Broker's time of the record."""


class WindowDocument(WindowSummary, frozen=True, kw_only=True):
    """The summary of a job's newest window."""

    appended_ms: int
    """Broker's time of the record."""
    freshness_ms: int | UnsetType = UNSET
    """From the append of the record that closed the window's last minute to the append of the window; absent if unknown."""


class NewestMinute(msgspec.Struct, frozen=True, kw_only=True):
    """How a job's newest minute went, task by task, as the view holds it; ``version`` is the minute's end."""

    version: int
    tasks: TaskMinutes


class NewestMinuteDocument(NewestMinute, frozen=True, kw_only=True):
    """The same, with the broker's time of its window."""

    appended_ms: int
    """Broker's time of the window."""


class ProgressDocument(Progress, frozen=True, kw_only=True, tag=False, omit_defaults=False):
    """An actuator's latest report of one status of a command."""

    appended_ms: int
    """Broker's time of the record."""


class TaskChangeDocument(TaskChange, frozen=True, kw_only=True, omit_defaults=False):
    """The change that a command makes to one task."""


class CommandDocument(RescheduleCommand, frozen=True, kw_only=True, tag=False, omit_defaults=False):
    """A command and its progress."""

    changes: tuple[TaskChangeDocument, ...]
    """The change of each task."""
    appended_ms: int
    """Broker's time of the record."""
    progress: tuple[ProgressDocument, ...] = ()
    """The reports on it, in the order accepted, warming, applied, failed."""


class OutcomeDocument(Outcome, frozen=True, kw_only=True, tag=False):
    """The last outcome of a decision."""

    appended_ms: int
    """Broker's time of the record."""


class TaskDecisionDocument(ViewDocument, frozen=True, kw_only=True):
    """What a decision wants for one task."""

    task: str
    """Name of the task."""
    current: int
    """Subtasks when the decision was made."""
    ratio: float
    """Subtasks that the policy wants over the current ones; of a policy that answers ratios, its answer."""
    proposed: int
    """Subtasks that the policy wants, before the guardrails."""
    desired: int
    """Subtasks after the guardrails."""
    floor: int = 0
    """The fewest subtasks that serve the measured load."""
    amendments: tuple[Amendment, ...] = ()
    """The guardrails that changed the figure, in order."""
    looked_at: tuple[SampledMinute, ...] | UnsetType = UNSET
    """The three snapshots with the highest weight; absent in lists of decisions."""
    overloaded: bool = False
    """Whether the measured demand exceeds the task's size, or two minutes of its work are waiting."""
    records_per_minute: float | None = None
    """Records that the task processed a minute, mean of the last five known minutes."""
    utilisation: float | None = None
    """Share of these minutes in which its subtasks worked, 0 to 1."""
    waiting_records: float | None = None
    """Records that waited for it: in its own queue, and at the sources before it."""


class DecisionDocument(ViewDocument, frozen=True, kw_only=True):
    """A decision, its last outcome, and the command it led to."""

    decision_id: str
    """Identity of the decision."""
    job: str
    """Id of the job, ``cluster/name``."""
    span_end_ms: int
    """End of the span that the decision is about."""
    window_id: str
    """Identity of the window it was made on."""
    policy: PolicyUsed
    """The policy that answered."""
    seed: int
    """Seed of the random draws."""
    settings_version: int
    """Version of the job's settings."""
    topology_version: int
    """Version of the job's topology."""
    action: Literal["act", "hold"]
    """Whether any task is to change."""
    reason: str
    """Why, in a sentence."""
    completeness: float
    """Share of the expected task-minutes in the window that were reported, 0 to 1."""
    minutes_known: int
    """Minutes of the window with any report."""
    tasks: tuple[TaskDecisionDocument, ...]
    """One entry per task of the topology."""
    load_records_per_minute: float | None = None
    """Mean load over the last five known minutes."""
    closed_append_ms: int | None = None
    """Broker's time of the record that closed the window's last minute."""
    reached_wall_ms: int | None = None
    """Wall time at which the pipeline's clock reached the window's end."""
    compared: ChangeScore | None = None
    """How the best change compared with no change; null of a policy that does not score."""
    outlook: LoadOutlook | None = None
    """The load that the policy expected, from the span's end on; null of a policy that does not look ahead."""
    emergency: Overload | None = None
    """The plain overload that is answered at once; null if there is none."""
    drift: FeatureDrift | None = None
    """How far what the policy asked saw lies from what it was trained on; null of one that cannot say."""
    undecided: bool | None = None
    """Whether too little was known to ask a policy, or it was not its turn; null if one was asked."""
    appended_ms: int
    """Broker's time of the decision."""
    freshness_ms: int | UnsetType = UNSET
    """From ``closed_append_ms`` to ``appended_ms``; absent if unknown."""
    outcome: OutcomeDocument | None = None
    """What the rescaler made of it; null before the first outcome."""
    command: CommandDocument | None = None
    """The command it led to, of several steps the last one; null if there is none."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Which of outcome, command and progress cannot be read, and are left out; absent if there are none."""


class OwnActDocument(ViewDocument, frozen=True, kw_only=True):
    """An act that no policy decided: the rescaler started it by itself."""

    decision_id: str
    """Identity of the act."""
    job: str
    """Id of the job, ``cluster/name``."""
    own_act: OwnAct
    """Which: recovery, drain, balance, standby, take-back, insist or reapply."""
    why: str
    """Why such an act happens, in a sentence."""
    outcome: OutcomeDocument
    """What the rescaler last made of it."""
    command: CommandDocument | None = None
    """The last step that carries it out; null if there is none."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Which of command and progress cannot be read, and are left out; absent if there are none."""


class HostDocument(Host, frozen=True, kw_only=True, omit_defaults=False):
    """One machine."""


class CapabilitiesDocument(Capabilities, frozen=True, kw_only=True, omit_defaults=False):
    """What an engine can do."""


class HostsDocument(ClusterTopology, frozen=True, kw_only=True, tag=False, omit_defaults=False):
    """A cluster's hosts and their units."""

    hosts: tuple[HostDocument, ...]
    """The hosts."""
    engine: CapabilitiesDocument = CapabilitiesDocument(**asdict(SIMULATED))
    """What the cluster's engine can do."""
    appended_ms: int
    """Broker's time of the record."""


class PolicyReleaseDocument(TunedRelease, frozen=True, kw_only=True, tag=False, omit_defaults=False):
    """The latest release to a cluster, one of its jobs or a share of them, or of a shadow policy there."""

    appended_ms: int
    """Broker's time of the record."""


class HostLookDocument(Balance, frozen=True, kw_only=True, tag=False):
    """One look of the rescaler at hosts that joined, leave or died."""

    appended_ms: int
    """Broker's time of the record."""


class EngineEventDocument(EngineEvent, frozen=True, kw_only=True, tag=False, omit_defaults=False):
    """Something that happened in the engine."""

    appended_ms: int
    """Broker's time of the record."""


class DeadLetterDocument(DeadLetter, frozen=True, kw_only=True, tag=False):
    """A record that a role refused."""

    appended_ms: int
    """Broker's time of the dead letter."""


class ClockDocument(ClockSegment, frozen=True, kw_only=True, tag=False):
    """The current segment of a pipeline's clock."""

    appended_ms: int
    """Broker's time of the record."""


# --- the rescaler's memory --------------------------------------------------------------------------------------------------


class ConditionDocument(ViewDocument, frozen=True, kw_only=True):
    """One statement about a job, in the style of Kubernetes conditions."""

    last_transition_ms: int
    """When the status last changed; of Measured, the end of the minute that it speaks of."""
    message: str
    """A sentence for people."""
    observed_generation: int
    """The generation that the condition describes."""
    reason: str
    """One word for programs."""
    status: bool | None
    """Whether it holds; null: nobody knows."""
    type: str
    """Available, Owned, Balanced, Progressing, Draining, Degraded, Paused or Measured."""


class StandbysDocument(ViewDocument, frozen=True, kw_only=True):
    """The copies of the state of one parallel unit."""

    hosts: tuple[str, ...]
    """Hosts that keep a copy."""
    unit: int
    """Id of the unit."""


class GateSummary(ViewDocument, frozen=True, kw_only=True):
    """How the rescaler's control of a job stands."""

    applied_generation: int
    """Generation of the last command that was carried out."""
    at_ms: int
    """When the rescaler wrote this."""
    conditions: tuple[ConditionDocument, ...]
    """How the job is."""
    desired_generation: int
    """Generation of the last command."""
    failures: int
    """Rescales that failed in a row."""
    given_up: str | None
    """Why learners were last given up during the current rescale; empty if they were not."""
    mode: str | None
    """Mode of the job's gate."""
    observed_generation: int | None
    """The last generation that is over, carried out or not."""
    outstanding_command_id: str | None
    """The command whose end is not known yet."""
    pending_decision_id: str | None
    """The decision whose act is waiting."""
    pending_reason: str | None
    """Why it is waiting."""
    phase: str | None
    """Phase of the job's gate."""
    standbys: tuple[StandbysDocument, ...]
    """Hosts that keep copies of each unit's state, as last commanded."""
    step: str | None
    """Step of the current rescale."""
    wake_up_ms: int | None
    """When the rescaler next has something to do for the job."""


class GateDocument(GateSummary, frozen=True, kw_only=True):
    """How the rescaler's control of a job stands."""

    appended_ms: int
    """Broker's time of the record."""


class PlacementDocument(ClusterMemory, frozen=True, kw_only=True):
    """How often units were placed in the cluster."""

    appended_ms: int
    """Broker's time of the record."""


class BalanceDocument(BalanceMemory, frozen=True, kw_only=True):
    """What the rescaler knows about a cluster's hosts, and how far its jobs have followed them."""

    appended_ms: int
    """Broker's time of the record."""
