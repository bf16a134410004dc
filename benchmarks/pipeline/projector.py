"""``surescale dev bench projector``: records per second through the state projector, and the memory they take in Redis."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import click
import msgspec

from benchmarks.machine import conditions
from benchmarks.pipeline.agent import windows
from benchmarks.pipeline.stage import Stage, flush, stage
from benchmarks.pipeline.usage import cores_used, processor_s
from benchmarks.pipeline.wide_job import wide_graph
from benchmarks.report import BenchFailed, Document, say, show
from surescale.contracts import topics
from surescale.contracts.commands import Outcome, Placement, Progress, RescheduleCommand, TaskChange
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.summaries import SUMMARY_HEADER, encode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.topics import TopicNames
from surescale.contracts.windows import Window, encode_window
from surescale.contracts.wire import encode
from surescale.policies.decide import decide
from surescale.policies.policy import is_span_end
from surescale.policies.registry import load_policy
from surescale.runtime import options
from surescale.runtime.kafka import producer
from surescale.services.local_stack.supervisor import StopRequested
from surescale.services.state.connection import connect
from surescale.services.state.keys import WINDOWS_KEPT
from surescale.services.state.write.projections import DECISIONS_KEPT, Record, project
from surescale.services.state.write.view_store import ViewStore
from surescale.services.tools.policy_releases.folder import verified
from surescale.simulation.load.jobs import size_job
from surescale.simulation.load.workload import load_workload

CLUSTER = "bench"
TIMEOUT_S = 240.0
_KEPT = {"windows": WINDOWS_KEPT, "decisions": DECISIONS_KEPT, "outcomes": DECISIONS_KEPT, "commands": DECISIONS_KEPT}
_KEPT["progress"] = 4 * DECISIONS_KEPT

Made = tuple[str, str, bytes, bytes | None]  # topic, key, value, summary of a window


def pipeline_records(jobs: int, tasks: int, minutes: int, policy: str, seed: int) -> Iterator[Made]:
    """Yield the records that a pipeline writes during some minutes, in order.

    Each minute has one window per job. At the end of a span a decision follows, and its consequences.
    """
    opened = load_policy(policy)
    sized = size_job(wide_graph(tasks - 2), load_workload("clarknet"))
    made = windows(sized, 1)[:minutes]
    decided = {
        window.window_end_ms: decide(window, opened, JobSettings(job=window.job), seed=seed)
        for window in made
        if is_span_end(window.window_end_ms, opened.span_minutes)
    }
    for number in range(jobs):
        job = f"{CLUSTER}/job-{number:04d}"
        yield topics.JOB_TOPOLOGY, job, encode(msgspec.structs.replace(made[0].topology, job=job)), None
    for window in made:
        for number in range(jobs):
            job = f"{CLUSTER}/job-{number:04d}"
            topology = msgspec.structs.replace(window.topology, job=job)
            own = Window(job, window.window_end_ms, window.figures, topology, window.hourly_load)
            yield topics.SNAPSHOTS, job, encode_window(own), encode_header(header_of(own))
            if window.window_end_ms in decided:
                yield from _consequences(job, decided[window.window_end_ms])


def _consequences(job: str, decision: Decision) -> Iterator[Made]:
    """Yield a decision, and the records that the rescaler and an actuator write because of it."""
    at_ms = decision.span_end_ms
    own = msgspec.structs.replace(decision, job=job, decision_id=decision_id(job, at_ms, decision.policy.asked))
    yield topics.DECISIONS, CLUSTER, encode(own), None
    outcome = Outcome(
        cluster=CLUSTER, job=job, decision_id=own.decision_id, span_end_ms=at_ms, status="held", reason="hold", at_ms=at_ms
    )
    if decision.action == "hold":
        yield topics.RESCHEDULE_EVENTS, CLUSTER, encode(outcome), None
        return
    command_id = f"{job}#{at_ms // 60_000}.0"
    yield topics.RESCHEDULE_COMMANDS, CLUSTER, encode(_command(job, command_id, own)), None
    done = msgspec.structs.replace(outcome, status="commanded", reason="desired", command_id=command_id)
    yield topics.RESCHEDULE_EVENTS, CLUSTER, encode(done), None
    accepted = Progress(cluster=CLUSTER, job=job, command_id=command_id, desired_generation=1, status="accepted", at_ms=at_ms)
    for progress in (accepted, msgspec.structs.replace(accepted, status="applied")):
        yield topics.RESCHEDULE_EVENTS, CLUSTER, encode(progress), None


def _command(job: str, command_id: str, decision: Decision) -> RescheduleCommand:
    changes = tuple(
        TaskChange(task=task.task, before=task.current, after=task.desired, units=tuple(range(task.desired)))
        for task in decision.tasks
        if task.desired != task.current
    )
    return RescheduleCommand(
        command_id=command_id,
        cluster=CLUSTER,
        job=job,
        desired_generation=1,
        step=0,
        base_placement_generation=0,
        decision_id=decision.decision_id,
        gate_reason="desired",
        gate_cause="bench",
        issued_at_ms=decision.span_end_ms,
        changes=changes,
        placement=Placement(algorithm="cetsa", hosts=("h1", "h2"), rent_per_s=0.01),
    )


def parsing(records: list[Made]) -> dict[str, float]:
    """Return the processor time from a record's bytes to operations, without I/O, in microseconds by topic."""
    spent: dict[str, float] = defaultdict(float)
    count = Counter[str]()
    for topic, key, value, summary in records[:3_000]:
        began_s = time.process_time()
        project(Record(topic, 0, 0, key.encode(), value, 0, summary))
        spent[topic] += time.process_time() - began_s
        count[topic] += 1
    return {topic: round(1e6 * spent[topic] / count[topic], 1) for topic in sorted(count)}


@dataclass(slots=True)
class Rounds:
    """Rounds in which the projector read the whole log. Each is timed from the first records the view showed."""

    records: int = 0
    per_s: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    processor_s: Counter[str] = field(default_factory=Counter)

    def take(self, pipeline: Stage, before: int, count: int) -> None:
        """Wait until the view shows ``count`` records more than the ``before`` of earlier rounds, and note the rate."""
        wait = partial(pipeline.supervisor.wait, timeout_s=TIMEOUT_S, what=f"{count} records in the view", poll_s=0.01)
        wait(lambda: _records(pipeline) > before)
        first, began_s, used_before = _records(pipeline) - before, time.monotonic(), processor_s()
        if first >= count:
            raise BenchFailed("the projector had read every record at the first look: raise --jobs or --minutes")
        wait(lambda: _records(pipeline) >= before + count)
        wall_s, used = time.monotonic() - began_s, processor_s()
        self.records += count - first
        self.wall_s += wall_s
        self.per_s.append((count - first) / wall_s)
        self.processor_s.update({kind: used[kind] - used_before.get(kind, 0.0) for kind in used})


def projecting(pipeline: Stage, records: list[Made], rounds: int) -> Document:
    """Put records on Kafka, start the projector and measure until the view shows all of them. Flush the view and repeat."""
    client, full = producer(pipeline.settings), TopicNames(pipeline.settings.topic_prefix)
    for topic, key, value, summary in records:
        client.produce(full(topic), value, key.encode(), headers=[(SUMMARY_HEADER, summary)] if summary else [])
        client.poll(0)
    flush(client)
    store = ViewStore(connect(pipeline.settings.redis_url), pipeline.settings.topic_prefix)
    empty = int(store.client.info("memory")["used_memory"])
    pipeline.launch("state-service")
    done = Rounds()
    for number in range(rounds):
        if number:
            store.flush()
        done.take(pipeline, number * len(records), len(records))
    return {
        "records": len(records),
        "records_per_s": round(median(done.per_s)),
        "of_each_round": [round(rate) for rate in done.per_s],
        "projector_us_per_record": round(1e6 * done.processor_s["projector"] / done.records, 1),
        "cores_busy": cores_used({}, done.processor_s, done.wall_s),
        "redis": _memory(store, int(store.client.info("memory")["used_memory"]) - empty),
    }


def _records(pipeline: Stage) -> int:
    try:
        return int(pipeline.health("state-service")["records"])
    except OSError:
        return 0  # not up yet


def _memory(store: ViewStore, grown: int) -> Document:
    """Return the memory of the view by timeline, and its size once every timeline is full."""
    entries, used = Counter[str](), Counter[str]()
    for key in store.own_keys():
        name = key.removeprefix(store.key("")).partition(":")[0].partition(".")[0]
        used[name] += int(store.client.memory_usage(key, samples=0) or 0)
        if ".bodies" in key:
            entries[name] += int(store.client.hlen(key))
    each = {name: used[name] / entries[name] for name in entries if entries[name]}
    return {
        "used_mb": round(grown / 1e6, 1),
        "bytes_each": {name: round(value) for name, value in sorted(each.items())},
        "kept_of_a_job": {name: kept for name, kept in _KEPT.items() if name in each},
        "mb_of_a_job_when_full": round(sum(_KEPT[name] * value for name, value in each.items() if name in _KEPT) / 1e6, 2),
    }


@click.command("projector")
@click.option("--jobs", type=click.IntRange(min=1), default=50, show_default=True, help="Number of jobs.")
@click.option("--tasks", type=click.IntRange(min=3), default=20, show_default=True, help="Tasks per job.")
@click.option("--minutes", type=click.IntRange(1, 180), default=180, show_default=True, help="Minutes of records to write.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="How many times to build the view.")
@click.option("--policy", default="sure", show_default=True, help="Policy by name.")
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the input.")
@options.as_json
def command(jobs: int, tasks: int, minutes: int, rounds: int, policy: str, seed: int, as_json: bool) -> None:
    """Records per second from Kafka into Redis.

    Measures the state projector, and the memory of the view in Redis.
    """
    verified(policy, "")
    report: Document = {"conditions": conditions(seed), "jobs": jobs, "tasks_of_a_job": tasks, "minutes": minutes}
    say(f"making the records that {jobs} jobs of {tasks} tasks write in {minutes} minutes")
    records = list(pipeline_records(jobs, tasks, minutes, policy, seed))
    report["parsing_us"] = parsing(records)
    report["written"] = dict(sorted(Counter(topic for topic, *_ in records).items()))
    try:
        with stage(say, with_redis=True) as pipeline:
            report["projector"] = found = projecting(pipeline, records, rounds)
    except StopRequested as asked:
        raise SystemExit(asked.exit_code) from None
    full_mb: Any = found["redis"]["mb_of_a_job_when_full"]
    report["redis_mb_per_1000_tasks"] = {
        "as_measured": round(found["redis"]["used_mb"] * 1000 / (jobs * tasks), 1),
        "when_every_timeline_is_full": round(full_mb * 1000 / tasks, 1),
    }
    show("surescale dev bench projector", report, as_json=as_json)
