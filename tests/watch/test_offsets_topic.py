"""The reader of the offsets topic: what it asks of kafka-python, and what comes of a fetched piece of the log."""

from __future__ import annotations

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords

from group_coordinator.watching.watch.offsets_topic import BYTES_OF_RECORDS, WholeBatches, uncompress
from group_coordinator.watching.watch.python_client import PropertyError, python_properties
from schemas.kafka.record_batches import read_stretch
from tests.schemas.kafka.batches import batch


def test_the_library_has_what_is_replaced() -> None:
    """The class that unpacks, its methods and fields that are used, and the bytes of what was fetched."""
    library_names = {name for name in dir(Fetcher.PartitionRecords) if not name.startswith("__")}
    assert {"take", "drain"} <= library_names
    data = batch([(0, 1, b"k", b"v")])
    assert bytes(getattr(MemoryRecords(data), BYTES_OF_RECORDS)) == data


def test_what_was_fetched_is_taken_once() -> None:
    batches = WholeBatches(0, TopicPartition("t", 0), read_stretch(batch([(0, 1, b"k", b"v")]), 0, uncompress))
    assert batches
    assert batches.next_fetch_offset == 0
    assert [record.key for record in batches.take()] == [b"k"]
    assert batches.next_fetch_offset == 1
    assert not batches
    assert batches.take() == []


def test_a_compressed_topic() -> None:
    rows = [(0, 1, b"a" * 100, b"b" * 100)]
    assert read_stretch(batch(rows, codec=1), 0, uncompress) == read_stretch(batch(rows), 0, uncompress)


def test_properties() -> None:
    assert python_properties(
        {
            "bootstrap.servers": "a:1,b:2",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
            "ssl.ca.location": "/ca.pem",
            "ssl.endpoint.identification.algorithm": "none",
            "socket.timeout.ms": "5",
        }
    ) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }
    with pytest.raises(PropertyError, match=r"ssl\.ca\.pem"):
        python_properties({"bootstrap.servers": "a:1", "ssl.ca.pem": "..."})
