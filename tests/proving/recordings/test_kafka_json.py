"""Kafka's JSON and our messages: what Kafka printed, in every version; old shapes; topic ids; damaged input."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.proving.recordings.kafka_json import (
    KafkaJsonError,
    request_from_kafka,
    response_to_kafka,
    topic_id_from_kafka,
)
from schemas import messages
from schemas.error_codes import ErrorCode
from schemas.kafka.definitions import StructDefinition, definition_of
from schemas.kafka.json_form import uuid_to_json
from schemas.several_groups import joined
from tests.proving.recordings.kafka_answers import list_groups_from_kafka, response_from_kafka

Json = dict[str, Any]

EXCHANGES: list[Json] = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parents[2] / "fixtures/kafka_json.jsonl.gz").read_bytes()).splitlines()
]
"""Requests and answers of Kafka 4.3.1: its coordinator's under a virtual clock, and a broker's request log."""

ORDERS_ID = "c984fd3c-bcff-42d5-acce-e8ad1e52c7b1"
ORDERS_KAFKA_ID = "yYT9PLz_QtWszuitHlLHsQ"
TOPIC_NAMES = {ORDERS_ID: "orders"}


def of_api(*apis: str) -> list[Json]:
    chosen = [exchange for exchange in EXCHANGES if exchange["api"] in apis]
    assert chosen
    return chosen


def test_every_recorded_answer_comes_back_as_kafka_printed_it() -> None:
    """To the order of the fields."""
    for exchange in EXCHANGES:
        api, version = exchange["api"], exchange["version"]
        expected = {name: value for name, value in exchange["response"].items() if name != "throttleTimeMs"}
        printed = response_to_kafka(api, version, response_from_kafka(api, version, exchange["response"]))
        assert json.dumps(printed) == json.dumps(expected), (api, version)


@pytest.mark.parametrize("api", sorted(messages.APIS))
def test_every_recorded_request_is_read(api: str) -> None:
    for exchange in of_api(api):
        body = exchange["request"]
        for group_id, request in request_from_kafka(api, exchange["version"], body):
            assert isinstance(request, messages.APIS[api].request)
            assert json.dumps(group_id) in json.dumps(body)


def names_beside(struct: StructDefinition, version: int, body: Json) -> set[str]:
    """The names that only Kafka's JSON has, or only its definition has for this version."""
    fields = {field.json_name: field for field in struct.fields_of(version)}
    beside = set(body) ^ set(fields)
    for name, value in body.items():
        item = fields[name].struct if name in fields else None
        if item is not None:
            beside |= {inner_name for element in value or () for inner_name in names_beside(item, version, element)}
    return beside


def test_every_recorded_request_has_the_fields_of_its_version() -> None:
    """Else a field would be dropped in silence."""
    for exchange in EXCHANGES:
        api, version = exchange["api"], exchange["version"]
        request = definition_of(f"{api}Request").struct
        is_renamed = api == "TxnOffsetCommit" and version >= 3
        both = {"generationId", "generationIdOrMemberEpoch"} if is_renamed else set()
        assert names_beside(request, version, exchange["request"]) == both, (api, version)


def test_every_version_was_recorded() -> None:
    """What is untested by the recordings is known: the versions with topic ids, and old FindCoordinator."""
    recorded = {(exchange["api"], exchange["version"]) for exchange in EXCHANGES}
    spoken = {
        (name, version)
        for name, api in messages.APIS.items()
        for version in range(api.min_version, api.max_version + 1)
    }
    newest = {("OffsetCommit", 10), ("OffsetFetch", 10), ("TxnOffsetCommit", 6), ("DeleteGroups", 3)}
    assert spoken - recorded == newest | {("FindCoordinator", version) for version in (0, 1, 3, 4, 5)}


def test_join_group_of_the_newest_version() -> None:
    body = {
        "groupId": "g",
        "sessionTimeoutMs": 6000,
        "rebalanceTimeoutMs": 300_000,
        "memberId": "m",
        "groupInstanceId": None,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": "AAM="}],
        "reason": "need to re-join",
    }
    expected = messages.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=300_000,
        member_id="m",
        protocol_type="consumer",
        protocols=(messages.JoinGroupProtocol(name="range", metadata=b"\x00\x03"),),
        reason="need to re-join",
    )
    assert request_from_kafka("JoinGroup", 9, body) == (("g", expected),)


def test_a_field_that_the_version_lacks_has_its_default() -> None:
    body = {"groupId": "g", "sessionTimeoutMs": 6000, "memberId": "", "protocolType": "consumer", "protocols": []}
    ((_, request),) = request_from_kafka("JoinGroup", 0, {**body, "rebalanceTimeoutMs": 5, "groupInstanceId": "i"})
    assert request == messages.JoinGroupRequest(
        group_id="g", session_timeout_ms=6000, protocol_type="consumer", protocols=()
    )


def test_leave_group_of_one_member() -> None:
    expected = messages.LeaveGroupRequest(group_id="g", members=(messages.LeaveGroupMember(member_id="m"),))
    assert request_from_kafka("LeaveGroup", 2, {"groupId": "g", "memberId": "m"}) == (("g", expected),)


@pytest.mark.parametrize(
    ("of_request", "of_member", "printed"),
    [
        (ErrorCode.NONE, ErrorCode.NONE, 0),
        (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, 25),
        (ErrorCode.INVALID_GROUP_ID, ErrorCode.NONE, 24),
    ],
)
def test_leave_group_of_one_member_has_one_error_code(
    of_request: ErrorCode, of_member: ErrorCode, printed: int
) -> None:
    response = messages.LeaveGroupResponse(
        error_code=of_request,
        members=(messages.LeaveGroupMemberResponse(member_id="m", error_code=of_member),),
    )
    assert response_to_kafka("LeaveGroup", 1, response) == {"errorCode": printed}
    assert response_to_kafka("LeaveGroup", 3, response) == {
        "errorCode": int(of_request),
        "members": [{"memberId": "m", "groupInstanceId": None, "errorCode": int(of_member)}],
    }


@pytest.mark.parametrize("topics", [None, [{"name": "t", "partitionIndexes": [0, 2]}]])
def test_offset_fetch_of_one_group(topics: list[Json] | None) -> None:
    ((group_id, request),) = request_from_kafka(
        "OffsetFetch", 7, {"groupId": "g", "topics": topics, "requireStable": True}
    )
    topics_read = None if topics is None else (messages.OffsetFetchRequestTopic(name="t", partition_indexes=(0, 2)),)
    assert group_id == "g"
    assert request == messages.OffsetFetchRequest(
        groups=(messages.OffsetFetchRequestGroup(group_id="g", topics=topics_read),), require_stable=True
    )


def test_find_coordinator_of_one_key() -> None:
    requests = request_from_kafka("FindCoordinator", 2, {"key": "g", "keyType": 0})
    assert requests == (("g", messages.FindCoordinatorRequest(coordinator_keys=("g",))),)
    with pytest.raises(KafkaJsonError, match="keyType is missing"):
        request_from_kafka("FindCoordinator", 1, {"key": "g"})
    assert request_from_kafka("FindCoordinator", 0, {"key": "g"}) == requests
    response = messages.FindCoordinatorResponse(
        coordinators=(messages.Coordinator(key="g", node_id=3, host="h", port=9092),)
    )
    address = {"nodeId": 3, "host": "h", "port": 9092}
    assert response_to_kafka("FindCoordinator", 0, response) == {"errorCode": 0, **address}
    assert response_to_kafka("FindCoordinator", 1, response) == {"errorCode": 0, "errorMessage": None, **address}
    assert response_to_kafka("FindCoordinator", 4, response) == {
        "coordinators": [{"key": "g", **address, "errorCode": 0, "errorMessage": None}]
    }


def test_a_request_for_several_groups_becomes_one_for_each() -> None:
    requests = request_from_kafka("DescribeGroups", 3, {"groups": ["b", "a"], "includeAuthorizedOperations": True})
    assert requests == tuple(
        (group_id, messages.DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=True))
        for group_id in ("b", "a")
    )
    assert request_from_kafka("DeleteGroups", 2, {"groupsNames": ["a", "b"]}) == tuple(
        (group_id, messages.DeleteGroupsRequest(groups_names=(group_id,))) for group_id in ("a", "b")
    )
    body = {"groups": [{"groupId": "a", "topics": None}, {"groupId": "b", "topics": []}], "requireStable": False}
    first, second = request_from_kafka("OffsetFetch", 8, body)
    assert first == ("a", messages.OffsetFetchRequest(groups=(messages.OffsetFetchRequestGroup(group_id="a"),)))
    assert second == (
        "b",
        messages.OffsetFetchRequest(groups=(messages.OffsetFetchRequestGroup(group_id="b", topics=()),)),
    )
    keys = request_from_kafka("FindCoordinator", 6, {"keyType": 0, "coordinatorKeys": ["a", "b"]})
    assert [group_id for group_id, _ in keys] == ["a", "b"]
    assert request_from_kafka("DeleteGroups", 2, {"groupsNames": []}) == ()


def test_answers_for_several_groups_are_merged() -> None:
    for exchange in of_api("DescribeGroups", "DeleteGroups", "OffsetFetch", "FindCoordinator"):
        api, version = exchange["api"], exchange["version"]
        merged: Any = response_from_kafka(api, version, exchange["response"])
        ((field, parts),) = ((name, getattr(merged, name)) for name in merged.__struct_fields__)
        assert joined(api, [type(merged)(**{field: (part,)}) for part in parts]) == merged
    assert joined("DeleteGroups", []) == messages.DeleteGroupsResponse(results=())


def test_what_cannot_be_merged() -> None:
    heartbeat = messages.HeartbeatResponse()
    assert joined("Heartbeat", [heartbeat]) is heartbeat
    for responses in ([heartbeat, heartbeat], []):
        with pytest.raises(ValueError):  # noqa: PT011 - a mistake of the caller, whatever it says
            joined("Heartbeat", responses)


def test_list_groups() -> None:
    for exchange in of_api("ListGroups"):
        body = exchange["request"]
        assert list_groups_from_kafka(exchange["version"], body) == messages.ListGroupsRequest(
            states_filter=tuple(body.get("statesFilter", ())), types_filter=tuple(body.get("typesFilter", ()))
        )


# ----------------------------------------------------------------------------------------------------------- topic ids


def test_topic_ids_are_kafkas_base64() -> None:
    assert topic_id_from_kafka(ORDERS_KAFKA_ID) == ORDERS_ID
    assert topic_id_from_kafka("AAAAAAAAAAAAAAAAAAAAAA") is None


@given(st.uuids())
def test_topic_ids_round_trip(topic_id: Any) -> None:
    assert topic_id_from_kafka(uuid_to_json(topic_id.bytes)) == (str(topic_id) if topic_id.int else None)


def commit_by_id(topic_id: object) -> Json:
    partition = {"partitionIndex": 3, "committedOffset": 7, "committedLeaderEpoch": -1, "committedMetadata": ""}
    return {
        "groupId": "g",
        "generationIdOrMemberEpoch": 2,
        "memberId": "m",
        "groupInstanceId": None,
        "topics": [{"topicId": topic_id, "partitions": [partition]}],
    }


def test_a_commit_by_topic_id_gets_the_name() -> None:
    ((_, request),) = request_from_kafka("OffsetCommit", 10, commit_by_id(ORDERS_KAFKA_ID), TOPIC_NAMES)
    assert isinstance(request, messages.OffsetCommitRequest)
    assert [(topic.name, topic.topic_id) for topic in request.topics] == [("orders", ORDERS_ID)]


@pytest.mark.parametrize("topic_id", ["AAAAAAAAAAAAAAAAAAAAAA", "yYT9PLz", "T1-A4s3VTwiI5CTbEp6POw", "é", "", None, 5])
def test_a_topic_id_that_names_nothing(topic_id: object) -> None:
    with pytest.raises(KafkaJsonError, match="OffsetCommit version 10"):
        request_from_kafka("OffsetCommit", 10, commit_by_id(topic_id), TOPIC_NAMES)


def test_fetch_by_topic_id() -> None:
    topics = [{"topicId": ORDERS_KAFKA_ID, "partitionIndexes": [1]}]
    group = {"groupId": "g", "memberId": None, "memberEpoch": -1, "topics": topics}
    ((_, request),) = request_from_kafka("OffsetFetch", 10, {"groups": [group], "requireStable": False}, TOPIC_NAMES)
    expected = messages.OffsetFetchRequestTopic(name="orders", topic_id=ORDERS_ID, partition_indexes=(1,))
    assert isinstance(request, messages.OffsetFetchRequest)
    assert request.groups[0].topics == (expected,)


@pytest.mark.parametrize(
    ("api", "printed"),
    [
        (
            "OffsetCommit",
            {"topics": [{"topicId": ORDERS_KAFKA_ID, "partitions": [{"partitionIndex": 1, "errorCode": 0}]}]},
        ),
        (
            "OffsetFetch",
            {
                "groups": [
                    {
                        "groupId": "g",
                        "topics": [
                            {
                                "topicId": ORDERS_KAFKA_ID,
                                "partitions": [
                                    {
                                        "partitionIndex": 1,
                                        "committedOffset": 7,
                                        "committedLeaderEpoch": 4,
                                        "metadata": "",
                                        "errorCode": 0,
                                    }
                                ],
                            }
                        ],
                        "errorCode": 0,
                    }
                ]
            },
        ),
    ],
)
def test_answers_by_topic_id(api: str, printed: Json) -> None:
    response = response_from_kafka(api, 10, printed, TOPIC_NAMES)
    assert "orders" in repr(response)
    assert response_to_kafka(api, 10, response) == printed


# -------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({}, "field groupId is missing"),
        ({"groupId": "g", "generationId": 1, "memberId": "m"}, "field groupInstanceId is missing"),
        ({"groupId": 5, "generationId": 1, "memberId": "m", "groupInstanceId": None}, "groupId"),
        ({"groupId": "g", "generationId": 2**31, "memberId": "m", "groupInstanceId": None}, "generationId"),
        ({"groupId": "g", "generationId": None, "memberId": "m", "groupInstanceId": None}, "generationId"),
        ([], "expected an object, got list"),
        (None, "expected an object, got NoneType"),
    ],
)
def test_damaged_request(body: object, complaint: str) -> None:
    with pytest.raises(KafkaJsonError, match=complaint):
        request_from_kafka("Heartbeat", 3, body)


@pytest.mark.parametrize("assignment", ["A", "A===", "\ud800", "%%%%", 3, None, []])
def test_damaged_base64(assignment: object) -> None:
    with pytest.raises(KafkaJsonError, match="SyncGroup version 0"):
        response_from_kafka("SyncGroup", 0, {"errorCode": 0, "assignment": assignment})


@pytest.mark.parametrize(
    ("api", "version"),
    [("Fetch", 12), ("ListGroups", 6), ("JoinGroup", -1), ("JoinGroup", 10), ("OffsetCommit", 1), ("OffsetFetch", 11)],
)
def test_what_is_not_spoken(api: str, version: int) -> None:
    with pytest.raises(KafkaJsonError, match=api):
        response_from_kafka(api, version, {})


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 2**70, 1.5, "x", "A===", "\ud800", [], {}, [[]], [None], {"a": 1}]
)


def damaged(value: Any, draw: st.DataObject) -> Any:
    """`value` with one place of it dropped or replaced by junk."""
    if isinstance(value, dict) and value and draw.draw(st.booleans()):
        name = draw.draw(st.sampled_from(sorted(value)))
        remaining = {key: member for key, member in value.items() if key != name}
        return remaining if draw.draw(st.booleans()) else {**remaining, name: damaged(value[name], draw)}
    if isinstance(value, list) and value and draw.draw(st.booleans()):
        index = draw.draw(st.integers(min_value=0, max_value=len(value) - 1))
        return [*value[:index], damaged(value[index], draw), *value[index + 1 :]]
    return draw.draw(JUNK)


@given(st.sampled_from(EXCHANGES), st.integers(min_value=0, max_value=11), st.booleans(), st.data())
def test_damaged_json_is_told_and_nothing_else(
    exchange: Json, version: int, keep_version: bool, draw: st.DataObject
) -> None:
    version = exchange["version"] if keep_version else version
    with suppress(KafkaJsonError):
        response_from_kafka(exchange["api"], version, damaged(exchange["response"], draw))
    with suppress(KafkaJsonError):
        if exchange["api"] == "ListGroups":
            list_groups_from_kafka(version, damaged(exchange["request"], draw))
        else:
            request_from_kafka(exchange["api"], version, damaged(exchange["request"], draw))
