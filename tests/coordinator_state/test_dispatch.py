"""Every request is handled by the kind of its group, and can be refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from schemas.error_codes import ErrorCode
from schemas.messages import OffsetFetchRequestGroup, Request
from schemas.refusals import error_response
from tests.coordinator_state.harness import GroupHarness

FIELDS: dict[str, Any] = {
    "FindCoordinatorRequest": {"key_type": 0, "coordinator_keys": ("g",)},
    "JoinGroupRequest": {"group_id": "g", "session_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": ()},
    "HeartbeatRequest": {"group_id": "g", "generation_id": 1, "member_id": "m"},
    "LeaveGroupRequest": {"group_id": "g", "members": ()},
    "SyncGroupRequest": {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "m",
        "protocol_type": "",
        "protocol_name": "",
    },
    "OffsetCommitRequest": {"group_id": "g", "topics": ()},
    "OffsetFetchRequest": {"groups": (OffsetFetchRequestGroup(group_id="g"),)},
    "OffsetDeleteRequest": {"group_id": "g", "topics": ()},
    "DescribeGroupsRequest": {"groups": ("g",)},
    "DeleteGroupsRequest": {"groups_names": ("g",)},
    "TxnOffsetCommitRequest": {
        "transactional_id": "x",
        "group_id": "g",
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": (),
    },
    "ConsumerGroupHeartbeatRequest": {"group_id": "g", "member_id": "m", "member_epoch": 0},
    "ConsumerGroupDescribeRequest": {"group_ids": ("g",)},
}


@pytest.mark.parametrize("request_type", get_args(Request), ids=lambda request_type: request_type.__name__)
def test_every_request_is_answered_and_can_be_refused(request_type: type[Any]) -> None:
    request, group = request_type(**FIELDS[request_type.__name__]), GroupHarness()
    answered = group.answer(group.send(request_type.__name__.removesuffix("Request"), request, version=4))
    assert type(answered).__name__ == request_type.__name__.removesuffix("Request") + "Response"
    assert type(error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)) is type(answered)
