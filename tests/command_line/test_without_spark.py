"""What is installed without extras is enough to watch a cluster, and to replay what it left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.watching.observed.recorded import CLUSTERS

_ABSENT = ("pyspark", "py4j", "pandas", "numpy", "pyarrow")
_PROGRAM = f"""
import sys
sys.modules |= dict.fromkeys({_ABSENT!r})
from group_coordinator.command_line.main import main
sys.argv[0] = "group-coordinator"
main()
"""


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command in a process that has none of these."""
    return subprocess.run([sys.executable, "-c", _PROGRAM, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("command", ["watch", "replay", "dashboard", "explain", "groups", "tap", "run"])
def test_every_command_explains_itself(command: str) -> None:
    done = call(command, "--help")
    assert done.returncode == 0, done.stderr


def test_a_dump_is_replayed(tmp_path: Path) -> None:
    dump = CLUSTERS / "connect.offsets.jsonl.gz"
    out, report, tables = tmp_path / "out", tmp_path / "report.html", tmp_path / "tables"
    done = call("replay", dump, "--out", out, "--report", report)
    assert done.returncode == 0, done.stderr
    assert report.stat().st_size > 0
    for command in (("replay", dump), ("watch", "--bootstrap-servers", "127.0.0.1:1")):
        without = call(*command, "--tables", tables)
        assert without.returncode == 1
        assert "Tables need the extra tables (pyarrow is missing): install the package pyarrow." in without.stderr
    assert call("explain", "--from", out, "--group", "letters").returncode == 0


@pytest.mark.parametrize(
    "line", ["run --embedded", "demo", "replay events.jsonl", "replay events.jsonl --in-process"]
)
def test_a_command_that_needs_spark_says_so(line: str, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").touch()
    result = call(*(tmp_path / word if word == "events.jsonl" else word for word in line.split()))
    assert result.returncode == 1
    error_text = " ".join(result.stderr.split())
    assert "This command runs the coordinator, which needs Spark: pip install '.[spark]' in a clone" in error_text
    assert "Traceback" not in error_text
