"""``surescale job forget``: ends jobs that are gone for good, which no monitor will tell of."""

from typing import TYPE_CHECKING

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.contracts.messages import JobTopology
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.job_settings.snapshot import KnownJobs

SILENT_MINUTES = 3
"""The monitor tells of each job every minute."""


@click.command("forget")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@options.connected()
def command(settings: "PipelineSettings", jobs: tuple[str, ...]) -> None:
    """End jobs of which no monitor tells any more.

    JOB is cluster/name: of a cluster that has another name now, a job that SURESCALE_JOBS leaves out, or one that failed and
    will not come back. It is shown as ended, and leaves the list after a day. Its settings and decisions stay. A monitor that
    tells of it again takes it back. Nothing happens to the job itself.
    """
    from surescale.contracts.topics import JOB_TOPOLOGY
    from surescale.engines.ports.source import become
    from surescale.runtime.printable import printable
    from surescale.runtime.topic_records import send_all
    from surescale.services.job_settings.snapshot import read_jobs

    known = read_jobs(settings)
    ends = [become(_gone(known, job), "finished") for job in dict.fromkeys(jobs)]
    send_all(settings, JOB_TOPOLOGY, [(each.job.encode(), each) for each in ends])
    for each in ends:
        click.echo(printable(f"{each.job}: ended; `surescale job list` leaves it out after a day"))


def _gone(known: "KnownJobs", job: str) -> "JobTopology":
    """Return the last topology of a job that may be ended.

    Raises:
        SettingsError: there is no such job, it has finished, or its monitor tells of it.
    """
    from surescale.contracts.clock import MINUTE_MS
    from surescale.contracts.errors import SettingsError
    from surescale.contracts.job_limits import is_simulated
    from surescale.services.tools.job_settings.command import require_single

    require_single(job)
    last = known.of(job).topology
    if last.state == "finished":
        raise SettingsError(f"JOB: {job} has ended already; `surescale job list` leaves it out after a day")
    if is_simulated(last.engine):
        raise SettingsError(f"JOB: {job} is one of the simulated engine, which tells the end of its jobs itself")
    silent = (known.now_ms - last.at_ms) // MINUTE_MS
    if silent < SILENT_MINUTES and last.state != "failed":  # which is told once
        raise SettingsError(
            f"JOB: the monitor reported {job} a moment ago, and would again; first stop the job, or stop watching it"
        )
    return last
