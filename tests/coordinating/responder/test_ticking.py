"""The clock while the coordinator is away, on a real broker without Spark: who ticks, and that it is no pause."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from itertools import pairwise

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.responder.permission import ResponderAloneError
from group_coordinator.ground.kafka_topics.reader import headers_of
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import decode_tick, encode_tick
from streaming.answered_ahead import AnsweredClocks
from streaming.ticker import machine_wall_ms
from tests.coordinating.responder.shard_without_query import HASH, Shard, shard_of
from tests.streaming.running_app import HEARTBEAT, TIMEOUT_S
from tests.waiting import wait_until


def test_a_handover_there_and_back_is_no_pause(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    shard.start_responder()
    shard.client.join(60_000)
    shard.start_gateway()
    ticker.stop()
    shard.wait_for_ticks_of_a_responder()
    shard.client.answer(shard.client.send("Heartbeat", 4, HEARTBEAT))
    back = shard.coordinator_ticker_without_query()
    wait_until(lambda: shard.writers()[-3:] == [None] * 3, TIMEOUT_S, interval_s=0.3)
    back.stop()
    writers = shard.writers()
    changes = [after for before, after in pairwise(writers) if before != after]
    assert len(changes) == 2, "the coordinator, the responder, the coordinator"
    assert not shard.renewals(), "nobody's session begins anew"
    assert back.status.foreign_ticks == 0
    clocks = [decode_tick(tick.value() or b"").clock_ms for tick in shard.ticks()]
    steps_ms = [after - before for before, after in pairwise(sorted(clocks))]
    assert max(steps_ms) <= 1.1 * 3 * shard.config.tick_interval_ms, "nothing is jumped over"


def test_a_responder_that_ticks_while_the_coordinator_stands_still_is_no_stranger(shard: Shard) -> None:
    goes_on = threading.Event()
    goes_on.set()

    def wall_ms() -> int:
        goes_on.wait()
        return machine_wall_ms()

    ticker = shard.coordinator_ticker(wall_ms)
    clocks = AnsweredClocks(
        shard.config.client_properties, shard.topics.progress, {0: HASH}, lambda _, clock_ms: ticker.handled(clock_ms)
    )
    clocks.start()
    shard.start_responder()
    shard.client.join(60_000)
    shard.start_gateway()
    goes_on.clear()
    shard.wait_for_ticks_of_a_responder(10)
    goes_on.set()
    wait_until(lambda: shard.writers()[-3:] == [None] * 3, TIMEOUT_S, interval_s=0.3)
    assert ticker.status.foreign_ticks == 0
    assert not shard.renewals(), "the clock has gone on all the time"
    stranger = Producer(shard.config.client_properties)
    stranger.produce(shard.topics.events, value=encode_tick((ticker.clock_ms or 0) + 2_000), partition=0)
    stranger.flush()
    wait_until(lambda: ticker.status.foreign_ticks, TIMEOUT_S)
    ticker.stop()
    clocks.stop()
    assert ticker.status.foreign_ticks == 1


def test_without_a_gateway_the_clock_stands_and_after_it_sessions_begin_anew(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    shard.start_responder()
    shard.client.join(60_000)
    ticker.stop()
    silence_s = shard.config.tick_pause_ms / 1_000
    stood_at_ms = shard.ticks()[-1].timestamp()[1]
    threading.Event().wait(silence_s + 1)  # more than a responder would wait for
    shard.start_gateway()
    shard.wait_for_ticks_of_a_responder()
    shard.stop_gateway()
    first = next(tick for tick in shard.ticks() if headers_of(tick))
    assert first.timestamp()[1] - stood_at_ms >= 1_000 * silence_s
    assert [renewal.key() for renewal in shard.renewals()] == [HEARTBEAT.group_id.encode()]


def test_of_two_responders_one_ticks_and_when_it_ends_the_other(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    responders = [shard.start_responder() for _ in range(2)]
    shard.client.join(60_000)
    shard.start_gateway()
    ticker.stop()

    def one_ticks() -> bool:
        last = shard.writers()[-4:]
        return len(last) == 4 and last[0] is not None and len(set(last)) == 1

    wait_until(one_ticks, TIMEOUT_S, interval_s=0.3)
    first = shard.writers()[-1]
    for responder in responders:
        if responder.ticks_as(first):
            responder.__exit__()
    wait_until(lambda: shard.writers()[-1] not in (first, None), TIMEOUT_S, interval_s=0.3)
    assert not shard.renewals()


def test_a_responder_that_stood_still_writes_no_clock_beside_the_coordinators(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    process = shard.start_responder_process()
    shard.client.join(60_000)
    shard.start_gateway()
    ticker.stop()
    shard.wait_for_ticks_of_a_responder()
    os.kill(process.pid or 0, signal.SIGSTOP)
    back = shard.coordinator_ticker()
    stands_s = shard.config.tick_pause_ms / 1_000 + 3  # a pause, and so long gateways are heard
    threading.Event().wait(stands_s)
    wait_until(lambda: shard.writers()[-3:] == [None] * 3, TIMEOUT_S, interval_s=0.3)
    before = len(shard.events())
    os.kill(process.pid or 0, signal.SIGCONT)
    threading.Event().wait(stands_s)
    since = shard.events()[before:]
    assert since
    assert not [event for event in since if headers_of(event) or event.key() is not None]
    back.stop()
    wait_until(lambda: shard.writers()[-1], TIMEOUT_S, interval_s=0.3)  # it stands in again
    assert not shard.renewals()


def test_a_responder_without_the_query_ends_at_its_bound_and_its_ticks_with_it(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    with ExitStack() as stack:
        shard = shard_of(kafka, admin, topic_prefix, stack, responder_alone_max_ms=20_000)
        ticker = shard.coordinator_ticker()
        responder = shard.start_responder()
        shard.client.join(60_000)
        shard.start_gateway()
        ticker.stop()
        shard.wait_for_ticks_of_a_responder()
        responder.join()
        assert isinstance(responder.failure, ResponderAloneError)
        ended = shard.writers()
        again = shard.start_responder()
        again.join()
        assert isinstance(again.failure, ResponderAloneError), "a new start does not begin the time anew"
        assert shard.writers() == ended
