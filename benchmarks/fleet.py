"""What a fleet of consumers needs, computed from measured slopes (`benchmarks/sizing.json`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.document import table

FILE = Path(__file__).with_name("sizing.json")
USED = 0.5
"""The share of what a process can do that is planned for; the rest is for rebalances, backlogs and compilation."""
MIB = 1 << 20


class Slopes(Struct, frozen=True, kw_only=True):
    """What was measured with one shard. Microseconds of CPU are by event: a heartbeat or a commit."""

    run: str
    """When it was measured."""
    members: int
    """Members of the shard that was run, each in a group of its own."""
    rate: float
    """Events a second of that run."""
    query_us: float
    """JVM, Python workers and the process of the command."""
    responder_us: float
    gateway_us: float
    base_cores: float
    """Of one shard: all processes but broker and gateway, at no rate, while it ticks."""
    query_bytes: float
    """JVM, Python workers and command, resident, in that run."""
    responder_bytes: float
    responder_member_bytes: float
    """A responder without groups, and for each member more."""
    gateway_bytes: float
    gateway_member_bytes: float
    """A gateway without clients, and for each connection more."""
    state_group_bytes: float
    """State of a group with one committed partition."""
    state_member_bytes: float
    topic_bytes: dict[str, float]
    """Written to each topic by event, as it lies on the disk of one broker."""


class Fleet(Struct, frozen=True, kw_only=True):
    """Consumers, each with a connection to a gateway."""

    members: int
    groups: int
    heartbeat_interval_s: float
    commit_interval_s: float

    @property
    def rate(self) -> float:
        """Heartbeats and commits a second."""
        return self.members / self.heartbeat_interval_s + self.members / self.commit_interval_s


class Needs(Struct, frozen=True, kw_only=True):
    """What a fleet needs, brokers left out but for what is written to them."""

    shards: int
    cores: float
    """Of all shards with their responders, used at that rate."""
    bytes: float
    """Memory of the same."""
    gateways: int
    gateway_cores: float
    gateway_bytes: float
    state_bytes: float
    """Of all groups, not compressed, on the checkpoint's disk and on the workers'."""
    topic_bytes_per_s: dict[str, float]


def needs_of(fleet: Fleet, slopes: Slopes) -> Needs:
    """Compute what a fleet needs. All costs but a shard's base are proportional to events, members or groups."""
    rate = fleet.rate
    shard_rate = USED * 1e6 / max(slopes.query_us, slopes.responder_us)  # each works on one event after the other
    shards = max(1, math.ceil(rate / shard_rate))
    event_us = slopes.query_us + slopes.responder_us
    gateways = max(1, math.ceil(rate * slopes.gateway_us / 1e6 / USED))
    return Needs(
        shards=shards,
        cores=shards * slopes.base_cores + rate * event_us / 1e6,
        bytes=shards * (slopes.query_bytes + slopes.responder_bytes) + fleet.members * slopes.responder_member_bytes,
        gateways=gateways,
        gateway_cores=rate * slopes.gateway_us / 1e6,
        gateway_bytes=gateways * slopes.gateway_bytes + fleet.members * slopes.gateway_member_bytes,
        state_bytes=fleet.groups * slopes.state_group_bytes + fleet.members * slopes.state_member_bytes,
        topic_bytes_per_s={topic: rate * each for topic, each in slopes.topic_bytes.items()},
    )


def read_slopes() -> Slopes:
    """Return the slopes that are committed."""
    return msgspec.json.decode(FILE.read_bytes(), type=Slopes)


def write_slopes(slopes: Slopes) -> None:
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(slopes), indent=1) + b"\n")


FLEETS = [
    Fleet(members=members, groups=members // 10, heartbeat_interval_s=heartbeat_s, commit_interval_s=commit_s)
    for members in (1_000, 10_000, 100_000, 1_000_000)
    for heartbeat_s, commit_s in ((3.0, 5.0), (10.0, 30.0))
]
"""Of groups of ten: with the defaults of Kafka's clients, and with longer intervals."""


def needs_table(fleets: Sequence[Fleet], slopes: Slopes) -> str:
    """A Markdown table of what fleets need."""
    head = (
        "members", "groups", "heartbeat, commit every", "events/s", "shards", "cores", "GiB", "gateways", "their cores",
        "their GiB", "state, GiB", "written, MiB/s",
    )  # fmt: skip
    rows = []
    for fleet in fleets:
        needs = needs_of(fleet, slopes)
        rows.append(
            (
                f"{fleet.members:,}", f"{fleet.groups:,}",
                f"{fleet.heartbeat_interval_s:g} s, {fleet.commit_interval_s:g} s", f"{fleet.rate:,.0f}",
                f"{needs.shards:,}", f"{needs.cores:,.1f}", f"{needs.bytes / MIB / 1_024:,.1f}", f"{needs.gateways:,}",
                f"{needs.gateway_cores:,.1f}", f"{needs.gateway_bytes / MIB / 1_024:,.1f}",
                f"{needs.state_bytes / MIB / 1_024:,.2f}", f"{sum(needs.topic_bytes_per_s.values()) / MIB:,.1f}",
            )
        )  # fmt: skip
    return table(head, rows)
