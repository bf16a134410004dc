"""Command-line options about the engine of one cluster: its kind, where it is, how to be let in, and the cluster's name."""

import click

from surescale.engines.registry import engines
from surescale.runtime.options import cluster, grouped

_engine = click.option(
    "--engine", type=click.Choice(list(engines())), help="Kind of engine (default: SURESCALE_ENGINE, else simulated)."
)
_source = click.option(
    "--source",
    type=click.Choice(sorted({kind for each in engines().values() for kind in each.sources})),
    help="Where metrics come from (default: SURESCALE_SOURCE, else the engine itself).",
)
_actuator = click.option(
    "--actuator",
    type=click.Choice(sorted({kind for each in engines().values() for kind in each.actuators})),
    help="What carries out commands (default: SURESCALE_ACTUATOR, else the engine itself; for kafka: none).",
)
_engine_url = click.option(
    "--engine-url",
    help="Engine API, http://host:port; of several Flink JobManagers with commas between (default: SURESCALE_ENGINE_URL).",
)
_engine_token_file = click.option(
    "--engine-token-file", help="File with the engine's bearer token (default: SURESCALE_ENGINE_TOKEN_FILE)."
)
_engine_ca_file = click.option(
    "--engine-ca-file", help="PEM file that the engine's certificate is checked against (default: SURESCALE_ENGINE_CA_FILE)."
)
engine_options = grouped(_engine, _source, _actuator, _engine_url, _engine_token_file, _engine_ca_file, cluster)
