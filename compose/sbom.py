"""Writes a software bill of materials for each image, as CycloneDX 1.6 JSON: what the committed locks make an image install.

Same locks, same bytes: no time of day and no random number is in it. Licences come from the packages of this environment, which
has the versions of the locks. Not listed, because nothing locks it: what the base image brings (Debian, Python), and Java.
"""

import base64
import json
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from compose.licences import licence_of
from surescale.services.local_stack.artifacts import SPARK_KAFKA

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks" / "images"
PAGE_LOCK = ROOT / "services" / "state" / "page" / "package-lock.json"
NO_ROLES = ("build", "msk")
# What an image runs on; markers of the locks are decided by it.
IMAGE = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "python_version": "3.11",
    "python_full_version": "3.11.9",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
}
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of addresses, by RFC 9562

_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")

Component = dict[str, Any]


def roles() -> list[str]:
    """Return the images that have a lock."""
    return sorted(path.stem for path in LOCKS.glob("*.txt") if path.stem not in NO_ROLES)


def bill(role: str) -> dict[str, Any]:
    """Return the bill of materials of a role's image."""
    found = list(_python(LOCKS / f"{role}.txt"))
    if role == "spark":
        found += [*_jars(), *_jars_of_pyspark()]
    if role == "state-service":
        found += _page()
    found.sort(key=lambda component: component["bom-ref"])
    own = f"pkg:pypi/surescale@{version('surescale')}"
    subject = {
        "type": "container",
        "bom-ref": f"image:{role}",
        "name": f"surescale-{role}",
        "version": version("surescale"),
        "licenses": [{"expression": "Apache-2.0"}],
        "purl": own,
    }
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": subject},
        "components": found,
        "compositions": [{"aggregate": "incomplete_third_party_only", "assemblies": [f"image:{role}"]}],
    }
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True))}"
    return document


def _python(lock: Path) -> Iterator[Component]:
    for line in lock.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith((" ", "#")):
            continue
        requirement, _, marker = line.rstrip("\\ ").partition(";")
        if marker and not Marker(marker.strip()).evaluate(dict(IMAGE)):
            continue
        name, _, number = requirement.strip().partition("==")
        yield _component(canonicalize_name(name), number, f"pkg:pypi/{canonicalize_name(name)}@{number}", _licence(name, number))


def _licence(name: str, number: str) -> str:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return ""
    if found.version != number:
        raise SystemExit(f"{name}: the lock has {number}, this environment {found.version}; run `make install`")
    return licence_of(found)


def _jars() -> Iterator[Component]:
    for jar in SPARK_KAFKA.jars:
        at = jar.coordinates
        purl = f"pkg:maven/{at.organisation}/{at.name}@{at.version}"
        component = _component(at.name, at.version, purl, "") | {"group": at.organisation}
        yield component | {"hashes": [{"alg": "SHA-256", "content": jar.sha256}]}


def _jars_of_pyspark() -> Iterator[Component]:
    """Yield the jars inside the package pyspark, by their file names: their groups stand nowhere in it."""
    for file in distribution("pyspark").files or ():
        found = _JAR.fullmatch(file.name)
        if found is None or file.hash is None:
            continue
        name, number = found["name"], found["version"]
        digest = base64.urlsafe_b64decode(file.hash.value + "=" * (-len(file.hash.value) % 4)).hex()
        component = _component(name, number, f"pkg:generic/{quote(name)}@{quote(number)}", "")
        yield component | {"hashes": [{"alg": "SHA-256", "content": digest}]}


def _page() -> Iterator[Component]:
    """Yield what the web page is made of; what only builds it is not in the image."""
    packages: Mapping[str, Mapping[str, Any]] = json.loads(PAGE_LOCK.read_text(encoding="utf-8"))["packages"]
    for path, package in packages.items():
        name = path.rpartition("node_modules/")[2]
        if not name or package.get("dev"):
            continue
        purl = f"pkg:npm/{quote(name, safe='/')}@{package['version']}"
        algorithm, _, digest = str(package["integrity"]).partition("-")
        content = base64.b64decode(digest).hex()
        yield _component(name, package["version"], purl, str(package.get("license", ""))) | {
            "hashes": [{"alg": {"sha512": "SHA-512"}[algorithm], "content": content}]
        }


def _component(name: str, number: str, purl: str, licence: str) -> Component:
    component: Component = {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl}
    if licence:
        # A name rather than an identifier: packages write their licence in words of their own.
        component["licenses"] = [{"license": {"name": licence}}]
    return component


def main(folder: Path) -> None:
    """Write them all, and say how many components have a licence."""
    folder.mkdir(parents=True, exist_ok=True)
    for role in roles():
        made = bill(role)
        path = folder / f"{role}.cdx.json"
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        known = sum("licenses" in component for component in made["components"])
        print(f"{path}: {len(made['components'])} components, {known} with a licence")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
