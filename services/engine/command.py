"""``surescale run engine``: the simulated engine as a process."""

from typing import Any

import click

from surescale.contracts.settings import PORT_MAX
from surescale.runtime import options


@click.command("engine")
@options.simulated_run
@options.pace
@options.speed
@options.span_minutes("10")
@options.seed
@click.option("--stop-wait-s", type=options.FiniteRange(min=0.1), help="Longest wait at a stop, in real seconds (default: 60).")
@click.option("--host", "engine_host", help="Address to listen on (default: 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, PORT_MAX), default=8090, show_default=True, help="Port; 0: a free one.")
@click.option("--bootstrap", help="Kafka bootstrap servers, or none: no clock topic (default: SURESCALE_BOOTSTRAP).")
@options.prefix
@options.cluster
def command(*, run: dict[str, Any], port: int, bootstrap: str | None, **given: Any) -> None:
    """Simulate an engine that runs jobs under a load.

    Owns the pipeline's clock, which is stopped until POST /clock/start.
    """
    from surescale.contracts.settings import from_environment
    from surescale.runtime.logs import set_up_logs
    from surescale.services.engine.process import serve
    from surescale.services.engine.settings import EngineSettings
    from surescale.simulation.engine.cluster import SimulatedCluster, simulated_run

    no_kafka = bootstrap == "none"
    settings = from_environment(
        EngineSettings, bootstrap=None if no_kafka else bootstrap, use_kafka=False if no_kafka else None, **given
    )
    set_up_logs("engine")
    serve(SimulatedCluster(*simulated_run(settings.cluster, **run)), settings, port)
