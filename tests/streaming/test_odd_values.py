"""Whatever value a field of an event has, the event is handled or a dead letter: no batch fails of it."""

from __future__ import annotations

import json

import pytest

from schemas.events import decode_group_event
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.streaming.odd_values import OTHERS, OddGroup
from tests.streaming.operator_events import CONFIG, event
from tests.streaming.random_log import make_log

KEY = b"group-0"
GROUP = OddGroup(KEY, CONFIG)
LATER_MS = 1_000_000_000


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
    befores = [None, *(GROUP.lived([value]) for value in OTHERS[:1]), GROUP.lived(REQUESTS["JoinGroup"][:3])]
    GROUP.hears(EXAMPLES[name], befores, AFTERWARDS, LATER_MS)
