"""Server-side assignors of other packages: found by entry point, and refused with a reason when they are not usable."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from coordinator_state.consumer.assignors import (
    ENTRY_POINT_GROUP,
    SERVER_ASSIGNORS,
    AssignorGroup,
    RangeAssignor,
    ServerAssignorLoadError,
    load_server_assignors,
    server_assignor,
    server_assignor_problems,
    server_assignor_source,
)
from coordinator_state.consumer.assignors.contract import CheckedAssignor
from coordinator_state.consumer.member import TargetAssignment
from schemas import entry_points
from schemas.consumer_group_history import TargetAssignmentComputed
from schemas.error_codes import ErrorCode
from schemas.history import RequestRefused
from tests.coordinator_state.consumer.assignors.registering import Register
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type


class ByWeight(RangeAssignor):
    name = "by-weight"


class Forgetful(RangeAssignor):
    name = "forgetful"

    def assign(self, group: AssignorGroup) -> dict[str, TargetAssignment]:
        raise KeyError("forgotten")


class Nameless(RangeAssignor):
    name = ""


class WithoutAssign:
    name = "without-assign"


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
    monkeypatch.setattr(entry_points, "entry_points", lambda *, group: EntryPoints([other_entry]).select(group=group))
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
    monkeypatch.setattr(entry_points, "entry_points", lambda *, group: EntryPoints([broken]))
    with pytest.raises(ServerAssignorLoadError, match="broken = no_such_module_at_all:X: ModuleNotFoundError"):
        load_server_assignors()


def test_by_name(register: Register) -> None:
    register("anything", ByWeight(), package="their-package", version="1.2")
    assert server_assignor("by-weight").name == "by-weight"
    assert server_assignor("range") is SERVER_ASSIGNORS["range"]
    assert server_assignor_source("by-weight") == "their_package:anything of their-package 1.2"
    assert server_assignor_source("range") == ""


def test_a_name_that_nobody_has(register: Register) -> None:
    register("anything", ByWeight())
    for find in (server_assignor, server_assignor_source):
        with pytest.raises(ServerAssignorLoadError, match="named 'by-height'"):
            find("by-height")


def test_settings_may_name_those_that_are_installed(register: Register) -> None:
    (problem,) = server_assignor_problems(["by-weight", "range"])
    assert problem.startswith("group_consumer_assignors: there is no server assignor named 'by-weight'")
    register("anything", ByWeight())
    assert server_assignor_problems(["by-weight", "range"]) == []


def test_kafkas_own_do_not_need_the_others(register: Register) -> None:
    register("broken", object())
    assert server_assignor_problems(SERVER_ASSIGNORS) == []
    (problem,) = server_assignor_problems(["by-weight"])
    assert "broken = their_package:broken: its name is None" in problem


def test_a_group_uses_it(register: Register) -> None:
    register("anything", ByWeight())
    group = ConsumerHarness(group_consumer_assignors="uniform,by-weight")
    outputs = group.beat(
        "a", 0, subscribed_topic_names=("foo",), rebalance_timeout_ms=60_000, topic_partitions=(),
        server_assignor="by-weight",
    )  # fmt: skip
    assert of_type(outputs, TargetAssignmentComputed)[0].assignor == "by-weight"
    assignment = group.heard(outputs).assignment
    assert assignment is not None
    assert assignment.topic_partitions[0].partitions == (0, 1, 2, 3)


def test_one_that_fails_is_named_in_the_refusal(register: Register) -> None:
    register("anything", Forgetful())
    group = ConsumerHarness(group_consumer_assignors="forgetful")
    outputs = group.beat("a", 0, subscribed_topic_names=("foo",), rebalance_timeout_ms=60_000, topic_partitions=())
    assert group.heard(outputs).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "assignor 'forgetful': KeyError: 'forgotten'" in of_type(outputs, RequestRefused)[0].detail


def test_a_machine_that_lacks_it_does_not_answer(register: Register) -> None:
    """An executor without the package: it must not say something else than the others."""
    group = ConsumerHarness(group_consumer_assignors="by-weight")
    with pytest.raises(ServerAssignorLoadError, match="named 'by-weight'"):
        group.joins("a", "foo")
