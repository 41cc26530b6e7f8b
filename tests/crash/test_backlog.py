"""A backlog of hundreds of megabytes with a small heap, planned as one batch by a process that was killed:
it is worked off."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_request_event, encode_tick
from schemas.messages import DescribeGroupsRequest, JoinGroupProtocol, JoinGroupRequest, Request, SyncGroupRequest
from streaming.config import StreamingConfig
from streaming.events_tail import open_reader
from tests.crash import processes
from tests.crash.coordinators import make_topics
from tests.crash.runner import App
from tests.waiting import wait_until

MEGABYTE = 1_000_000
START_MS = 1_700_000_000_000
ONE_GROUP, MANY_GROUPS, WITHOUT_KEY, DESCRIBED = 150, 60, 30, 200
WORKER_MB = 400
"""A worker starts with 130 to 170 of them."""
TIMEOUT_S = 240.0
Event = tuple[bytes | None, bytes]


def backlog() -> Iterator[Event]:
    """One group with a lot, many groups with a lot together, as much without a key,
    and questions whose answers are far larger."""
    poison = b"x" * MEGABYTE
    yield None, encode_tick(START_MS)
    yield b"described", request("JoinGroup", 3, JoinGroupRequest(
        group_id="described", session_timeout_ms=1_800_000, protocol_type="consumer",
        protocols=(JoinGroupProtocol(name="range", metadata=b"m" * 700_000),),
    ), new_member_id="m")  # fmt: skip
    yield None, encode_tick(START_MS + 10_000)
    yield b"described", request("SyncGroup", 3, SyncGroupRequest(group_id="described", generation_id=1, member_id="m"))
    yield from ((b"one", poison) for _ in range(ONE_GROUP))
    yield from ((b"group-%d" % number, poison) for number in range(MANY_GROUPS))
    yield from ((None, poison) for _ in range(WITHOUT_KEY))
    for _ in range(DESCRIBED):
        yield b"described", request("DescribeGroups", 5, DescribeGroupsRequest(groups=("described",)))
    yield None, encode_tick(START_MS + 20_000)


def request(api: str, version: int, body: Request, new_member_id: str | None = None) -> bytes:
    return encode_request_event(
        api, version, body, request_id="r", reply_partition=0, client_id="c", new_member_id=new_member_id
    )


@pytest.mark.kafka
@pytest.mark.spark
def test_a_batch_of_any_size_is_worked_off_after_a_kill(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, checkpoint=str(tmp_path / "checkpoint"),
        responses_partitions=1, offsets_partitions=1, max_events_per_batch=1_000_000,
    )  # fmt: skip
    make_topics(config)
    events = fill(config)
    shard = tmp_path / "checkpoint" / "shard-0"
    app = App(config, tmp_path)
    app.start()
    try:
        wait_while_it_runs(app, lambda: batches(shard / "offsets") >= 1)
        app.kill()
        planned = json.loads((shard / "offsets" / "0").read_text().splitlines()[-1])
        assert planned == {config.topics.events: {"0": events}}
        assert batches(shard / "commits") == 0, "it was too quick to be killed in its midst"
        app = App(config.changed(max_events_per_batch=10), tmp_path)
        app.start()
        worker_mb = 0

        def has_ended() -> bool:
            nonlocal worker_mb
            worker_mb = max([worker_mb, *map(resident_mb, processes.workers_of(app.pid))])
            return batches(shard / "commits") >= 1

        wait_while_it_runs(app, has_ended)
        assert worker_mb < WORKER_MB
        topics = config.topics
        assert ends(config, topics.dead_letters) == ONE_GROUP + MANY_GROUPS + WITHOUT_KEY
        assert ends(config, topics.responses) == DESCRIBED + 2
        assert app.stop() == 0
    finally:
        app.kill()


def fill(config: StreamingConfig) -> int:
    producer = Producer(
        {**config.client_properties, "enable.idempotence": True, "message.max.bytes": 1_100_000, "linger.ms": 20}
    )
    count = 0
    for key, value in backlog():
        producer.produce(config.topics.events, key=key, value=value, partition=0)
        count += 1
        if count % 50 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0
    return count


def batches(log: Path) -> int:
    return sum(path.name.isdecimal() for path in log.iterdir()) if log.is_dir() else 0


def resident_mb(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // MEGABYTE


def ends(config: StreamingConfig, topic: str) -> int:
    with open_reader(config.client_properties) as reader:
        return reader.bounds(topic, 0).end


def wait_while_it_runs(app: App, done: Callable[[], bool]) -> None:
    wait_until(lambda: app.exit_code() is not None or done(), TIMEOUT_S, app.said)
    assert app.exit_code() is None, app.said()
