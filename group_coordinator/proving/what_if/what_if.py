"""The clients of a recorded group are simulated again under other settings, the group protocol among them.

A log cannot simply be replayed under other settings: each request of a client follows from earlier answers. So each
client of the log is played by a member that does what Kafka's consumer does (`group_coordinator.coordinating.members`).
It comes, falls silent, stalls and leaves when the recorded client did; its joins, syncs and heartbeats follow from the
new answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from uuid import NAMESPACE_OID, UUID, uuid5

from msgspec.structs import replace

from coordinator_state import GroupConfig, GroupEvent, RequestEvent
from coordinator_state.outputs import MetadataEvent
from group_coordinator.coordinating.assignors import Assignor
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.proving.what_if.changed_settings import changed_config, member_configs, protocols
from group_coordinator.proving.what_if.coordinated_play import CoordinatedPlay
from group_coordinator.proving.what_if.delays import Delays
from group_coordinator.proving.what_if.group_log import GroupLog, WhatIfError
from group_coordinator.proving.what_if.played_client import PlayedClient
from group_coordinator.proving.what_if.reading import read_clients
from group_coordinator.proving.what_if.recorded_clients import RecordedClient
from group_coordinator.watching.dashboard.change import Change
from schemas.group_metadata_events import GroupConfiguration

REQUESTS_MAX = 400_000
"""Of a log that is played again: beyond that nobody would wait for it."""
REPEATED_REQUESTS_MAX = 20_000
"""Of a log that is played several times."""
REPETITIONS = 8
_UNCHANGED = Change()


def repetitions(log: GroupLog) -> int:
    """Return how often a log is to be played to see how much is chance."""
    return REPETITIONS if len(log.events) <= REPEATED_REQUESTS_MAX else 1


def play(
    log: GroupLog,
    config: GroupConfig,
    assignors: Mapping[str, Assignor],
    change: Change = _UNCHANGED,
    repetition: int = 0,
) -> list[bytes]:
    """Return the history as it would lie on the topic. Raises WhatIfError for what cannot be played.

    `config` is what the log was coordinated with. `repetition`: 0, or one with other `Delays`, and with other ids of
    members where the log has none.
    """
    if len(log.events) > REQUESTS_MAX:
        raise WhatIfError(
            f"The group has {len(log.events):,} requests in this log; up to {REQUESTS_MAX:,} can be played again."
        )
    recorded = read_clients(log, config)
    to_have = protocols(recorded.clients, change)
    new_config = changed_config(config, change, frozenset(to_have), assignors)
    configs = member_configs(log.group_id, recorded.clients, change, assignors)
    again = CoordinatedPlay(log, new_config)
    delays = Delays(recorded.clients, repetition)
    players = {
        id(client): PlayedClient(
            again,
            delays.of(client, number),
            member_config,
            _namespace(number, repetition),
            assignors,
            keeps_time=not repetition and _keeps_time(client, member_config, change),
        )
        for number, (client, member_config) in enumerate(zip(recorded.clients, configs, strict=True))
    }
    begins_ms = min(client.begins_ms for client in recorded.clients)
    again.tell_topics(recorded.topics, begins_ms, is_needed="consumer" in to_have or recorded.topics.are_told)
    for player in players.values():
        again.at(player.client.begins_ms, player.begin)
    for client, event in recorded.commits:
        again.at(event.timestamp_ms, partial(players[id(client)].commit, event))
    for other in recorded.others:
        if isinstance(other, RequestEvent):
            again.at(other.timestamp_ms, partial(again.send, other.envelope, other.request, None))
        else:
            again.at(other.timestamp_ms, partial(again.repeat, _without_changed(other, change)))
    again.run(list(players.values()))
    return again.history


def _namespace(number: int, repetition: int) -> UUID:
    """Return the namespace of a client's ids. `number`: which of the clients it is."""
    return uuid5(NAMESPACE_OID, f"what-if-{number}" + (f"-{repetition}" if repetition else ""))


def _keeps_time(client: RecordedClient, config: MemberConfig, change: Change) -> bool:
    """Return whether the member sends heartbeats as often as the client did."""
    if client.protocol != config.group_protocol or change.heartbeat_interval_ms is not None:
        return False
    return client.protocol == "consumer" or client.heartbeat_interval_ms == config.heartbeat_interval_ms


def _without_changed(event: GroupEvent, change: Change) -> GroupEvent:
    """Return the event without settings of the group's own that the change replaces."""
    if not isinstance(event, MetadataEvent) or not isinstance(event.fact, GroupConfiguration):
        return event
    changed = {
        "consumer_session_timeout_ms": change.session_timeout_ms,
        "consumer_heartbeat_interval_ms": change.heartbeat_interval_ms,
        "consumer_assignment_interval_ms": change.assignment_interval_ms,
    }
    return replace(event, fact=replace(event.fact, **{name: None for name, new in changed.items() if new is not None}))
