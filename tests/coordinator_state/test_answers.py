"""The answer matrix: what each request is told in each state. One row a request, one column a state."""

import pytest

from coordinator_state import Answer
from schemas.error_codes import ErrorCode
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.coordinator_state.harness import GroupHarness, assignment, subscription

STATES = ("none", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")


def group_in(state: str) -> GroupHarness:
    """A group in a state; its members, where it has any, are `a` (leader) and `b`, generation 2 (Preparing: still 2)."""
    group = GroupHarness()
    if state == "none":
        return group
    group.stable("a", "b")
    if state == "Empty":
        group.leave("a", "b")
    elif state == "PreparingRebalance":
        group.join("a", protocols={"range": subscription("t", "u")})
    elif state == "CompletingRebalance":
        group.join("a", protocols={"range": subscription("t", "u")})
        group.join("b")
    assert group.state == state
    return group


def current_generation(group: GroupHarness) -> int:
    return group.group.generation_id if group.group else 2


def offset_delete(topic: str) -> OffsetDeleteRequest:
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    return OffsetDeleteRequest(group_id="g", topics=(OffsetDeleteRequestTopic(name=topic, partitions=partitions),))


REQUESTS = {
    "heartbeat": lambda g: g.heartbeat("a", current_generation(g)),
    "heartbeat of another generation": lambda g: g.heartbeat("a", 99),
    "heartbeat of nobody": lambda g: g.heartbeat("x", 2),
    "heartbeat with an unknown instance": lambda g: g.heartbeat("a", 2, group_instance_id="i"),
    "join, first": lambda g: g.join(),
    "join, first, old version": lambda g: g.join(version=3),
    "join of nobody": lambda g: g.join("x"),
    "join, other type": lambda g: g.join(protocol_type="connect"),
    "join, no protocol in common": lambda g: g.join(protocols={"own": b""}),
    "join, session too short": lambda g: g.join(session_timeout_ms=5_999),
    "follower rejoins unchanged": lambda g: g.join("b"),
    "sync": lambda g: g.sync("b", current_generation(g)),
    "sync of the leader": lambda g: g.sync("a", current_generation(g), {"a": assignment("t", 0)}),
    "sync of another generation": lambda g: g.sync("b", 99),
    "sync, other protocol": lambda g: g.sync("b", current_generation(g), protocol_name="sticky"),
    "sync, protocol missing": lambda g: g.sync("b", 2, protocol_name=None),
    "leave": lambda g: g.leave("b"),
    "leave of nobody": lambda g: g.leave("x"),
    "commit of a member": lambda g: g.commit("a", current_generation(g)),
    "commit of another generation": lambda g: g.commit("a", 99),
    "commit of anybody": lambda g: g.commit(),
    "commit of nothing": lambda g: g.commit("x", 7, {}),
    "fetch": lambda g: g.send(
        "OffsetFetch", OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    ),
    "delete offset of its topic": lambda g: g.send("OffsetDelete", offset_delete("t")),
    "delete offset of another topic": lambda g: g.send("OffsetDelete", offset_delete("other")),
    "describe": lambda g: g.send("DescribeGroups", DescribeGroupsRequest(groups=("g",)), 6),
    "describe, old version": lambda g: g.send("DescribeGroups", DescribeGroupsRequest(groups=("g",)), 5),
    "delete the group": lambda g: g.send("DeleteGroups", DeleteGroupsRequest(groups_names=("g",)), 2),
    "find its coordinator": lambda g: g.send("FindCoordinator", FindCoordinatorRequest(coordinator_keys=("g",)), 4),
    "find a transaction's": lambda g: g.send(
        "FindCoordinator", FindCoordinatorRequest(coordinator_keys=("g",), key_type=1), 4
    ),
    "a version of the future": lambda g: g.send("DescribeGroups", DescribeGroupsRequest(groups=("g",)), 7),
}

MATRIX = """
request                             | none | Empty | PreparingRebalance | CompletingRebalance | Stable
heartbeat                           |   25 |    25 |                 27 |                   0 |      0
heartbeat of another generation     |   25 |    25 |                 22 |                  22 |     22
heartbeat of nobody                 |   25 |    25 |                 25 |                  25 |     25
heartbeat with an unknown instance  |   25 |    25 |                 25 |                  25 |     25
join, first                         |   79 |    79 |                 79 |                  79 |     79
join, first, old version            |    0 |     0 |             parked |              parked | parked
join of nobody                      |   25 |    25 |                 25 |                  25 |     25
join, other type                    |   79 |    79 |                 23 |                  23 |     23
join, no protocol in common         |   79 |    79 |                 23 |                  23 |     23
join, session too short             |   26 |    26 |                 26 |                  26 |     26
follower rejoins unchanged          |   25 |    25 |                  0 |                   0 |      0
sync                                |   25 |    25 |                 27 |              parked |      0
sync of the leader                  |   25 |    25 |                 27 |                   0 |      0
sync of another generation          |   25 |    25 |                 22 |                  22 |     22
sync, other protocol                |   25 |    25 |                 23 |                  23 |     23
sync, protocol missing              |   23 |    23 |                 23 |                  23 |     23
leave                               |   25 |    25 |                  0 |                   0 |      0
leave of nobody                     |   25 |    25 |                 25 |                  25 |     25
commit of a member                  |   69 |    25 |                  0 |                  27 |      0
commit of another generation        |   69 |    25 |                 22 |                  22 |     22
commit of anybody                   |    0 |     0 |                 25 |                  25 |     25
commit of nothing                   |    0 |     0 |                  0 |                   0 |      0
fetch                               |    0 |     0 |                  0 |                   0 |      0
delete offset of its topic          |   69 |     0 |                 86 |                  86 |     86
delete offset of another topic      |   69 |     0 |                  0 |                   0 |      0
describe                            |   69 |     0 |                  0 |                   0 |      0
describe, old version               |    0 |     0 |                  0 |                   0 |      0
delete the group                    |   69 |     0 |                 68 |                  68 |     68
find its coordinator                |    0 |     0 |                  0 |                   0 |      0
find a transaction's                |   42 |    42 |                 42 |                  42 |     42
a version of the future             |   35 |    35 |                 35 |                  35 |     35
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in MATRIX.strip().splitlines()]
CASES = [(row[0], state, cell) for row in ROWS[1:] for state, cell in zip(STATES, row[1:], strict=True)]


def code_of(response: object) -> int:
    """The error code of an answer, wherever that answer carries it."""
    found = {int(getattr(response, "error_code", 0))}
    for name in ("topics", "partitions", "groups", "results", "members", "coordinators"):
        for part in getattr(response, name, None) or ():
            found.add(code_of(part))
    return next((code for code in found if code), 0)


def test_the_table_is_whole() -> None:
    assert tuple(ROWS[0][1:]) == STATES
    assert [row[0] for row in ROWS[1:]] == list(REQUESTS)


@pytest.mark.parametrize(("request_name", "state", "expected"), CASES, ids=[f"{name}-{state}" for name, state, _ in CASES])
def test_answer(request_name: str, state: str, expected: str) -> None:
    group = group_in(state)
    outputs = REQUESTS[request_name](group)
    answers = [each for each in outputs if isinstance(each, Answer) and each.request_id == f"r{group.offset}"]
    if expected == "parked":
        assert answers == []
    else:
        (answer,) = answers
        assert code_of(answer.response) == int(expected), ErrorCode(code_of(answer.response)).name
