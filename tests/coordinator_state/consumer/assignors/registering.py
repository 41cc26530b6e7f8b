"""Server-side assignors under entry points of an installed package, as tests need them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from coordinator_state.consumer import assignors
from coordinator_state.consumer.assignors import ENTRY_POINT_GROUP, load_server_assignors
from schemas import entry_points

Register = Callable[..., None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Registers objects under entry points of an installed module `their_package`."""
    module = ModuleType("their_package")
    monkeypatch.setitem(sys.modules, "their_package", module)
    registered: dict[str, EntryPoint] = {}

    def find(*, group: str) -> EntryPoints:
        return EntryPoints(registered.values()).select(group=group)

    monkeypatch.setattr(entry_points, "entry_points", find)
    monkeypatch.setattr(assignors, "_registered", load_server_assignors)

    def add(name: str, thing: Any, *, package: str = "", version: str = "") -> None:
        setattr(module, name, thing)
        entry_point = EntryPoint(name=name, value=f"their_package:{name}", group=ENTRY_POINT_GROUP)
        vars(entry_point)["dist"] = SimpleNamespace(name=package, version=version) if package else None
        registered[name] = entry_point

    return add
