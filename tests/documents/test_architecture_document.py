"""docs/architecture.md: its table of packages names what each imports, its table of states is that of the code."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from coordinator_state.consumer.group import EMPTY, STABLE
from schemas.group_states import ASSIGNING, RECONCILING

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text()
TOPS = ("schemas", "coordinator_state", "streaming", "simulation")
COMMAND = ROOT / "group_coordinator"
HOUSES = ("ground", "watching", "coordinating", "proving")


def rows_of(text: str) -> dict[str, set[str]]:
    """Return the packages of a table, and what each is stated to import."""
    rows = re.findall(r"^\| `([./\w]+)` \| .* \| ([^|]*) ?\|$", text, re.MULTILINE)
    return {name.removeprefix(".../").rstrip("/"): set(re.findall(r"`(\w+)`", imports)) for name, imports in rows}


def imported(path: Path) -> set[str]:
    """Return the modules that a file or all files of a folder import, as far as they are of this project."""
    modules: set[str] = set()
    for file in [path] if path.is_file() else path.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                modules.update(alias.name for alias in node.names)
    return {name for name in modules if name.split(".")[0] in (*TOPS, COMMAND.name)}


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == COMMAND.name else parts[0]


def test_the_table_of_packages() -> None:
    folders = [ROOT / top for top in TOPS] + [path.parent for path in COMMAND.glob("*/__init__.py")]
    paths = [*folders, *(path for path in COMMAND.glob("*.py") if path.stem != "__init__")]
    actual = {path.name: {package_of(name) for name in imported(path)} - {path.stem} for path in paths}
    assert rows_of(TEXT.split("## The packages")[1].split("\n## ")[0]) == actual


@pytest.mark.parametrize("house", HOUSES)
def test_the_table_of_a_house(house: str) -> None:
    """It names the rooms that each room imports in its own house, and the core and the Spark job."""
    actual = {}
    for path in (COMMAND / house).iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            own = [name.split(".") for name in imported(path)]
            rooms = {parts[2] for parts in own if parts[:2] == [COMMAND.name, house]}
            tops = {parts[0] for parts in own} & {"coordinator_state", "streaming"}
            actual[path.name] = (rooms | tops) - {path.stem}
    del actual["__init__.py"]
    assert rows_of((COMMAND / house / "README.md").read_text()) == actual


def test_imports_go_round_nowhere() -> None:
    """Also those that are for types alone."""
    files = [path for top in (*TOPS, COMMAND.name) for path in (ROOT / top).rglob("*.py")]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    graph = {}
    for name, path in names.items():
        found = {full if full in names else full.rpartition(".")[0] for full in imported(path)}
        graph[name] = (found & names.keys()) - {name}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_table_of_the_states_of_a_consumer_group() -> None:
    table = TEXT.split("A consumer group has no transitions")[1].split("\n\n")[1]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [EMPTY, ASSIGNING, RECONCILING, STABLE]
