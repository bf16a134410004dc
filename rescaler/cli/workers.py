"""``surescale workers``: shows, stops and starts the worker processes of the actuator ``processes`` on this machine."""

import time
from typing import TYPE_CHECKING

import click

from contracts.errors import SettingsError

if TYPE_CHECKING:
    from engines.processes.reconcile import WorkerReconciler

POLL_S = 0.2


@click.group("workers")
def command() -> None:
    """Show, stop or start the worker processes on this machine.

    Reads SURESCALE_WORKERS_FOLDER, SURESCALE_GROUPS_FILE and SURESCALE_CLUSTER, like the rescaler. It may run or not.
    """


@command.command("list")
def list_workers() -> None:
    """List every worker that lives, also of jobs that the groups file no longer has."""
    reconciler = _reconciler()
    for job in reconciler.store.jobs():
        required = reconciler.store.requirement(job)
        wanted = ", ".join(f"{task} {count}" for task, count in required.counts.items()) if required else "nothing"
        click.echo(f"{job}: {wanted} asked for{'' if job in reconciler.chains else '; not in the groups file'}")
        for each in reconciler.store.workers(job):
            ending = ", ending" if each.draining_ms is not None else ""
            click.echo(f"  {each.task} {each.index}: pid {each.pid}, port {each.port}{ending}")
        for task, count in required.counts.items() if required else ():
            for index in range(count):
                failure = reconciler.store.failure(job, task, index)
                if failure is not None:
                    click.echo(f"  {task} {index}: failed to start {failure.times} times in a row; it {failure.words}")


@command.command("stop")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
def stop_workers(jobs: tuple[str, ...]) -> None:
    """Let all workers of a job finish what they have in hand, and wait for their end. They stay stopped."""
    from engines.groups.chains import Chain, Group

    reconciler = _reconciler()
    _check_known(jobs, reconciler.store.jobs())
    chains = {}
    for job in jobs:
        reconciler.store.stop(job)
        found = {worker.task: Group() for worker in reconciler.store.workers(job)}
        chains[job] = Chain(job, found | (reconciler.chains[job].groups if job in reconciler.chains else {}))
    reconciler.chains = chains  # nothing else is started here
    while any(reconciler.store.workers(job) for job in jobs):
        reconciler.reconcile()
        time.sleep(POLL_S)


@command.command("start")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
def start_workers(jobs: tuple[str, ...]) -> None:
    """Ask for the workers of a job as the groups file wants them at the beginning; the rescaler starts them."""
    reconciler = _reconciler()
    _check_known(jobs, sorted(reconciler.chains))
    for job in jobs:
        reconciler.store.deploy(reconciler.chains[job])


def _check_known(jobs: tuple[str, ...], known: list[str]) -> None:
    for job in jobs:
        if job not in known:
            raise click.UsageError(f"there is no job {job!r}; there are: {', '.join(known) or 'none'}")


def _reconciler() -> "WorkerReconciler":
    from contracts.settings import PipelineSettings, from_environment
    from engines.processes.reconcile import WorkerReconciler

    settings = from_environment(PipelineSettings)
    if settings.actuator_kind != "processes":
        raise SettingsError("SURESCALE_ACTUATOR: not processes, so there are no workers here; set it as for the rescaler")
    return WorkerReconciler.of(settings)
