"""The reader of the offsets topic: what it asks of kafka-python, and what comes of a fetched piece of the log."""

from __future__ import annotations

import re
import sys

import kafka
import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords

from group_coordinator.ground.settings.kafka_properties import PROPERTIES, librdkafka_properties
from group_coordinator.watching.watch.offsets_topic import (
    BYTES_OF_RECORDS,
    OffsetsTopicReader,
    OffsetsTopicRefusedError,
    WholeBatches,
    uncompress,
)
from group_coordinator.watching.watch.python_client import PropertyError, python_properties
from schemas.kafka.record_batches import read_stretch
from tests.schemas.kafka.batches import batch


def test_the_library_has_what_is_replaced() -> None:
    """The class that unpacks, its methods and fields that are used, and the bytes of what was fetched."""
    library_names = {name for name in dir(Fetcher.PartitionRecords) if not name.startswith("__")}
    assert {"take", "drain"} <= library_names
    data = batch([(0, 1, b"k", b"v")])
    assert bytes(getattr(MemoryRecords(data), BYTES_OF_RECORDS)) == data


@pytest.mark.parametrize("module", ["kafka.net.compat", "kafka.codec"])
def test_a_library_that_is_other_inside(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic counts as one that may not be read then: groups are polled, and the reason is said."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OffsetsTopicRefusedError, match=rf"kafka-python {kafka.__version__} is other inside .*{module}"):
        OffsetsTopicReader({"bootstrap.servers": "127.0.0.1:1"})


def test_a_consumer_that_fetches_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.watching.watch.offsets_topic.KafkaConsumer", lambda **_: object())
    with pytest.raises(OffsetsTopicRefusedError, match=r"is other inside .*_fetcher"):
        OffsetsTopicReader({"bootstrap.servers": "127.0.0.1:1"})


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
            "socket.timeout.ms": "5000",
            "connections.max.idle.ms": "180000",
            "client.dns.lookup": "use_all_dns_ips",
        }
    ) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
        "request_timeout_ms": 5_000,
        "connections_max_idle_ms": 180_000,
        "client_dns_lookup": "use_all_dns_ips",
    }


@pytest.mark.parametrize(("name", "value"), [("ssl.ca.pem", "..."), ("socket.timeout.ms", "soon"), ("linger.ms", "5")])
def test_a_property_that_the_reader_cannot_have(name: str, value: str) -> None:
    with pytest.raises(PropertyError, match=re.escape(name)):
        python_properties({"bootstrap.servers": "a:1", name: value})


@pytest.mark.parametrize("name", sorted(name for name in PROPERTIES if not re.match(r"sasl\.(?!mech|kerb)", name)))
def test_each_known_property_is_used_or_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """None is dropped in silence: by neither of the two libraries, nor by the one that reads the offsets topic. (Those
    that belong to a login have tests of their own.)"""
    value = "5000" if name.endswith(".ms") else "PEM"
    client_properties = librdkafka_properties("a:1", {name: value})
    told = [record.getMessage() for record in caplog.records]
    assert len(client_properties) > 1 or name.endswith("store.type") or any(name in text for text in told)
    if set(client_properties) & {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"}:
        with pytest.raises(PropertyError):
            python_properties(client_properties)
    else:
        assert len(python_properties(client_properties)) == len(client_properties)
