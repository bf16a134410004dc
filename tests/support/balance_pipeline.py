"""A controller with the jobs it looks after, minute by minute, on hosts that come and go."""

import msgspec

from surescale.contracts.commands import Balance, RescheduleCommand
from surescale.contracts.messages import ClusterTopology, Host, JobTopology
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.settings import Balancing, PlacingSettings
from surescale.rescaler.control.world import View
from tests.support.controller_world import CLUSTER, JOB, MINUTE_MS, carried_out, controller, decision, ended, job, resumed, view
from tests.support.kept_effects import KeepsEffects

T0 = 10 * MINUTE_MS
SPREAD = {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0")}
COPIED = {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0", standbys=1)}


def hosts(count: int, at_ms: int, *, prices: tuple[float, ...] = (), without: str = "", **states: str) -> ClusterTopology:
    """Hosts h0, h1, ... of four units each, as they are since a time; ``without``: one that died."""
    made = [
        Host(
            host=f"h{index}",
            units=tuple(range(index * 4, index * 4 + 4)),
            state=states.get(f"h{index}", "running"),  # type: ignore[arg-type]
            price_per_s=prices[index] if prices else 0.0,
        )
        for index in range(count)
    ]
    return ClusterTopology(
        cluster=CLUSTER, version=100 + at_ms, at_ms=at_ms, hosts=tuple(host for host in made if host.host != without)
    )


class Pipeline(KeepsEffects):
    """A controller, the jobs as the engine runs them, and everything that was said."""

    def __init__(self, *jobs: JobTopology, count: int = 1, prices: tuple[float, ...] = (), **settings: object) -> None:
        self.settings, self.jobs = settings, {each.job: each for each in jobs}
        self.hosts, self.now_ms, self.mode = hosts(count, 0, prices=prices), T0, "act"
        self.control: Controller = controller(**settings)
        self.effects: list[Effects] = []
        self.decide()

    def decide(self, wanted: dict[str, int] | None = None) -> Effects:
        """Let a decision on the first job come: to hold, or to act."""
        of = next(iter(self.jobs))
        return self._keep(self.control.on_decision(decision(self.now_ms, wanted, of=of), self.see(), self.now_ms))

    def see(self) -> View:
        """The world as it is."""
        return view(*self.jobs.values(), hosts=self.hosts, mode=self.mode)

    def pass_minute(self, count: int = 1) -> Effects:
        """Let minutes pass; return what the last one brought."""
        for _ in range(count):
            self.now_ms += MINUTE_MS
            effects = self._keep(self.control.on_tick(self.see(), self.now_ms))
        return effects

    def end(self, command: RescheduleCommand, status: str = "applied", code: str = "", learners: int = 1) -> Effects:
        """Let the engine have carried a command out, or failed it."""
        if status == "applied" and command.action == "commit":
            self.jobs[command.job] = carried_out(self.jobs[command.job], command)
        news = msgspec.structs.replace(ended(command, self.now_ms, status, code), learners=learners)
        units = tuple(unit for change in command.changes for unit in change.added_units)
        news = msgspec.structs.replace(news, units=units if code else ())
        return self._keep(self.control.on_progress(news, self.see(), self.now_ms))

    def settle(self, minutes: int = 60) -> list[Balance]:
        """Carry out whatever is commanded until the hosts are settled; return the looks."""
        for _ in range(minutes):
            for memory in self.control.memory.values():
                if memory.outstanding:
                    self.end(memory.outstanding)
            self.pass_minute()
            if self.looks and self.looks[-1].status == "settled":
                return self.looks
        raise AssertionError([look.reason for look in self.looks])

    def restart(self) -> None:
        """Go on with what was written down alone."""
        self.control = resumed(self.effects, **self.settings)

    def on_hosts(self, name: str = JOB) -> dict[str, int]:
        """How many units a job has on each host."""
        units = {unit for spec in self.jobs[name].tasks if spec.scalable for unit in spec.units}
        return {host.host: len(units & set(host.units)) for host in self.hosts.hosts}

    def _keep(self, effects: Effects) -> Effects:
        self.effects.append(effects)
        return effects


def spread(units: tuple[int, ...] = (0, 1), count: int = 1, **settings: object) -> Pipeline:
    """A job on units of the first hosts, spread, with bands as narrow as can be."""
    return Pipeline(job(units=units), count=count, **(SPREAD | settings))
