"""Cuts off what no program loads of the shared libraries below a folder: symbols and debug information.

Unlike `strip` it moves nothing, so it is safe for libraries that `auditwheel` has repaired, and no compiler is needed.
"""

import struct
import sys
from pathlib import Path

_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_HEADER_BYTES = 64
_SEGMENT_TABLE, _SECTION_TABLE = 32, 40  # where the header says at which byte they begin
_SEGMENT_BYTES, _SECTIONS = 54, 60  # where it says how large one is, and how many sections there are


def strip(library: Path) -> int:
    """Cut a library behind its last segment, and return by how many bytes; what is no library stays as it is."""
    with library.open("r+b") as file:
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or not header.startswith(_ELF_64_LITTLE):
            return 0
        (table,) = struct.unpack_from("<Q", header, _SEGMENT_TABLE)
        size, count = struct.unpack_from("<2H", header, _SEGMENT_BYTES)
        file.seek(table)
        segments = [struct.unpack_from("<8xQ16xQ", file.read(size)) for _ in range(count)]
        end: int = max(_HEADER_BYTES, table + size * count, *(offset + length for offset, length in segments))
        spare = file.seek(0, 2) - end
        if spare <= 0:
            return 0
        file.truncate(end)
        # The header no longer says that there are sections.
        file.seek(_SECTION_TABLE)
        file.write(bytes(8))
        file.seek(_SECTIONS)
        file.write(bytes(4))
        return spare


def main(folder: str) -> None:
    """Strip all libraries below a folder."""
    for path in Path(folder).rglob("*.so*"):
        if path.is_file() and not path.is_symlink():
            strip(path)


if __name__ == "__main__":
    main(sys.argv[1])
