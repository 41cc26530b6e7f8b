"""As `test_odd_values`, for events of groups whose members use both protocols: requests, and what groups are told."""

from __future__ import annotations

import json
from functools import cache

import pytest
from msgspec.structs import replace

from coordinator_state import GroupConfig, decode_group
from coordinator_state.classic.group import ClassicGroup
from coordinator_state.consumer.group import ConsumerGroup
from schemas.events import TransactionEnded, decode_group_event, encode_json
from schemas.transaction_messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.odd_values import OTHERS, OddGroup, State
from tests.streaming.operator_events import CONFIG, event
from tests.streaming.random_log import make_log

KEY = b"mixed-0"
GROUP = OddGroup(KEY, replace(CONFIG, group=GroupConfig(**SETTINGS)))
BYTES_MAX = 2_500
LATER_MS = 60_000
MEMBERS = 3
AFTERWARDS = 6
"""Events that follow the odd one."""

VALUES = [
    record.value
    for seed in range(3)
    for record in make_log(seed, groups=1, mixed_groups=1, requests=600, poisons=False)
    if record.key == KEY and record.value is not None
]

PENDING = event(
    "TxnOffsetCommit", 5,
    TxnOffsetCommitRequest(
        transactional_id="t", group_id="mixed-0", producer_id=7, producer_epoch=0,
        topics=(
            TxnOffsetCommitRequestTopic(
                name="orders", partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5),)
            ),
        ),
    ),
)  # fmt: skip
ENDED = encode_json(TransactionEnded(producer_id=7, producer_epoch=0, committed=True))


def examples() -> dict[str, bytes]:
    """API, or type of what is told -> the longest such event."""
    found = {"TxnOffsetCommit": PENDING, "transaction_ended": ENDED}
    for value in (*VALUES, *OTHERS):
        document = json.loads(value)
        name = document.get("api") or document.get("type")
        if name and len(found.get(name, b"")) < len(value) <= BYTES_MAX:
            found[name] = value
    return found


EXAMPLES = examples()


@cache
def befores() -> dict[str, State]:
    """Kind of group -> one of some members, who have a transaction under way."""
    found: dict[str, State] = {}
    for begin in range(0, len(VALUES), 50):
        state = GROUP.lived([*VALUES[begin : begin + 60], PENDING])
        body = None if state is None else decode_group(*state).body
        if state is not None and isinstance(body, ClassicGroup | ConsumerGroup) and len(body.members) >= MEMBERS:
            found.setdefault(type(body).__name__, state)
    return found


def test_there_is_an_event_of_each_kind() -> None:
    assert {
        "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "JoinGroup", "OffsetCommit", "OffsetFetch",
        "TxnOffsetCommit", "transaction_ended", "topic_metadata", "topics_deleted", "regexes_resolved", "group_config",
    } <= EXAMPLES.keys()  # fmt: skip


def test_there_is_a_group_of_each_kind() -> None:
    assert befores().keys() == {"ClassicGroup", "ConsumerGroup"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_value_fails_a_batch(name: str) -> None:
    decode_group_event(KEY.decode(), EXAMPLES[name])  # it is good as it is
    GROUP.hears(EXAMPLES[name], (None, *befores().values()), [ENDED, *VALUES[:AFTERWARDS]], LATER_MS)
