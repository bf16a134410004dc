"""``surescale workers``: shows, stops and starts the worker processes of the actuator ``processes`` on this machine."""

import time

import click

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings, from_environment
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.ports.findings import in_words
from surescale.engines.processes import WORKERS
from surescale.engines.processes.reconcile import WorkerReconciler
from surescale.engines.settings import ClusterSettings
from surescale.runtime.printable import printable

POLL_S = 0.2


@click.group("workers")
def command() -> None:
    """Show, stop or start the worker processes on this machine.

    Reads SURESCALE_WORKERS_FOLDER, SURESCALE_GROUPS_FILE and SURESCALE_CLUSTER, like the rescaler. It may run or not.
    """


@command.command("list")
def list_workers() -> None:
    """List every worker that lives.

    With its uptime and log, also of jobs that the groups file no longer has.
    """
    reconciler = _reconciler()
    if not reconciler.store.jobs():
        click.echo("no worker lives here and none is asked for; the rescaler starts those of SURESCALE_GROUPS_FILE")
    for job in reconciler.store.jobs():
        required = reconciler.store.requirement(job)
        wanted = ", ".join(f"{task} {count}" for task, count in required.counts.items()) if required else "nothing"
        left = "" if job in reconciler.chains else f"; not in the groups file, `surescale workers stop {job}` ends them"
        click.echo(f"{job}: {wanted} asked for{left}")
        for each in reconciler.store.workers(job):
            ending = ", ending" if each.draining_ms is not None else ""
            log = reconciler.store.file(job, each.task, each.index, "log")
            up = in_words(max(0, reconciler.now_ms() - each.started_ms) / 1000)
            click.echo(f"  {each.task} {each.index}: pid {each.pid}, up {up}, port {each.port}{ending}, log {log}")
        for task, count in required.counts.items() if required else ():
            for index in range(count):
                failure = reconciler.store.failure(job, task, index)
                if failure is not None:
                    click.echo(f"  {task} {index}: failed to start {failure.times} times in a row; it {printable(failure.words)}")


@command.command("stop")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
def stop_workers(jobs: tuple[str, ...]) -> None:
    """Let all workers of a job finish, and wait for their end.

    They finish and commit the records that they are working on, and stay stopped.
    """
    reconciler = _reconciler()
    jobs = _known(jobs, reconciler.store.jobs())
    chains = dict(reconciler.chains)
    for job in jobs:
        reconciler.store.stop(job)
        found = {worker.task: Group() for worker in reconciler.store.workers(job)}
        chains[job] = Chain(job, found | (reconciler.chains[job].groups if job in reconciler.chains else {}))
    reconciler.chains = chains
    while any(reconciler.store.workers(job) for job in jobs):
        reconciler.reconcile(only=jobs)
        time.sleep(POLL_S)


@command.command("start")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
def start_workers(jobs: tuple[str, ...]) -> None:
    """Ask for the workers of a job.

    As many as the groups file wants at the beginning; the rescaler starts them.
    """
    reconciler = _reconciler()
    jobs = _known(jobs, sorted(reconciler.chains))
    for job in jobs:
        reconciler.store.deploy(reconciler.chains[job])


def _known(jobs: tuple[str, ...], known: list[str]) -> tuple[str, ...]:
    """Return the jobs by the names that the groups file gives them; ``cluster/name`` means the same."""
    names = tuple(job.removeprefix(f"{from_environment(PipelineSettings).cluster}/") for job in jobs)
    for job in names:
        if job not in known:
            raise click.UsageError(f"there is no job {job!r}; there are: {', '.join(known) or 'none'}")
    return names


def _reconciler() -> WorkerReconciler:
    settings = from_environment(ClusterSettings)
    if settings.chosen.actuators[settings.actuator_kind] is not WORKERS:
        raise SettingsError("SURESCALE_ACTUATOR: not processes, so there are no workers here; set it as for the rescaler")
    return WorkerReconciler.of(settings)
