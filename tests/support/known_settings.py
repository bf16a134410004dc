"""The variables that roles read: what Compose files and manifests may set."""

from contracts.topic_settings import TopicSettings
from monitor.settings import MonitorSettings
from rescaler.service.settings import RescalerSettings
from runtime.logs import LogSettings
from services.agent.settings import AgentSettings
from services.engine.settings import EngineSettings
from services.state.settings import StateSettings
from spark_streaming.settings import SparkSettings

KINDS = (
    MonitorSettings,
    SparkSettings,
    AgentSettings,
    RescalerSettings,
    StateSettings,
    EngineSettings,
    TopicSettings,
    LogSettings,
)
SETTINGS = {f"SURESCALE_{name.upper()}" for kind in KINDS for name in kind.__dataclass_fields__}
