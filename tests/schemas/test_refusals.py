"""The response that refuses a request:
the same from the coordinator and the gateway, and as Kafka's `getErrorResponse`."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinating.gateway.refusals import refusal
from schemas.error_codes import ErrorCode
from schemas.messages import APIS, OffsetFetchRequest, Request
from schemas.refusals import error_response

CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE
TOPIC_ID = "6f2c3a0e-3c1b-5d57-9d0a-5d1f6b3f7a11"
CASES = {
    "FindCoordinator": (
        {"coordinator_keys": ["a", "b"]},
        {
            "coordinators": [
                {"key": key, "node_id": -1, "error_code": CODE, "error_message": CODE.meaning} for key in "ab"
            ]
        },
    ),
    "JoinGroup": (
        {"group_id": "g", "session_timeout_ms": 1, "member_id": "m", "protocol_type": "consumer", "protocols": []},
        {"error_code": CODE, "member_id": "m"},
    ),
    "SyncGroup": ({"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": CODE}),
    "Heartbeat": ({"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": CODE}),
    "LeaveGroup": ({"group_id": "g", "members": [{"member_id": "m"}]}, {"error_code": CODE}),
    "OffsetCommit": (
        {
            "group_id": "g",
            "topics": [
                {"name": "t", "topic_id": TOPIC_ID, "partitions": [{"partition_index": 3, "committed_offset": 7}]}
            ],
        },
        {"topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": [{"partition_index": 3, "error_code": CODE}]}]},
    ),
    "TxnOffsetCommit": (
        {
            "transactional_id": "x",
            "group_id": "g",
            "producer_id": 7,
            "producer_epoch": 0,
            "topics": [{"name": "t", "partitions": [{"partition_index": 3, "committed_offset": 7}]}],
        },
        {"topics": [{"name": "t", "partitions": [{"partition_index": 3, "error_code": CODE}]}]},
    ),
    "OffsetFetch": (
        {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [3]}]}]},
        {"groups": [{"group_id": "g", "error_code": CODE}]},
    ),
    "OffsetDelete": (
        {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 3}]}]},
        {"error_code": CODE},
    ),
    "DescribeGroups": ({"groups": ["a"]}, {"groups": [{"error_code": CODE, "group_id": "a", "group_state": ""}]}),
    "DeleteGroups": ({"groups_names": ["a"]}, {"results": [{"group_id": "a", "error_code": CODE}]}),
    "ConsumerGroupHeartbeat": ({"group_id": "g", "member_id": "m", "member_epoch": 3}, {"error_code": CODE}),
    "ConsumerGroupDescribe": ({"group_ids": ["a"]}, {"groups": [{"error_code": CODE, "group_id": "a"}]}),
}


def test_every_api_has_a_case() -> None:
    assert CASES.keys() == APIS.keys()


@pytest.mark.parametrize("api", CASES)
def test_error_response(api: str) -> None:
    body, expected = CASES[api]
    request: Request = msgspec.convert(body, APIS[api].request)  # type: ignore[assignment]
    response = msgspec.convert(expected, APIS[api].response)
    assert error_response(request, CODE) == response
    if api != "OffsetFetch":
        assert refusal(request, CODE) == response


def test_the_gateway_repeats_the_code_at_each_partition_of_a_fetch() -> None:
    """Version 1 has no place for the error of a group."""
    request = msgspec.convert(CASES["OffsetFetch"][0], OffsetFetchRequest)
    response = refusal(request, CODE)
    assert msgspec.to_builtins(response)["groups"][0]["error_code"] == CODE
    (partition,) = msgspec.to_builtins(response)["groups"][0]["topics"][0]["partitions"]
    assert partition == {
        "partition_index": 3, "committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": CODE,
    }  # fmt: skip
