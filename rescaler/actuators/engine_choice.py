"""The engine that the settings name, as an actuator sees it."""

from pathlib import Path

from engines.compose.client import ComposeClient
from engines.compose.reconcile import ServiceReconciler
from engines.flink.client import FlinkClient
from engines.flink_operator.resource import check_no_vertices, read_operated_jobs
from engines.groups.chains import check_scaled_whole, read_chains
from engines.kubernetes.connect import client_of
from engines.processes.reconcile import WorkerReconciler
from rescaler.actuators.base import EngineApi
from rescaler.actuators.compose import ComposeEngine
from rescaler.actuators.engine_http import EngineHttp
from rescaler.actuators.flink import FlinkEngine
from rescaler.actuators.flink_operator import FlinkOperatorEngine
from rescaler.actuators.kubernetes import KubernetesEngine
from rescaler.actuators.processes import ProcessesEngine
from rescaler.actuators.read_only import ReadOnlyEngine
from rescaler.service.settings import RescalerSettings
from runtime.access import Access


def engine_of(settings: RescalerSettings) -> EngineApi:
    """Return the engine; nothing is asked yet, and no worker is tended before ``start`` (`rescaler.actuators.base.TendsWorkers`).

    Raises:
        SettingsError: a certificate or a file cannot be used.
    """
    match settings.actuator_kind:
        case "none":
            return ReadOnlyEngine(settings.engine)
        case "processes":
            return ProcessesEngine(WorkerReconciler.of(settings), settings.cluster)
        case "compose":
            chains = read_chains(Path(settings.groups_file))
            check_scaled_whole(chains, "compose")
            reconciler = ServiceReconciler(
                ComposeClient(settings.compose_url, timeout_s=settings.engine_timeout_ms / 1_000), chains, settings.workers_max
            )
            return ComposeEngine(reconciler, settings.cluster)
        case "kubernetes" if settings.engine == "flink":
            return _operated(settings)
        case "kubernetes":
            chains = read_chains(Path(settings.groups_file))
            check_scaled_whole(chains, "kubernetes")
            return KubernetesEngine(client_of(settings, timeout_s=settings.engine_timeout_ms / 1_000), chains, settings.cluster)
        case "flink":
            return _flink(settings)
        case _:
            return EngineHttp(settings.engine_url, settings.engine_timeout_ms)


def _flink(settings: RescalerSettings) -> FlinkEngine:
    client = FlinkClient(settings.engine_url, Access.of(settings), timeout_s=settings.engine_timeout_ms / 1_000)
    return FlinkEngine(client, settings.cluster)


def _operated(settings: RescalerSettings) -> FlinkOperatorEngine:
    """Return the jobs that the Flink operator runs; Flink itself is asked too where its REST API gives the figures."""
    jobs = read_operated_jobs(Path(settings.flink_resources_file))
    client = client_of(settings, timeout_s=settings.engine_timeout_ms / 1_000)
    if settings.source_kind != "flink":
        return FlinkOperatorEngine(client, jobs, settings.cluster)
    check_no_vertices(jobs)
    return FlinkOperatorEngine(client, jobs, settings.cluster, _flink(settings))
