"""Which API server, and what proves who we are: the settings, or what every pod finds in itself."""

import os
from collections.abc import Mapping
from pathlib import Path

from contracts.errors import SettingsError
from contracts.settings import PipelineSettings
from engines.kubernetes.client import ANSWER_TIMEOUT_S, KubernetesClient
from runtime.access import Access

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its account and the authorities of the API server."""
_SETTINGS = "SURESCALE_KUBERNETES"


def client_of(
    settings: PipelineSettings,
    *,
    timeout_s: float = ANSWER_TIMEOUT_S,
    environment: Mapping[str, str] = os.environ,
    in_pod: Path = IN_POD,
) -> KubernetesClient:
    """Return the client that a role's settings name; nothing is asked yet.

    Args:
        settings: of the role.
        timeout_s: how long a whole answer may take.
        environment: in which a pod finds the address.
        in_pod: folder in which it finds the rest.

    Raises:
        SettingsError: no address is set and this is no pod, or the authorities' file cannot be used.
    """
    token_file, ca_file = settings.kubernetes_token_file, settings.kubernetes_ca_file
    url = settings.kubernetes_url
    if not url:
        url = _url_in_pod(environment)
        token_file, ca_file = token_file or str(in_pod / "token"), ca_file or str(in_pod / "ca.crt")
    return KubernetesClient(url, Access(token_file=token_file, ca_file=ca_file, settings=_SETTINGS), timeout_s=timeout_s)


def _url_in_pod(environment: Mapping[str, str]) -> str:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise SettingsError(
            "SURESCALE_KUBERNETES_URL: not set, and this is not a pod of a cluster; "
            "set the address of the API server, or http://127.0.0.1:8001 with `kubectl proxy`"
        )
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"
