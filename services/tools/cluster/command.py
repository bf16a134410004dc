"""``surescale cluster``: a cluster's workers, parallel units and fragments, as a table for people and as JSON for programs."""

import click

from runtime import options


@click.group("cluster")
def command() -> None:
    """Show a cluster's workers, their units, and the tasks on them."""


@command.command("info")
@click.argument("cluster", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the `cluster` of a request to surescale reschedule.")
@options.redis_url
@options.prefix
def info(cluster: str | None, as_json: bool, redis_url: str | None, topic_prefix: str | None) -> None:
    """Show workers, units and fragments of CLUSTER.

    Without CLUSTER shows the only one there is. Reads the view in Redis, which `surescale state-service` keeps.
    """
    from services.state.connection import opened
    from services.state.read.queries import Queries
    from services.state.read.tables import print_json
    from services.tools.cluster.tables import print_info

    settings = options.pipeline_settings(redis_url=redis_url, topic_prefix=topic_prefix)
    with opened(settings) as client:
        queries = Queries(client, settings.topic_prefix)
        document = queries.cluster_info(cluster if cluster is not None else queries.only_cluster())
    if as_json:
        print_json(document)
    else:
        print_info(document)
