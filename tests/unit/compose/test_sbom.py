"""The bills of materials: everything that a lock makes an image install, nothing else, and the same bytes each time."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from compose.sbom import LOCKS, bill, main, roles
from surescale.services.local_stack.artifacts import SPARK_KAFKA


def locked(role: str) -> dict[str, str]:
    """Return the marker, if it has one, of each name==version in a lock."""
    lines = [line.rstrip("\\ ") for line in (LOCKS / f"{role}.txt").read_text().splitlines() if re.match(r"[A-Za-z]", line)]
    return {requirement.strip(): marker for requirement, _, marker in (line.partition(";") for line in lines)}


def test_there_is_one_for_each_image() -> None:
    """What only builds images has none."""
    assert roles() == ["agent", "engine", "monitor", "rescaler", "spark", "state-service"]


@pytest.mark.parametrize("role", roles())
def test_it_has_every_package_of_the_lock_with_its_licence(role: str) -> None:
    """What a marker keeps out of the image is not in it: other platforms, other versions of Python."""
    components = [each for each in bill(role)["components"] if each["purl"].startswith("pkg:pypi/")]
    found, known = {f"{each['name']}=={each['version']}" for each in components}, locked(role)
    assert {each for each, marker in known.items() if not marker} <= found <= known.keys()
    assert not [each for each in found if re.search("win32|darwin|python_full_version < '3.11", known[each])]
    assert len({each["name"] for each in components}) == len(components)
    assert [each["name"] for each in components if not each["licenses"][0]["license"]["name"].strip()] == []


@pytest.mark.parametrize("role", roles())
def test_names_are_unique_and_sorted(role: str) -> None:
    """References within a document name one component each."""
    found = [each["bom-ref"] for each in bill(role)["components"]]
    assert found == sorted(set(found))


def test_jars_and_packages_of_the_page_are_in_it_with_their_hashes() -> None:
    """Where they are installed, and nowhere else."""
    spark = {each["purl"]: each for each in bill("spark")["components"]}
    for jar in SPARK_KAFKA.jars:
        at = jar.coordinates
        component = spark[f"pkg:maven/{at.organisation}/{at.name}@{at.version}"]
        assert component["hashes"] == [{"alg": "SHA-256", "content": jar.sha256}]
    assert importlib.util.find_spec("pyspark") is not None
    inside = [each for purl, each in spark.items() if purl.startswith("pkg:generic/spark-core_2.13@")]
    assert [len(each["hashes"][0]["content"]) for each in inside] == [64]
    page = {each["purl"]: each for each in bill("state-service")["components"] if each["purl"].startswith("pkg:npm/")}
    assert {purl.partition("@")[0] for purl in page} >= {"pkg:npm/preact", "pkg:npm/uplot"}
    assert not [purl for purl in page if "esbuild" in purl or "typescript" in purl]
    assert {len(each["hashes"][0]["content"]) for each in page.values()} == {128}


def test_the_same_locks_make_the_same_bytes(tmp_path: Path) -> None:
    """So that a changed bill means a changed image; two images have different numbers."""
    for name in ("first", "second"):
        main(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert len(files) == len(roles())
    assert all((tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes() for name in files)
    numbers = {json.loads((tmp_path / "first" / name).read_text())["serialNumber"] for name in files}
    assert len(numbers) == len(files)
