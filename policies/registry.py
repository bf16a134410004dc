"""Finds policies by name. A model that cannot be loaded becomes a policy whose every answer is the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.foreign_files import in_time
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.plurals import counted
from surescale.contracts.suggestions import meant
from surescale.policies.answer import Answer, PolicyFailed
from surescale.policies.onnx_sessions import Opener
from surescale.policies.package import PackageRejected
from surescale.policies.paper.card import is_paper_package, read_paper_package
from surescale.policies.paper.policy import load_paper_policy
from surescale.policies.policy import SPAN_MINUTES, Policy
from surescale.policies.question import Question
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.sure.package import read_package
from surescale.policies.sure.policy import load_sure_policy

_RULES = {point.name: point for point in sorted(entry_points(group="surescale.rules"))}
RULES = tuple(_RULES)
FORECAST = "forecast"
FORECAST_PACKAGE = "sure"  # the rule ``forecast`` uses the base of this package
SHIPPED = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A model that could not be loaded: ``decide`` lets the rule take over and keeps the reason in every decision."""

    name: str
    reason: str
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def answer(self, question: Question) -> Answer:
        """Return why the model could not be loaded."""
        return PolicyFailed(self.reason)


def load_policy(name: str, folder: str = "", *, span_minutes: int = SPAN_MINUTES, opener: Opener | None = None) -> Policy:
    """Return the rule of that name, or the model package ``folder/name`` (empty folder: the packages that ship with surescale).

    ``forecast`` is the rule that comes with the package ``sure``. Rules decide every ``span_minutes``; a package states its own
    span, the one it was trained with. ``opener``: of its graphs, as in `open_graphs`.

    Never raises for a missing, corrupt or foreign package: it returns a policy whose every answer is that reason.
    """
    if name in _RULES:
        try:
            rule: Policy = _RULES[name].load()(span_minutes=span_minutes)
        except Exception as error:  # it may be anybody's
            return Unavailable(name, f"the rule {_RULES[name].value} cannot be loaded: {error}", span_minutes=span_minutes)
        return rule
    root = Path(folder) if folder else SHIPPED
    if not _is_name(name):
        return Unavailable(name, f"{name!r} is not the name of a policy", span_minutes=span_minutes)
    try:
        if name == FORECAST:
            return ForecastRule(read_package(root / FORECAST_PACKAGE).card.base, span_minutes=span_minutes)
        if is_paper_package(root / name):
            return load_paper_policy(read_paper_package(root / name), opener)
        return load_sure_policy(read_package(root / name))
    except PackageRejected as rejected:
        return Unavailable(name, str(rejected), span_minutes=span_minutes)


def has_graphs(name: str, folder: str = "") -> bool:
    """Return whether a name loads a package with graphs to run, which needs onnxruntime."""
    return name not in (*RULES, FORECAST) and _is_name(name) and is_paper_package((Path(folder) if folder else SHIPPED) / name)


def package_sha256(name: str, folder: str = "") -> str:
    """Return the hash of the package ``folder/name``. Its graphs are neither opened nor run.

    Raises:
        PackageRejected: a file is missing or has another checksum, or the card does not fit this version.
    """
    if not _is_name(name):
        raise PackageRejected(f"{name!r} is not the name of a policy")
    root = (Path(folder) if folder else SHIPPED) / name
    return read_paper_package(root).sha256 if is_paper_package(root) else read_package(root).sha256


def check_policy(name: str, known: Sequence[str]) -> None:
    """Refuse a name that a command was given for ``--policy`` and that is not known.

    Raises:
        SettingsError: names the nearest one, or all.
    """
    if name not in known:
        raise SettingsError(f"--policy: there is no policy {name!r}; {meant(name, known)}")


def _is_name(name: str) -> bool:
    """Return whether a package can have this name.

    It must not leave the folder, break the file system's call, or be that of an act of the rescaler's own.
    """
    return bool(name) and "/" not in name and not name.startswith(".") and name.isprintable() and name not in set(OwnAct)


def unknown_policy(name: str, folder: str) -> str | None:
    """Return in words that no policy has a name, with what was meant; None: one has. A package may still arrive in the folder."""
    try:
        known = policy_names(folder)
    except SettingsError as error:
        return str(error)
    if name in known:
        return None
    if folder and not Path(folder).is_dir():
        return f"SURESCALE_POLICY_FOLDER: {folder} is no folder, so a rule answers in place of {name!r}"
    return f"SURESCALE_POLICY: there is no policy {name!r}, so a rule decides instead; {meant(name, known)}"


def other_span(name: str, folder: str, span_minutes: int) -> str | None:
    """Return in words that a package decides as often as its card says, not as the setting does; None: nothing is overruled."""
    if span_minutes == SPAN_MINUTES or name in (*RULES, FORECAST) or not _is_name(name):
        return None
    root = (Path(folder) if folder else SHIPPED) / name
    try:
        own = (read_paper_package(root) if is_paper_package(root) else read_package(root)).card.span_minutes
    except PackageRejected:
        return None  # a rule answers in its place, and something else says so
    if own == span_minutes:
        return None
    often = f"{name} decides every {counted(own, 'minute')}, as its package says"
    return f"SURESCALE_SPAN_MINUTES: {span_minutes} is for rules; {often}"


def policy_names(folder: str = "") -> tuple[str, ...]:
    """Return the names that ``load_policy`` knows: the rules, then the packages of the folder, sorted.

    A package with the name of a rule is not listed: the name loads the rule.

    Raises:
        SettingsError: the folder cannot be looked at.
    """
    root = Path(folder) if folder else SHIPPED
    try:
        found = in_time(lambda: {card.parent.name for card in root.glob("*/card.json")} if root.is_dir() else set(), root)
    except OSError as error:
        raise SettingsError(
            f"SURESCALE_POLICY_FOLDER: {root} cannot be looked at ({reason_of(error)}); set a folder that can be read"
        ) from None
    packages = sorted(name for name in found - {*RULES, FORECAST} if _is_name(name))
    return (*RULES, *([FORECAST] if FORECAST_PACKAGE in packages else []), *packages)
