"""The bytes of consumer groups' records, as Kafka 4.3.1's own serializers wrote them."""

import pytest

from schemas.consumer_group_records import (
    CURRENT_MEMBER_TYPE,
    MEMBER_METADATA_TYPE,
    METADATA_TYPE,
    REGULAR_EXPRESSION_TYPE,
    TARGET_MEMBER_TYPE,
    TARGET_METADATA_TYPE,
    current_member_value,
    group_key,
    member_metadata_value,
    metadata_value,
    named_key,
    regular_expression_value,
    target_member_value,
    target_metadata_value,
)
from schemas.kafka.records import Record, decode_record

ID = "00000000-0000-0001-0000-000000000001"
ID_HEX = "0000000000000001" * 2
NATIVE = member_metadata_value(
    instance_id=None,
    rack_id=None,
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=("foo", "bar"),
    subscribed_topic_regex="",
    rebalance_timeout_ms=60_000,
    server_assignor=None,
    classic=None,
)
CLASSIC = member_metadata_value(
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=("bar", "foo"),
    subscribed_topic_regex="",
    rebalance_timeout_ms=60_000,
    server_assignor="range",
    classic=(10_000, (("range", b"\x01\x02"),)),
)


def hexadecimal(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


VECTORS = {
    "epoch and hash": (metadata_value(2, 6824679331406299771), "0000 00000002 01 00 08 5eb621b1766c427b"),
    "no hash": (metadata_value(3, 0), "0000 00000003 00"),
    "a member": (
        NATIVE,
        "0000 00 00 0263 0b2f3132372e302e302e31 03 04626172 04666f6f 01 0000ea60 00 01 00 01 00",
    ),
    "a classic member": (
        CLASSIC,
        "0000 0269 0272 0263 0b2f3132372e302e302e31 03 0462617204666f6f 01 0000ea60 0672616e6765 01 00 11 "
        "01 00002710 020672616e6765 030102 00 00",
    ),
    "target epoch": (target_metadata_value(2, 1_000_000), "0000 00000002 01 00 08 00000000000f4240"),
    "target epoch without a time": (target_metadata_value(1, 0), "0000 00000001 00"),
    "target": (target_member_value(((ID, (0, 1)),)), f"0000 02 {ID_HEX} 03 00000000 00000001 00 00"),
    "current": (
        current_member_value(2, 0, 0, {ID: {0: 2}}, {}),
        f"0000 00000002 00000000 00 02 {ID_HEX} 02 00000000 01 00 05 02 00000002 01 00",
    ),
    "expression": (
        regular_expression_value(("foo",), 1, 1_000_000),
        "0000 02 04666f6f 0000000000000001 00000000000f4240 00",
    ),
}
KEYS = {
    "3": (group_key(METADATA_TYPE, "g"), "0003000167"),
    "5": (named_key(MEMBER_METADATA_TYPE, "g", "A"), "0005000167000141"),
    "6": (group_key(TARGET_METADATA_TYPE, "g"), "0006000167"),
    "7": (named_key(TARGET_MEMBER_TYPE, "g", "A"), "0007000167000141"),
    "8": (named_key(CURRENT_MEMBER_TYPE, "g", "A"), "0008000167000141"),
    "16": (named_key(REGULAR_EXPRESSION_TYPE, "g", "f.*"), "00100001670003662e2a"),
}


@pytest.mark.parametrize(("written", "kafkas"), (VECTORS | KEYS).values(), ids=(VECTORS | KEYS).keys())
def test_the_bytes_are_kafkas(written: bytes, kafkas: str) -> None:
    assert written == hexadecimal(kafkas)


def test_what_is_written_can_be_read() -> None:
    record = decode_record(named_key(MEMBER_METADATA_TYPE, "g", "A"), CLASSIC)
    assert isinstance(record, Record)
    assert record.key == {"group_id": "g", "member_id": "A"}
    assert record.value is not None
    assert record.value["classic_member_metadata"]["session_timeout_ms"] == 10_000


def test_a_target_keeps_its_order_and_what_a_member_has_is_ascending() -> None:
    """The next assignment goes by the order of the target."""
    other = "00000000-0000-0002-0000-000000000002"
    target = decode_record(named_key(TARGET_MEMBER_TYPE, "g", "A"), target_member_value(((other, (2, 0)), (ID, (1,)))))
    has = current_member_value(2, 0, 0, {other: {2: 1, 0: 1}, ID: {1: 1}}, {})
    current = decode_record(named_key(CURRENT_MEMBER_TYPE, "g", "A"), has)
    assert isinstance(target, Record)
    assert isinstance(current, Record)
    assert target.value is not None
    assert current.value is not None
    assert [topic["partitions"] for topic in target.value["topic_partitions"]] == [(2, 0), (1,)]
    assert [topic["partitions"] for topic in current.value["assigned_partitions"]] == [(1,), (0, 2)]
