"""The answer matrix of consumer groups: the error that each request gets in each state, classic requests too.

The answers are those of KIP-848 and of Kafka 4.3's `GroupMetadataManager`.
"""

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from coordinator_state import Output
from schemas.consumer_group_messages import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerGroupDescribeRequest
from tests.coordinator_state.answer_matrix import answer_of, cases
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, consumer_heartbeat, owned
from tests.coordinator_state.harness import subscription

STATES = ("Empty", "Assigning", "Reconciling", "Stable")
PROTOCOLS = {"range": subscription("foo")}
INSTANCE = "i"
EPOCH = 3
"""That of both members, in every state; the one before is 2."""


def group_in(state: str) -> ConsumerHarness:
    """A group in a state; its members, where it has any, are `a` (native, static) and `c` (classic), both in epoch 3
    with two partitions of four, and `b`, whose join makes the group leave the state Stable."""
    group = ConsumerHarness()
    group.joins("a", "foo", instance_id=INSTANCE)
    group.sleep(1_000)
    group.add("c", protocols=PROTOCOLS)
    group.beat("a", 2, topic_partitions=owned(FOO, 0, 1, 2, 3))
    group.beat("a", 2, topic_partitions=owned(FOO, 0, 1))
    group.join("c", protocols=PROTOCOLS)
    group.sync("c", EPOCH)
    if state == "Empty":
        group.leave("c")
        group.beat("a", LEAVE_EPOCH)
    elif state == "Assigning":
        group.joins("b", "foo")  # so soon that the target must wait
    elif state == "Reconciling":
        group.sleep(1_000)
        group.joins("b", "foo")
    assert group.state == state
    if state != "Empty":
        members = group.body.members
        assert {members["a"].member_epoch, members["c"].member_epoch} == {EPOCH}
        assert members["a"].assigned == {FOO: {0: 2, 1: 2}}
    return group


def join_by(member_id: str, **fields: Any) -> Callable[[ConsumerHarness], list[Output]]:
    return lambda g: g.send(*consumer_heartbeat(member_id, 0, ("foo",), **fields), topic_metadata=g.metadata)


def commit_of_foo(group: ConsumerHarness, member_id: str, epoch: int, partition: int, version: int = 9) -> list[Output]:
    return group.commit(member_id, epoch, {("foo", partition): 1}, version, topic_ids={"foo": FOO})


def commit_in_transaction(group: ConsumerHarness, member_id: str = "", epoch: int = -1) -> list[Output]:
    return group.commit_in_transaction(7, {("foo", 0): 1}, member_id, epoch)


REQUESTS: dict[str, Callable[[ConsumerHarness], list[Output]]] = {
    "heartbeat": lambda g: g.beat("a", EPOCH),
    "heartbeat of an epoch to come": lambda g: g.beat("a", 99),
    "heartbeat of the epoch before": lambda g: g.beat("a", 2),
    "heartbeat of the epoch before, owning what it has": lambda g: g.beat("a", 2, topic_partitions=owned(FOO, 0, 1)),
    "heartbeat of the epoch before, owning more": lambda g: g.beat("a", 2, topic_partitions=owned(FOO, 0, 3)),
    "heartbeat of nobody": lambda g: g.beat("x", EPOCH),
    "heartbeat of an epoch that is none": lambda g: g.beat("a", -3),
    "heartbeat with an unknown instance": lambda g: g.beat("a", EPOCH, instance_id="j"),
    "heartbeat of another member with its instance": lambda g: g.beat("x", EPOCH, instance_id=INSTANCE),
    "a classic member becomes native": lambda g: g.beat("c", EPOCH),
    "join": join_by("new"),
    "join of a member": join_by("a"),
    "join with an instance that is in use": join_by("new", instance_id=INSTANCE),
    "join that owns partitions": join_by("new", topic_partitions=owned(FOO, 0)),
    "join without a rebalance timeout": join_by("new", rebalance_timeout_ms=-1),
    "join without a subscription": join_by("new", subscribed_topic_names=None),
    "join with an unknown assignor": join_by("new", server_assignor="mine"),
    "join with an expression that is none": join_by("new", subscribed_topic_regex="("),
    "leave": lambda g: g.beat("a", LEAVE_EPOCH),
    "leave of nobody": lambda g: g.beat("x", LEAVE_EPOCH),
    "leave for a while": lambda g: g.beat("a", LEAVE_STATIC_EPOCH, instance_id=INSTANCE),
    "leave for a while without an instance": lambda g: g.beat("a", LEAVE_STATIC_EPOCH),
    "describe": lambda g: g.send("ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=("g",)), 1),
    "describe as a classic group": lambda g: g.describe(),
    "describe as a classic group, old version": lambda g: g.describe(version=5),
    "classic join, first": lambda g: g.join(protocols=PROTOCOLS),
    "classic join again": lambda g: g.join("c", protocols=PROTOCOLS),
    "classic join of nobody": lambda g: g.join("x", protocols=PROTOCOLS),
    "classic join, other type": lambda g: g.join(protocol_type="connect"),
    "classic join, no protocol in common": lambda g: g.join(protocols={"own": b""}),
    "classic join, session too short": lambda g: g.join(session_timeout_ms=5_999),
    "classic heartbeat": lambda g: g.heartbeat("c", EPOCH),
    "classic heartbeat of another generation": lambda g: g.heartbeat("c", 99),
    "classic heartbeat of a native member": lambda g: g.heartbeat("a", EPOCH),
    "sync": lambda g: g.sync("c", EPOCH),
    "sync of another generation": lambda g: g.sync("c", 99),
    "sync, other protocol": lambda g: g.sync("c", EPOCH, protocol_name="sticky"),
    "sync of a native member": lambda g: g.sync("a", EPOCH),
    "classic leave": lambda g: g.leave("c"),
    "classic leave of a native member": lambda g: g.leave("a"),
    "classic leave of nobody": lambda g: g.leave("x"),
    "commit": lambda g: commit_of_foo(g, "a", EPOCH, 3),
    "commit of a native member, old version": lambda g: commit_of_foo(g, "a", EPOCH, 0, version=8),
    "commit of an epoch to come": lambda g: commit_of_foo(g, "a", 99, 0),
    "commit of an older epoch, of what it had then": lambda g: commit_of_foo(g, "a", 2, 0),
    "commit of an older epoch, of what it had not": lambda g: commit_of_foo(g, "a", 2, 3),
    "commit of an older epoch, of what it had then, without an id": lambda g: g.commit("a", 2, {("foo", 0): 1}),
    "commit of an older epoch, of what it had not, without an id": lambda g: g.commit("a", 2, {("foo", 3): 1}),
    "commit of a classic member": lambda g: commit_of_foo(g, "c", EPOCH, 0, version=8),
    "commit of a classic member, another generation": lambda g: commit_of_foo(g, "c", 99, 0),
    "commit of anybody": lambda g: g.commit(),
    "commit in a transaction": lambda g: commit_in_transaction(g, "a", EPOCH),
    "commit of an epoch to come in a transaction": lambda g: commit_in_transaction(g, "a", 99),
    "commit of anybody in a transaction": lambda g: commit_in_transaction(g),
    "commit of a negative epoch in a transaction": lambda g: commit_in_transaction(g, epoch=-2),
    "fetch": lambda g: g.fetch(),
    "delete offset of its topic": lambda g: g.delete_offsets(("foo", 0)),
    "delete offset of another topic": lambda g: g.delete_offsets(("other", 0)),
    "delete the group": lambda g: g.delete(),
}

MATRIX = """
heartbeat
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
heartbeat of an epoch to come
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        FENCED_MEMBER_EPOCH
heartbeat of the epoch before
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        FENCED_MEMBER_EPOCH
heartbeat of the epoch before, owning what it has
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
heartbeat of the epoch before, owning more
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        FENCED_MEMBER_EPOCH
heartbeat of nobody
    every state                           UNKNOWN_MEMBER_ID
heartbeat of an epoch that is none
    every state                           INVALID_REQUEST
heartbeat with an unknown instance
    every state                           UNKNOWN_MEMBER_ID
heartbeat of another member with its instance
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        FENCED_INSTANCE_ID
a classic member becomes native
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
join
    every state                           NONE
join of a member
    every state                           NONE
join with an instance that is in use
    Empty                                 NONE
    Assigning, Reconciling, Stable        UNRELEASED_INSTANCE_ID
join that owns partitions
    every state                           INVALID_REQUEST
join without a rebalance timeout
    every state                           INVALID_REQUEST
join without a subscription
    every state                           INVALID_REQUEST
join with an unknown assignor
    every state                           UNSUPPORTED_ASSIGNOR
join with an expression that is none
    every state                           INVALID_REGULAR_EXPRESSION
leave
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
leave of nobody
    every state                           UNKNOWN_MEMBER_ID
leave for a while
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
leave for a while without an instance
    every state                           INVALID_REQUEST
describe
    every state                           NONE
describe as a classic group
    every state                           GROUP_ID_NOT_FOUND
describe as a classic group, old version
    every state                           NONE
classic join, first
    every state                           MEMBER_ID_REQUIRED
classic join again
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
classic join of nobody
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
classic join, other type
    Empty                                 MEMBER_ID_REQUIRED
    Assigning, Reconciling, Stable        INCONSISTENT_GROUP_PROTOCOL
classic join, no protocol in common
    Empty                                 MEMBER_ID_REQUIRED
    Assigning, Reconciling, Stable        INCONSISTENT_GROUP_PROTOCOL
classic join, session too short
    every state                           INVALID_SESSION_TIMEOUT
classic heartbeat
    Empty                                 UNKNOWN_MEMBER_ID
    Reconciling                           REBALANCE_IN_PROGRESS
    Assigning, Stable                     NONE
classic heartbeat of another generation
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        ILLEGAL_GENERATION
classic heartbeat of a native member
    every state                           UNKNOWN_MEMBER_ID
sync
    Empty                                 UNKNOWN_MEMBER_ID
    Reconciling                           REBALANCE_IN_PROGRESS
    Assigning, Stable                     NONE
sync of another generation
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        ILLEGAL_GENERATION
sync, other protocol
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        INCONSISTENT_GROUP_PROTOCOL
sync of a native member
    every state                           UNKNOWN_MEMBER_ID
classic leave
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
classic leave of a native member
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
classic leave of nobody
    every state                           UNKNOWN_MEMBER_ID
commit
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
commit of a native member, old version
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        UNSUPPORTED_VERSION
commit of an epoch to come
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        STALE_MEMBER_EPOCH
commit of an older epoch, of what it had then
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
commit of an older epoch, of what it had not
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        STALE_MEMBER_EPOCH
commit of an older epoch, of what it had then, without an id
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
commit of an older epoch, of what it had not, without an id
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        STALE_MEMBER_EPOCH
commit of a classic member
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
commit of a classic member, another generation
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        ILLEGAL_GENERATION
commit of anybody
    Empty                                 NONE
    Assigning, Reconciling, Stable        UNKNOWN_MEMBER_ID
commit in a transaction
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        NONE
commit of an epoch to come in a transaction
    Empty                                 UNKNOWN_MEMBER_ID
    Assigning, Reconciling, Stable        ILLEGAL_GENERATION
commit of anybody in a transaction
    every state                           NONE
commit of a negative epoch in a transaction
    Empty                                 NONE
    Assigning, Reconciling, Stable        UNKNOWN_MEMBER_ID
fetch
    every state                           NONE
delete offset of its topic
    Empty                                 NONE
    Assigning, Reconciling, Stable        GROUP_SUBSCRIBED_TO_TOPIC
delete offset of another topic
    every state                           NONE
delete the group
    Empty                                 NONE
    Assigning, Reconciling, Stable        NON_EMPTY_GROUP
"""

CASES = list(cases(MATRIX, STATES))


def test_the_matrix_has_every_request_in_every_state_once() -> None:
    assert Counter((request, state) for request, state, _ in CASES) == Counter(product(REQUESTS, STATES))


@pytest.mark.parametrize(
    ("request_name", "state", "expected"), CASES, ids=[f"{name}-{state}" for name, state, _ in CASES]
)
def test_answer(request_name: str, state: str, expected: str) -> None:
    assert answer_of(group_in(state), REQUESTS[request_name]) == expected
