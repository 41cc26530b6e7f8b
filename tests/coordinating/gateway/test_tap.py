"""A tap in front of a real broker that keeps its own groups:
nobody notices it, and what it wrote replays to the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from coordinator_state import Answer, Coordinator, GroupConfig, group_event
from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.tap import FilesOutput, Tap
from group_coordinator.coordinating.gateway.translation import write_response
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.consumer_group_messages import ConsumerGroupHeartbeatResponse
from schemas.error_codes import ErrorCode
from schemas.events import ResponseEnvelope, decode_group_event, decode_response_event, decode_tick
from schemas.group_metadata_events import RegexesResolved
from schemas.messages import HeartbeatRequest, HeartbeatResponse, JoinGroupResponse, OffsetFetchResponse, Response
from schemas.records_file import decode_event_record, decode_record
from tests.coordinating.gateway.clients.consumers import LIBRARIES, consumers_of, share, with_kafka_python
from tests.coordinating.gateway.clients.reading import reads
from tests.coordinating.gateway.conftest import PARTITIONS

pytestmark = pytest.mark.end_to_end


def replayed(path: Path) -> dict[str, Response]:
    """What the coordinator's core answers to the events of a file, by request id."""
    coordinator = Coordinator(GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_hash_order=True))
    answers: dict[str, Response] = {}
    clock_ms = 0
    for line in path.read_bytes().splitlines():
        record = decode_event_record(line)
        assert record.value is not None
        if record.key is None:
            clock_ms = decode_tick(record.value).clock_ms
            outputs = coordinator.advance_to(clock_ms)
        else:
            group_id = record.key.decode()
            decoded = decode_group_event(group_id, record.value)
            event = group_event(decoded, record.offset or 0, clock_ms, record.timestamp_ms or 0)
            outputs = coordinator.handle(group_id, event)
        answers |= {output.request_id: output.response for output in outputs if isinstance(output, Answer)}
    return answers


def recorded(path: Path) -> dict[str, tuple[ResponseEnvelope, Response]]:
    """What the broker answered, by request id."""
    records = [decode_record(line) for line in path.read_bytes().splitlines()]
    decoded = [decode_response_event(record.value) for record in records if record.value is not None]
    return {envelope.request_id: (envelope, response) for envelope, response in decoded}


def resolved(path: Path) -> dict[str, tuple[str, ...]]:
    """What expressions match, as the events of a file tell it."""
    records = [decode_record(line) for line in path.read_bytes().splitlines()]
    decoded = [decode_group_event(record.key.decode(), record.value) for record in records if record.key is not None]
    facts = [event for event in decoded if isinstance(event, RegexesResolved)]
    return {regex: topics for fact in facts for regex, topics in fact.resolved.items()}


def gist(envelope: ResponseEnvelope, response: Response) -> bytes:
    """What its version says of an answer, but for what few microseconds between two connections may change."""
    if isinstance(response, JoinGroupResponse):
        response = replace(response, members=tuple(sorted(response.members, key=lambda member: member.member_id)))
    if isinstance(response, OffsetFetchResponse):
        return b""
    return write_response(envelope.api, envelope.api_version, 0, response)


@with_kafka_python
def test_a_recording_of_three_libraries_replays_to_the_brokers_answers(
    kafka: EmbeddedKafka, topic: str, java_classes: Path, tmp_path: Path, admin: AdminClient
) -> None:
    config = GatewaySettings(listen="127.0.0.1:0", bootstrap_servers=kafka.bootstrap_servers)
    output = tmp_path / "recording.jsonl"
    with Tap(config, FilesOutput(output)) as tap, consumers_of(tap.bootstrap_servers, topic, java_classes) as consumers:
        group = f"{topic}-tapped"
        members = []
        for library in LIBRARIES:
            members.append(consumers.start(library, group))
            share(members, PARTITIONS)
        producer = Producer({"bootstrap.servers": tap.bootstrap_servers, "log_level": "2"})
        for number in range(30):
            producer.produce(topic, str(number))
        assert producer.flush(15) == 0
        reads(30, *members)
        modern = [
            consumers.start("librdkafka", f"{group}-{name}", group_protocol="consumer", topic=subscribed)
            for name, subscribed in (("modern", topic), ("expression", f"^{topic}$"))
        ]
        for member in modern:
            share([member], PARTITIONS)
            reads(30, member)
            member.close()
        while members:  # the leader last: whom Kafka makes leader after it is a matter of hash order
            members.pop().close()
            if members:
                share(members, PARTITIONS)
        assert tap.metrics.connections_broken == {}
    assert group in {listing.group_id for listing in admin.list_consumer_groups().result().valid}, (
        "the broker kept the group itself"
    )
    broker_answers, replayed_answers = recorded(Path(f"{output}.answers")), replayed(output)
    assert len(broker_answers) > 20
    assert broker_answers.keys() == replayed_answers.keys()
    assert resolved(output) == {f"(^{topic}$)": (topic,)}
    assigned_groups = {
        envelope.group_id
        for envelope, response in broker_answers.values()
        if isinstance(response, ConsumerGroupHeartbeatResponse)
        and response.assignment
        and response.assignment.topic_partitions
    }
    assert assigned_groups == {f"{group}-modern", f"{group}-expression"}
    for request_id, (envelope, response) in broker_answers.items():
        assert gist(envelope, replayed_answers[request_id]) == gist(envelope, response), (
            f"{replayed_answers[request_id]}, the broker: {response}"
        )


def test_offsets_in_transactions_replay_to_the_brokers_answers(
    kafka: EmbeddedKafka, topic: str, tmp_path: Path, admin: AdminClient
) -> None:
    """They are committed and aborted, and one is left open until another producer takes its name."""
    config = GatewaySettings(listen="127.0.0.1:0", bootstrap_servers=kafka.bootstrap_servers)
    output, group, place = tmp_path / "recording.jsonl", f"{topic}-tapped", TopicPartition(topic, 0)
    stable = {"group.id": group, "isolation.level": "read_committed", "log_level": "2"}

    def producer_of(servers: str) -> Producer:
        producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-tx", "log_level": "2"})
        producer.init_transactions(20)
        return producer

    with Tap(config, FilesOutput(output)) as tap:
        producer = producer_of(tap.bootstrap_servers)
        consumer = Consumer({"bootstrap.servers": tap.bootstrap_servers, **stable})
        told = []
        for offset, ending in ((5, "commit"), (7, "abort"), (9, "commit"), (11, "open")):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 20
            )
            if ending == "open":
                producer = producer_of(tap.bootstrap_servers)
            else:
                (producer.commit_transaction if ending == "commit" else producer.abort_transaction)(20)
            told.append(consumer.committed([place], 20)[0].offset)
        assert told == [5, 5, 9, 9]
        consumer.close()
        assert tap.metrics.connections_broken == {}
    broker_answers, replayed_answers = recorded(Path(f"{output}.answers")), replayed(output)
    commits = [each for each in broker_answers.values() if each[0].api == "TxnOffsetCommit"]
    assert len(commits) == 4
    for request_id, (envelope, response) in broker_answers.items():
        answer = replayed_answers[request_id]
        if isinstance(response, OffsetFetchResponse) and is_unstable(response):
            continue  # between the decision, which the tap has heard, and the marker, which it has not
        assert write_response(envelope.api, envelope.api_version, 0, answer) == write_response(
            envelope.api, envelope.api_version, 0, response
        ), f"{answer}, the broker: {response}"


def is_unstable(response: OffsetFetchResponse) -> bool:
    return any(
        partition.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        for group in response.groups for topic in group.topics or () for partition in topic.partitions
    )  # fmt: skip


def test_a_full_disk_ends_the_recording_and_disturbs_no_client() -> None:
    class Full:
        def event(self, event: object) -> None:
            raise OSError(28, "No space left on device")

        answer = event

        def flush(self) -> None: ...

        def close(self) -> None: ...

    tap = Tap(GatewaySettings(bootstrap_servers="127.0.0.1:9"), Full())
    request = PendingRequest(
        number=1, api="Heartbeat", api_version=4, client_id="c", client_host="127.0.0.1", principal="User:ANONYMOUS",
        request=HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    )  # fmt: skip
    for _ in range(2):
        tapped = tap.note(request)
        assert tapped is not None
        tapped.answered(HeartbeatResponse(error_code=ErrorCode.NONE), 1)
    assert tap.recording_failure == "[Errno 28] No space left on device"


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    FilesOutput(tmp_path / "r.jsonl").close()
    with pytest.raises(GatewayError, match="File exists"):
        FilesOutput(tmp_path / "r.jsonl")
