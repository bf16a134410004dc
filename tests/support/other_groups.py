"""Real members of groups that are no consumer groups: Kafka Streams applications (KIP-1071) and share consumers (KIP-932)."""

from pathlib import Path
from typing import Literal

from surescale.services.local_stack.artifacts import KAFKA_BROKER, fetch, locked_set
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.java import find_compiler, find_java

SOURCE = Path(__file__).parent / "java" / "GroupMembers.java"


def member(kind: Literal["streams", "share"], bootstrap: str, group: str, topic: str, folder: Path) -> ChildProcess:
    """Start a member of a group that reads a topic; ``folder``, a new one, has its log, ``member.log``.

    Raises:
        JavaError: there is no Java here, or none that compiles.
    """
    java = find_java()
    find_compiler(java)  # which runs it from its source
    folder.mkdir()
    jars = ":".join(map(str, [*fetch(KAFKA_BROKER), *fetch(locked_set("kafka-streams-4.2.1"))]))
    small = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}"]
    command = [str(java.executable), *small, "-cp", jars, str(SOURCE), kind, bootstrap, group, topic, str(folder)]
    return ChildProcess(command, log_path=folder / "member.log")
