"""``surescale dev bench agent``: processor time and memory of a decision, and windows per second that agents take from Kafka."""

import contextlib
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import click
import msgspec

from benchmarks.archive import load_job
from benchmarks.machine import conditions, peak_mebibytes
from benchmarks.pipeline.stage import Stage, flush, stage
from benchmarks.pipeline.usage import cores_used, memory_mb, processor_s
from benchmarks.pipeline.wide_job import wide_graph
from benchmarks.report import Document, percentile, say, show
from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import DECISIONS, SNAPSHOTS, TopicNames
from surescale.contracts.windows import Window, decode_window, encode_window
from surescale.contracts.wire import decode, encode
from surescale.policies.decide import decide
from surescale.policies.policy import Policy, ask, is_span_end
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.runtime import options
from surescale.runtime.kafka import LogReader, producer
from surescale.runtime.limited_graphs import Limits
from surescale.runtime.signals import end_in_order
from surescale.services.agent.decider import Decider
from surescale.services.agent.settings import AgentSettings
from surescale.services.local_stack.supervisor import StopRequested
from surescale.services.tools.policy_releases.folder import verified
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.episode import WindowBuffer
from surescale.simulation.load.jobs import SizedJob, size_job
from surescale.simulation.load.workload import load_workload

JOB = "j_3803524"  # 44 real tasks, plus the virtual source and sink
WIDE_TASKS = 998  # 1,000 with source and sink
MINUTES = 240
WINDOW_MINUTES = 60
TIMEOUT_S = 240.0


def windows(job: SizedJob, span_minutes: int) -> list[Window]:
    """Return the full windows at span ends of a simulated run under the ClarkNet trace."""
    workload = load_workload("clarknet")
    cluster = SimulatedCluster([job], workload, RunOptions(minutes=MINUTES))
    cluster.advance(cluster.end_ms)
    name = next(iter(cluster.jobs))
    buffer = WindowBuffer.after(cluster.history(), WINDOW_MINUTES)
    found = []
    for number, minute in enumerate(cluster.minutes_after(name, 0, MINUTES), start=1):
        buffer.add(minute)
        if number >= WINDOW_MINUTES and is_span_end(minute.minute_end_ms, span_minutes):
            found.append(buffer.window())
    return found


def decisions(tasks: int, policy: str, seed: int, seconds: float) -> Document:
    """Decide on a job's windows again and again, as the agent does, in this process. Times are processor time of one thread."""
    opened = load_policy(policy)
    job = load_job(JOB, load_workload("clarknet")) if tasks == 46 else size_job(wide_graph(tasks - 2), load_workload("clarknet"))
    raw = [encode_window(window) for window in windows(job, opened.span_minutes)]
    answerer = Decider(lambda name: JobSettings(job=name, total_limit=job.total_limit), policy=policy, folder="", seed=seed)
    base_mb = round(peak_mebibytes(), 1)
    for each in raw[:2]:
        answerer.answer(each)
    whole: list[float] = []
    sizes: list[int] = []
    by_the_rule = 0
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        for each in raw:
            began_s = time.process_time()
            decision = answerer.answer(each)
            assert decision is not None, "every window here ends a span"
            sizes.append(len(encode(decision)))
            by_the_rule += decision.policy.fallback_reason is not None
            whole.append(1000 * (time.process_time() - began_s))
    return {
        "tasks": tasks,
        "subtasks": int(job.start_parallelism.sum()),
        "decisions": len(whole),
        "by_the_rule_instead": by_the_rule,
        "p50_ms": round(percentile(whole, 50) or 0.0, 2),
        "p99_ms": round(percentile(whole, 99) or 0.0, 2),
        "p99_9_ms": round(percentile(whole, 99.9) or 0.0, 2),
        "of_it_p50_ms": _stages(raw, opened, seed),
        "window_kb": round(sum(map(len, raw)) / len(raw) / 1000, 1),
        "decision_kb": round(sum(sizes) / len(sizes) / 1000, 1),
        "peak_mb": round(peak_mebibytes(), 1),
        "peak_before_mb": base_mb,
        "graphs_apart": _graphs_apart(raw, policy, seed, seconds / 3),
    }


def _graphs_apart(raw: Sequence[bytes], policy: str, seed: int, seconds: float) -> dict[str, float]:
    """Return the least wall time of decisions in turn, the package's graphs in this process and, as in an agent, in their own."""
    usual = AgentSettings()
    openers = {"without_ms": None, "with_ms": Limits(usual.policy_seconds, usual.policy_memory_mb).open}
    answerers = {
        name: Decider(lambda job: JobSettings(job=job), policy=policy, folder="", seed=seed, opener=opener)
        for name, opener in openers.items()
    }
    least = dict.fromkeys(answerers, math.inf)
    for answerer in answerers.values():
        answerer.answer(raw[0])  # loads the policy
    ends_s = time.monotonic() + seconds
    for each in itertools.takewhile(lambda _: time.monotonic() < ends_s, itertools.cycle(raw)):
        for name, answerer in answerers.items():
            began_s = time.perf_counter()
            answerer.answer(each)
            least[name] = min(least[name], 1000 * (time.perf_counter() - began_s))
    return {name: round(value, 2) for name, value in least.items()}


def _stages(raw: Sequence[bytes], policy: Policy, seed: int) -> dict[str, float]:
    """Return the median time of each part of a decision."""
    parts: dict[str, list[float]] = {"window_bytes": [], "policy": [], "guardrails_and_words": [], "decision_bytes": []}
    for each in raw:
        clock = [time.process_time()]
        window = decode_window(each)
        clock.append(time.process_time())
        ask(policy, Question.of(window, JobSettings(job=window.job), seed))
        clock.append(time.process_time())
        decision = decide(window, policy, JobSettings(job=window.job), seed=seed)
        clock.append(time.process_time())
        encode(decision)
        clock.append(time.process_time())
        steps = [1000 * (after - before) for before, after in itertools.pairwise(clock)]
        steps[2] = max(steps[2] - steps[1], 0.0)  # decide asks the policy again
        for name, took in zip(parts, steps, strict=True):
            parts[name].append(took)
    return {name: round(percentile(values, 50) or 0.0, 2) for name, values in parts.items()}


def through_kafka(policy: str, agents: int, *, jobs: int = 50, tasks: int = 20, per_job: int = 60) -> Document:
    """Put windows on the topic, start agents in one consumer group, and measure how fast they process them."""
    span = load_policy(policy).span_minutes
    job = size_job(wide_graph(tasks - 2), load_workload("clarknet"))
    made = windows(job, 1)[:per_job]
    ends = sum(is_span_end(window.window_end_ms, span) for window in made)
    say(f"through Kafka: {jobs * len(made)} windows of {tasks} tasks, {jobs * ends} of them end a span; agents: {agents}")
    with stage(say, policy=policy) as pipeline:
        _send(pipeline, made, jobs)
        names = [f"agent-{number}" for number in range(1, agents + 1)]
        for name in names:
            pipeline.launch("agent", called=name)
        for name in names:
            pipeline.supervisor.await_ready(name)
        before, began_s, taken_before = processor_s(), time.monotonic(), _taken(pipeline, names)
        _await(pipeline, names, jobs * len(made))
        wall_s = time.monotonic() - began_s
        return {
            "agents": agents,
            "jobs": jobs,
            "tasks": tasks,
            "windows": jobs * len(made),
            "spans_to_decide": jobs * ends,
            "distinct_decisions": _distinct(pipeline, jobs * ends),
            "windows_per_s": round((jobs * len(made) - taken_before) / wall_s),
            "taken_by_each": [pipeline.health(name)["windows"] for name in names],
            "cores_busy": cores_used(before, processor_s(), wall_s),
            "memory_mb": memory_mb()["agent"],
        }


def _send(pipeline: Stage, made: Sequence[Window], jobs: int) -> None:
    client, topic = producer(pipeline.settings), TopicNames(pipeline.settings.topic_prefix)(SNAPSHOTS)
    for window in made:
        for number in range(jobs):
            job = f"bench/job-{number:04d}"
            topology = msgspec.structs.replace(window.topology, job=job)
            own = Window(job, window.window_end_ms, window.figures, topology, window.hourly_load)
            client.produce(topic, encode_window(own), job.encode())
        client.poll(0)
    flush(client)


def _taken(pipeline: Stage, names: Sequence[str]) -> int:
    return sum(pipeline.health(name)["windows"] for name in names)


def _await(pipeline: Stage, names: Sequence[str], count: int) -> None:
    pipeline.supervisor.wait(
        lambda: _taken(pipeline, names) >= count, timeout_s=TIMEOUT_S, what=f"{count} windows at {len(names)} agents", poll_s=0.05
    )


def _distinct(pipeline: Stage, expected: int) -> int:
    """Return the number of distinct decisions, once all expected ones have arrived or a timeout has passed."""
    reader, found = LogReader(pipeline.settings, [DECISIONS]), set[str]()

    def all_there() -> bool:
        found.update(decode(record.value(), Decision).decision_id for record in reader.read_to_end())
        return len(found) >= expected

    try:
        with contextlib.suppress(TimeoutError):
            pipeline.supervisor.wait(all_there, timeout_s=20.0)
    finally:
        reader.close()
    return len(found)


def _apart(tasks: int, policy: str, seed: int, seconds: float) -> Document:
    """Measure in a separate process, because peak memory is counted per process."""
    words = [str(tasks), policy, str(seed), str(seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.pipeline.agent", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(json.loads(done.stdout))


@click.command("agent")
@click.option("--policy", default="sure", show_default=True, help="Policy by name.")
@click.option(
    "--seconds", type=options.FiniteRange(min=1), default=15.0, show_default=True, help="How long to decide on each job."
)
@click.option(
    "--kafka/--no-kafka", default=True, show_default=True, help="Also measure one agent, then two, behind a real broker."
)
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the input.")
@options.as_json
def command(policy: str, seconds: float, kafka: bool, seed: int, as_json: bool) -> None:
    """Decisions per second, alone and behind Kafka.

    Measures jobs of 46 and 1,000 tasks, and one agent and two behind a real broker.
    """
    verified(policy, "")
    end_in_order()
    report: Document = {"conditions": conditions(seed), "policy": policy}
    try:
        for tasks in (46, WIDE_TASKS + 2):
            say(f"deciding on a job of {tasks} tasks for {seconds:g} s")
            report[f"decision_{tasks}_tasks"] = _apart(tasks, policy, seed, seconds)
        if kafka:
            report["one_agent"], report["two_agents"] = through_kafka(policy, 1), through_kafka(policy, 2)
    except StopRequested as asked:
        raise SystemExit(asked.exit_code) from None
    show("surescale dev bench agent", report, as_json=as_json)


if __name__ == "__main__":
    print(json.dumps(decisions(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
