"""The answer matrix: the error that each request gets in each state of the group.

`parked` is a JoinGroup or SyncGroup that is answered later.
"""

from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest

from coordinator_state import Output
from schemas.consumer_group_messages import JOIN_EPOCH, LEAVE_EPOCH, ConsumerGroupDescribeRequest
from tests.coordinator_state.answer_matrix import answer_of, cases
from tests.coordinator_state.consumer.harness import consumer_heartbeat
from tests.coordinator_state.harness import GroupHarness, assignment, subscription

STATES = ("none", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")


def group_in(state: str) -> GroupHarness:
    """A group in a state; its members, where it has any, are `a` (leader) and `b`, generation 2 (Preparing:
    still 2)."""
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
    return group.classic.generation_id if group.group else 2


def commit_in_transaction(group: GroupHarness, member_id: str = "", generation_id: int = -1) -> list[Output]:
    return group.commit_in_transaction(7, {("t", 0): 1}, member_id, generation_id)


def pending_fetch(group: GroupHarness) -> list[Output]:
    commit_in_transaction(group)
    return group.fetch(("t", 0), require_stable=True)


REQUESTS: dict[str, Callable[[GroupHarness], list[Output]]] = {
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
    "commit of a member in a transaction": lambda g: commit_in_transaction(g, "a", current_generation(g)),
    "commit of another generation in a transaction": lambda g: commit_in_transaction(g, "a", 99),
    "commit of a member without its generation in a transaction": lambda g: commit_in_transaction(g, "a", -1),
    "commit of anybody in a transaction": lambda g: commit_in_transaction(g),
    "commit of nothing in a transaction": lambda g: g.commit_in_transaction(7, {}, "x", 7),
    "fetch": lambda g: g.fetch(),
    "stable fetch of what is pending": lambda g: pending_fetch(g),
    "delete offset of its topic": lambda g: g.delete_offsets(("t", 0)),
    "delete offset of another topic": lambda g: g.delete_offsets(("other", 0)),
    "describe": lambda g: g.describe(),
    "describe, old version": lambda g: g.describe(version=5),
    "delete the group": lambda g: g.delete(),
    "heartbeat that joins a consumer group": lambda g: g.send(
        *consumer_heartbeat("new", JOIN_EPOCH, joins_with=("t",))
    ),
    "heartbeat of a consumer group's member": lambda g: g.send(*consumer_heartbeat("a", current_generation(g))),
    "heartbeat that leaves a consumer group": lambda g: g.send(*consumer_heartbeat("a", LEAVE_EPOCH)),
    "describe a consumer group": lambda g: g.send(
        "ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=("g",)), 1
    ),
    "find its coordinator": lambda g: g.find_coordinator(),
    "find a transaction's": lambda g: g.find_coordinator(key_type=1),
    "a version of the future": lambda g: g.describe(version=7),
}

MATRIX = """
heartbeat
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance                                      REBALANCE_IN_PROGRESS
    CompletingRebalance, Stable                             NONE
heartbeat of another generation
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         ILLEGAL_GENERATION
heartbeat of nobody
    every state                                             UNKNOWN_MEMBER_ID
heartbeat with an unknown instance
    every state                                             UNKNOWN_MEMBER_ID
join, first
    every state                                             MEMBER_ID_REQUIRED
join, first, old version
    none, Empty                                             NONE
    PreparingRebalance, CompletingRebalance, Stable         parked
join of nobody
    every state                                             UNKNOWN_MEMBER_ID
join, other type
    none, Empty                                             MEMBER_ID_REQUIRED
    PreparingRebalance, CompletingRebalance, Stable         INCONSISTENT_GROUP_PROTOCOL
join, no protocol in common
    none, Empty                                             MEMBER_ID_REQUIRED
    PreparingRebalance, CompletingRebalance, Stable         INCONSISTENT_GROUP_PROTOCOL
join, session too short
    every state                                             INVALID_SESSION_TIMEOUT
follower rejoins unchanged
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         NONE
sync
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance                                      REBALANCE_IN_PROGRESS
    CompletingRebalance                                     parked
    Stable                                                  NONE
sync of the leader
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance                                      REBALANCE_IN_PROGRESS
    CompletingRebalance, Stable                             NONE
sync of another generation
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         ILLEGAL_GENERATION
sync, other protocol
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         INCONSISTENT_GROUP_PROTOCOL
sync, protocol missing
    every state                                             INCONSISTENT_GROUP_PROTOCOL
leave
    none, Empty                                             UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         NONE
leave of nobody
    every state                                             UNKNOWN_MEMBER_ID
commit of a member
    none                                                    GROUP_ID_NOT_FOUND
    Empty                                                   UNKNOWN_MEMBER_ID
    PreparingRebalance, Stable                              NONE
    CompletingRebalance                                     REBALANCE_IN_PROGRESS
commit of another generation
    none                                                    GROUP_ID_NOT_FOUND
    Empty                                                   UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         ILLEGAL_GENERATION
commit of anybody
    none, Empty                                             NONE
    PreparingRebalance, CompletingRebalance, Stable         UNKNOWN_MEMBER_ID
commit of nothing
    every state                                             NONE
commit of a member in a transaction
    none                                                    ILLEGAL_GENERATION
    Empty                                                   UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         NONE
commit of another generation in a transaction
    none                                                    ILLEGAL_GENERATION
    Empty                                                   UNKNOWN_MEMBER_ID
    PreparingRebalance, CompletingRebalance, Stable         ILLEGAL_GENERATION
commit of a member without its generation in a transaction
    none, Empty                                             NONE
    PreparingRebalance, CompletingRebalance, Stable         ILLEGAL_GENERATION
commit of anybody in a transaction
    every state                                             NONE
commit of nothing in a transaction
    every state                                             NONE
fetch
    every state                                             NONE
stable fetch of what is pending
    every state                                             UNSTABLE_OFFSET_COMMIT
delete offset of its topic
    none                                                    GROUP_ID_NOT_FOUND
    Empty                                                   NONE
    PreparingRebalance, CompletingRebalance, Stable         GROUP_SUBSCRIBED_TO_TOPIC
delete offset of another topic
    none                                                    GROUP_ID_NOT_FOUND
    Empty, PreparingRebalance, CompletingRebalance, Stable  NONE
describe
    none                                                    GROUP_ID_NOT_FOUND
    Empty, PreparingRebalance, CompletingRebalance, Stable  NONE
describe, old version
    every state                                             NONE
delete the group
    none                                                    GROUP_ID_NOT_FOUND
    Empty                                                   NONE
    PreparingRebalance, CompletingRebalance, Stable         NON_EMPTY_GROUP
heartbeat that joins a consumer group
    every state                                             NONE
heartbeat of a consumer group's member
    every state                                             GROUP_ID_NOT_FOUND
heartbeat that leaves a consumer group
    every state                                             GROUP_ID_NOT_FOUND
describe a consumer group
    every state                                             GROUP_ID_NOT_FOUND
find its coordinator
    every state                                             NONE
find a transaction's
    every state                                             INVALID_REQUEST
a version of the future
    every state                                             UNSUPPORTED_VERSION
"""


CASES = list(cases(MATRIX, STATES))


def test_the_matrix_has_every_request_in_every_state_once() -> None:
    assert Counter((request, state) for request, state, _ in CASES) == Counter(product(REQUESTS, STATES))


@pytest.mark.parametrize(
    ("request_name", "state", "expected"), CASES, ids=[f"{name}-{state}" for name, state, _ in CASES]
)
def test_answer(request_name: str, state: str, expected: str) -> None:
    group = group_in(state)
    assert answer_of(group, REQUESTS[request_name]) == expected
