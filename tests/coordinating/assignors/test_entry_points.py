"""Assignors of other packages: found by entry point, and refused with a reason when they are not usable."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any

import pytest

from group_coordinator.coordinating.assignors import (
    ASSIGNORS,
    ENTRY_POINT_GROUP,
    AssignorLoadError,
    RangeAssignor,
    load_assignors,
)
from schemas import entry_points

Register = Callable[..., None]


class ByWeight(RangeAssignor):
    name = "by-weight"


class Nameless(RangeAssignor):
    name = ""


class WithoutProtocol(RangeAssignor):
    rebalance_protocol = "eager"  # type: ignore[assignment]


class WithoutAssign:
    name = "without-assign"
    rebalance_protocol = RangeAssignor.rebalance_protocol


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Registers objects under entry points of an installed package `their_package`."""
    package = ModuleType("their_package")
    monkeypatch.setitem(sys.modules, "their_package", package)
    registered: list[EntryPoint] = []

    def find(*, group: str) -> EntryPoints:
        return EntryPoints(registered).select(group=group)

    monkeypatch.setattr(entry_points, "entry_points", find)

    def add(name: str, thing: Any) -> None:
        setattr(package, name, thing)
        registered.append(EntryPoint(name=name, value=f"their_package:{name}", group=ENTRY_POINT_GROUP))

    return add


def test_kafkas_own() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert all(assignor.name == name for name, assignor in ASSIGNORS.items())


def test_nothing_registered(register: Register) -> None:
    assert load_assignors() == ASSIGNORS


def test_one_more(register: Register) -> None:
    register("anything", ByWeight())
    assert list(load_assignors()) == [*ASSIGNORS, "by-weight"]
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]


def test_other_groups_are_left_alone(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    other_entry = EntryPoint(name="x", value="no.such.module:X", group="console_scripts")
    monkeypatch.setattr(entry_points, "entry_points", lambda *, group: EntryPoints([other_entry]).select(group=group))
    assert load_assignors() == ASSIGNORS


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (ByWeight, "is a class; register an instance"),
        (Nameless(), "its name is ''"),
        (object(), "its name is None"),
        (WithoutProtocol(), "its rebalance_protocol is 'eager'"),
        (WithoutAssign(), "has no method assign"),
        (RangeAssignor(), "there already is an assignor named 'range'"),
    ],
)
def test_refused_with_the_reason(register: Register, thing: object, reason: str) -> None:
    register("theirs", thing)
    with pytest.raises(AssignorLoadError, match=f"theirs = their_package:theirs: {reason}"):
        load_assignors()


def test_two_of_one_name(register: Register) -> None:
    register("first", ByWeight())
    register("second", ByWeight())
    with pytest.raises(AssignorLoadError, match=r"second = .*: there already is an assignor named 'by-weight'"):
        load_assignors()


def test_import_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint(name="broken", value="no_such_module_at_all:X", group=ENTRY_POINT_GROUP)
    monkeypatch.setattr(entry_points, "entry_points", lambda *, group: EntryPoints([broken]))
    with pytest.raises(AssignorLoadError, match="broken = no_such_module_at_all:X: ModuleNotFoundError"):
        load_assignors()
