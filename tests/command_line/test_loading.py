"""A command loads what it needs: scripts call `groups` and `explain` again and again."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
        "group_coordinator.system",
        "group_coordinator.system.ended_threads",
    }
    assert not modules & {"confluent_kafka", "pyarrow", "numpy", "msgspec"}
