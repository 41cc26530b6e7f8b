"""A tap in front of a real broker that keeps its own groups: nobody notices it, its log has what the broker's own log
has, and what the broker decided is decided here."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from group_coordinator.coordinating.gateway.codec import request_payload, response_body_start
from group_coordinator.coordinating.gateway.config import GatewayError, TapSettings
from group_coordinator.coordinating.gateway.frames import LENGTH, RequestHead, frame
from group_coordinator.coordinating.gateway.tap import Tap
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.proving.recordings.recording import verify_recording
from schemas.kafka.codec import decode
from schemas.kafka.definitions import definition_of
from tests.command_line.calls import call
from tests.conftest import AT_REST
from tests.coordinating.gateway.clients.consumers import LIBRARIES, consumers_of, share, with_kafka_python
from tests.coordinating.gateway.clients.reading import reads
from tests.coordinating.gateway.conftest import PARTITIONS, produce_to
from tests.coordinating.gateway.loops import Audit, Loop, LoopLibrary, loop_command
from tests.making_topics import make_topic
from tests.waiting import wait_until

RECORDS = 40
"""At a time."""
TIMEOUT_S = 120.0
NOT_COMPARED = ("before it asked the group", "looks for the coordinator of no group")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def own_kafka(kafka_jars: Path) -> Iterator[EmbeddedKafka]:
    """A broker whose log has its requests, too."""
    options = ("-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug",)
    with EmbeddedKafka(properties=AT_REST, java_options=options) as broker:
        yield broker


def settings_for(kafka: EmbeddedKafka, **settings: Any) -> TapSettings:
    return TapSettings(listen="127.0.0.1:0", upstream=kafka.bootstrap_servers, **settings)


def completed(path: Path) -> dict[tuple[str, int], Json]:
    """The requests of a log, by the ends of their connection and their number on it."""
    texts = (line.partition("Completed request:")[2] for line in path.read_text(encoding="utf-8").split("\n"))
    requests = [json.loads(text[: text.rindex("}") + 1]) for text in texts if text]
    return {
        ("-".join(request["connection"].split("-")[:2]), request["requestHeader"]["correlationId"]): request
        for request in requests
    }


@pytest.mark.end_to_end
@with_kafka_python
def test_what_a_tap_logs_is_what_the_broker_did(
    own_kafka: EmbeddedKafka, java_classes: Path, topic_prefix: str, tmp_path: Path
) -> None:
    """Three libraries, both protocols, an expression, transactions that commit and abort, members that are killed."""
    log, dump, topic = tmp_path / "tap.log", tmp_path / "tap.offsets.jsonl", f"{topic_prefix}-data"
    with (
        Tap(settings_for(own_kafka), log) as tap,
        consumers_of(tap.bootstrap_servers, topic, java_classes) as consumers,
    ):
        group = f"{topic}-tapped"
        kinds: tuple[tuple[LoopLibrary, str], ...] = (("librdkafka", "classic"), ("java", "consumer"))
        loops = [Transforming(*kind, own_kafka, tap.bootstrap_servers, java_classes, topic_prefix) for kind in kinds]
        admin = new_admin_client({"bootstrap.servers": tap.bootstrap_servers})
        for name in (topic, *(name for pair in loops for name in (pair.source, pair.target))):
            make_topic(admin, name, PARTITIONS)
        # The broker makes a topic for its first transaction, which matters to expressions, and of which no line tells.
        Producer({"bootstrap.servers": tap.bootstrap_servers, "transactional.id": topic}).init_transactions(30)
        members = []
        for library in LIBRARIES:
            members.append(consumers.start(library, group))
            share(members, PARTITIONS)
        produce_to(tap.bootstrap_servers, topic)(0, RECORDS)
        reads(RECORDS, *members)
        modern = []
        for library in ("librdkafka", "java"):
            modern.append(consumers.start(library, f"{group}-modern", group_protocol="consumer"))
            share(modern, PARTITIONS)
        (matching,) = matching_members = [
            consumers.start("librdkafka", f"{group}-expression", group_protocol="consumer", topic=f"^{topic}$")
        ]
        share(matching_members, PARTITIONS)
        members[0].kill()
        modern[0].kill()
        transact(tap, loops)
        for member in (*members[1:], modern[1], matching):
            member.close()
        assert tap.metrics.connections_broken == {}
    result = call("export", "offsets-topic", "--bootstrap-servers", own_kafka.bootstrap_servers, "--out", dump)
    assert result.exit_code == 0, result.output
    report = verify_recording(log, offsets=dump)
    text = "\n".join(report.lines())
    assert not report.differences, text
    assert not report.doubts, text
    assert report.records is not None
    assert report.records.equal == report.records.total > RECORDS, text
    assert report.requests.equal > RECORDS, text
    assert all(any(known in reason for known in NOT_COMPARED) for reason in report.not_compared), text
    assert set(report.not_compared) != set(), "the log has what the broker refused, too"
    insist_on_broker_log(log, own_kafka.log_file)


class Transforming:
    """Two loops that consume, transform and produce in transactions, the second of which takes over from the first."""

    def __init__(
        self, library: LoopLibrary, protocol: str, kafka: EmbeddedKafka, gateway: str, classes: Path, prefix: str
    ) -> None:
        name = f"{prefix}-{library}-{protocol}"
        self.source, self.target = f"{name}-in", f"{name}-out"
        self.audit = Audit(kafka, self.target)
        command = [*loop_command(library, classes), gateway, name, self.source, self.target]
        self.first, self.second = (
            Loop(classes / f"{name}-{number}.log", [*command, f"{name}-{number}", protocol]) for number in range(2)
        )


def transact(tap: Tap, loops: list[Transforming]) -> None:
    """Play them side by side. The members of a classic group do not come at once: a broker may refuse an assignment
    that it has written already, if another member joins before the write is confirmed, which is not followed."""

    def produce(start: int) -> None:
        for each in loops:
            produce_to(tap.bootstrap_servers, each.source)(start, start + RECORDS)

    try:
        produce(0)
        for each in loops:
            each.audit.wait_for(RECORDS // 2, *(other.first for other in loops))
        for each in loops:
            each.second.look()
        produce(RECORDS)
        for each in loops:
            each.audit.wait_for(RECORDS + 1, *(loop for other in loops for loop in (other.first, other.second)))
        for each in loops:
            each.first.kill()
        produce(2 * RECORDS)
        for each in loops:
            each.audit.wait_for(3 * RECORDS, *(other.second for other in loops))
            each.audit.insist_on([str(number) for number in range(3 * RECORDS)])
    finally:
        for each in loops:
            each.first.kill()
            each.second.kill()


def insist_on_broker_log(log: Path, of_broker: Path) -> None:
    """Each request and answer must be in the broker's own log, field for field."""
    tapped, told = completed(log), completed(of_broker)
    assert len(tapped) > RECORDS
    for place, request in tapped.items():
        broker = told[place]
        for name in ("request", "response", "principal", "isForwarded"):
            assert request[name] == broker[name], (place, request, broker)
        assert request["requestHeader"].items() <= broker["requestHeader"].items()
        assert request["connection"].count("-") == broker["connection"].count("-")


class Asking:
    """A client that sends a request at a time, byte by byte."""

    def __init__(self, servers: str) -> None:
        host, port = servers.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._number = 0

    def send(self, api: str, version: int, **fields: Any) -> None:
        self._number += 1
        key = definition_of(f"{api}Request").api_key
        assert key is not None
        head = RequestHead(key, version, self._number, None, 0)
        self.socket.sendall(frame(request_payload(f"{api}Request", head, fields)))

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        self.send(api, version, **fields)
        (size,) = LENGTH.unpack(self._read(LENGTH.size))
        message = f"{api}Response"
        return decode(message, version, self._read(size), response_body_start(message, version))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data))
        return data


@pytest.mark.end_to_end
def test_what_a_client_asked_that_is_gone_is_logged_with_its_answer(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """The broker counts it as a member all the same. It waits for the first one, which does not come back."""
    log, group_id = tmp_path / "tap.log", f"{topic_prefix}-group"
    join = {
        "group_id": group_id, "session_timeout_ms": 6_000, "rebalance_timeout_ms": 6_000, "member_id": "",
        "protocol_type": "consumer", "protocols": ({"name": "range", "metadata": b""},),
    }  # fmt: skip
    with Tap(settings_for(kafka), log) as tap:
        first, second = Asking(tap.bootstrap_servers), Asking(tap.bootstrap_servers)

        def is_found() -> bool:
            return not first.ask("FindCoordinator", 1, key=group_id, key_type=0)["error_code"]

        wait_until(is_found, TIMEOUT_S)
        wait_until(lambda: first.ask("JoinGroup", 2, **join)["error_code"] == 0, TIMEOUT_S)
        asked = tap.metrics.requests["JoinGroup"]
        assert second.ask("FindCoordinator", 1, key=group_id, key_type=0)["error_code"] == 0
        second.send("JoinGroup", 2, **join)
        second.socket.close()
        wait_until(lambda: tap.metrics.requests["JoinGroup"] == asked + 1, TIMEOUT_S)
        wait_until(lambda: tap.metrics.connections_open == 1, TIMEOUT_S)
    *_, joined = [each for each in completed(log).values() if each["requestHeader"]["requestApiKey"] == 11]
    assert (joined["response"]["errorCode"], len(joined["response"]["members"])) == (0, 1)
    first.socket.close()


def test_a_full_disk_ends_the_log_and_disturbs_no_client() -> None:
    tap = Tap(TapSettings(upstream="127.0.0.1:9"), Path("/dev/full"))
    for _ in range(2):
        tap.write("Heartbeat", b"x" * 1_000_000)
    assert tap.log_failure == "[Errno 28] No space left on device"
    assert tap.lines == 0


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="cannot be written: Is a directory"):
        Tap(TapSettings(upstream="127.0.0.1:9"), tmp_path)
