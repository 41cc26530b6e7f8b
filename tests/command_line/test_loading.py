"""A command loads what it needs: scripts call `groups` and `explain` again and again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = ("schemas", "coordinator_state", "streaming", "group_coordinator", "simulation")
_CALLED = """
import sys
from group_coordinator.command_line.main import main
sys.argv = ["group-coordinator", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, sep="\\n")
"""


def loaded(*arguments: str) -> set[str]:
    """Return the modules that this call has loaded."""
    done = subprocess.run([sys.executable, "-c", _CALLED, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_alone_loads_no_command(option: str) -> None:
    modules = loaded(option)
    own = {module for module in modules if module.partition(".")[0] in OWN}
    assert own == {
        "group_coordinator",
        "group_coordinator.command_line",
        "group_coordinator.command_line.later",
        "group_coordinator.command_line.main",
        "group_coordinator.command_line.signals",
        "group_coordinator.ground",
        "group_coordinator.ground.system",
        "group_coordinator.ground.system.ended_threads",
    }
    assert not modules & {"confluent_kafka", "pyarrow", "numpy", "msgspec"}


def test_a_command_in_a_zip_file_has_its_help(tmp_path: Path) -> None:
    """As `spark-submit --py-files` has it."""
    archive = shutil.make_archive(str(tmp_path / "all"), "zip", ROOT, "group_coordinator")
    environment = {**os.environ, "PYTHONPATH": archive}
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", _CALLED, option], capture_output=True, text=True, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    assert "all.zip" in subprocess.run(
        [sys.executable, "-c", "import group_coordinator; print(group_coordinator.__file__)"],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=True,
    ).stdout  # fmt: skip


WATCHING_LINES_MAX, EXPLAIN_LINES_MAX = 29_597, 18_455
"""Own lines that `watch` and `explain` load with all that they import later."""


@pytest.mark.parametrize("command", ["explain", "watch", "export offsets-topic", "groups"])
def test_a_command_that_reads_loads_neither_the_coordinator_nor_spark(command: str) -> None:
    tops = {module.partition(".")[0] for module in loaded(*command.split(), "--help")}
    assert not tops & {"coordinator_state", "streaming", "pyspark", "pandas"}


@pytest.mark.parametrize(("command", "lines_max"), [("watch", WATCHING_LINES_MAX), ("explain", EXPLAIN_LINES_MAX)])
def test_watching_loads_nothing_of_coordinating(command: str, lines_max: int) -> None:
    program = """
import importlib, pkgutil, sys
importlib.import_module(f"group_coordinator.watching.commands.{sys.argv[1]}")
import group_coordinator.watching.watch
later = [each.name for each in pkgutil.iter_modules(group_coordinator.watching.watch.__path__)]
for name in later if sys.argv[1] == "watch" else ["offsets_topic"]:
    importlib.import_module(f"group_coordinator.watching.watch.{name}")
own = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in sys.argv[2:]}
print(sum(sum(1 for _ in open(module.__file__)) for module in own.values() if module.__file__))
print(*own)
"""
    done = subprocess.run([sys.executable, "-c", program, command, *OWN], capture_output=True, text=True, check=True)
    lines, modules = done.stdout.splitlines()
    assert not {module.partition(".")[0] for module in modules.split()} & {"coordinator_state", "streaming"}
    assert int(lines) <= lines_max
