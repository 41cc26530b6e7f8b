"""The wheel alone, in an empty environment: what a newcomer installs is small, and watches a cluster."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.command_line.processes import wait_for
from tests.waiting import wait_until
from tests.watching.watch.live import consumer, with_topic

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "coordinator_state", "streaming", "group_coordinator")
ABSENT = {"pyspark", "pandas", "numpy", "pyarrow", "mcp"}
INSTALLED_MAX_BYTES = 90 * 1024 * 1024


def pip(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def require_registry(directory: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "wheel"]
    if subprocess.run([*command, "--dest", directory], capture_output=True).returncode != 0:
        pytest.skip("packages cannot be downloaded here")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel and what it depends on."""
    directory = tmp_path_factory.mktemp("wheel")
    require_registry(directory)
    source = directory / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-deps", "--wheel-dir", directory / "dist", source)
    (wheel,) = (directory / "dist").glob("group_coordinator-*.whl")
    made = directory / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    pip("--python", made, "install", "--no-compile", wheel)
    return made


def test_what_is_installed(environment: Path) -> None:
    listed = pip("--python", environment, "list", "--format", "freeze")
    names = {line.partition("==")[0].lower() for line in listed.splitlines()}
    assert "group-coordinator" in names
    assert not names & ABSENT
    packages = next(environment.glob("lib/python*/site-packages"))
    ours = {path.name for path in packages.glob("*/") if not path.name.endswith(".dist-info")}
    assert set(PACKAGES) <= ours
    assert sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) < INSTALLED_MAX_BYTES


def test_its_metadata(environment: Path) -> None:
    (metadata,) = environment.glob("lib/python*/site-packages/group_coordinator-*.dist-info/METADATA")
    text = metadata.read_text()
    for line in ("License-Expression: Apache-2.0", "Description-Content-Type: text/markdown"):
        assert line in text
    assert set(re.findall(r"^Provides-Extra: (\w+)$", text, re.MULTILINE)) >= {"spark", "tables", "mcp", "msk"}


def asked(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.kafka
def test_the_page_of_a_cluster(
    environment: Path, kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path
) -> None:
    """From nothing to the page in two commands: the installation above, and this one."""
    with_topic(kafka, admin, f"{topic_prefix}-topic")
    member = consumer(kafka, f"{topic_prefix}-group")
    member.subscribe([f"{topic_prefix}-topic"])
    wait_until(lambda: member.poll(0.1) is not None)
    command = [str(environment / "bin/group-coordinator"), "watch", "--bootstrap-servers", kafka.bootstrap_servers]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen([*command, "--port", "0"], stdout=out, stderr=err, text=True, cwd=tmp_path)
        try:
            text = wait_for(process, tmp_path, "Ctrl-C")
            address = text.partition("The dashboard: ")[2].split()[0]
            wait_until(lambda: f"{topic_prefix}-group" in asked(f"{address}api/v1/groups"))
        finally:
            process.terminate()
            process.wait()
    member.close()
