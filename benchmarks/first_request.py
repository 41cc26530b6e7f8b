"""The first request after a minute of rest, through the gateway, beside two plain Kafka hops; for `benchmarks.at_rest`.

A member with a long session commits an offset, once after each rest: nobody else writes to the shard meanwhile. Two
hops are a plain loop between two topics of the same broker, at 50 records a second.
"""

from __future__ import annotations

import asyncio
import time

from confluent_kafka.admin import NewTopic
from msgspec import Struct

from benchmarks import two_hops
from benchmarks.heartbeat_groups import config
from benchmarks.latency import copied_request_id, figure, measure
from benchmarks.wire_client import WireClient, WireMember
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from streaming.clock import REST_AFTER_MS

TOPIC = "orders"
RESTS = 3
REST_S = REST_AFTER_MS / 1_000 + 20
"""Longer than a minute, so that the clock of the shard stands."""
ANSWERED_BEFORE = 200
"""Requests before the first rest: the code of all parts has run then."""
HOPS_RATE, HOPS_S = 50, 20.0
P99_FACTOR = 3
"""An answer through gateway and responder may take so many times what two hops take."""
_SESSION_TIMEOUT_MS = 1_800_000


class FirstRequests(Struct, frozen=True):
    """Milliseconds from request to answer."""

    after_rest_ms: list[float]
    hops_p50_ms: float
    hops_p99_ms: float

    def __str__(self) -> str:
        after_rest = ", ".join(f"{ms:.1f}" for ms in self.after_rest_ms)
        return (
            f"The first commit after {REST_S:.0f} s of rest is answered in {after_rest} ms, by gateway and responder. "
            f"Two Kafka hops take {self.hops_p50_ms:.1f} ms by the median, and {self.hops_p99_ms:.1f} ms is their p99. "
            f"The worst answer takes {max(self.after_rest_ms) / self.hops_p99_ms:.1f} times that, and may take "
            f"{P99_FACTOR} times."
        )


def measure_first_requests(broker: str, gateway: str) -> FirstRequests:
    """Rest and ask, `RESTS` times."""
    names = (TOPIC, "copy.in", "copy.out")
    admin = new_admin_client({"bootstrap.servers": broker})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result()
    with two_hops.relaying(broker, "copy.in", "copy.out"):
        after_rest_ms = asyncio.run(_ask_after_rests(gateway))
        settings = config(bootstrap_servers=broker)
        hops_ms = measure(settings, "copy.in", "copy.out", copied_request_id, HOPS_RATE, HOPS_S)
    hops = figure("two hops", HOPS_RATE, hops_ms)
    return FirstRequests(after_rest_ms, hops.p50_ms, hops.p99_ms)


async def _ask_after_rests(gateway: str) -> list[float]:
    member = WireMember(await WireClient.connect(gateway), "resting", session_timeout_ms=_SESSION_TIMEOUT_MS)
    while await member.find_coordinator():
        await asyncio.sleep(0.5)
    await member.join()
    for number in range(ANSWERED_BEFORE):
        await _ask(member, number)
    times_ms = []
    for number in range(RESTS):
        await asyncio.sleep(REST_S)
        times_ms.append(await _ask(member, ANSWERED_BEFORE + number))
    return times_ms


async def _ask(member: WireMember, offset: int) -> float:
    sent_s = time.perf_counter()
    code = await member.commit(TOPIC, offset)
    if code:
        raise RuntimeError(f"error code {code}")
    return (time.perf_counter() - sent_s) * 1_000
