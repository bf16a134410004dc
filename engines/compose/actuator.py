"""Services of a Compose project as an actuator sees them: a number of containers is asked for, and the engine runs them.

What is asked for are the containers themselves, so nothing is kept outside the engine. One that is to go is renamed first, in one
step; then it drains, for as long as its service says, and is removed. One that is to come is a copy of a running one. Containers
are made one by one, so a command that was interrupted is known by the label of those that it made, and is carried on or put back.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Self

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import RescheduleCommand
from surescale.engines.compose import COMPOSE, ComposeSettings
from surescale.engines.compose.answers import MADE_FOR, Container
from surescale.engines.compose.client import ComposeClient
from surescale.engines.compose.errors import ComposeError, ComposeRefused, NameConflict, NotFound
from surescale.engines.compose.reconcile import ServiceReconciler
from surescale.engines.compose.replica import copy_of, free_numbers, name_of, refusal_of
from surescale.engines.compose.requirement import Requirement, requirement_of, services_of
from surescale.engines.compose.target import Service
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.actuator import UNKNOWN_TASK, ReconcilerThread, TendsChains
from surescale.engines.groups.chains import Chain, chains_of
from surescale.engines.ports.actuator import (
    REQUIREMENT_CHANGED,
    EngineError,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
)
from surescale.engines.ports.requirement import in_words
from surescale.engines.settings import ClusterSettings
from surescale.runtime.printable import one_line

TARGET_GONE = "TARGET_GONE"
"""No container of the service runs."""
CANNOT_SCALE = "CANNOT_SCALE"
"""The service is written so that it can have one container only, or one that fails stays away."""
IMAGE_GONE = "IMAGE_GONE"
"""The image is gone, or another has its name."""
COMPOSE_REFUSED = "COMPOSE_REFUSED"
"""The engine refused, for a reason that was not known beforehand."""
_log = logging.getLogger("surescale.compose")


@dataclass(slots=True)
class ComposeEngine(TendsChains[Requirement]):
    """``EngineApi`` on the services of one container engine. Keeps nothing that is needed after a restart."""

    unscaled = "names no service for it; add its compose"
    recreated = "the first container of a service was recreated, or no longer runs"
    reconciler: ServiceReconciler
    cluster: str
    _reconciling: ReconcilerThread = field(init=False)

    def __post_init__(self) -> None:
        self._reconciling = ReconcilerThread(self.reconciler.reconcile, ComposeError, _log)

    @classmethod
    def of(cls, settings: ClusterSettings, timeout_s: float) -> Self:
        """Return the one of a role's settings.

        Raises:
            SettingsError: the groups file cannot be used.
        """
        client = ComposeClient(settings.part(ComposeSettings).compose_url, timeout_s=timeout_s)
        workers_max = settings.part(GroupsSettings).workers_max
        return cls(ServiceReconciler(client, chains_of(settings, "compose"), workers_max), settings.cluster)

    # The port

    def capabilities(self) -> Capabilities:
        """Return what services of Compose can do."""
        return COMPOSE

    def look(self, job: str) -> JobStatus:
        """Return what is asked for, and the containers that are up. One that drains still runs."""
        with _answers_of_the_port():
            required, now_ms = self._required(self._chain(job)), self.reconciler.now_ms()
            running = {task: sum(each.is_up(now_ms) for each in found) for task, found in required.containers.items()}
            short = [task for task, count in required.counts.items() if running[task] < count]
            waits = any(each.waits_to_start for task in short for each in required.wanted(task))
            is_full = waits and self.reconciler.room() == 0
            hindrances = {task: hindrance_of(required.wanted(task), now_ms, is_full=is_full) for task in short}
        return JobStatus(
            epoch=required.epoch,
            requirement_id=required.id,
            required=required.counts,
            running=running,
            state="running" if any(running.values()) else "restarting",
            waiting_for="slots" if is_full else "",
            hindrance="; ".join(f"{task}: {words}" for task, words in sorted(hindrances.items())),
        )

    # Which job

    def _chains(self) -> Mapping[str, Chain]:
        return self.reconciler.chains

    def _required(self, chain: Chain) -> Requirement:
        required = requirement_of(self.reconciler.client, chain)
        if required is None:
            raise EngineRefused(
                UNKNOWN_TASK, f"SURESCALE_GROUPS_FILE names no services for {chain.name}; add compose to its groups"
            )
        return required

    # Checked, then written

    def _ask(self, chain: Chain, required: Requirement, command: RescheduleCommand) -> None:
        before = {**required.counts, **(command.expected.required if command.expected is not None else {})}
        foreign = _foreign(required, before, command.targets, command.command_id)
        if foreign:
            self._put_back_ours(required, command.command_id)
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(foreign)}")
        self._write(chain, required, command.targets, command.command_id)

    def _ask_back(self, chain: Chain, required: Requirement, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        before = {**put_back, **(command.expected.required if command.expected is not None else {})}
        foreign = _foreign(required, before, command.targets, command.command_id)
        if foreign and _foreign(required, put_back, command.targets, command.command_id):
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(foreign)}")
        self._write(chain, required, put_back, command.command_id)

    def _answers(self) -> AbstractContextManager[None]:
        return _answers_of_the_port()

    def _write(self, chain: Chain, required: Requirement, counts: Mapping[str, int], command_id: str) -> None:
        """Make what is missing, then let go what is too much. What cannot be made is found out before anything is changed."""
        services, grow = services_of(chain), dict[str, list[tuple[Container, int]]]()
        for task, count in counts.items():
            missing = count - required.counts[task]
            if missing > 0:
                model = self._model(services[task], required.wanted(task))
                numbers = free_numbers({each.number for each in required.containers[task]}, missing)
                grow[task] = [(model, number) for number in numbers]
        try:
            made = [
                self.reconciler.client.create(name_of(model, number), copy_of(model, number, command_id))
                for replicas in grow.values()
                for model, number in replicas
            ]
            for replica in made[: self.reconciler.room()] if made else ():
                self.reconciler.client.start(replica)
        except (ComposeRefused, NotFound):
            self._put_back_ours(self._required(chain), command_id)
            raise
        for task, count in counts.items():
            for container in _surplus(required.wanted(task), count, self.reconciler.now_ms()):
                self.reconciler.drain(container)

    def _model(self, service: Service, wanted: list[Container]) -> Container:
        """Return the container that is copied.

        Raises:
            EngineRefused: the service cannot have another one.
        """
        if not wanted:
            words = f"{service}: none of its containers runs; start it with docker compose up, or correct SURESCALE_GROUPS_FILE"
            raise EngineRefused(TARGET_GONE, words)
        model = wanted[0]
        reason = refusal_of(service, model, self.reconciler.client.api())
        if reason is not None:
            raise EngineRefused(CANNOT_SCALE, f"{service}: {reason}")
        image = str(model.config.get("Image", ""))
        try:
            present = self.reconciler.client.image(image)
        except NotFound:
            raise EngineRefused(IMAGE_GONE, f"{service}: the engine has no image {image} any more; pull or build it") from None
        if present != model.image:
            words = f"{image} is another image now than the one that its containers run; docker compose up -d replaces them"
            raise EngineRefused(IMAGE_GONE, f"{service}: {words}")
        return model

    def _put_back_ours(self, required: Requirement, command_id: str) -> None:
        """Let go what was made for a command that is refused now. What somebody else made stays."""
        for task in required.containers:
            for container in required.wanted(task):
                if container.labels.get(MADE_FOR) == command_id:
                    try:
                        self.reconciler.drain(container)
                    except (EngineError, ComposeError) as problem:
                        _log.warning("%s was made for a command that is refused, and runs: %s", container.plain_name, problem)


def _surplus(wanted: list[Container], count: int, now_ms: int) -> list[Container]:
    """Return those that go: first what is not up, then the highest numbers; the first one stays as long as any does."""
    by_worth = sorted(wanted[1:], key=lambda each: (each.is_up(now_ms), -each.number))
    return ([*by_worth, *wanted[:1]])[: max(0, len(wanted) - count)]


def _foreign(required: Requirement, before: Mapping[str, int], targets: Mapping[str, int], command_id: str) -> dict[str, int]:
    """Return the tasks whose number is neither as it was, nor as the command wants it, nor on the command's own way there."""
    foreign = {}
    for task in sorted(before.keys() | targets.keys()):
        count, first = required.counts.get(task, 0), before.get(task, 0)
        last = targets.get(task, first)
        ours = sum(each.labels.get(MADE_FOR) == command_id for each in required.wanted(task))
        # What went on the way down has left no trace.
        is_on_its_way = last < count < first or (first < count < last and count - ours == first)
        if count not in (first, last) and not is_on_its_way:
            foreign[task] = count
    return foreign


@contextmanager
def _answers_of_the_port() -> Iterator[None]:
    """Turn the client's problems into the port's. What may pass by itself, or by a correction of the settings, is no refusal."""
    try:
        yield
    except NameConflict as problem:
        raise EngineUnavailable(f"somebody else changes the service, too; it is tried again: {problem}") from None
    except (ComposeRefused, NotFound) as problem:
        raise EngineRefused(COMPOSE_REFUSED, str(problem)) from None
    except ComposeError as problem:
        raise EngineUnavailable(str(problem)) from None


def hindrance_of(containers: Sequence[Container], now_ms: int, *, is_full: bool) -> str:
    """Return the most telling hindrance.

    Args:
        containers: that are wanted, of one service.
        now_ms: wall time.
        is_full: no more containers may run on this machine.
    """
    short = [each for each in containers if not each.is_up(now_ms)]
    for look in (_killed, _crashed, _not_started, _unhealthy, _paused):
        for each in short:
            words = look(each)
            if words:
                return f"container {each.plain_name} {words}{_others(len(short) - 1)}"
    if is_full and any(each.waits_to_start for each in short):
        return "no more containers may run on this machine; raise SURESCALE_WORKERS_MAX, or lower the job's maximum"
    return f"container {short[0].plain_name} is starting{_others(len(short) - 1)}" if short else "containers are starting"


def _killed(each: Container) -> str:
    if not each.state.oom_killed:
        return ""
    return f"was killed for lack of memory, {_restarts(each)}; raise mem_limit, or give it less at once"


def _crashed(each: Container) -> str:
    if each.state.status != "restarting" and not each.restart_count:
        return ""
    return f"ends again and again, with exit code {each.state.exit_code}, {_restarts(each)}; see docker logs {each.plain_name}"


def _not_started(each: Container) -> str:
    return f"cannot be started: {one_line(each.state.error)}" if each.state.status == "created" and each.state.error else ""


def _unhealthy(each: Container) -> str:
    health = each.state.health
    if health is None or health.status != "unhealthy":
        return ""
    said = one_line(health.log[-1].output) if health.log else ""
    return f"runs, and its health check fails{f': {said}' if said else ''}; see docker inspect {each.plain_name}"


def _paused(each: Container) -> str:
    return f"is paused; docker unpause {each.plain_name}" if each.state.status == "paused" else ""


def _restarts(each: Container) -> str:
    return f"{each.restart_count} {'restart' if each.restart_count == 1 else 'restarts'} so far"


def _others(count: int) -> str:
    return "" if count <= 0 else f"; and {count} more {'is' if count == 1 else 'are'} not up"
