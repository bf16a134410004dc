"""Engines that are asked for counts and have their clock from the test, as the contract wants them; the fake is one."""

from collections.abc import Mapping

from surescale.engines.ports.actuator import EngineApi
from tests.ports.requirement_contract import BEFORE, JOB, RequirementRig
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.fake_requirement_engine import FakeRequirementEngine


class FakeEngineRig(RequirementRig):
    """An engine that has its clock and its slots from the test."""

    def __init__(self, played: FakeRequirementEngine | FakeJobManager | FakeApiServer, api: EngineApi) -> None:
        self._played, self.api = played, api

    def pass_seconds(self, seconds: float) -> None:
        """Move its clock."""
        self._played.now_ms += int(seconds * 1_000)

    def now_ms(self) -> int:
        """Its clock."""
        return self._played.now_ms

    def offer_slots(self, slots: int) -> None:
        """From now on."""
        self._played.slots = slots


class FakeRequirementRig(FakeEngineRig):
    """The fake, told what is to happen."""

    def __init__(self, fake: FakeRequirementEngine) -> None:
        super().__init__(fake, fake)
        self._fake = fake

    def require(self, parallelism: Mapping[str, int]) -> None:
        """Past the port."""
        self._fake.require(JOB, parallelism)

    def submit_again(self) -> None:
        """As before."""
        self._fake.submit(JOB, BEFORE)

    def go_away(self) -> None:
        """Give no answer for long."""
        self._fake.away_for = 1_000

    def come_back(self) -> None:
        """Answer again."""
        self._fake.away_for = 0
