"""What is installed: four packages with their data, and nothing under a name that another package has."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.coordinating.operations.standalone_cluster import ROOT, build_wheel

PACKAGES = ("coordinator_state", "group_coordinator", "schemas", "streaming")
DATA = (
    "group_coordinator/watching/dashboard/static/index.html",
    "group_coordinator/coordinating/jars/ivy.xml",
    "schemas/json/history.schema.json",
    "schemas/py.typed",
    "streaming/log4j2.properties",
    "streaming/tuning/LocalFiles.java",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it lies in site-packages."""
    directory = tmp_path_factory.mktemp("wheel")
    try:
        wheel = build_wheel(directory)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"the wheel cannot be built here: {problem.stderr.decode()[-500:]}")
    with ZipFile(wheel) as archive:
        archive.extractall(directory / "site-packages")
    return directory / "site-packages"


def test_only_four_packages_are_installed(installed: Path) -> None:
    assert sorted(path.name for path in installed.iterdir() if path.suffix != ".dist-info") == list(PACKAGES)


def test_all_files_of_the_packages_are_installed(installed: Path) -> None:
    own_files = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.name != "README.md"
    }
    assert own_files >= set(DATA)
    assert {
        str(file.relative_to(installed))
        for package in PACKAGES
        for file in (installed / package).rglob("*")
        if file.is_file()
    } == own_files


@pytest.mark.skipif(importlib.util.find_spec("tables") is not None, reason="PyTables is installed")
def test_pandas_misses_pytables_and_finds_nothing_of_ours(installed: Path, tmp_path: Path) -> None:
    """`tables` is PyTables' name. A package of ours under it would be taken for PyTables of an unknown version."""
    (tmp_path / "file.h5").touch()
    program = f"import sys; sys.path.insert(0, {str(installed)!r}); import group_coordinator, pandas; pandas.read_hdf('file.h5')"
    result = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    last_line = result.stderr.splitlines()[-1]
    assert last_line.startswith("ImportError: ")
    assert (
        "Missing optional dependency 'pytables'" in last_line or "`Import pytables` failed" in last_line
    )  # of pandas 3
