"""A story that real consumers live through twice at a time on a real broker: in a group of the classic protocol, and in
one of the consumer protocol.

    python -m tests.proving.what_if.stories --library librdkafka --out tests/fixtures/what_if

records it (two minutes): the broker's request log, of both groups, and what the members said when. The tests have such
recordings, and compare what *What if* makes of one group's log with what the members of the other one said.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import Struct

from coordinator_state import GroupConfig
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import follow
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.what_if.group_log import GroupLog, group_log
from schemas.records_file import Record
from tests.coordinating.gateway.clients.consumers import ConsumerProcess, Consumers, Library, compile_java, consumers_of
from tests.watching.watch.request_log import REQUEST_LOGGER

GroupProtocol = Literal["classic", "consumer"]
PROTOCOLS: tuple[GroupProtocol, ...] = ("classic", "consumer")
"""Each is the name of its group, too."""
FIXTURES = Path(__file__).parents[2] / "fixtures" / "what_if"
TOPIC, PARTITIONS = "orders", 12
SESSION_MS, HEARTBEAT_MS, INITIAL_DELAY_MS = 10_000, 3_000, 3_000
BROKER = {
    "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
SETTINGS = {
    "group_initial_rebalance_delay_ms": INITIAL_DELAY_MS,
    "group_consumer_min_session_timeout_ms": SESSION_MS,
    "group_consumer_session_timeout_ms": SESSION_MS,
    "group_consumer_min_heartbeat_interval_ms": HEARTBEAT_MS,
    "group_consumer_heartbeat_interval_ms": HEARTBEAT_MS,
}
CONFIG = dataclasses.replace(GroupConfig(), **cast(Any, SETTINGS))
"""The same settings, here."""
_APIS = (
    "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "CONSUMER_GROUP_HEARTBEAT", "OFFSET_COMMIT", "METADATA",
    "CREATE_TOPICS",
)  # fmt: skip
_LINE = b"kafka.request.logger - Completed request:"


class Said(Struct, frozen=True, kw_only=True):
    """What a member said, or what was done to it (`killed`)."""

    at_ms: int
    group: str
    member: str
    kind: str
    partitions: tuple[str, ...] = ()


class Truth(Struct, frozen=True, kw_only=True):
    """What came of the partitions of one group, by what its members said."""

    without_owner_ms: int
    """Summed over partitions: from its first owner to the last member's end, while no living member had it."""
    moves: int
    """How often a partition had another owner than before."""


def truth(said: list[Said], group: str) -> Truth:
    """Return what came of a group's partitions."""
    of_group = sorted((event for event in said if event.group == group), key=lambda event: event.at_ms)
    last_ms = max(event.at_ms for event in of_group)
    owner: dict[str, str] = {}
    free_since_ms: dict[str, int] = {}
    had: dict[str, str] = {}
    without_owner_ms = moves = 0
    for event in of_group:
        if event.kind == "assigned":
            for partition in event.partitions:
                without_owner_ms += event.at_ms - free_since_ms.pop(partition, event.at_ms)
                moves += had.get(partition, event.member) != event.member
                owner[partition] = had[partition] = event.member
        elif event.kind in ("revoked", "lost", "killed", "closed"):
            mine = [partition for partition, member in owner.items() if member == event.member]
            for partition in event.partitions if event.kind in ("revoked", "lost") else mine:
                if owner.get(partition) == event.member:
                    del owner[partition]
                    free_since_ms[partition] = event.at_ms
    without_owner_ms += sum(last_ms - since_ms for since_ms in free_since_ms.values())
    return Truth(without_owner_ms=without_owner_ms, moves=moves)


def read_said(name: str) -> list[Said]:
    """Return what the members of a recorded story said."""
    lines = gzip.decompress((FIXTURES / f"{name}.said.jsonl.gz").read_bytes()).splitlines()
    return [msgspec.json.decode(line, type=Said) for line in lines]


def events(name: str) -> tuple[Record, ...]:
    """Return the events of a recorded story."""
    log = RequestLog([FIXTURES / f"{name}.request.log.gz"], time_zone=UTC)
    log.read()
    return tuple(EventsImport(follow(log, SETTINGS)))


def log_of(records: tuple[Record, ...], group: str) -> GroupLog:
    """Return the log of one of the groups."""
    return group_log(records, group, CONFIG.tick_ahead_bound_ms)


class _Story:
    """The story, in both groups at the same moments."""

    def __init__(self, consumers: Consumers, library: Library) -> None:
        self.said: list[Said] = []
        self._consumers = consumers
        self._library = library
        self._members: dict[tuple[str, str], ConsumerProcess] = {}
        self._begun_s = time.monotonic()

    def live(self) -> None:
        """Members join, one more joins, one crashes, one leaves, the others are deployed anew, all leave."""
        steps: list[tuple[float, Callable[[str], None], str]] = [
            (0, self._start, "a"), (0, self._start, "b"), (0, self._start, "c"),
            (20, self._start, "d"),
            (35, self._kill, "b"),
            (58, self._close, "c"),
            (70, self._close, "a"), (71, self._start, "a2"),
            (82, self._close, "d"), (83, self._start, "d2"),
            (96, self._close, "a2"), (96, self._close, "d2"),
        ]  # fmt: skip
        for at_s, act, name in steps:
            time.sleep(max(self._begun_s + at_s - time.monotonic(), 0))
            act(name)
        for member in self._members.values():
            member.close()
        self.said += list(self._heard())

    def _start(self, name: str) -> None:
        for protocol in PROTOCOLS:
            settings: dict[str, str] = {"group.protocol": protocol}
            if protocol == "classic":
                settings |= {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": str(HEARTBEAT_MS)}
            member = self._consumers.start_with(self._library, protocol, settings, f"{protocol}-{name}")
            self._members[protocol, name] = member

    def _kill(self, name: str) -> None:
        for protocol in PROTOCOLS:
            self._members[protocol, name].kill()
            self.said.append(
                Said(at_ms=time.time_ns() // 1_000_000, group=protocol, member=f"{protocol}-{name}", kind="killed")
            )

    def _close(self, name: str) -> None:
        for protocol in PROTOCOLS:
            self._members[protocol, name].tell("close")

    def _heard(self) -> Iterator[Said]:
        wall_s = time.time() - time.monotonic()
        for (protocol, _), member in self._members.items():
            for at_s, words in member.events:
                if words[0] in ("assigned", "revoked", "lost", "closed"):
                    yield Said(
                        at_ms=round((wall_s + at_s) * 1000),
                        group=protocol,
                        member=member.name,
                        kind=words[0],
                        partitions=tuple(words[1].split()) if words[1:] else (),
                    )


def record(library: Library, out: Path) -> None:
    """Live through the story, and write what was recorded."""
    with tempfile.TemporaryDirectory() as scratch:
        programs = compile_java(Path(scratch)) if library == "java" else Path(scratch)
        with EmbeddedKafka(properties=BROKER, java_options=(REQUEST_LOGGER,)) as kafka:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
            with consumers_of(kafka.bootstrap_servers, TOPIC, programs) as consumers:
                story = _Story(consumers, library)
                story.live()
            kafka.stop()
            lines = kafka.log_file.read_bytes().splitlines(keepends=True)
    apis = tuple(f'"requestApiKeyName":"{api}"'.encode() for api in _APIS)
    kept = [line for line in lines if _LINE in line and any(api in line for api in apis)]
    said = sorted(story.said, key=lambda event: event.at_ms)
    out.mkdir(parents=True, exist_ok=True)
    _write(out / f"{library}.request.log.gz", b"".join(kept))
    _write(out / f"{library}.said.jsonl.gz", b"".join(msgspec.json.encode(event) + b"\n" for event in said))
    for protocol in PROTOCOLS:
        print(f"{protocol}: {truth(said, protocol)}")


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))
    print(f"{path}: {path.stat().st_size // 1024} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=("librdkafka", "java"), default="librdkafka")
    parser.add_argument("--out", type=Path, default=FIXTURES)
    arguments = parser.parse_args()
    record(cast(Library, arguments.library), arguments.out)


if __name__ == "__main__":
    main()
