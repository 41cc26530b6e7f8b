"""Whatever value a field of an event has, the event is handled or a dead letter: no batch fails of it."""

from __future__ import annotations

import json

import pytest

from coordinator_state import decode_group, encode_group
from schemas.events import decode_group_event
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from streaming.operator import coordinate_rows
from streaming.rows import EventRow
from tests.streaming.odd_values import OTHERS, with_odd_values
from tests.streaming.operator_events import CONFIG, event
from tests.streaming.random_log import make_log

KEY = b"group-0"
NOW_MS, LATER_MS = 1_795_000_000_000, 1_796_000_000_000


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
