"""docs/architecture.md: its table of packages names what each imports, its table of states is that of the code."""

import ast
import re
from pathlib import Path

from coordinator_state.consumer.group import EMPTY, STABLE
from schemas.group_states import ASSIGNING, RECONCILING

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text()
TOPS = ("schemas", "coordinator_state", "streaming", "simulation")
ALL_ROOMS = "command_line"
"""It stands above all others and may import each of them."""


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "group_coordinator" and len(parts) > 1 else parts[0]


def imports_of(folder: Path) -> set[str]:
    """The other rooms that the modules of a folder import; all may import `group_coordinator/errors.py`."""
    modules: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module)
            elif isinstance(node, ast.Import):
                modules.update(alias.name for alias in node.names)
    own_modules = {name for name in modules if name.split(".")[0] in (*TOPS, "group_coordinator")}
    return {room_of(name) for name in own_modules} - {folder.name, "group_coordinator", "errors"}


def test_the_table_of_packages() -> None:
    rows = re.findall(r"^\| `([./\w]+)/` \| .* \| ([^|]*) ?\|$", TEXT, re.MULTILINE)
    stated = {name.removeprefix(".../"): set(re.findall(r"`(\w+)`", imports)) for name, imports in rows}
    folders = [ROOT / top for top in TOPS]
    folders += [path.parent for path in (ROOT / "group_coordinator").glob("*/__init__.py")]
    actual = {folder.name: imports_of(folder) for folder in folders}
    del stated["group_coordinator"], stated[ALL_ROOMS], actual[ALL_ROOMS]
    assert stated == actual


def test_the_table_of_the_states_of_a_consumer_group() -> None:
    table = TEXT.split("A consumer group has no transitions")[1].split("\n\n")[1]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [EMPTY, ASSIGNING, RECONCILING, STABLE]
