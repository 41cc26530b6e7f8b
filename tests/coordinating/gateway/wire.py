"""A client's and a broker's side of the wire, made of kafka-python's classes, for tests without sockets."""

from __future__ import annotations

import struct
from typing import Any

from kafka.protocol.consumer.group import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer.produce import ProduceRequest


def request(message: Any, correlation_id: int, client_id: str | None = "client") -> bytes:
    """A request's frame."""
    message.with_header(correlation_id, client_id)
    return bytes(message.encode(header=True, framed=True))


def response(message: Any, correlation_id: int) -> bytes:
    """A response's frame."""
    message.with_header(correlation_id)
    return bytes(message.encode(header=True, framed=True))


def heartbeat(correlation_id: int, group_id: str = "g", version: int = 4) -> bytes:
    return request(HeartbeatRequest(version=version, group_id=group_id, generation_id=1, member_id="m"), correlation_id)


def heartbeat_error(frame: bytes, version: int = 4) -> int:
    error_code: int = HeartbeatResponse.decode(frame[4:], version=version, header=True).error_code
    return error_code


def join(correlation_id: int) -> bytes:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(version=5, name="range", metadata=b"m")]
    message = JoinGroupRequest(
        version=5, group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=60_000, member_id="m",
        protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    return request(message, correlation_id)


def sync(correlation_id: int) -> bytes:
    return request(
        SyncGroupRequest(
            version=5, group_id="g", generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"
        ),
        correlation_id,
    )


def metadata(correlation_id: int) -> bytes:
    return request(MetadataRequest(version=9, topics=[]), correlation_id)


def metadata_answer(correlation_id: int, host: str = "broker-1", port: int = 9093) -> bytes:
    broker = MetadataResponse.MetadataResponseBroker(version=9, node_id=1, host=host, port=port, rack=None)
    return response(
        MetadataResponse(version=9, brokers=[broker], topics=[], cluster_id="c", controller_id=1), correlation_id
    )


def produce(
    correlation_id: int, acks: int, version: int = 8, transactional_id: str | None = None, size: int = 100
) -> bytes:
    topic = ProduceRequest.TopicProduceData(version=version, name="t", partition_data=[
        ProduceRequest.TopicProduceData.PartitionProduceData(version=version, index=0, records=bytes(size))
    ])  # fmt: skip
    message = ProduceRequest(
        version=version, transactional_id=transactional_id, acks=acks, timeout_ms=1_000, topic_data=[topic]
    )
    return request(message, correlation_id)


def api_versions(correlation_id: int, version: int = 3) -> bytes:
    return request(ApiVersionsRequest(version=version), correlation_id)


def api_versions_answer(correlation_id: int, version: int = 3) -> bytes:
    keys = [ApiVersionsResponse.ApiVersion(version=version, api_key=0, min_version=0, max_version=13)]
    return response(ApiVersionsResponse(version=version, error_code=0, api_keys=keys), correlation_id)


def raw_answer(correlation_id: int, body: bytes = b"body") -> bytes:
    payload = struct.pack(">i", correlation_id) + body
    return struct.pack(">i", len(payload)) + payload


def frames(stream: bytes) -> list[bytes]:
    """The frames of a stream, lengths included; it must end with one."""
    complete = []
    while stream:
        size = 4 + struct.unpack_from(">i", stream)[0]
        assert len(stream) >= size
        complete.append(stream[:size])
        stream = stream[size:]
    return complete


def correlations(stream: bytes) -> list[int]:
    return [struct.unpack_from(">i", frame, 4)[0] for frame in frames(stream)]
