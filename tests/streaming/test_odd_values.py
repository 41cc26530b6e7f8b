"""Whatever value a field of an event has, the event is handled or a dead letter: no batch fails of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator_state import decode_group, encode_group
from schemas.events import RENEWAL_AT_PRESENT, DeletedTopic, TopicsDeleted, decode_group_event, encode_json
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupProtocol,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from schemas.recorded import RecordedGroup, RecordedLeader, RecordedLoad, RecordedMember, RecordedOffset, RecordingGap
from streaming.operator import coordinate_rows
from streaming.rows import EventRow
from tests.streaming.operator_events import CONFIG, event
from tests.streaming.random_log import make_log

KEY = b"group-0"
NOW_MS, LATER_MS = 1_795_000_000_000, 1_796_000_000_000
TOPIC_ID = "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90"
MEMBER = RecordedMember(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/127.0.0.1",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=9_000,
    protocols=(JoinGroupProtocol(name="range", metadata=b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"),),
)
RECORDED = RecordedGroup(
    generation_id=1,
    protocol_type="consumer",
    protocol_name="range",
    leader_id="m",
    members=(MEMBER,),
    offsets=(RecordedOffset(topic="t", partition=0, offset=1, leader_epoch=1, metadata="x", topic_id=TOPIC_ID),),
)
OTHERS = [
    encode_json(RecordedLoad(loaded_ms=1, group_metadata=None, broker_id=1)),
    *map(encode_json, (RECORDED, RecordedLeader(member_ids=("m",)), RecordingGap(reason="lines are missing"))),
    encode_json(TopicsDeleted(topics=(DeletedTopic(name="t", topic_id=TOPIC_ID),))),
    RENEWAL_AT_PRESENT,
]
TEXTS = ("", "\0", "no id", "\x1b[0m", "range", "-1", "ü" * 20_000, "x" * 32_767, "x" * 40_000)
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63))


def requests() -> dict[str, list[bytes]]:
    """API -> requests of a group that lives."""
    values_by_api: dict[str, list[bytes]] = {}
    for record in make_log(5, groups=1, requests=300):
        value = record.value or b""
        if record.key == KEY and value.startswith(b'{"type":"request"') and len(value) < 5_000:
            values_by_api.setdefault(json.loads(value)["api"], []).append(value)
    return values_by_api


REQUESTS = requests()
ADMIN_REQUESTS = {
    "DescribeGroups": event("DescribeGroups", 5, DescribeGroupsRequest(groups=("group-0",))),
    "DeleteGroups": event("DeleteGroups", 2, DeleteGroupsRequest(groups_names=("group-0",))),
    "OffsetDelete": event(
        "OffsetDelete",
        0,
        OffsetDeleteRequest(
            group_id="group-0",
            topics=(OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),)),),
        ),
    ),
}
EXAMPLES = ADMIN_REQUESTS | {api: max(values, key=len) for api, values in REQUESTS.items()}
EXAMPLES |= {json.loads(value)["type"]: value for value in OTHERS}
AFTERWARDS = [*REQUESTS["JoinGroup"][:2], REQUESTS["OffsetFetch"][0], REQUESTS["OffsetCommit"][0]]


def with_odd_values(document: Any) -> Iterator[Any]:
    """The document again and again, each time with another value somewhere."""
    for inside, place in places(document):
        original = inside[place]
        odd: tuple[Any, ...] = ([], None, "", 0)
        if isinstance(original, str | int):
            odd = TEXTS if isinstance(original, str) else NUMBERS
        for value in odd:
            inside[place] = value
            yield document
        inside[place] = original


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in a JSON document, as what it is in and where."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, inner in list(members):
        yield value, place
        yield from places(inner)


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_value_fails_a_batch(name: str) -> None:
    decode_group_event(KEY.decode(), EXAMPLES[name])  # it is good as it is
    befores = [None, *(_lived([value]) for value in OTHERS[:1]), _lived(REQUESTS["JoinGroup"][:3])]
    for odd in with_odd_values(json.loads(EXAMPLES[name])):
        for before in befores:
            after = _lived([json.dumps(odd).encode(), *AFTERWARDS], before)
            coordinate_rows(KEY, [], CONFIG, group=None if after is None else decode_group(*after), clock_ms=LATER_MS)


def _lived(values: list[bytes], before: tuple[bytes, bytes] | None = None) -> tuple[bytes, bytes] | None:
    """The state of a group after some events."""
    rows = [EventRow(number, NOW_MS + number, NOW_MS + number, value) for number, value in enumerate(values, 1)]
    group = None if before is None else decode_group(*before)
    group_left = coordinate_rows(KEY, rows, CONFIG, group=group, clock_ms=NOW_MS).group
    return None if group_left is None else encode_group(group_left)
