"""From a policy's name to a policy. A model that cannot be loaded becomes a policy that says so at every window."""

from dataclasses import dataclass
from pathlib import Path

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.onnx_policy import load_onnx_policy
from policies.package import PackageRejected, read_package
from policies.paper.card import is_paper_package, read_paper_package
from policies.paper.policy import load_paper_policy
from policies.policy import SPAN_MINUTES, Policy
from policies.proposal import Answer, PolicyFailed
from policies.rules.drs import DRS
from policies.rules.ds2 import DS2
from policies.rules.ds2_gate import GatedDS2
from policies.rules.fixed import Hold, Static
from policies.rules.flink import FlinkAutoscaler
from policies.rules.forecast import ForecastRule
from policies.rules.hpa import HorizontalPodAutoscaler
from policies.rules.lag import Lag
from policies.rules.random import Random
from policies.rules.target_utilisation import TargetUtilisation
from policies.rules.threshold import Threshold

_RULES: tuple[Policy, ...] = (
    TargetUtilisation(),
    Static(),
    Hold(),
    DS2(),
    GatedDS2(),
    FlinkAutoscaler(),
    HorizontalPodAutoscaler(),
    Lag(),
    DRS(),
    Threshold(),
    Random(),
)
RULES = tuple(rule.name for rule in _RULES)
FORECAST = "forecast"
FORECAST_PACKAGE = "sure"  # whose base the rule ``forecast`` uses
SHIPPED = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Stands where a model could not be loaded; ``decide`` lets the rule take over and keeps the reason in every decision."""

    name: str
    reason: str
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return the failure to load."""
        return PolicyFailed(self.reason)


def load_policy(name: str, folder: str = "") -> Policy:
    """Return the rule of that name, or the model package ``folder/name`` (empty folder: the packages that ship with surescale).

    ``forecast`` is the rule under the package ``sure``.

    Never raises for a missing, corrupt or foreign package: the answer is then a policy whose every answer is that reason.
    """
    rules = {rule.name: rule for rule in _RULES}
    if name in rules:
        return rules[name]
    root = Path(folder) if folder else SHIPPED
    if not _is_name(name):
        return Unavailable(name, f"{name!r} is no name of a policy")
    try:
        if name == FORECAST:
            return ForecastRule(read_package(root / FORECAST_PACKAGE).card.base)
        if is_paper_package(root / name):
            return load_paper_policy(read_paper_package(root / name))
        return load_onnx_policy(read_package(root / name))
    except PackageRejected as rejected:
        return Unavailable(name, str(rejected))


def _is_name(name: str) -> bool:
    """Return whether a name can be that of a package: it must not leave the folder, nor break the file system's call."""
    return bool(name) and "/" not in name and not name.startswith(".") and name.isprintable()


def policy_names(folder: str = "") -> tuple[str, ...]:
    """Return the names that ``load_policy`` knows: the rules, then the packages of the folder, sorted.

    A package under the name of a rule is none of them: the rule answers to it.
    """
    root = Path(folder) if folder else SHIPPED
    found = {card.parent.name for card in root.glob("*/card.json")} if root.is_dir() else set()
    packages = sorted(name for name in found - {*RULES, FORECAST} if _is_name(name))
    return (*RULES, *([FORECAST] if FORECAST_PACKAGE in packages else []), *packages)
