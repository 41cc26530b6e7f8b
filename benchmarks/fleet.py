"""What a fleet of consumers needs, computed from measured slopes (`benchmarks/sizing.json`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.document import table
from streaming.topics import TopicSettings

FILE = Path(__file__).with_name("sizing.json")
USED = 0.5
"""The share of what a process can do that is planned for; the rest is for rebalances, backlogs and compilation."""
MIB = 1 << 20
RESPONSES_PARTITIONS = TopicSettings().responses_partitions


class Slopes(Struct, frozen=True, kw_only=True):
    """What was measured with one shard. Microseconds of CPU are by event: a heartbeat or a commit."""

    run: str
    """When it was measured."""
    members: int
    """Members of the shard that was run."""
    group_members: int
    """Members of each of its groups."""
    rate: float
    """Events a second of that run."""
    query_us: float
    """JVM, Python workers and the process of the command."""
    responder_us: float
    gateway_us: float
    """At 2,000 requests a second, which is nearly all that is planned for a gateway."""
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


Measured = Mapping[int, Slopes]
"""By the members of each group."""


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
    responses_partitions: int
    """Each gateway reads one, with the answers of all gateways on it."""
    state_bytes: float
    """Of all groups, not compressed, on the checkpoint's disk and on the workers'."""
    topic_bytes_per_s: dict[str, float]


def needs_of(fleet: Fleet, measured: Measured) -> Needs:
    """Compute what a fleet needs, from the run with groups nearest to its own. All costs but a shard's base are
    proportional to events, members or groups."""
    rate, slopes = fleet.rate, _like(fleet, measured)
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
        responses_partitions=max(RESPONSES_PARTITIONS, gateways),
        gateway_bytes=gateways * slopes.gateway_bytes + fleet.members * slopes.gateway_member_bytes,
        state_bytes=fleet.groups * slopes.state_group_bytes + fleet.members * slopes.state_member_bytes,
        topic_bytes_per_s={topic: rate * each for topic, each in slopes.topic_bytes.items()},
    )


def _like(fleet: Fleet, measured: Measured) -> Slopes:
    """Return the run whose groups are nearest in size to a fleet's."""
    group_members = fleet.members / fleet.groups
    return measured[min(measured, key=lambda size: abs(math.log(size / group_members)))]


def read_slopes() -> dict[int, Slopes]:
    """Return the slopes that are committed."""
    return {slopes.group_members: slopes for slopes in msgspec.json.decode(FILE.read_bytes(), type=list[Slopes])}


def write_slopes(measured: Measured) -> None:
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(list(measured.values())), indent=1) + b"\n")


FLEETS = [
    Fleet(members=members, groups=members // 10, heartbeat_interval_s=heartbeat_s, commit_interval_s=commit_s)
    for members in (1_000, 10_000, 100_000, 1_000_000)
    for heartbeat_s, commit_s in ((3.0, 5.0), (10.0, 30.0))
]
"""Of groups of ten: with the defaults of Kafka's clients, and with longer intervals."""


def needs_table(fleets: Sequence[Fleet], measured: Measured) -> str:
    """A Markdown table of what fleets need."""
    head = (
        "members", "groups", "heartbeat, commit every", "events/s", "shards", "cores", "GiB", "gateways", "their cores",
        "their GiB", "`responses_partitions`", "state, GiB", "written, MiB/s",
    )  # fmt: skip
    rows = []
    for fleet in fleets:
        needs = needs_of(fleet, measured)
        rows.append(
            (
                f"{fleet.members:,}", f"{fleet.groups:,}",
                f"{fleet.heartbeat_interval_s:g} s, {fleet.commit_interval_s:g} s", f"{fleet.rate:,.0f}",
                f"{needs.shards:,}", f"{needs.cores:,.1f}", f"{needs.bytes / MIB / 1_024:,.1f}", f"{needs.gateways:,}",
                f"{needs.gateway_cores:,.1f}", f"{needs.gateway_bytes / MIB / 1_024:,.1f}",
                f"{needs.responses_partitions:,}",
                f"{needs.state_bytes / MIB / 1_024:,.2f}", f"{sum(needs.topic_bytes_per_s.values()) / MIB:,.1f}",
            )
        )  # fmt: skip
    return table(head, rows)


def slopes_table(measured: Measured) -> str:
    """A Markdown table of what was measured, a column for each size of groups."""
    runs = sorted(measured.values(), key=lambda slopes: slopes.group_members)
    rows: list[tuple[str, ...]] = [
        ("events a second, to which the query came", *(f"{one.rate:,.0f}" for one in runs)),
        ("CPU of the query, by event", *(f"{one.query_us:.0f} us" for one in runs)),
        ("CPU of a responder, by event", *(f"{one.responder_us:.0f} us" for one in runs)),
        ("CPU of a gateway, by request", *(f"{one.gateway_us:.0f} us" for one in runs)),
        ("CPU of a shard at no rate", *(f"{one.base_cores:.2f} cores" for one in runs)),
    ]
    return table(("of that run, with groups of", *(f"{one.group_members}" for one in runs)), rows)


def computed_from(fleets: Sequence[Fleet], measured: Measured) -> str:
    """A sentence that says which runs a table of fleets is computed from."""
    sizes = sorted({_like(fleet, measured).group_members for fleet in fleets})
    return f"Computed from the run below with groups of {' and '.join(map(str, sizes))}."


def runs_of(measured: Measured) -> str:
    """A sentence for each run."""
    return " ".join(f"Groups of {size}: {slopes.run}" for size, slopes in sorted(measured.items()))
