"""A responder beside the running query, on a real broker: who answers first, and what ends a responder."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from group_coordinator.coordinating.responder.loop import Responder
from group_coordinator.coordinating.responder.permission import (
    ResponderAloneError,
    ResponderError,
    ResponderRefusedError,
)
from group_coordinator.coordinating.responder.process import ResponderState
from group_coordinator.coordinating.responder.protocol import ResponderStatus
from group_coordinator.ground.kafka_topics.reader import read_topic
from schemas.events import encode_tick
from schemas.messages import JoinGroupProtocol, JoinGroupRequest
from schemas.query_progress import (
    WRITER_HEADER,
    AnswerDifference,
    QueryProgress,
    ResponderClaim,
    decode_progress,
    encode_progress,
    key_of,
)
from streaming.checkpoints import CheckpointError
from streaming.config import StreamingConfig
from streaming.core_hash import core_hash
from streaming.events_tail import last_tick_ms, open_reader
from streaming.progress_topic import ProgressPublisher, read_progress
from streaming.stored_group import ShardState
from streaming.topics import ensure_topics
from tests.coordinating.responder.running_world import SESSION_LONG_MS, Configure, World
from tests.streaming.running_app import GROUP, HEARTBEAT, TIMEOUT_S, Client, RunningApp
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000


def both_have_answered(world: World) -> bool:
    answers = world.answers()
    return all({writer for writer, *_ in records} >= {"query", "responder-0"} for records in answers.values())


def test_a_responder_answers_first_and_the_query_the_same_bytes(world: World) -> None:
    world.start_responders()
    world.client.join(SESSION_LONG_MS)
    for _ in range(10):
        world.heartbeat()
    wait_until(lambda: both_have_answered(world), TIMEOUT_S)
    answers = world.answers()
    assert len(answers) >= 12
    assert all(len({record[1:] for record in records}) == 1 for records in answers.values())
    first = [records[0][0] for records in answers.values()]
    assert first.count("responder-0") > len(first) // 2
    wait_until(lambda: world.auditor.counts.compared == len(answers), TIMEOUT_S)
    assert world.auditor.counts.responder_first == first.count("responder-0")
    assert world.auditor.counts.differences == 0
    status = world.responders.statuses[0]
    assert status is not None
    assert status.groups == 1


def test_a_responder_begins_with_the_querys_state_and_is_started_again_when_it_is_killed(world: World) -> None:
    world.client.join(SESSION_LONG_MS)
    world.heartbeat()
    world.start_responders()
    world.heartbeat()
    before = world.responders.process_ids[0]
    os.kill(before, signal.SIGKILL)
    world.heartbeat()
    wait_until(lambda: world.responders.process_ids.get(0, before) != before, TIMEOUT_S)
    world.wait_for_a_responder()
    by_responder = len([1 for records in world.answers().values() for writer, *_ in records if writer != "query"])
    for _ in range(5):
        world.heartbeat()
    wait_until(
        lambda: len([1 for records in world.answers().values() for writer, *_ in records if writer != "query"])
        >= by_responder + 5,
        TIMEOUT_S,
    )
    wait_until(lambda: all(any(w == "query" for w, *_ in records) for records in world.answers().values()), TIMEOUT_S)
    assert all(len({record[1:] for record in records}) == 1 for records in world.answers().values())
    assert world.auditor.counts.differences == 0


@pytest.mark.parametrize("is_an_answer_of_the_query", [True, False])
def test_a_difference_is_loud_and_stops_the_responder(world: World, is_an_answer_of_the_query: bool) -> None:
    world.start_responders()
    world.client.join(SESSION_LONG_MS)
    world.heartbeat()
    wait_until(lambda: both_have_answered(world), TIMEOUT_S)
    (request_id, epoch, seq), records = sorted(world.answers().items())[0]
    _, partition, value = records[0]
    headers = {"epoch": epoch, "seq": seq, WRITER_HEADER: "responder-0", "decided_at": str(0)}
    if not is_an_answer_of_the_query:
        progress = world.app.progress[-1].end_offset or 0
        wait_until(lambda: (world.app.progress[-1].start_offset or 0) > progress + 2, TIMEOUT_S)
        headers |= {"seq": "1000000", "decided_at": str(progress)}
    producer = Producer(world.config.client_properties)
    producer.produce(
        world.topics.responses, key=request_id, value=value + b" ", partition=partition, headers=list(headers.items())
    )
    producer.flush()
    wait_until(lambda: world.auditor.counts.differences == 1, TIMEOUT_S)
    wait_until(lambda: world.responders.reports()[0].state is ResponderState.STOPPED, TIMEOUT_S)
    (record,) = read_topic(world.config.client_properties, world.topics.differences)
    difference = decode_progress(record.value() or b"")
    assert isinstance(difference, AnswerDifference)
    assert difference.request_id == request_id.decode()
    assert (difference.query_offset is None) != is_an_answer_of_the_query
    world.heartbeat()  # the query goes on alone
    assert world.responders.statuses[0] is None


def test_what_is_answered_while_the_query_is_away_is_audited(configure: Configure, spark: SparkSession) -> None:
    config = configure()
    with ExitStack() as stack:
        world = World(config, spark, stack)
        world.client.join(SESSION_LONG_MS)
    assert world.auditor.counts.differences == 0
    decided_at = len(list(read_topic(config.client_properties, world.topics.events)))
    world.client.send("Heartbeat", 4, HEARTBEAT)
    headers = {"epoch": "0", "seq": "1000000", WRITER_HEADER: "responder-0", "decided_at": str(decided_at)}
    producer = Producer(config.client_properties)
    producer.produce(world.topics.responses, key=b"r", value=b"?", partition=1, headers=list(headers.items()))
    producer.flush()
    with ExitStack() as stack:
        world = World(config, spark, stack)
        wait_until(lambda: world.auditor.counts.differences == 1, TIMEOUT_S)


def test_a_responder_of_another_release_refuses_and_one_without_its_query_ends(world: World) -> None:
    world.client.join(SESSION_LONG_MS)
    config = world.config.operator_config()
    state = world.app.application.read_state(0).whole()
    assert set(state.groups) == {GROUP.encode()}
    properties = world.config.client_properties
    other = Responder(config, properties, state, "another hash", alone_max_ms=60_000)
    with pytest.raises(ResponderRefusedError, match="another release"):
        other.run(lambda: True)
    world.app.stop()
    alone = Responder(config, properties, state, core_hash(config), alone_max_ms=1_000)
    with pytest.raises(ResponderAloneError):
        alone.run(lambda: True)


EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=0, groups={})


@pytest.mark.parametrize("responders", [True, False])
def test_a_claim_of_another_release_is_withdrawn_once_all_is_decided(
    configure: Configure, admin: AdminClient, spark: SparkSession, responders: bool
) -> None:
    config = configure()
    topics = config.topics
    ensure_topics(admin, config.topic_settings)
    claim = encode_progress(ResponderClaim(core_hash="theirs"))
    producer = Producer(config.client_properties)
    producer.produce(topics.progress, key=key_of(ResponderClaim), value=claim, partition=0)
    producer.flush()
    with RunningApp(config.changed(responders=responders), spark) as app:
        assert (app.application.progress_publisher is not None) == responders
    assert app.failure is None
    with open_reader(config.client_properties) as reader:
        assert ResponderClaim not in read_progress(reader, topics.progress, 0)


def test_another_release_does_not_begin_where_a_timer_is_due_that_answers(
    configure: Configure, admin: AdminClient, spark: SparkSession
) -> None:
    """A responder has answered at the tick, which the query has not even read."""
    delay_ms = 60_000
    config = configure(group_initial_rebalance_delay_ms=delay_ms, group_min_session_timeout_ms=2 * delay_ms)
    with RunningApp(config, spark) as app:
        client = Client(config)
        join = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=2 * delay_ms, rebalance_timeout_ms=2 * delay_ms,
            protocol_type="consumer", protocols=(JoinGroupProtocol(name="range", metadata=b""),),
        )  # fmt: skip
        client.send("JoinGroup", 3, join, new_member_id="m")
        end = len(list(read_topic(config.client_properties, config.topics.events)))
        wait_until(lambda: bool(app.progress) and (app.progress[-1].end_offset or 0) >= end, TIMEOUT_S)
    assert app.failure is None
    client.write(None, encode_tick(last_tick_of(config) + delay_ms))
    topics = config.topics
    claim = encode_progress(ResponderClaim(core_hash="theirs"))
    producer = Producer(config.client_properties)
    producer.produce(topics.progress, key=key_of(ResponderClaim), value=claim, partition=0)
    producer.flush()
    with RunningApp(config, spark) as app:
        pass
    assert isinstance(app.failure, CheckpointError)
    assert f"what the members of group {GROUP!r} are waiting for" in str(app.failure)


def test_a_responder_without_the_querys_progress_says_what_is_missing(
    configure: Configure, admin: AdminClient
) -> None:
    config = configure()
    ensure_topics(admin, config.topic_settings)
    with pytest.raises(ResponderError, match="has not published"):
        responder(config, EMPTY, "hash").run(lambda: True)


def test_a_responder_ends_when_events_are_gone_that_it_has_not_read(configure: Configure, admin: AdminClient) -> None:
    config = configure()
    ensure_topics(admin, config.topic_settings)
    topics = config.topics
    ProgressPublisher(topics, {0: "hash"}, config.client_properties).begin(0, None)
    producer = Producer(config.client_properties)
    for clock_ms in (1, 2, 3, 4):
        producer.produce(topics.events, value=encode_tick(clock_ms), partition=0)
    producer.flush()
    for future in admin.delete_records([TopicPartition(topics.events, 0, 3)]).values():
        future.result()
    with pytest.raises(ResponderError, match="deleted"):
        responder(config, replace(EMPTY, end_offset=2), "hash").run(lambda: True)
    # A new coordinator begins where the log does.
    statuses: list[ResponderStatus] = []
    responder(config, EMPTY, "hash", statuses.append).run(lambda: not statuses or statuses[-1].next_offset < 4)


def responder(
    config: StreamingConfig,
    state: ShardState,
    own_hash: str,
    report: Callable[[ResponderStatus], None] = lambda status: None,
) -> Responder:
    return Responder(
        config.operator_config(), config.client_properties, state, own_hash, alone_max_ms=60_000, report=report
    )


def test_the_clock_goes_on_while_the_query_is_slow_and_a_responder_answers(
    configure: Configure, spark: SparkSession
) -> None:
    with ExitStack() as stack:
        world = World(configure(trigger_interval_ms=DAY_MS), spark, stack)
        world.start_responders()
        world.client.join(SESSION_LONG_MS)
        wait_until(lambda: bool(world.app.progress), TIMEOUT_S)  # the first batch begins at once
        begin_ms = last_tick_of(world.config)
        lead_ms = world.config.tick_lead_ms
        wait_until(lambda: last_tick_of(world.config) > begin_ms + 3 * lead_ms, TIMEOUT_S, interval_s=0.5)
        world.heartbeat()
        assert len(world.app.progress) == 1
        world.responders.stop()
        stood_ms = last_tick_of(world.config)
        wait_until(lambda: last_tick_of(world.config) > stood_ms, TIMEOUT_S, interval_s=0.5)
        wait_until_still(lambda: last_tick_of(world.config))
        assert last_tick_of(world.config) <= stood_ms + 2 * lead_ms


def wait_until_still(value: Callable[[], int]) -> None:
    """Until it is the same twice, two seconds apart."""
    seen: list[int] = []

    def is_still() -> bool:
        seen.append(value())
        return seen[-2:-1] == seen[-1:]

    wait_until(is_still, TIMEOUT_S, interval_s=2.0)


def last_tick_of(config: StreamingConfig) -> int:
    """The shard's clock, as its log says."""
    with open_reader(config.client_properties) as reader:
        events = config.topics.events
        return last_tick_ms(reader, events, 0, config.group.tick_ahead_bound_ms) or 0


def test_the_progress_topic_says_where_the_query_is(world: World) -> None:
    world.client.join(SESSION_LONG_MS)
    wait_until(lambda: len(world.app.progress) > 3, TIMEOUT_S)
    records = [
        decode_progress(message.value() or b"")
        for message in read_topic(world.config.client_properties, world.topics.progress)
        if message.value()
    ]
    progress = [record for record in records if isinstance(record, QueryProgress)]
    published = {record.batch_id: (record.start_offset, record.end_offset, record.clock_ms) for record in progress}
    batches = {p.batch_id: (p.start_offset or 0, p.end_offset, p.clock_ms) for p in world.app.progress[:3]}
    assert batches.items() <= published.items()
    assert {record.core_hash for record in progress} == {core_hash(world.config.operator_config())}
