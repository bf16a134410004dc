"""What images cut off their shared libraries, and leave out of their packages."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import pytest

from compose.strip import main, strip


def libraries(package: str) -> list[Path]:
    """Return the shared libraries of an installed package."""
    return [Path(str(each.locate())) for each in files(package) or [] if ".so" in each.name]


@pytest.mark.parametrize("package", ["zstandard", "numpy", "confluent-kafka", "aiohttp", "grpcio", "onnxruntime"])
def test_a_stripped_library_still_loads(package: str, tmp_path: Path) -> None:
    """Those of wheels that auditwheel has repaired, which the program `strip` breaks, too."""
    found = [Path(shutil.copy(each, tmp_path)) for each in libraries(package)]
    before = sum(each.stat().st_size for each in found)
    main(str(tmp_path))
    assert sum(each.stat().st_size for each in found) < before
    assert [strip(each) for each in found] == [0] * len(found)
    load = "import ctypes, os, sys\nfor each in sys.argv[1:]:\n    ctypes.CDLL(each, os.RTLD_LAZY)"
    subprocess.run([sys.executable, "-c", load, *map(str, found)], check=True, env={"LD_LIBRARY_PATH": str(tmp_path)})


def test_what_is_no_library_stays(tmp_path: Path) -> None:
    """An empty file, a text, a header that ends too soon, and a library of 32 bits."""
    for at, held in enumerate([b"", b"text" * 100, b"\x7fELF\x02\x01", b"\x7fELF\x01\x01" + bytes(200)]):
        path = tmp_path / f"{at}.so"
        path.write_bytes(held)
        assert strip(path) == 0
        assert path.read_bytes() == held


def test_nothing_loads_what_images_leave_out() -> None:
    """Not even ``from PACKAGE import *``, as scipy loads numpy."""
    script = (Path(__file__).parents[3] / "compose/install.sh").read_text()
    modules = re.findall(r"-path '\*/([a-z_]+(?:/[a-z_0-9]+)+)(?:\.py|\.\*\.so)?'", script)
    left_out = [path.replace("/", ".") for path in modules]
    assert {"numpy.distutils", "numpy._core._simd", "zstandard.backend_cffi", "google.rpc"} <= set(left_out)
    load = f"import sys\nfor each in {left_out}:\n    sys.modules[each] = None\n"
    load += "from numpy import *\nfrom confluent_kafka import *\n"
    load += "import confluent_kafka.admin, onnxruntime, rich.progress, scipy.optimize, zstandard\n"
    load += "import opentelemetry.exporter.otlp.proto.http.trace_exporter, surescale.services.agent.worker"
    subprocess.run([sys.executable, "-c", load], check=True)
