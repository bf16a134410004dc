"""Starts the trace of the simulated engine once the pipeline is up, and prints its progress until it ends.

First it writes each simulated job's limits to the topic ``job-settings``; then it starts the clock. Started again, it only
follows. With ``--no-follow`` it ends after the start.
"""

import json
import sys
import time
from typing import Any

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.settings import from_environment
from surescale.contracts.topics import JOB_SETTINGS, TopicNames
from surescale.contracts.wire import encode
from surescale.engines.settings import ClusterSettings
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import producer

SAY_EVERY_S = 5.0
FIGURES = ("reward", "latency_mean_s", "latency_p99_s", "utilisation", "task_minutes", "rescales", "overload_minutes")


def main(settings: ClusterSettings, *, follow: bool) -> None:
    """Publish the jobs' limits, start the clock, follow."""
    publish_limits(settings)
    fetch_json(f"{settings.engine_url}/clock/start", method="POST")
    print("the trace has started", flush=True)
    while follow:
        report = fetch_json(f"{settings.engine_url}/report")
        print(progress_line(report), flush=True)
        if report["finished"]:
            print(json.dumps({job: {name: found[name] for name in FIGURES} for job, found in report["jobs"].items()}, indent=1))
            return
        time.sleep(SAY_EVERY_S)


def publish_limits(settings: ClusterSettings) -> None:
    """Publish what each job may use."""
    client, full = producer(settings), TopicNames(settings.topic_prefix)
    for entry in fetch_json(f"{settings.engine_url}/jobs")["jobs"]:
        name = entry["job"].partition("/")[2]
        tasks = fetch_json(f"{settings.engine_url}/jobs/{name}")["topology"]["tasks"]
        limits = JobSettings(job=entry["job"], version=1, total_limit=max(200, 2 * len(tasks)), set_by="demo")
        client.produce(full(JOB_SETTINGS), key=entry["job"], value=encode(limits))
    if client.flush(30.0):
        sys.exit("surescale: Kafka did not take the job settings within 30 s")


def progress_line(report: dict[str, Any]) -> str:
    """Return one line: how far, and each job's load and size."""
    jobs = [
        f"{job}: {found['load_records_per_minute']:.0f} records/min on {found['parallelism'][-1]} subtasks"
        for job, found in sorted(report["jobs"].items())
        if found["parallelism"]
    ]
    return f"minute {report['minutes_done']} of {report['minutes']}  " + "   ".join(jobs)


if __name__ == "__main__":
    main(from_environment(ClusterSettings), follow="--no-follow" not in sys.argv)
