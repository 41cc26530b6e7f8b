"""Answers of brokers that are changed on their way: which versions there are, and at which address a broker is.

Only the part that changes is written anew; what stands before and after it is kept to the byte, so that fields and tags
which are not known here get through. All raise `schemas.wire.DecodeError`. Layouts: Kafka's message definitions (4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from struct import Struct
from typing import Any

from group_coordinator.coordinating.gateway.codec import response_body_start, response_payload
from group_coordinator.coordinating.gateway.config import Address
from group_coordinator.coordinating.gateway.frames import RequestHead
from group_coordinator.coordinating.gateway.versions import OtherApi, Versions, hidden_features, offered_versions
from schemas.error_codes import ErrorCode
from schemas.kafka.codec import decode
from schemas.messages import ApiKey
from schemas.wire import (
    INT16,
    INT32,
    Reader,
    encode_count,
    encode_nullable_string,
    encode_string,
    encode_unsigned_varint,
)

Locate = Callable[[int, Address], Address]
"""(node id, the broker's own address) -> the address at which the gateway stands for it."""

Rewrite = Callable[[bytes], bytes]
"""An answer's payload as the broker gave it -> as the client gets it."""

_NO_TAGS = b"\x00"
_FINALIZED_FEATURES_TAG = 2
_NODE_ENDPOINTS_TAG, _PRODUCE_WITH_ADDRESSES = 0, 10
_PRODUCED = Struct(">ihqqq")
"""Of a partition in the answer to a Produce: its number, the error, offset, time, first offset of the log."""
_NO_NODE = -1


def rewrite_of(head: RequestHead, locate: Locate | None, gateway_versions: Versions, *, taps: bool) -> Rewrite | None:
    """Return the change to a broker's answer; None if it passes unchanged. If `locate` is None, no address is changed.
    """
    version = head.api_version
    if head.api_key == OtherApi.API_VERSIONS:
        return lambda payload: rewrite_api_versions(payload, version, gateway_versions, taps=taps)
    if locate is None:
        return None
    if head.api_key == OtherApi.METADATA:
        return lambda payload: rewrite_metadata(payload, version, locate)
    if head.api_key == OtherApi.DESCRIBE_CLUSTER:
        return lambda payload: rewrite_describe_cluster(payload, version, locate)
    if head.api_key == ApiKey.FIND_COORDINATOR:
        return lambda payload: rewrite_find_coordinator(payload, version, locate)
    if head.api_key == OtherApi.PRODUCE and version >= _PRODUCE_WITH_ADDRESSES:
        return lambda payload: rewrite_produce(payload, locate)
    return None


# ------------------------------------------------------------------------------------------------------ ApiVersions


def rewrite_api_versions(payload: bytes, version: int, gateway_versions: Versions, *, taps: bool) -> bytes:
    """Offer what both the broker and the gateway have. A refusal stays as it is.

    That the version is not known is told in the layout of version 0, with the versions.
    """
    reader = Reader(payload)
    reader.position = INT32.size
    error_code = reader.int16()
    if error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    elif error_code:
        return payload
    start = reader.position
    flexible = version >= 3
    broker = dict(reader.array(lambda: _read_api(reader, flexible), 6, flexible))
    keys = offered_versions(broker, gateway_versions, taps=taps)
    return payload[:start] + _encode_apis(keys, flexible) + _rest_of_api_versions(
        reader, payload, flexible, hidden_features(keys)
    )


def refuse_api_versions(correlation_id: int, gateway_versions: Versions) -> bytes:
    """Refuse a version of ApiVersions that is not known with UNSUPPORTED_VERSION. The answer names the known versions,
    in the layout of version 0."""
    known_versions = {int(OtherApi.API_VERSIONS): gateway_versions[OtherApi.API_VERSIONS]}
    return (
        INT32.pack(correlation_id)
        + INT16.pack(ErrorCode.UNSUPPORTED_VERSION)
        + _encode_apis(known_versions, flexible=False)
    )


def _read_api(reader: Reader, flexible: bool) -> tuple[int, tuple[int, int]]:
    key, versions = reader.int16(), (reader.int16(), reader.int16())
    if flexible:
        reader.tagged_fields()
    return key, versions


def _encode_apis(versions: Versions, flexible: bool) -> bytes:
    end = _NO_TAGS if flexible else b""
    items = [INT16.pack(key) + INT16.pack(first) + INT16.pack(last) + end for key, (first, last) in versions.items()]
    return encode_count(len(items), flexible) + b"".join(items)


def _rest_of_api_versions(reader: Reader, payload: bytes, flexible: bool, hidden: Collection[str]) -> bytes:
    start = reader.position
    if not flexible:
        return payload[start:]
    reader.int32()
    before_tags = payload[start : reader.position]
    tags = reader.tagged_fields()
    if _FINALIZED_FEATURES_TAG in tags:
        tags[_FINALIZED_FEATURES_TAG] = _without_features(tags[_FINALIZED_FEATURES_TAG], hidden)
    return before_tags + _encode_tags(tags)


def _without_features(features: bytes, hidden: Collection[str]) -> bytes:
    reader = Reader(features)

    def read_feature() -> tuple[str, bytes]:
        start = reader.position
        name = reader.string(compact=True)
        reader.int16()
        reader.int16()
        reader.tagged_fields()
        return name, features[start : reader.position]

    shown_features = [encoded for name, encoded in reader.array(read_feature, 6, compact=True) if name not in hidden]
    return encode_count(len(shown_features), compact=True) + b"".join(shown_features)


def _encode_tags(tags: dict[int, bytes]) -> bytes:
    parts = [encode_unsigned_varint(len(tags))]
    for tag, value in tags.items():
        parts += (encode_unsigned_varint(tag), encode_unsigned_varint(len(value)), value)
    return b"".join(parts)


# --------------------------------------------------------------------------------------------------------- addresses


def rewrite_metadata(payload: bytes, version: int, locate: Locate) -> bytes:
    """Rewrite Metadata. The brokers stand right at its beginning; topics, however many, are not looked at."""
    flexible = version >= 9
    reader = Reader(payload)
    reader.position = INT32.size
    if flexible:
        reader.tagged_fields()
    if version >= 3:
        reader.int32()
    return _with_brokers(reader, payload, locate, flexible, has_rack=version >= 1, ends_with_flag=False)


def rewrite_describe_cluster(payload: bytes, version: int, locate: Locate) -> bytes:
    """Rewrite DescribeCluster: error and cluster id, then the brokers."""
    reader = Reader(payload)
    reader.position = INT32.size
    reader.tagged_fields()
    reader.int32()
    reader.int16()
    reader.nullable_string(compact=True)
    if version >= 1:
        reader.int8()
    reader.string(compact=True)
    reader.int32()
    return _with_brokers(reader, payload, locate, flexible=True, has_rack=True, ends_with_flag=version >= 2)


def rewrite_find_coordinator(payload: bytes, version: int, locate: Locate) -> bytes:
    """Rewrite FindCoordinator that a broker answered: the coordinator of a transaction, or of a group behind a tap."""
    message = "FindCoordinatorResponse"
    values = decode(message, version, payload, response_body_start(message, version))
    if version < 4:
        values = _relocated(values, locate)
    else:
        values["coordinators"] = [_relocated(value, locate) for value in values["coordinators"]]
    return response_payload(message, version, INT32.unpack_from(payload)[0], values)


def rewrite_produce(payload: bytes, locate: Locate) -> bytes:
    """Rewrite Produce, 10 to 12: tags at its end say where the leaders are of partitions that have others (KIP-951)."""
    reader = Reader(payload)
    reader.position = INT32.size
    reader.tagged_fields()

    def pass_record_error() -> None:
        reader.int32()
        reader.nullable_string(compact=True)
        reader.tagged_fields()

    def pass_partition() -> None:
        reader.numbers(_PRODUCED)
        reader.array(pass_record_error, 6, compact=True)
        reader.nullable_string(compact=True)
        reader.tagged_fields()

    def pass_topic() -> None:
        reader.string(compact=True)
        reader.array(pass_partition, _PRODUCED.size + 3, compact=True)
        reader.tagged_fields()

    reader.array(pass_topic, 3, compact=True)
    reader.int32()
    start = reader.position
    tags = reader.tagged_fields()
    if _NODE_ENDPOINTS_TAG not in tags:
        return payload
    nodes = tags[_NODE_ENDPOINTS_TAG]
    tags[_NODE_ENDPOINTS_TAG] = _with_brokers(
        Reader(nodes), nodes, locate, flexible=True, has_rack=True, ends_with_flag=False
    )
    return payload[:start] + _encode_tags(tags) + payload[reader.position :]


def _relocated(coordinator: dict[str, Any], locate: Locate) -> dict[str, Any]:
    if coordinator["node_id"] == _NO_NODE:
        return coordinator
    host, port = locate(coordinator["node_id"], Address(coordinator["host"], coordinator["port"]))
    return coordinator | {"host": host, "port": port}


def _with_brokers(
    reader: Reader, payload: bytes, locate: Locate, flexible: bool, *, has_rack: bool, ends_with_flag: bool
) -> bytes:
    """The payload with the array of brokers, which begins where the reader stands, written anew."""
    start = reader.position

    def rewrite_broker() -> bytes:
        node_id = reader.int32()
        host, port = locate(node_id, Address(reader.string(flexible), reader.int32()))
        parts = [INT32.pack(node_id), encode_string(host, flexible), INT32.pack(port)]
        if has_rack:
            parts.append(encode_nullable_string(reader.nullable_string(flexible), flexible))
        if ends_with_flag:
            parts.append(bytes([reader.int8()]))
        if flexible:
            parts.append(_encode_tags(reader.tagged_fields()))
        return b"".join(parts)

    brokers = reader.array(rewrite_broker, 10, flexible)
    return payload[:start] + encode_count(len(brokers), flexible) + b"".join(brokers) + payload[reader.position :]
