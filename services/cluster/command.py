"""``surescale cluster``: the cluster's workers, parallel units and fragments, as a table for people and as JSON for programs."""

import click

from services import options


@click.group("cluster")
def command() -> None:
    """Look at a cluster: its workers, their parallel units, and who occupies them."""


@command.command("info")
@click.argument("cluster", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the `cluster` of a request to surescale reschedule.")
@options.redis_url
@options.prefix
def info(cluster: str | None, as_json: bool, redis_url: str | None, prefix: str | None) -> None:
    """Show workers, units and the units of each fragment of CLUSTER (default: the only one there is).

    Answers from the view in Redis, which surescale state-service keeps.
    """
    from services.cluster.tables import print_info
    from services.state.inspect import open_store
    from services.state.tables import print_json
    from services.state.views import Views

    with open_store(options.road_settings(redis_url=redis_url, prefix=prefix)) as store:
        views = Views(store)
        document = views.cluster_info(cluster if cluster is not None else views.only_cluster())
    if as_json:
        print_json(document)
    else:
        print_info(document)
