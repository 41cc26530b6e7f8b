"""Answers on their way through: versions cut down, addresses replaced, all else to the byte."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer.produce import ProduceResponse

from group_coordinator.coordinating.gateway.config import Address
from group_coordinator.coordinating.gateway.rewriting import (
    refuse_api_versions,
    rewrite_api_versions,
    rewrite_describe_cluster,
    rewrite_find_coordinator,
    rewrite_metadata,
    rewrite_produce,
)
from group_coordinator.coordinating.gateway.versions import (
    GROUP_VERSIONS,
    accepted_versions,
    hidden_features,
    offered_versions,
)

OURS = accepted_versions(rewrites_addresses=True, taps=False)
BROKER = {
    0: (0, 13), 1: (4, 18), 3: (0, 13), 8: (2, 10), 10: (3, 6), 11: (0, 3), 18: (0, 4), 25: (0, 4), 28: (0, 5),
    68: (0, 1), 999: (0, 0),
}  # fmt: skip


def locate(node_id: int, address: Address) -> Address:
    assert address == Address(f"broker-{node_id}", 9092 + node_id)
    return Address("gateway.example", 20_000 + node_id)


def encoded(message: Any, correlation_id: int = 7) -> bytes:
    message.with_header(correlation_id)
    return bytes(message.encode(header=True))


def brokers(cls: Any, version: int, **more: Any) -> list[Any]:
    key = "node_id" if "node_id" in cls.fields else "broker_id"
    return [
        cls(version=version, host=f"broker-{node}", port=9092 + node, rack="r" if node else None, **more | {key: node})
        for node in (0, 3, 1_000)
    ]


@pytest.mark.parametrize("version", range(14))
def test_metadata(version: int) -> None:
    topics = [
        MetadataResponse.MetadataResponseTopic(version=version, error_code=0, name="t", partitions=[
            MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
                version=version, error_code=0, partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=[0, 1],
                isr_nodes=[1], offline_replicas=[],
            )
        ])
    ]  # fmt: skip
    message = MetadataResponse(
        version=version, brokers=brokers(MetadataResponse.MetadataResponseBroker, version), topics=topics,
        cluster_id="c", controller_id=3,
    )  # fmt: skip
    payload = encoded(message)
    rewritten = rewrite_metadata(payload, version, locate)
    read = MetadataResponse.decode(rewritten, version=version, header=True)
    assert [(broker.node_id, broker.host, broker.port) for broker in read.brokers] == [
        (node, "gateway.example", 20_000 + node) for node in (0, 3, 1_000)
    ]
    assert [broker.rack for broker in read.brokers] == [
        None if version < 1 or not node else "r" for node in (0, 3, 1_000)
    ]
    for broker in message.brokers:
        broker.host, broker.port = "gateway.example", 20_000 + broker.node_id
    assert rewritten == encoded(message)


def test_metadata_keeps_what_it_does_not_know() -> None:
    """Whatever a later broker appends in tags, or at the end of the message, gets through."""
    message = MetadataResponse(version=12, brokers=brokers(MetadataResponse.MetadataResponseBroker, 12)[:1], topics=[])
    payload = encoded(message)
    at = payload.index(struct.pack(">i", 9092)) + 4 + 1  # behind the port and the null rack
    with_tags = payload[:at] + b"\x01\x05\x02hi" + payload[at + 1 :] + b"more"
    rewritten = rewrite_metadata(with_tags, 12, locate)
    assert b"\x01\x05\x02hi" in rewritten
    assert rewritten.endswith(b"more")


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(version: int) -> None:
    cls = DescribeClusterResponse.DescribeClusterBroker
    message = DescribeClusterResponse(
        version=version, error_code=0, cluster_id="c", controller_id=1, brokers=brokers(cls, version)
    )
    rewritten = rewrite_describe_cluster(encoded(message), version, locate)
    for broker in message.brokers:
        broker.host, broker.port = "gateway.example", 20_000 + broker.broker_id
    assert rewritten == encoded(message)


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("error_code", [0, 53])
def test_find_coordinator_of_a_transaction(version: int, error_code: int) -> None:
    """53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, is no code of a group coordinator."""
    if error_code:
        values = {"error_code": error_code, "error_message": "no", "node_id": -1, "host": "", "port": -1}
        expected = values
    else:
        values = {"error_code": 0, "error_message": None, "node_id": 3, "host": "broker-3", "port": 9095}
        expected = {**values, "host": "gateway.example", "port": 20_003}

    def message(values: dict[str, Any]) -> Any:
        if version < 4:
            return FindCoordinatorResponse(version=version, **values)
        return FindCoordinatorResponse(
            version=version, coordinators=[FindCoordinatorResponse.Coordinator(version=version, key="tx", **values)]
        )

    assert rewrite_find_coordinator(encoded(message(values)), version, locate) == encoded(message(expected))


@pytest.mark.parametrize("version", range(10, 13))
@pytest.mark.parametrize("has_moved", [False, True])
def test_produce_tells_where_the_new_leaders_are(version: int, has_moved: bool) -> None:
    cls = ProduceResponse.TopicProduceResponse
    partition = cls.PartitionProduceResponse
    error = partition.BatchIndexAndErrorMessage(version=version, batch_index=3, batch_index_error_message="no")
    partitions = [
        partition(version=version, index=0, error_code=0, base_offset=4, record_errors=[], error_message=None),
        partition(version=version, index=1, error_code=87, base_offset=-1, record_errors=[error], error_message="bad"),
    ]  # fmt: skip
    message = ProduceResponse(
        version=version, responses=[cls(version=version, name=name, partition_responses=partitions) for name in "tu"]
    )
    if has_moved:
        leader = partition.LeaderIdAndEpoch(version=version, leader_id=3, leader_epoch=7)
        moved = partition(
            version=version, index=2, error_code=6, base_offset=-1, record_errors=[], error_message=None,
            current_leader=leader,
        )  # fmt: skip
        partitions.append(moved)
        message.node_endpoints = brokers(ProduceResponse.NodeEndpoint, version)
    rewritten = rewrite_produce(encoded(message), locate)
    for broker in message.node_endpoints if has_moved else []:
        broker.host, broker.port = "gateway.example", 20_000 + broker.node_id
    assert rewritten == encoded(message)
    assert (b"gateway.example" in rewritten) is has_moved


def api_versions(version: int, error_code: int = 0) -> Any:
    keys = [
        ApiVersionsResponse.ApiVersion(version=version, api_key=key, min_version=first, max_version=last)
        for key, (first, last) in BROKER.items()
    ]
    return ApiVersionsResponse(version=version, error_code=error_code, api_keys=keys, throttle_time_ms=5)


def offered_to(payload: bytes, version: int) -> dict[int, tuple[int, int]]:
    read = ApiVersionsResponse.decode(payload, version=version, header=True)
    return {api.api_key: (api.min_version, api.max_version) for api in read.api_keys}


@pytest.mark.parametrize("version", range(6))
def test_api_versions(version: int) -> None:
    layout = min(version, 4)  # that of 5 is the same
    offered = offered_to(rewrite_api_versions(encoded(api_versions(layout)), version, OURS, taps=False), layout)
    assert offered == offered_versions(BROKER, OURS, taps=False)
    assert offered[0] == (0, 9)
    assert offered[1] == (4, 15)
    assert offered[8] == (2, 10)
    assert offered[10] == (3, 5), "of a transaction it goes through"
    assert offered[11] == (0, 9), "the broker's own JoinGroup does not matter"
    assert not offered.keys() & {25, 28, 999}
    assert (offered[68], offered[69]) == ((0, 1), (0, 1)), "whether the broker has them or not"
    assert GROUP_VERSIONS.keys() <= offered.keys()


@pytest.mark.parametrize("version", [3, 4, 5])
def test_api_versions_when_the_broker_is_older(version: int) -> None:
    """It says so in the layout of version 0, and with what it has."""
    answer = encoded(api_versions(0, error_code=35))
    rewritten = rewrite_api_versions(answer, version, OURS, taps=False)
    assert rewritten[4:6] == b"\x00\x23"
    assert offered_to(rewritten[:4] + b"\x00\x00" + rewritten[6:], 0)[0] == (0, 9)


@pytest.mark.parametrize("code", [42, 129])
def test_a_refused_api_versions_stays_as_it_is(code: int) -> None:
    """INVALID_REQUEST, of a client with a bad name; REBOOTSTRAP_REQUIRED, of one that means another broker."""
    refused = ApiVersionsResponse(version=4, error_code=code, api_keys=[], throttle_time_ms=5)
    assert rewrite_api_versions(encoded(refused), 5, OURS, taps=False) == encoded(refused)


def test_topics_by_id_are_offered_where_the_broker_can_say_which_they_are() -> None:
    older = {**BROKER, 3: (0, 11)}
    offered = offered_versions(older, OURS, taps=False)
    assert (offered[8], offered[9]) == ((2, 9), (1, 9))
    assert offered_versions(BROKER, accepted_versions(rewrites_addresses=True, taps=True), taps=True)[8] == BROKER[8]


@pytest.mark.parametrize(
    ("transactions", "shown"),
    [
        (False, ["metadata.version", "group.version"]),
        (True, ["metadata.version", "transaction.version", "group.version"]),
    ],
)
def test_features_that_rest_on_what_is_hidden_are_not_offered(transactions: bool, shown: list[str]) -> None:
    """Transactions of version 2 begin in Produce 12 and TxnOffsetCommit 5: both are there, or neither counts."""
    message = api_versions(3)
    cls = ApiVersionsResponse.FinalizedFeatureKey
    message.finalized_features = [
        cls(version=3, name=name, max_version_level=2, min_version_level=1)
        for name in ("metadata.version", "transaction.version", "share.version", "group.version")
    ]
    message.finalized_features_epoch = 16
    ours = accepted_versions(rewrites_addresses=True, taps=False, transactions=transactions)
    read = ApiVersionsResponse.decode(
        rewrite_api_versions(encoded(message), 3, ours, taps=False), version=3, header=True
    )
    assert [feature.name for feature in read.finalized_features] == shown
    assert (read.finalized_features_epoch, read.throttle_time_ms) == (16, 5)


@pytest.mark.parametrize("older", [{0: (0, 11)}, {28: (0, 4)}])
def test_transactions_of_version_2_need_both_requests_of_the_broker(older: dict[int, tuple[int, int]]) -> None:
    ours = accepted_versions(rewrites_addresses=True, taps=False, transactions=True)
    assert "transaction.version" not in hidden_features(offered_versions(BROKER, ours, taps=False))
    assert "transaction.version" in hidden_features(offered_versions(BROKER | older, ours, taps=False))


def test_a_version_of_api_versions_that_is_not_known_yet() -> None:
    payload = refuse_api_versions(9, OURS)
    assert payload[:6] == b"\x00\x00\x00\x09\x00\x23"
    assert ApiVersionsResponse.decode(payload[4:], version=0).api_keys[0].max_version == 5


def test_a_tap_offers_the_groups_of_the_broker() -> None:
    offered = offered_versions(BROKER, accepted_versions(rewrites_addresses=True, taps=True), taps=True)
    assert offered[11] == (0, 3)
    assert 12 not in offered
    assert offered[28] == (0, 5)
    assert offered[68] == (0, 1)
    assert 69 not in offered, "this broker has it not"


def test_nothing_is_capped_where_brokers_name_the_gateway_themselves() -> None:
    offered = offered_versions(BROKER, accepted_versions(rewrites_addresses=False, taps=False), taps=False)
    assert (offered[0], offered[1]) == ((0, 12), (4, 18)), "Produce 13 names topics by id"
