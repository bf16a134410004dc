"""Who reads for a group."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from surescale.contracts.figures import known_count
from surescale.engines.kafka.positions import Partition
from surescale.runtime.printable import printable

CLIENT_ID_LETTERS_MAX = 200
"""The last ones are kept, with the number at the end; whoever connects chooses as many as the broker takes."""
_NUMBER = re.compile(r"[0-9]+")


def known_client(client_id: str) -> str:
    """Return a client id as members have it: printable, and its last letters."""
    return printable(client_id)[-CLIENT_ID_LETTERS_MAX:]


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer of a group.

    Of a Kafka Streams group (KIP-1071) it is a thread, and its partitions are those of its active tasks. A task has one partition
    of each topic that its part of the application reads. Topics with fewer partitions than another one of that part may not have
    it.
    """

    id: str
    client_id: str
    host: str
    partitions: frozenset[Partition]

    @classmethod
    def told(cls, id: str, client_id: str, host: str, partitions: Iterable[Partition]) -> Self:
        """Return one as a coordinator tells of it."""
        return cls(id, known_client(client_id), host.lstrip("/"), frozenset(partitions))

    def filled_in(self, template: str) -> str | None:
        """Return a template with ``{host}`` and ``{number}``, the last number in the client id; None without such a number."""
        number = (_NUMBER.findall(self.client_id) or [""])[-1]
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if known_count(number) is None and "{number}" in template else template.format(host=host, number=number)
