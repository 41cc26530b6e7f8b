"""Server-side assignors of other packages: found by entry point, and refused with a reason when they are not usable."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any

import pytest

from coordinator_state.consumer.assignors import (
    ENTRY_POINT_GROUP,
    SERVER_ASSIGNORS,
    RangeAssignor,
    ServerAssignorLoadError,
    load_server_assignors,
)
from coordinator_state.consumer.assignors import entry_points as module
from coordinator_state.consumer.assignors.checked import CheckedAssignor

Register = Callable[..., None]


class ByWeight(RangeAssignor):
    name = "by-weight"


class Nameless(RangeAssignor):
    name = ""


class WithoutAssign:
    name = "without-assign"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Registers objects under entry points of an installed package `their_package`."""
    package = ModuleType("their_package")
    monkeypatch.setitem(sys.modules, "their_package", package)
    registered: list[EntryPoint] = []

    def find(*, group: str) -> EntryPoints:
        return EntryPoints(registered).select(group=group)

    monkeypatch.setattr(module, "entry_points", find)

    def add(name: str, thing: Any) -> None:
        setattr(package, name, thing)
        registered.append(EntryPoint(name=name, value=f"their_package:{name}", group=ENTRY_POINT_GROUP))

    return add


def test_kafkas_own() -> None:
    assert list(SERVER_ASSIGNORS) == ["uniform", "range"]
    assert all(assignor.name == name for name, assignor in SERVER_ASSIGNORS.items())


def test_nothing_registered(register: Register) -> None:
    assert load_server_assignors() == SERVER_ASSIGNORS


def test_one_more(register: Register) -> None:
    register("anything", ByWeight())
    loaded = load_server_assignors()
    assert list(loaded) == [*SERVER_ASSIGNORS, "by-weight"]
    assert isinstance(loaded["by-weight"], CheckedAssignor)
    assert not isinstance(loaded["range"], CheckedAssignor)
    assert list(SERVER_ASSIGNORS) == ["uniform", "range"]


def test_other_groups_are_left_alone(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    other_entry = EntryPoint(name="x", value="no.such.module:X", group="console_scripts")
    monkeypatch.setattr(module, "entry_points", lambda *, group: EntryPoints([other_entry]).select(group=group))
    assert load_server_assignors() == SERVER_ASSIGNORS


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (ByWeight, "is a class; register an instance"),
        (Nameless(), "its name is ''"),
        (object(), "its name is None"),
        (WithoutAssign(), "has no method assign"),
        (RangeAssignor(), "there already is an assignor named 'range'"),
    ],
)
def test_refused_with_the_reason(register: Register, thing: object, reason: str) -> None:
    register("theirs", thing)
    with pytest.raises(ServerAssignorLoadError, match=f"theirs = their_package:theirs: {reason}"):
        load_server_assignors()


def test_two_of_one_name(register: Register) -> None:
    register("first", ByWeight())
    register("second", ByWeight())
    with pytest.raises(ServerAssignorLoadError, match=r"second = .*: there already is an assignor named 'by-weight'"):
        load_server_assignors()


def test_import_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint(name="broken", value="no_such_module_at_all:X", group=ENTRY_POINT_GROUP)
    monkeypatch.setattr(module, "entry_points", lambda *, group: EntryPoints([broken]))
    with pytest.raises(ServerAssignorLoadError, match="broken = no_such_module_at_all:X: ModuleNotFoundError"):
        load_server_assignors()
