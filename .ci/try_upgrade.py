"""Run the tests against the newest versions of what the project stands on, and print what fails: `make try-upgrade`.

A copy of the tracked files is made, with a virtual environment of its own; the project and its environment stay as they
are. In the copy PySpark, pandas, pyarrow and the two Kafka clients may be of any version, and the jars are the newest.
What does not resolve is a finding, too: without jars the tests run that need none. Arguments go to pytest.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shutil import copy2, rmtree
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "try-upgrade"
COPY, ENVIRONMENT, REPORT = PLACE / "copy", PLACE / "environment", PLACE / "report.xml"
UPGRADED = ("pyspark", "pandas", "pyarrow", "kafka-python", "confluent-kafka")
JARS_TESTS = "spark or kafka or end_to_end or docker"
_NAME = re.compile(r"[\w.-]+")
_TEXT_WIDTH = 160


def main(arguments: list[str]) -> int:
    """Returns how many findings there are, 1 at the most."""
    findings: list[str] = []
    copy_files()
    findings += install()
    findings += resolve_jars()
    marks = [] if not any(finding.startswith("jars:") for finding in findings) else ["-m", f"not ({JARS_TESTS})"]
    findings += run_tests([*marks, *arguments])
    print(f"\n{len(findings)} findings", *findings, sep="\n  ")
    return min(1, len(findings))


def copy_files() -> None:
    """The files that git knows, as they are in the working tree."""
    rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, COPY / name)


def install() -> list[str]:
    """Make the environment, with the newest versions that go together. What is not the newest of all is a finding."""
    rmtree(ENVIRONMENT, ignore_errors=True)
    require(run([sys.executable, "-m", "venv", str(ENVIRONMENT)]), "no virtual environment can be made")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["spark"], *extras["dev"]]
    freed = [name if (name := _NAME.match(line)[0]) in UPGRADED else line for line in wanted]  # type: ignore[index]
    require(run(pip("install", "--quiet", "--upgrade", "pip", "setuptools", "wheel")), "pip cannot be upgraded")
    require(run(pip("install", "--quiet", *freed)), "the newest versions do not go together; pip said why")
    require(run(pip("install", "--quiet", "--no-deps", "--editable", str(COPY))), "the project cannot be installed")
    print("installed:", ", ".join(f"{name} {version_of(name)}" for name in UPGRADED))
    outdated = json.loads(output(pip("list", "--outdated", "--format", "json")))
    return [
        f"install: {package['name']} {package['version']} goes with the others, "
        f"but there is {package['latest_version']}"
        for package in outdated
        if package["name"].lower() in UPGRADED
    ]


def resolve_jars() -> list[str]:
    """The newest Kafka and Delta, and the connector of the Spark that is installed."""
    spark = version_of("pyspark")
    file = COPY / "group_coordinator" / "coordinating" / "jars" / "ivy.xml"
    text = re.sub(r'(module="spark-token-provider\S+" rev=)"[^"]+"', rf'\1"{spark}"', file.read_text())
    text = re.sub(r'(name="spark-sql-kafka\S+" rev=)"[^"]+"', rf'\1"{spark}"', text)
    delta = f'name="delta-spark_{spark.rpartition(".")[0]}_2.13" rev="latest.release"'
    text = re.sub(r'name="delta-spark_[\d.]+_2.13" rev="[^"]+"', delta, text)
    file.write_text(re.sub(r'(org="org.apache.kafka" name="\S+" rev=)"[^"]+"', r'\1"latest.release"', text))
    done = run([str(python()), "-m", "group_coordinator.coordinating.jars"], stderr=subprocess.PIPE)
    if done.returncode == 0:
        return []
    return [f"jars: {(done.stderr.strip().splitlines() or ['Ivy said nothing'])[-1]}"]


def run_tests(arguments: list[str]) -> list[str]:
    """Each failed test with the first line of its reason."""
    REPORT.unlink(missing_ok=True)
    options = ["-q", "--tb=no", "--continue-on-collection-errors", "-p", "no:cacheprovider", f"--junit-xml={REPORT}"]
    done = run([str(python()), "-m", "pytest", *options, *arguments])
    if not REPORT.exists():
        return [f"tests: pytest ended with exit code {done.returncode} and no report"]
    findings = []
    for case in ElementTree.parse(REPORT).iter("testcase"):
        for kind in ("failure", "error"):
            if (found := case.find(kind)) is not None:
                reason = next(iter((found.get("message") or found.text or "").splitlines()), "")
                findings.append(f"{kind}: {case.get('classname')}::{case.get('name')}: {reason[:_TEXT_WIDTH]}")
    return findings


def run(command: list[str], stderr: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a session of its own, and end whatever it leaves behind."""
    process = subprocess.Popen(command, cwd=COPY, env=environment(), stderr=stderr, text=True, start_new_session=True)
    try:
        _, said = process.communicate()
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    continue
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, stderr=said or "")


def output(command: list[str]) -> str:
    """What a short command prints."""
    return subprocess.run(command, cwd=COPY, env=environment(), capture_output=True, text=True, check=True).stdout


def environment() -> Mapping[str, str]:
    """Ours, but for what would lead to the project's own packages and jars."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "GROUP_COORDINATOR_CACHE": str(PLACE / "cache")}


def require(done: subprocess.CompletedProcess[str], otherwise: str) -> None:
    if done.returncode != 0:
        sys.exit(f"try-upgrade: {otherwise}.")


def python() -> Path:
    return ENVIRONMENT / "bin" / "python"


def pip(*arguments: str) -> list[str]:
    return [str(python()), "-m", "pip", "--disable-pip-version-check", *arguments]


def version_of(name: str) -> str:
    return output([str(python()), "-c", f"from importlib.metadata import version; print(version({name!r}))"]).strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
