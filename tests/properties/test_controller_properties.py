"""What holds for the controller whatever happens to it, and wherever it is stopped and goes on."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contracts.commands import NOT_REPORTED, Balance, Outcome, RescheduleCommand
from contracts.decisions import Decision
from contracts.job_settings import Approval, Direction, JobSettings, Pause
from contracts.messages import ClusterTopology, JobTopology
from contracts.own_acts import OwnAct, own_act_of
from contracts.pauses import all_jobs_of
from contracts.wire import encode
from rescaler.control.controller import Controller
from rescaler.control.effects import Effects
from rescaler.control.outcomes import REASONS_BY_STATUS
from rescaler.control.settings import Balancing, PlacingSettings
from rescaler.control.world import View
from rescaler.gate_settings import GateSettings
from tests.support.controller_world import (
    CLUSTER,
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
from tests.support.reach import reached, reaches

ROUNDS_MAX = 60
SILENCE_MS = 15 * MINUTE_MS  # longer than any command is waited for
LAST = {"held", "commanded", "superseded", "refused"}
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
class World:
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
            self.tick()
        raise AssertionError("it never comes to rest")

    @property
    def looks(self) -> list[Balance]:
        """Every look at the hosts."""
        return [look for effects in self.effects for look in effects.balances]

    @property
    def outcomes(self) -> list[Outcome]:
        """Everything said."""
        return [outcome for effects in self.effects for outcome in effects.outcomes]

    @property
    def commands(self) -> list[RescheduleCommand]:
        """Every command."""
        return [command for effects in self.effects for command in effects.commands]


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


@reaches("an act that waits")
@given(steps)
@settings(max_examples=80, deadline=None)
def test_every_act_has_exactly_one_last_outcome(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """However it comes, an act ends once, as the last of its outcomes, whose sequence has no gap."""
    world = lived(happened)
    for act in world.acts:
        said = [outcome for outcome in world.outcomes if outcome.decision_id == act.decision_id]
        if len(said) > 1:
            reached("an act that waits")
        assert [outcome.sequence for outcome in said] == list(range(len(said)))
        assert [outcome.status in LAST for outcome in said] == [False] * (len(said) - 1) + [True]


@reaches("a second rescale")
@given(steps)
@settings(max_examples=80, deadline=None)
def test_commands_are_unique_and_generations_rise_by_one(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """Per job the rescales have generations 1, 2, 3 ... and steps 0, 1, ...; each belongs to one commanded outcome."""
    world = lived(happened)
    for name in JOBS:
        made = [(command.desired_generation, command.step) for command in world.commands if command.job == name]
        generations = [generation for generation, step in made if step == 0]
        if len(generations) > 1:
            reached("a second rescale")
        assert generations == list(range(1, len(generations) + 1))
        assert made == sorted((generation, step) for generation in generations for step in range(len(steps_of(made, generation))))
    named = Counter(outcome.command_id for outcome in world.outcomes if outcome.status == "commanded")
    assert named == Counter(command.command_id for command in world.commands if command.step == 0)


SILENT: list[tuple[int, tuple[object, ...]]] = [(0, ("decision", JOB, {"map": 3}, 0)), (0, ("silence",))]


@reaches("an end that nobody reported", "a reported end")
@given(steps, st.sampled_from([None, {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0", standbys=1)}]))
@example(SILENT, None)
@settings(max_examples=80, deadline=None)
def test_every_command_ends_once_on_the_topic(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object] | None
) -> None:
    """Written as one record, whoever reports it, twice or never; and the memory says the same."""
    world = lived(happened, settings=chosen)
    ends = [each for effects in world.effects for each in effects.progress if each.status in ("applied", "failed")]
    carried_out = [command for command in world.commands if not command.advice]
    assert Counter(end.command_id for end in ends) == Counter(command.command_id for command in carried_out)
    for end in ends:
        reached("an end that nobody reported" if end.code == NOT_REPORTED else "a reported end")
    for effects in world.effects:
        over = {each.command_id for each in effects.progress if each.status in ("applied", "failed")}
        assert over <= {each.command_id for each in carried_out}
        assert not over or any(record.key.startswith(f"{CLUSTER}/job/") for record in effects.records), "one transaction"


PAUSED_OWN_ACTS = (OwnAct.BALANCE, OwnAct.STANDBY)


@reaches("an act begun beside a pause", "an act refused by a pause")
@given(steps, st.sampled_from([None, {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0", standbys=1)}]))
@example([(0, ("pause", ALL_JOBS, "down", None)), (0, ("decision", JOB, {"map": 3, "join": 1}, 0))], None)
@settings(max_examples=80, deadline=None)
def test_nothing_begins_against_a_pause(happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object] | None) -> None:
    """No decision changes a task in a paused direction, and nothing is moved or copied while both are paused."""
    world = World(settings=chosen or {}, control=controller(**(chosen or {})))
    for pause_ms, what in happened:
        before, said = len(world.commands), len(world.outcomes)
        world.take(pause_ms, what)
        if any(outcome.reason == "paused" for outcome in world.outcomes[said:]):
            reached("an act refused by a pause")
        for command in world.commands[before:]:
            pauses, own = world.see().pauses_of(command.job, world.now_ms), own_act_of(command.decision_id)
            if command.step or not pauses.paused:
                continue
            assert own not in PAUSED_OWN_ACTS or not pauses.stops_all
            if own is None:
                reached("an act begun beside a pause")
                # A job that waits runs nothing yet, so there every change counts from what it ran before.
                assert not any(pauses.stops_change(change.before, change.after) for change in command.changes)


ADVISED: list[tuple[int, tuple[object, ...]]] = [
    (0, ("mode", "advise")),
    (0, ("decision", JOB, {"map": 3}, 0)),
    (60_000, ("approve", JOB, True)),
    (0, ("end", JOB, "applied", True)),
    (60_000, ("approve", JOB, True)),
]


@reaches("an advice carried out", "an approval refused")
@given(steps)
@example(ADVISED)
@settings(max_examples=80, deadline=None)
def test_what_is_approved_was_advised_and_is_done_once(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """In the modes that are not act nothing else begins, and of one advice only exactly what it said, at most once."""
    world, done = World(), Counter[str]()
    for pause_ms, what in happened:
        before, said = len(world.commands), len(world.outcomes)
        idle = {name for name in JOBS if world.outstanding(name) is None}
        world.take(pause_ms, what)
        for command in world.commands[before:]:
            own = own_act_of(command.decision_id)
            if own is not OwnAct.APPROVED:
                assert command.advice or world.mode == "act" or command.job not in idle
            elif not command.step:
                reached("an advice carried out")
                advice = [each for each in world.commands if each.advice and each.job == command.job][-1]
                assert (advice.changes, advice.decision_id) == (command.changes, world.approvals[command.job].decision_id)
                done[advice.decision_id] += 1
        refusals = [each for each in world.outcomes[said:] if each.status == "refused"]
        if any(own_act_of(each.decision_id) is OwnAct.APPROVED for each in refusals):
            reached("an approval refused")
    assert set(done.values()) <= {1}


def steps_of(made: list[tuple[int, int]], generation: int) -> list[int]:
    """The steps of one rescale."""
    return [step for of, step in made if of == generation]


PREPARED: list[tuple[int, tuple[object, ...]]] = [
    (0, ("hosts", HOSTS[2])),
    (0, ("decision", JOB, {"map": 6, "join": 6}, 0)),
    (0, ("accepted", JOB)),
]
"""Learners warm up; there are other hosts for them."""


@reaches("several preparations", "a commit after a preparation", "an abort")
@given(steps)
@example([*PREPARED, (60_000, ("end", JOB, "WARM_UP_TIMEOUT", False))])
@example([*PREPARED, (60_000, ("end", JOB, "JOB_FAILED_OVER", False))])
@settings(max_examples=80, deadline=None)
def test_a_rescale_has_a_bounded_number_of_steps_and_ends_in_one_way(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """Preparations, at most three, then one commit or one abort; a commit is the last step and counts once if applied."""
    world = lived(happened)
    by_rescale: dict[tuple[str, int], list[str]] = {}
    for command in world.commands:
        if not command.advice:
            by_rescale.setdefault((command.job, command.desired_generation), []).append(command.action)
    for actions in by_rescale.values():
        preparations, last = actions.count("prepare"), actions[-1]
        assert preparations <= 3
        assert actions == ["prepare"] * preparations + [last] * (last != "prepare")
        if preparations > 1:
            reached("several preparations")
        if preparations and last != "prepare":
            reached("a commit after a preparation" if last == "commit" else "an abort")
    placed = sum(1 for name in JOBS for _ in range(world.jobs[name].attempt))
    records = [record.record for effects in world.effects for record in effects.records if record.key.endswith("/placement")]
    assert placed == (msgspec.json.decode(records[-1].body)["placement_generation"] if records and records[-1] else 0)


@reaches("a command beside the other job")
@given(steps)
@settings(max_examples=80, deadline=None)
def test_no_unit_is_given_to_two_jobs(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """A command takes no unit that the other job has, and only units of running hosts."""
    world = World()
    for pause_ms, what in happened:
        before = len(world.commands)
        world.take(pause_ms, what)
        running = {unit for host in world.hosts.hosts if host.state == "running" for unit in host.units}
        for command in world.commands[before:]:
            added = {unit for change in command.changes for unit in change.added_units}
            if added:
                reached("a command beside the other job")
            others = {unit for name in JOBS if name != command.job for spec in world.jobs[name].tasks for unit in spec.units}
            assert added <= running - others


@reaches("a command")
@given(steps)
@settings(max_examples=60, deadline=None)
def test_stopped_anywhere_it_goes_on_as_if_nothing_had_happened(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """A controller rebuilt from its records after every single step says the same bytes as one that never stopped."""
    straight, restarted = (lived(happened, restarts=restarts, checkpoints=True) for restarts in (False, True))
    if straight.commands:
        reached("a command")
    assert [said_bytes(effects) for effects in straight.effects] == [said_bytes(effects) for effects in restarted.effects]


@reaches("a pending outcome")
@given(steps)
@settings(max_examples=60, deadline=None)
def test_reasons_come_from_the_closed_set(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """Every status stands with one of its own reasons; a pending one alone promises a time, which lies ahead."""
    for outcome in lived(happened).outcomes:
        assert outcome.reason in REASONS_BY_STATUS[outcome.status]
        assert (outcome.until_ms is not None) == (outcome.status == "pending")
        if outcome.status == "pending":
            reached("a pending outcome")


def said_bytes(effects: Effects) -> list[bytes]:
    """Everything that would be written, as bytes."""
    written: list[msgspec.Struct] = [*effects.progress, *effects.outcomes, *effects.commands, *effects.balances]
    written += [record.record for record in effects.records if record.record is not None]
    return [encode(message) for message in written]


# Hosts that come and go, under both ways of choosing hosts, with and without standbys

BALANCED: list[dict[str, object]] = [
    {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0", units_max=2)},
    {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0.5", standbys=1)},
    {"balancing": Balancing(standbys=2)},
]


@reaches("a change of hosts")
@given(steps, st.sampled_from(BALANCED))
@settings(max_examples=40, deadline=None)
def test_looks_end_and_are_counted_without_gaps(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """Whatever happens, hosts settle; generations and the looks within them are numbered, and moving ones promise a time."""
    looks = lived(happened, settings=chosen).looks
    numbers = [(look.generation, look.sequence) for look in looks]
    assert numbers == sorted(set(numbers))
    assert all((look.until_ms is not None) == (look.status == "moving") for look in looks)
    if looks and looks[-1].generation > 1:
        reached("a change of hosts")
    assert [look.status for look in looks[-1:]] == ["settled"] * bool(looks)


@reaches("a balance that moves state")
@given(steps, st.sampled_from(BALANCED))
@settings(max_examples=40, deadline=None)
def test_a_balance_changes_no_parallelism_and_is_never_cold(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """Its commands replace units one for one, and a commit that moves state follows a preparation."""
    commands = [each for each in lived(happened, settings=chosen).commands if each.decision_id.endswith("/balance")]
    prepared = {(each.job, each.desired_generation) for each in commands if each.action == "prepare"}
    for command in commands:
        assert all(change.before == change.after == len(change.units) for change in command.changes)
        if command.action == "commit" and any(change.vnodes_moved for change in command.changes):
            reached("a balance that moves state")
            assert (command.job, command.desired_generation) in prepared


@reaches("copies")
@given(steps, st.sampled_from(BALANCED))
@settings(max_examples=40, deadline=None)
def test_copies_lie_on_other_hosts_than_their_owners(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """At rest each unit with state has as many copies as were asked for, or one per other host if those are fewer."""
    world = lived(happened, settings=chosen)
    wanted = chosen["balancing"].standbys  # type: ignore[attr-defined]
    host_of = {unit: host.host for host in world.hosts.hosts for unit in host.units}
    for name, memory in world.control.memory.items():
        if not world.looks or memory.outstanding or memory.pending:
            continue
        units = {unit for spec in world.jobs[name].tasks if spec.stateful for unit in spec.units}
        assert {each.unit for each in memory.standby.copies} == (units if wanted else set())
        for each in memory.standby.copies:
            reached("copies")
            assert host_of[each.unit] not in each.hosts
            assert len(each.hosts) == len(set(each.hosts)) == min(wanted, len(world.hosts.hosts) - 1)


@reaches("a look")
@given(steps, st.sampled_from(BALANCED))
@settings(max_examples=30, deadline=None)
def test_stopped_anywhere_it_goes_on_with_its_looks(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """Moves, standbys and looks are the same bytes, also if every step is another process's."""
    straight, restarted = (lived(happened, restarts=restarts, settings=chosen) for restarts in (False, True))
    if straight.looks:
        reached("a look")
    assert [said_bytes(effects) for effects in straight.effects] == [said_bytes(effects) for effects in restarted.effects]
