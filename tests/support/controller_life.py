"""The life of a controller for property tests: what may happen to it, in any order, and what it says of it."""

from dataclasses import dataclass, field

import msgspec
from hypothesis import strategies as st

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import Approval, Direction, JobSettings, Pause
from surescale.contracts.messages import ClusterTopology, EngineEvent, JobTopology
from surescale.contracts.pauses import all_jobs_of
from surescale.contracts.wire import encode
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.world import View
from surescale.rescaler.gate_settings import GateSettings
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    OTHER_JOB,
    carried_out,
    checkpoint,
    cluster,
    controller,
    decision,
    ended,
    job,
    resumed,
    view,
    without_units,
)
from tests.support.kept_effects import KeepsEffects

ROUNDS_MAX = 60
SILENCE_MS = 15 * MINUTE_MS  # longer than any command is waited for
JOBS = (JOB, OTHER_JOB)
ALL_JOBS = all_jobs_of("sim")
HOSTS = (cluster(2, 4), cluster(1, 4), cluster(3, 6), cluster(2, 4, h1="removed_soon"))

CODES = ("UNIT_LOST", "WARM_UP_TIMEOUT", "LEARNER_LOST", "JOB_FAILED_OVER")
SETTINGS = {"gate": GateSettings(checkpoint_interval_ms=30_000, executing_stabilization_ms=50_000)}

wanted = st.none() | st.dictionaries(st.sampled_from(["map", "join", "nobody"]), st.integers(1, 12), min_size=1, max_size=2)
step = st.one_of(
    st.tuples(st.just("decision"), st.sampled_from(JOBS), wanted, st.integers(-2, 3)),
    st.tuples(st.just("end"), st.sampled_from(JOBS), st.sampled_from(["applied", *CODES]), st.booleans()),
    st.tuples(st.just("accepted"), st.sampled_from(JOBS)),
    st.tuples(st.just("checkpoint"), st.sampled_from(JOBS), st.booleans()),
    st.tuples(st.just("lost"), st.sampled_from(JOBS)),
    st.tuples(st.just("hosts"), st.sampled_from(HOSTS)),
    st.tuples(st.just("mode"), st.sampled_from(["act", "advise", "observe"])),
    st.tuples(
        st.just("pause"),
        st.sampled_from([*JOBS, ALL_JOBS]),
        st.sampled_from(["up", "down", "both", None]),
        st.none() | st.integers(0, 300_000),
    ),
    st.tuples(st.just("approve"), st.sampled_from(JOBS), st.booleans()),
    st.tuples(st.just("silence")),
    st.tuples(st.just("tick")),
)
steps = st.lists(st.tuples(st.integers(0, 90_000), step), max_size=25)


@dataclass
class World(KeepsEffects):
    """Feeds one controller and keeps what it said; ``restarts`` replaces it after every step by one made of its records."""

    restarts: bool = False
    now_ms: int = 10 * MINUTE_MS
    hosts: ClusterTopology = HOSTS[0]
    mode: str = "act"
    settings: dict[str, object] = field(default_factory=dict)
    control: Controller = field(default_factory=controller)
    events: int = 0
    effects: list[Effects] = field(default_factory=list)
    jobs: dict[str, JobTopology] = field(default_factory=lambda: {JOB: job(units=(0, 4)), OTHER_JOB: job(OTHER_JOB, (1,))})
    acts: list[Decision] = field(default_factory=list)
    pauses: dict[str, Pause] = field(default_factory=dict)
    approvals: dict[str, Approval] = field(default_factory=dict)

    def see(self) -> View:
        """The world as it is."""
        seen = view(*self.jobs.values(), hosts=self.hosts, mode=self.mode)
        plain = {**seen.settings, ALL_JOBS: JobSettings(job=ALL_JOBS)}
        for name, pause in self.pauses.items():
            plain[name] = msgspec.structs.replace(plain[name], pause=pause)
        for name, approval in self.approvals.items():
            plain[name] = msgspec.structs.replace(plain[name], approval=approval)
        return View(seen.cluster, seen.jobs, plain)

    def approve(self, name: str, newest: bool) -> None:
        """Let somebody approve a job's newest advice, or its oldest one again."""
        advices = [command.decision_id for command in self.commands if command.advice and command.job == name]
        if advices:
            self.approvals[name] = Approval(decision_id=advices[-newest], by="ana", at_ms=self.now_ms)

    def pause(self, name: str, direction: Direction | None, lasting_ms: int | None) -> None:
        """Let somebody pause a job or all jobs of the cluster; without a direction, resume."""
        self.pauses.pop(name, None)
        if direction is not None:
            until_ms = None if lasting_ms is None else self.now_ms + lasting_ms
            self.pauses[name] = Pause(direction=direction, until_ms=until_ms, why="why", by="ana", at_ms=self.now_ms)

    def take(self, pause_ms: int, what: tuple[object, ...]) -> None:
        """Let one thing happen, then let time pass as the service does."""
        self.now_ms += pause_ms
        match what:
            case ("decision", str(name), tasks, int(minutes)):
                act = decision(max(0, self.now_ms // MINUTE_MS + minutes) * MINUTE_MS, tasks, of=name)  # type: ignore[arg-type]
                self.acts += [act] if act.action == "act" else []
                self.effects.append(self.control.on_decision(act, self.see(), self.now_ms))
            case ("end", str(name), str(status), bool(shown)):
                self.end(name, status, shown)
            case ("accepted", str(name)):
                self.accept(name)
            case ("checkpoint", str(name), bool(completed)):
                self.events += 1
                event = checkpoint(self.now_ms, self.events, of=name, completed=completed)
                self.effects.append(self.control.on_engine_event(event, self.see(), self.now_ms))
            case ("lost", str(name)):
                self.lose(name)
            case ("hosts", ClusterTopology() as hosts):
                self.hosts = hosts
            case ("silence",):
                self.now_ms += SILENCE_MS
            case ("mode", str(mode)):
                self.mode = mode
            case ("approve", str(name), bool(newest)):
                self.approve(name, newest)
            case ("pause", str(name), direction, lasting_ms):
                self.pause(name, direction, lasting_ms)  # type: ignore[arg-type]
        self.tick()

    def outstanding(self, name: str) -> RescheduleCommand | None:
        """The command of a job that is on its way."""
        memory = self.control.memory.get(name)
        return memory.outstanding if memory else None

    def accept(self, name: str) -> None:
        """Let the engine take the command on."""
        if command := self.outstanding(name):
            self.effects.append(self.control.on_progress(ended(command, self.now_ms, "accepted"), self.see(), self.now_ms))

    def lose(self, name: str) -> None:
        """Take every unit from a job; what was being prepared for it is given up, what was commanded fails."""
        self.jobs[name] = without_units(self.jobs[name])
        if self.outstanding(name):
            self.end(name, "JOB_FAILED_OVER", True)

    def end(self, name: str, status: str, shown: bool) -> None:
        """Carry out, or fail, the command on its way; ``shown``: the topology has the result before the progress is heard."""
        command = self.outstanding(name)
        if command is None:
            return
        changes = status == "applied" and command.action == "commit"
        after = carried_out(self.jobs[name], command) if changes else self.jobs[name]
        if shown:
            self.jobs[name] = after
        units = tuple(sorted({unit for change in command.changes for unit in change.added_units}))[:1]
        code = "" if status == "applied" else status
        news = ended(command, self.now_ms, "failed" if code else "applied", code, units)
        self.effects.append(self.control.on_progress(news, self.see(), self.now_ms))
        self.jobs[name] = after

    def tick(self) -> None:
        """Let the controller look at the clock; perhaps replace it by its heir."""
        self.effects.append(self.control.on_tick(self.see(), self.now_ms))
        if self.restarts:
            self.control = resumed(self.effects, **self.settings)

    def complete_copies(self) -> None:
        """Let the engine say of each job that all copies of its state are there."""
        for name in JOBS:
            self.events += 1
            event = EngineEvent(cluster="sim", sequence=self.events, at_ms=self.now_ms, kind="standbys_ready", job=name)
            self.effects.append(self.control.on_engine_event(event, self.see(), self.now_ms))

    def drain(self) -> None:
        """Let everything that is commanded be done, and time pass until nothing waits any more."""
        self.hosts, self.mode, self.pauses = HOSTS[2], "act", {}
        self.tick()
        for _ in range(ROUNDS_MAX):
            for name in JOBS:
                self.accept(name)
                self.end(name, "applied", True)
                self.tick()
            wake_ms = self.control.wake_at_ms()
            if wake_ms is None:
                return
            assert wake_ms > self.now_ms, "what is promised lies ahead"
            self.now_ms = wake_ms
            self.complete_copies()
            self.tick()
        raise AssertionError("it never comes to rest")


def lived(
    happened: list[tuple[int, tuple[object, ...]]],
    *,
    restarts: bool = False,
    checkpoints: bool = False,
    settings: dict[str, object] | None = None,
) -> World:
    """A world after all that happened and after everything that waited has ended."""
    settings = settings or (SETTINGS if checkpoints else {})
    world = World(restarts=restarts, settings=settings, control=controller(**settings))
    for pause_ms, what in happened:
        world.take(pause_ms, what)
    world.drain()
    return world


def said_bytes(effects: Effects) -> list[bytes]:
    """Everything that would be written, as bytes."""
    written: list[msgspec.Struct] = [*effects.progress, *effects.outcomes, *effects.commands, *effects.balances]
    written += [record.record for record in effects.records if record.record is not None]
    return [encode(message) for message in written]
