"""What if, on groups that a real broker took to the consumer protocol and back: their lives are played as they were, in
one protocol alone, and compared with what the broker did in that protocol."""

from __future__ import annotations

import dataclasses
from datetime import UTC
from functools import cache
from pathlib import Path
from statistics import mean

import pytest

from coordinator_state import GroupConfig
from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import follow
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.what_if.group_log import group_log
from group_coordinator.proving.what_if.what_if import play
from group_coordinator.watching.dashboard.change import Change
from schemas.consumer_group_history import GroupConverted
from schemas.history import decode_history
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process
from tests.proving.what_if.pages import handovers, summary_of

RECORDING = Path(__file__).parents[2] / "fixtures" / "clusters" / "migration.request.log.gz"
CONFIG = dataclasses.replace(GroupConfig(), group_consumer_hash_order=True)
"""Kafka gives what it assigns in the order of its hash maps."""


@cache
def records() -> tuple[Record, ...]:
    log = RequestLog([RECORDING], time_zone=UTC)
    log.read()
    return tuple(EventsImport(follow(log, {})))


@cache
def recorded(group: str) -> tuple[bytes, ...]:
    outputs = dict(replay_in_process(records(), StreamingConfig(group_consumer_hash_order=True)))[group.encode()]
    return tuple(output.value or b"" for output in outputs if output.topic == "coordinator.history")


@cache
def played(group: str, change: Change) -> tuple[bytes, ...]:
    return tuple(play(group_log(records(), group, CONFIG.tick_ahead_bound_ms), CONFIG, ASSIGNORS, change))


def moving_ms(history: tuple[bytes, ...], group: str, protocol: str, begins_as: str = "classic") -> float:
    """How long a partition that moves is without an owner, on average."""
    return mean(
        handover.without_owner_ms
        for handover in handovers(history, group, begins_as)
        if handover.moved and handover.protocol == protocol
    )


@pytest.mark.parametrize("group", ["live", "mixed", "offline", "static"])
def test_a_migration_is_played_as_it_was(group: str) -> None:
    """Clients of both protocols, each with its own: the group goes over when it did, for the same reasons."""

    def conversions(history: tuple[bytes, ...]) -> list[tuple[str, int]]:
        return [
            (record.to_protocol, round(record.timestamp_ms, -2))
            for record in map(decode_history, history)
            if isinstance(record, GroupConverted)
        ]

    again = played(group, Change())
    assert conversions(again) == conversions(recorded(group))
    before, after = summary_of(recorded(group), group), summary_of(again, group)
    assert after["by_trigger"] == before["by_trigger"]
    assert abs(after["moves"] - before["moves"]) <= 3


@pytest.mark.parametrize("group", ["live", "mixed", "offline"])
def test_what_the_consumer_protocol_would_have_cost(group: str) -> None:
    """All its life with the consumer protocol: a move takes about as long as after the real group's migration."""
    would = moving_ms(played(group, Change(group_protocol="consumer")), group, "consumer", "consumer")
    assert would == pytest.approx(moving_ms(recorded(group), group, "consumer"), rel=0.4)


@pytest.mark.parametrize("group", ["live", "mixed"])
def test_what_the_classic_protocol_would_have_cost(group: str) -> None:
    """The other way round. How long eager members wait for the last one is a matter of when its heartbeat falls: up to
    an interval of 3 s."""
    change = Change(group_protocol="classic", session_timeout_ms=10_000)
    would = moving_ms(played(group, change), group, "classic")
    assert abs(would - moving_ms(recorded(group), group, "classic")) < 1_500
    stops = [handover for handover in handovers(played(group, change), group, "classic") if not handover.moved]
    assert stops, "with an eager assignor partitions stop that stay"


def test_static_members_that_come_back_in_time() -> None:
    """`static`: both are restarted once each, and the group is a consumer group from then on. The driver saw each get
    back what it had. With the consumer protocol they say that they will come back; nothing moves but what the second
    one gets when it first comes, and nobody is put out."""
    before = summary_of(recorded("static"), "static")
    assert (before["moves"], before["protocols"]) == (0, ["classic", "consumer"])
    after = summary_of(played("static", Change(group_protocol="consumer")), "static")
    assert (after["put_out"], after["refusals"]) == (0, 0)
    assert (after["moves"], after["protocols"]) == (2, ["consumer"])
