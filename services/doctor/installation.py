"""Checks of this installation: its packages, Java, the policy. An image holds what its one role needs, and is judged by that."""

import os
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version

from contracts.settings import PipelineSettings
from policies.package import PackageRejected
from policies.registry import Unavailable, is_rule, load_policy, package_sha256
from services.doctor.findings import Finding
from services.local_stack.errors import JavaError
from services.local_stack.java import find_java

_PACKAGES = ("confluent-kafka", "faust-streaming", "pyspark", "redis", "onnxruntime")
_ROLE_OF_THE_IMAGE = "SURESCALE_ROLE"
_ASK_THE_ENGINE = ("monitor", "rescaler")
_INSTALL = "commands that need it name it; pip install 'surescale[all]' brings everything"
_CHOOSE = "a rule answers in its place; set SURESCALE_POLICY or SURESCALE_POLICY_FOLDER, or see `surescale policy verify`"


def role_of_the_image() -> str:
    """Return the role whose image this runs in; empty: in none."""
    return os.environ.get(_ROLE_OF_THE_IMAGE, "")


def programs() -> Iterator[Finding]:
    """Check Python's packages, and Java, which the Spark job and the demo need."""
    role = role_of_the_image()
    found = {name: _installed(name) for name in _PACKAGES}
    detail = f"{version('surescale')} on Python {platform.python_version()}"
    shown = "; ".join((detail, ", ".join(f"{name} {found[name]}" for name in _PACKAGES if found[name])))
    missing = ", ".join(name for name in _PACKAGES if not found[name])
    if role:
        yield Finding("ok", "surescale", f"{shown}; image of the {role}")
    elif missing:
        yield Finding("warning", "surescale", f"{shown}; not installed: {missing}", _INSTALL)
    else:
        yield Finding("ok", "surescale", shown)
    if role in ("", "spark"):
        yield _java()


def policy(settings: PipelineSettings) -> Iterator[Finding]:
    """Check that the policy of jobs without one can be loaded; where nothing can run its graphs, that its files are whole."""
    if not is_rule(settings.policy) and not _installed("onnxruntime"):
        yield _files_of(settings)
        return
    found = load_policy(settings.policy, settings.policy_folder)
    if isinstance(found, Unavailable):
        yield Finding("problem", "policy", f"{settings.policy} cannot be used: {found.reason}", _CHOOSE)
        return
    yield Finding("ok", "policy", f"{found.name}{f', sha256 {found.sha256[:12]}' if found.sha256 else ''}")


def seen_from_here(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass on what was found of the engine; in the image of a role that never asks it, what is wrong is only a warning."""
    role = role_of_the_image()
    for finding in findings:
        if finding.verdict != "problem" or role in ("", *_ASK_THE_ENGINE):
            yield finding
        else:
            where = f"monitor and rescaler have to reach it, not the {role}, from which this was tried"
            yield Finding("warning", finding.subject, finding.detail, f"{where}; see their logs, or {finding.remedy}")


def _files_of(settings: PipelineSettings) -> Finding:
    try:
        sha256 = package_sha256(settings.policy, settings.policy_folder)
    except PackageRejected as rejected:
        return Finding("problem", "policy", f"{settings.policy} cannot be used: {rejected}", _CHOOSE)
    detail = f"{settings.policy}, sha256 {sha256[:12]}; its graphs were not tried, since onnxruntime is not installed"
    if role_of_the_image():
        return Finding("ok", "policy", f"{detail} here")
    return Finding("warning", "policy", detail, _INSTALL)


def _java() -> Finding:
    try:
        java = find_java()
    except JavaError as error:
        return Finding("warning", "java", str(error), "only the Spark job and `surescale demo` need Java")
    return Finding("ok", "java", f"{java.major} at {java.home}")


def _installed(name: str) -> str:
    """Return the version of a package; empty: it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
