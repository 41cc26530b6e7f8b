"""The same story in a classic and in a consumer group on a real broker: what *What if* makes of one group's log comes
near to what the members of the other one said. The stories were recorded by stories.py."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.proving.what_if.what_if import REPETITIONS, play
from group_coordinator.watching.dashboard.change import Change
from tests.proving.what_if.pages import summary_of
from tests.proving.what_if.stories import (
    CONFIG,
    HEARTBEAT_MS,
    PROTOCOLS,
    SESSION_MS,
    GroupProtocol,
    events,
    log_of,
    read_said,
    truth,
)

LIBRARIES = ("librdkafka", "java")
OTHER: dict[GroupProtocol, GroupProtocol] = {"classic": "consumer", "consumer": "classic"}


@cache
def played(library: str, group: GroupProtocol, protocol: GroupProtocol, repetition: int = 0) -> dict[str, Any]:
    change = Change() if protocol == group else Change(
        group_protocol=protocol,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        assignor="range" if protocol == "classic" else None,
    )
    return summary_of(play(log_of(events(library), group), CONFIG, ASSIGNORS, change, repetition), group)


def idle_ms(summary: dict[str, Any]) -> int:
    """The time in which nobody worked on partitions. Members that crashed do not say so: their partitions are with
    them until they expire."""
    return int(summary["unowned_ms"] + summary["silent_ms"])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("group", PROTOCOLS)
def test_with_the_protocol_that_the_group_had(library: str, group: GroupProtocol) -> None:
    """As many moves as the members said; the time without owner depends on when heartbeats fall."""
    said = truth(read_said(library), group)
    again = played(library, group, group)
    assert again["moves"] == said.moves
    assert idle_ms(again) == pytest.approx(said.without_owner_ms, rel=0.25)
    assert again["put_out"] == 1


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("group", PROTOCOLS)
def test_with_the_other_protocol(library: str, group: GroupProtocol) -> None:
    """What members of the other group said of the same story."""
    other = OTHER[group]
    said = truth(read_said(library), other)
    would = played(library, group, other)
    assert idle_ms(would) == pytest.approx(said.without_owner_ms, rel=0.3)
    assert would["protocols"] == [other]
    assert would["put_out"] == 1


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("group", PROTOCOLS)
def test_how_much_is_chance(library: str, group: GroupProtocol) -> None:
    """With heartbeats at other moments: what the members of the other group said lies in the range, give or take a
    tenth."""
    other = OTHER[group]
    times = [idle_ms(played(library, group, other, repetition)) for repetition in range(REPETITIONS)]
    assert 0.9 * min(times) <= truth(read_said(library), other).without_owner_ms <= 1.1 * max(times)
    assert len(set(times)) == REPETITIONS


@pytest.mark.parametrize("library", LIBRARIES)
def test_moves_with_the_consumer_protocol(library: str) -> None:
    """The coordinator assigns by rules: of a classic group's log as many moves follow as the broker made."""
    assert played(library, "classic", "consumer")["moves"] == truth(read_said(library), "consumer").moves


def test_moves_with_the_classic_protocol_and_java() -> None:
    """A classic member's id begins with its client id, and the assignor range goes by the order of ids."""
    assert played("java", "consumer", "classic")["moves"] == truth(read_said("java"), "classic").moves


@pytest.mark.parametrize("library", LIBRARIES)
def test_who_stops(library: str) -> None:
    """A classic group with an eager assignor stops as a whole, time and again; a consumer group never does."""
    assert played(library, "classic", "consumer")["stops"] == 0
    assert played(library, "consumer", "classic")["stops"] > 20
