"""Runs the Ivy that ships inside pyspark, so that jars can be fetched with Python and Java alone.

Every run has a private Ivy home. It neither reads nor writes ~/.m2 or ~/.ivy2, because a half-written entry there (a pom without
its jar) makes Ivy give up. For the cache see `artifacts.py`.
"""

import importlib.util
import os
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.errors import ArtifactError
from surescale.services.local_stack.java import JavaRuntime

REPOSITORY_VARIABLE = "SURESCALE_MAVEN_REPOSITORY"
_POLL_S = 0.2
_DOWNLOADED = "[SUCCESSFUL ]"
_NOT_FETCHED = re.compile(r"::\s+([\w.-]+)#([\w.-]+);([\w.-]+): |\[FAILED\s+\]\s+([\w.-]+)#([\w.-]+);([\w.-]+)!")
_REASON = re.compile(r"Server access error at url \S+ \((.*)\)|(impossible to get artifacts.*|status code \d+.*)", re.I)
_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints><timeout-constraint name="patient" connectionTimeout="15000" readTimeout="60000"/></timeout-constraints>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="maven" m2compatible="true" timeoutConstraint="patient"{root}{poms}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="surescale" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True, order=True)
class JarCoordinates:
    """Name of a jar in a Maven repository."""

    organisation: str
    name: str
    version: str

    @classmethod
    def read(cls, text: str) -> "JarCoordinates":
        """Return the coordinates that ``organisation:name:version`` means."""
        return cls(*text.split(":"))

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        """`name-version.jar`. It leaves out the organisation, as is usual on a class path."""
        return f"{self.name}-{self.version}.jar"


@dataclass(frozen=True, slots=True)
class IvyRun:
    """How one run of Ivy ended: what it could not get, and the last reason it gave."""

    exit_code: int
    missing: tuple[JarCoordinates, ...]
    reason: str


def pyspark_jars() -> Path:
    """Return the folder of pyspark's jars (without importing pyspark)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ArtifactError("pyspark is not installed, and its jars are needed: pip install 'surescale[spark]'")
    return Path(spec.submodule_search_locations[0]) / "jars"


def run_ivy(
    java: JavaRuntime,
    wanted: Iterable[JarCoordinates],
    *,
    folder: Path,
    pattern: str,
    with_dependencies: bool = False,
    on_count: Callable[[int], None] = lambda _count: None,
) -> IvyRun:
    """Fetch the wanted jars into `folder/jars`, named by an Ivy pattern; keep Ivy's own files in `folder/ivy`.

    Without dependencies it fetches no poms, which take most of the time of a cold run. `on_count` gets the number of jars fetched
    so far, a few times a second.
    """
    ivy = folder / "ivy"
    ivy.mkdir(parents=True, exist_ok=True)
    (ivy / "settings.xml").write_text(_settings(ivy, with_dependencies))
    (ivy / "module.xml").write_text(_module(wanted, with_dependencies))
    command = _command(java, ivy, folder / "jars" / pattern)
    log_path = ivy / "ivy.log"
    log_path.unlink(missing_ok=True)  # of the previous attempt
    process = ChildProcess(command, log_path=log_path)
    try:
        while not process.wait(_POLL_S):
            on_count(log_path.read_text(errors="replace").count(_DOWNLOADED))
    finally:
        if process.is_running:
            process.kill()
    output = log_path.read_text(errors="replace")
    return IvyRun(process.exit_code or 0, missing_in(output), reason_in(output))


def missing_in(output: str) -> tuple[JarCoordinates, ...]:
    """Return what Ivy's output says it could not get, each once, in order."""
    found = (JarCoordinates(*(part for part in match.groups() if part is not None)) for match in _NOT_FETCHED.finditer(output))
    return tuple(dict.fromkeys(found))


def reason_in(output: str) -> str:
    """Return the last reason Ivy's output gives for not getting something; "not found" if it names none."""
    reasons = [first or second for first, second in _REASON.findall(output)]
    return reasons[-1].strip() if reasons else "not found"


def proxy_options(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the Java options that mean what `https_proxy`, `http_proxy` and `no_proxy` mean to other programs."""
    options = []
    for scheme in ("http", "https"):
        proxy = urllib.parse.urlsplit(environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or "")
        if proxy.hostname:
            options.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            options.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [f"*{host}" if host.startswith(".") else host for host in map(str.strip, exceptions.split(",")) if host]
    if options and hosts:
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return options


def _command(java: JavaRuntime, ivy: Path, retrieve: Path) -> Sequence[str]:
    jars = sorted(pyspark_jars().glob("ivy-[0-9]*.jar"))
    if not jars:
        raise ArtifactError(f"no ivy-*.jar in {pyspark_jars()}: pyspark is damaged, install it again")
    start = [str(java.executable), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
    home = [f"-Divy.home={ivy}", f"-Duser.home={ivy}"]
    files = ["-settings", str(ivy / "settings.xml"), "-ivy", str(ivy / "module.xml")]
    jar_types = ["-types", "jar", "bundle"]
    main = ["-cp", str(jars[-1]), "org.apache.ivy.Main"]
    return [*start, *proxy_options(), *home, *main, *files, "-confs", "default", "-retrieve", str(retrieve), *jar_types]


def _settings(ivy: Path, with_dependencies: bool) -> str:
    repository = os.environ.get(REPOSITORY_VARIABLE, "")
    root = f" root={quoteattr(repository.rstrip('/') + '/')}" if repository else ""
    # Without poms, SHA-1 checks would add nothing to our own SHA-256.
    poms = "" if with_dependencies else ' usepoms="false" useMavenMetadata="false" checksums=""'
    return _SETTINGS.format(cache=quoteattr(str(ivy / "cache")), root=root, poms=poms)


def _module(wanted: Iterable[JarCoordinates], with_dependencies: bool) -> str:
    transitive = "true" if with_dependencies else "false"
    lines = (
        f"    <dependency org={quoteattr(each.organisation)} name={quoteattr(each.name)} rev={quoteattr(each.version)}"
        f' conf="default->default" transitive="{transitive}"/>'
        for each in sorted(wanted)
    )
    return _MODULE.format(dependencies="\n".join(lines))
