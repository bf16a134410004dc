"""Settings of the agent."""

from dataclasses import dataclass

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.graph_limits import MEMORY_MB, SECONDS


@dataclass(frozen=True, slots=True)
class AgentSettings(PipelineSettings):
    """What the agent reads besides the shared settings."""

    agent_session_ms: int = 6_000
    """How long an agent may be silent before Kafka gives its partitions to another one."""
    policy_seconds: float = SECONDS
    """Time for one run of a package's graphs; then they are stopped and the rule decides. 0: they run in the agent, unlimited."""
    policy_memory_mb: int = MEMORY_MB
    """Memory for a package's graphs, besides what the runtime takes."""
    shadow_seconds: float = 10.0
    """Time for one answer of a shadow policy; then its process is stopped. 0: no policy runs in shadow."""
    policy_pinned: bool = False
    """Use packages of the policy folder only if a release names their hash; true also refuses one named by settings."""

    def __post_init__(self) -> None:
        """Check what the type does not say."""
        PipelineSettings.__post_init__(self)
        if not 0 <= self.policy_seconds <= 600:
            raise SettingsError(f"SURESCALE_POLICY_SECONDS: must be between 0 and 600, not {self.policy_seconds}")
        if not 0 <= self.shadow_seconds <= 600:
            raise SettingsError(f"SURESCALE_SHADOW_SECONDS: must be between 0 and 600, not {self.shadow_seconds}")
        self.check_least(policy_memory_mb=64)
