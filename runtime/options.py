"""Options that several roles share, so that they are called, checked and explained the same everywhere. Imports no client."""

import click

from contracts.settings import PORT_MAX

engine_url = click.option(
    "--engine", "--engine-url", "engine_url", help="Engine API, http://host:port (default: SURESCALE_ENGINE_URL)."
)
health_port = click.option(
    "--health-port", type=click.IntRange(0, PORT_MAX), help="Port of health endpoint and metrics; 0: none."
)
