"""Delays keep the order of what clients do, and keep together what belongs together."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator_state import GroupConfig
from group_coordinator.proving.what_if.reading import read_clients
from group_coordinator.proving.what_if.recorded_clients import RecordedClient
from group_coordinator.proving.what_if.what_if import Delays
from tests.proving.what_if.recordings import log_of


def clients_of(name: str) -> tuple[RecordedClient, ...]:
    return read_clients(log_of(name), GroupConfig()).clients


@pytest.mark.parametrize("name", ["crash", "deploy", "poll", "static"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_overtakes(name: str, number: int) -> None:
    clients = clients_of(name)
    delays = Delays(clients, number)
    log = log_of(name)
    times = range(log.events[0].timestamp_ms, log.ends_ms, 37)
    assert all(delays.at(before) <= delays.at(after) for before, after in pairwise(times))
    interval_ms = max(client.heartbeat_interval_ms for client in clients)
    assert all(0 <= delays.at(time_ms) - time_ms < interval_ms for time_ms in times)
    for place, client in enumerate(clients):
        later = delays.of(client, place)
        assert later.ends_ms is None or later.begins_ms <= later.ends_ms
        assert [to_ms - from_ms for from_ms, to_ms in later.silences] == [
            to_ms - from_ms for from_ms, to_ms in client.silences
        ]


def test_a_successor_comes_after_its_predecessor() -> None:
    """`static`: a client that is started anew has the static id of one that has ended."""
    clients = clients_of("static")
    successions = [
        (before, after)
        for before, first in enumerate(clients)
        for after, second in enumerate(clients)
        if first.instance_id == second.instance_id
        and first.ends_ms is not None
        and first.begins_ms < first.ends_ms <= second.begins_ms
    ]
    assert successions
    for number in range(1, 8):
        later = [Delays(clients, number).of(client, place) for place, client in enumerate(clients)]
        for before, after in successions:
            assert (later[before].ends_ms or 0) <= later[after].begins_ms


def test_number_0_delays_nothing() -> None:
    clients = clients_of("crash")
    delays = Delays(clients, 0)
    assert [delays.of(client, place).begins_ms for place, client in enumerate(clients)] == [
        client.begins_ms for client in clients
    ]
    assert delays.at(clients[0].begins_ms + 12_345) == clients[0].begins_ms + 12_345
