"""The variables that roles read: what Compose files and manifests may set."""

from surescale.contracts.topics import TopicSettings
from surescale.monitor.settings import MonitorSettings
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.logs import LogSettings
from surescale.services.agent.settings import AgentSettings
from surescale.services.engine.settings import EngineSettings
from surescale.services.state.settings import StateSettings
from surescale.spark_streaming.settings import SparkSettings

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
