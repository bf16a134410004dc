"""All queries on the view: they return the documents that the HTTP API answers with and the commands print. Writes nothing."""

from surescale.services.state.read.fleet_queries import FleetQueries
from surescale.services.state.read.job_queries import JobQueries


class Queries(JobQueries, FleetQueries):
    """Queries on the view of one pipeline."""
