"""The live jobs of a cluster by name."""

from typing import cast

import msgspec

from engines.flink.answers import JobEntry, Jobs
from engines.flink.client import FlinkClient
from engines.flink.directory import JobDirectory


class Starting:
    """A cluster on which a job is initialised at the first look, waits for slots at the second, and runs from the third on."""

    looks = 0

    def jobs(self) -> tuple[JobEntry, ...]:
        """Answer as Flink 2.3 does: types are null until the graph is there."""
        self.looks += 1
        states = {1: ("INITIALIZING", "null"), 2: ("CREATED", '"STREAMING"')}
        state, kind = states.get(self.looks, ("RUNNING", '"STREAMING"'))
        entry = f'{{"jid":"a","name":"orders","state":"{state}","start-time":0,"jobType":{kind},"schedulerType":{kind}}}'
        return msgspec.json.decode(f'{{"jobs":[{entry}]}}', type=Jobs).jobs

    def parameters(self, _job: str) -> dict[str, str]:
        """Answer without the parameters until the job runs."""
        return {} if self.looks < 3 else {"surescale.mode": "act"}


def test_the_labels_of_a_job_that_is_seen_while_it_starts_are_not_lost() -> None:
    """It is listed once it has a graph, and with its labels once Flink tells them."""
    directory = JobDirectory(cast(FlinkClient, Starting()), "prod")
    assert directory.live() == {}
    assert directory.live()["a"].labels == {}
    assert directory.live()["a"].labels == {"surescale.mode": "act"}
