"""The engine that the settings name, as an actuator sees it."""

from pathlib import Path

from engines.compose.client import ComposeClient
from engines.compose.tend import ComposeTender
from engines.flink.client import FlinkClient
from engines.groups.chains import check_scaled_whole, read_chains
from engines.kubernetes.connect import client_of
from engines.processes.tend import Tender
from rescaler.actuators.base import EngineApi
from rescaler.actuators.compose import ComposeEngine
from rescaler.actuators.engine_http import EngineHttp
from rescaler.actuators.flink import FlinkEngine
from rescaler.actuators.kubernetes import KubernetesEngine
from rescaler.actuators.processes import ProcessesEngine
from rescaler.actuators.watched import Watched
from rescaler.service.settings import RescalerSettings
from runtime.access import Access


def engine_of(settings: RescalerSettings) -> EngineApi:
    """Return the engine; nothing is asked yet. Of the actuators ``processes`` and ``compose``, workers are tended
    from now on.

    Raises:
        SettingsError: a certificate or a file cannot be used.
    """
    match settings.actuator_kind:
        case "none":
            return Watched(settings.engine)
        case "processes":
            return ProcessesEngine(Tender.of(settings), settings.cluster).start()
        case "compose":
            chains = read_chains(Path(settings.groups_file))
            check_scaled_whole(chains, "compose")
            tender = ComposeTender(
                ComposeClient(settings.compose_url, timeout_s=settings.engine_timeout_ms / 1_000), chains, settings.workers_max
            )
            return ComposeEngine(tender, settings.cluster).start()
        case "kubernetes":
            chains = read_chains(Path(settings.groups_file))
            check_scaled_whole(chains, "kubernetes")
            return KubernetesEngine(client_of(settings, timeout_s=settings.engine_timeout_ms / 1_000), chains, settings.cluster)
        case "flink":
            client = FlinkClient(settings.engine_url, Access.of(settings), timeout_s=settings.engine_timeout_ms / 1_000)
            return FlinkEngine(client, settings.cluster)
        case _:
            return EngineHttp(settings.engine_url, settings.engine_timeout_ms)
