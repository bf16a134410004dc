"""Every pure step, fed with whatever decoders let through: decide, gate, controller, planners, learners, placement, minutes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import Outcome, Progress
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, EngineEvent, JobTopology, MinuteMarker, TaskSample
from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.topology import check_cluster, check_topology
from surescale.contracts.windows import FIGURES, Window, decode_window
from surescale.contracts.wire import decode, encode
from surescale.policies.decide import decide
from surescale.policies.policy import Policy
from surescale.policies.registry import RULES, load_policy
from surescale.rescaler.cli import assign, documents, gate, reschedule
from surescale.rescaler.control.controller import Controller, check_memory
from surescale.rescaler.control.counts import fitting, plan_counts
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.settings import Balancing, ControlSettings, PlacingSettings
from surescale.rescaler.control.world import View
from surescale.rescaler.gate import Target as Bounds
from surescale.rescaler.placement import RequestError, document, parse_json, place, to_json
from surescale.rescaler.refusals import Refused
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from tests.fuzz.mutate import mutated, mutated_window
from tests.fuzz.target import Declined, Target, expect
from tests.support.controller_world import CLUSTER, cluster, decision, ended, job
from tests.support.record_columns import records_of
from tests.wire.messages import MESSAGES, window_bytes

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
LAST = frozenset({"held", "commanded", "superseded", "refused"})
START_MS = 600_000
MINUTE_MS = 60_000


def steps() -> Iterator[Target]:
    """Yield every pure step."""
    for name in (*RULES, "forecast", "sure", "sure-paper"):
        yield Target(f"decide {name}", [window_bytes()], partial(_decide, name), mutated_window)
    for name, run in (("gate", gate.run), ("reschedule", reschedule.run), ("assign", assign.run)):
        seeds = [path.read_bytes() for path in sorted(EXAMPLES.glob(f"{name}-*.request.json"))]
        yield Target(name, seeds, partial(_document, run))
    requests = [path for path in sorted(EXAMPLES.glob("place-*.json")) if ".answer." not in path.name]
    yield Target("placement", [path.read_bytes() for path in requests], _placement)
    yield Target("planner by counts", [encode(MESSAGES["topology"]), encode(job())], _counts)
    numbers = [number.to_bytes(8, "big") for number in range(64)]
    yield Target("controller", numbers, _controller)
    yield Target("memory that was read back", numbers, _read_back)
    yield Target("minutes", numbers, _minutes)


# Policies

_policies: dict[str, Policy] = {}


def _decide(name: str, raw: bytes) -> None:
    if name not in _policies:
        _policies[name] = load_policy(name)
    policy = _policies[name]
    rng = random.Random(raw)
    try:
        window = _strange(decode_window(raw), rng)
        made = decide(window, policy, _settings(rng, window.job), seed=1)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None
    expect(decode(encode(made), Decision) == made, "its readers get another decision")
    sizes = {spec.task: spec for spec in window.topology.tasks}
    for task in made.tasks:
        expect(sizes[task.task].scalable or task.desired == task.current, f"{task.task} may not be scaled")
    expect(
        made.action == ("act" if any(task.desired != task.current for task in made.tasks) else "hold"),
        "an act that changes nothing",
    )


def _strange(window: Window, rng: random.Random) -> Window:
    """Return the window, often with figures that no engine would report."""
    if rng.random() < 0.3:
        return window
    figures = window.figures.copy()
    for _ in range(rng.choice((1, 2, 8))):
        value = rng.choice((np.nan, 0.0, -1.0, 1e30, 3e38, 1e-30, 1.0, 60_000.0, 1e9))
        which = figures[..., rng.randrange(len(FIGURES))]
        if rng.random() < 0.5:
            which[...] = value
        else:
            which[rng.randrange(figures.shape[0]), rng.randrange(figures.shape[1])] = value
    return replace(window, figures=figures)


def _settings(rng: random.Random, name: str) -> JobSettings:
    plain = JobSettings(job=name)
    if rng.random() < 0.5:
        return plain
    try:
        kind = rng.choice(("job-settings", "job-settings-pause", "job-settings-approval"))
        return msgspec.structs.replace(decode(mutated(rng, [encode(MESSAGES[kind])]), JobSettings), job=name)
    except RecordRejected:
        return plain


# Documents


def _document(run: Callable[[documents.Document], documents.Document], raw: bytes) -> None:
    answer, code = documents.answer(run, raw)
    json.dumps(answer)
    expect((code == 0) == (answer["ok"] is True), "the exit code says something else")
    if code:
        raise Declined(str(answer["error"]))


def _placement(raw: bytes) -> None:
    try:
        request = parse_json(raw)
    except RequestError as refused:
        raise Declined(str(refused)) from None
    if sum(task.parallelism for task in request.tasks) > 200 or len(request.hosts) > 50:
        raise Declined("too large to try many of")
    response = place(request)
    to_json(document(response))
    slots = {host.id: host.slots for host in request.hosts}
    used: dict[str, int] = {}
    for host in response.assignment.values():
        used[host] = used.get(host, 0) + 1
    for host, count in used.items():
        expect(slots[host] is None or count <= slots[host], f"{count} subtasks on the {slots[host]} slots of {host}")


def _counts(raw: bytes) -> None:
    rng = random.Random(raw)
    try:
        topology = decode(raw, JobTopology)
        check_topology(topology)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None
    wanted = {spec.task: rng.choice((1, 2, spec.parallelism, spec.max_parallelism)) for spec in topology.tasks}
    targets = {name: Bounds(1, count) for name, count in wanted.items()}
    engine = Capabilities(engine="flink", acts="counts", places="itself")
    fitting(topology, targets, cluster().hosts, engine)
    try:
        plan = plan_counts(topology, wanted)
    except Refused as refused:
        raise Declined(refused.code) from None
    for change in plan.changes:
        expect(change.after == wanted[change.task], f"{change.task} gets {change.after}")


# The controller

_KINDS: dict[str, tuple[type[msgspec.Struct], Callable[[], msgspec.Struct]]] = {
    "topology": (JobTopology, job),
    "cluster": (ClusterTopology, cluster),
    "settings": (JobSettings, lambda: JobSettings(job="sim/clicks")),
    "event": (EngineEvent, lambda: MESSAGES["engine-event"]),
}
SETTINGS = (
    ControlSettings(),
    ControlSettings(placing=PlacingSettings("spread"), balancing=Balancing(standbys=1)),
    ControlSettings(warm_up_ms_max=0),
)


def _controller(raw: bytes) -> None:
    """Feed one controller with a random life, in which any record may be changed as far as decoders let it pass."""
    rng = random.Random(raw)
    control, now_ms = Controller(CLUSTER, rng.choice(SETTINGS)), START_MS
    jobs, hosts, allowed = {"sim/clicks": job()}, cluster(), dict[str, JobSettings]()
    finals: dict[str, int] = {}
    for _ in range(rng.randrange(1, 12)):
        now_ms += rng.choice((0, 1, 30_000, 60_000, 700_000))
        view, what = View(hosts, jobs, allowed), rng.choice(("decision", "decision", "progress", "progress", "tick", *_KINDS))
        effects = Effects()
        if what == "tick":
            effects = control.on_tick(view, now_ms)
        elif what == "decision":
            width = rng.randrange(1, 13)
            act = _passed(rng, Decision, decision(now_ms, {"map": width, "join": width}))
            effects = control.on_decision(act, view, now_ms) if act is not None else effects
        elif what == "progress":
            command = next((memory.outstanding for memory in control.memory.values() if memory.outstanding), None)
            if command is not None:
                status = rng.choice(("accepted", "warming", "applied", "failed"))
                code = rng.choice(("WARM_UP_TIMEOUT", "LEARNER_LOST", "X")) if status == "failed" else ""
                report = _passed(rng, Progress, ended(command, now_ms, status, code, [rng.randrange(12)]))
                effects = control.on_progress(report, view, now_ms) if report is not None else effects
        else:
            kind, plain = _KINDS[what]
            found = _passed(rng, kind, plain())
            if isinstance(found, JobTopology):
                jobs[found.job] = found
            elif isinstance(found, ClusterTopology):
                hosts = found
            elif isinstance(found, JobSettings):
                allowed[found.job] = found
            elif isinstance(found, EngineEvent):
                effects = control.on_engine_event(found, view, now_ms)
        _readable(effects)
        for outcome in effects.outcomes:
            if outcome.status in LAST:
                finals[outcome.decision_id] = finals.get(outcome.decision_id, 0) + 1
        control.wake_at_ms()
    expect(max(finals.values(), default=0) <= 1, "a decision got two last outcomes")


def _read_back(raw: bytes) -> None:
    """Let another controller go on from memory of a job that was changed: it may hold the job, and must not end."""
    rng = random.Random(raw)
    view, now_ms = View(cluster(), {"sim/clicks": job()}), START_MS
    written = _lived(Controller(CLUSTER, rng.choice(SETTINGS)), rng, view, now_ms)
    if not written:
        raise Declined("nothing happened")
    body = mutated(rng, [bytes(written[-1].body)])
    try:
        record = msgspec.structs.replace(written[-1], body=msgspec.Raw(body))
        check_memory(record)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None
    _lived(Controller(CLUSTER, rng.choice(SETTINGS), [record]), rng, view, now_ms + 10 * MINUTE_MS)


def _lived(control: Controller, rng: random.Random, view: View, now_ms: int) -> list[RescalerRecord]:
    """Let some time pass for a controller; return what it remembered of the job, in order."""
    found: list[RescalerRecord] = []
    for _ in range(rng.randrange(1, 8)):
        now_ms += rng.choice((0, 30_000, 60_000, 700_000))
        command = next((memory.outstanding for memory in control.memory.values() if memory.outstanding), None)
        what = rng.choice(("decision", "progress", "tick"))
        if what == "decision":
            effects = control.on_decision(decision(now_ms, {"map": rng.randrange(1, 8)}), view, now_ms)
        elif what == "progress" and command is not None:
            status = rng.choice(("accepted", "warming", "applied", "failed"))
            effects = control.on_progress(ended(command, now_ms, status, "X", [1]), view, now_ms)
        else:
            effects = control.on_tick(view, now_ms)
        _readable(effects)
        control.wake_at_ms()
        found += [each.record for each in effects.records if each.record is not None and each.record.kind == "job"]
    return found


def _passed(rng: random.Random, kind: type[msgspec.Struct], plain: msgspec.Struct) -> msgspec.Struct | None:
    """Return a record, often a changed one; None: its reader refuses it."""
    if rng.random() < 0.5:
        return plain
    try:
        found = decode(mutated(rng, [encode(plain)]), kind)
        if isinstance(found, JobTopology):
            check_topology(found)
        if isinstance(found, ClusterTopology):
            check_cluster(found)
    except RecordRejected:
        return None
    if isinstance(found, Decision) and found.span_end_ms > 2**45:
        return None  # ahead of the clock: the service refuses it
    return found


def _readable(effects: Effects) -> None:
    """Check that whoever reads what was written can."""
    for outcome in effects.outcomes:
        expect(decode(encode(outcome), Outcome) == outcome, "an outcome that nobody can read")
    for command in effects.commands:
        expect(decode(encode(command), type(command)) == command, "a command that nobody can read")
    for record in effects.records:
        if record.record is not None:
            decode(encode(record.record), RescalerRecord)


# Minutes


def _minutes(raw: bytes) -> None:
    """Feed the merge step of the snapshot stage with markers and samples that decoders let pass."""
    rng = random.Random(raw)
    minutes = Minutes(MinuteRules(window_minutes=4, allowed_lateness_ms=5_000, ahead_of_clock_ms_max=120_000))
    fed = came = refused = 0
    for batch in range(rng.randrange(1, 4)):
        messages: list[tuple[Coordinates, TaskSample | MinuteMarker]] = []
        for offset in range(rng.randrange(1, 12)):
            plain = MESSAGES[rng.choice(("sample", "sample", "minute"))]
            found = _passed(rng, type(plain), plain)
            if isinstance(found, TaskSample | MinuteMarker):
                messages.append((Coordinates(0, fed + offset, START_MS + (fed + offset) * 10_000), found))
        fed += 100 * (batch + 1)
        if not messages:
            continue
        records = records_of(messages)
        told = minutes.feed(records, records.append_ms.copy())
        for window in told.windows:
            expect(window.window_end_ms % MINUTE_MS == 0, "a window that ends within a minute")
        came, refused = came + len(messages), refused + len(told.refused)
        expect(refused <= came, "more was refused than came")
