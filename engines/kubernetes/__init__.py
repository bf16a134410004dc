"""Workloads of a Kubernetes cluster: how many pods are wanted, which run, and who else decides that.

target       what a task is scaled by: an object with a scale subresource
client       the few requests that are made, over the project's own HTTP connections, and the rights that they take
answers      the fields that are read
errors       what can come in place of an answer, in one line each
owners       who else sets the number of pods, and the checks of any object that is to be scaled
requirement  what is wanted of a whole job, with its name and its epoch
actuator     carries commands out
doctor       checks of `surescale doctor`
"""

from dataclasses import dataclass

from surescale.contracts.addresses import is_http, without_password
from surescale.contracts.capabilities import Capabilities
from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import Settings
from surescale.engines.registry import ActuatorKind


@dataclass(frozen=True, slots=True)
class KubernetesSettings(Settings):
    """Of the actuator kubernetes."""

    kubernetes_url: str = ""
    """Address of the API server; empty, in a pod: of its own cluster, with the pod's own account."""
    kubernetes_token_file: str = ""
    """File with the bearer token of an account, read for each request."""
    kubernetes_ca_file: str = ""
    """PEM file of the authorities that sign the API server's certificate; empty: the system's."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            SettingsError: an address that is none, or files that it has no use for; names the setting and the fix.
        """
        for name in ("kubernetes_token_file", "kubernetes_ca_file"):
            if getattr(self, name) and self.kubernetes_url.lower().startswith("http:"):
                raise SettingsError(
                    f"SURESCALE_{name.upper()}: SURESCALE_KUBERNETES_URL uses no TLS; set one with https, or unset the file"
                )
        if self.kubernetes_url and not is_http(self.kubernetes_url):
            raise SettingsError(
                f"SURESCALE_KUBERNETES_URL: {without_password(self.kubernetes_url)!r} is not the address of an API server; "
                "set one like https://10.0.0.1:6443, without user and password"
            )


KUBERNETES = Capabilities(
    engine="kafka",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    takes_effect="rolling",
    stabilization_ms=30_000,
    remembers="requirement",
    can_withdraw=True,
    can_rest=True,
)
"""Pods come and go one by one, as many as nodes and quotas hold; nobody says how many that are before they are asked for.

The time is ours: pods that have not moved for so long are reported as a part.
"""

WORKLOADS = ActuatorKind(
    make="surescale.engines.kubernetes.actuator:KubernetesEngine.of",
    checks="surescale.engines.kubernetes.doctor:workloads",
    requirements="surescale.engines.kubernetes.requirement:RequiredPods",
    settings=(KubernetesSettings,),
    needs=("groups_file",),
)
"""An actuator for consumer groups."""
