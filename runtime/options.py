"""Options that several roles share, so that they are called, checked and explained the same everywhere. Imports no client."""

import math
from typing import Any

import click

from contracts.settings import PORT_MAX


class FiniteRange(click.FloatRange):
    """A number within a range. Click's own takes ``nan``, which no range stops, and ``inf`` where there is no upper end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; it is refused like one outside the range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


engine_url = click.option(
    "--engine", "--engine-url", "engine_url", help="Engine API, http://host:port (default: SURESCALE_ENGINE_URL)."
)
health_port = click.option(
    "--health-port", type=click.IntRange(0, PORT_MAX), help="Port of health endpoint and metrics; 0: none."
)
