"""The clients of a recorded group are simulated again under other settings, the group protocol among them.

A log cannot simply be replayed under other settings: each request of a client follows from earlier answers. So each
client of the log is played by a member that does what Kafka's consumer does (`group_coordinator.coordinating.members`).
It comes, falls silent, stalls and leaves when the recorded client did; its joins, syncs and heartbeats follow from the
new answers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from uuid import NAMESPACE_OID, UUID, uuid5

from msgspec.structs import replace

from coordinator_state import GroupConfig, GroupEvent, RequestEvent
from coordinator_state.outputs import MetadataEvent
from group_coordinator.coordinating.assignors import Assignor
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.proving.what_if.changed_settings import changed_config, member_configs, protocols
from group_coordinator.proving.what_if.coordinated_play import CoordinatedPlay
from group_coordinator.proving.what_if.group_log import GroupLog, Span, WhatIfError
from group_coordinator.proving.what_if.played_client import PlayedClient
from group_coordinator.proving.what_if.reading import read_clients
from group_coordinator.proving.what_if.recorded_clients import RecordedClient
from group_coordinator.watching.dashboard.change import Change
from schemas.group_metadata_events import GroupConfiguration

_PARTS = 1_000


class Delays:
    """One way to come later. Number 0: everything at its own time."""

    def __init__(self, clients: Sequence[RecordedClient], number: int) -> None:
        self._number = number
        interval_ms = max(client.heartbeat_interval_ms for client in clients)
        moments = sorted({moment for client in clients for moment in _moments(client)})
        self._begins = [moments[0], *[later for before, later in pairwise(moments) if later - before > interval_ms]]
        self._delays_ms = [_part(number, place) * interval_ms // _PARTS for place in range(len(self._begins))]
        self._interval_ms = interval_ms

    def at(self, time_ms: int) -> int:
        """Return when something happens that happened at this time. What was in order stays in order."""
        place = max(bisect_right(self._begins, time_ms) - 1, 0)
        later_ms = time_ms + self._delays_ms[place]
        if place + 1 < len(self._begins):
            later_ms = min(later_ms, self._begins[place + 1] + self._delays_ms[place + 1])
        return later_ms

    def of(self, client: RecordedClient, place: int) -> RecordedClient:
        """Return the client as it is then. `place`: its number among the clients."""
        ends_ms = None if client.ends_ms is None else self.at(client.ends_ms)
        own_ms = _part(self._number, -1 - place) * self._interval_ms // (5 * _PARTS)
        begins_ms = self.at(client.begins_ms) + own_ms
        return replace(
            client,
            begins_ms=begins_ms if ends_ms is None else min(begins_ms, ends_ms),
            ends_ms=ends_ms,
            subscriptions=[(self.at(time_ms), wanted) for time_ms, wanted in client.subscriptions],
            silences=self._spans(client.silences),
            stalls=self._spans(client.stalls),
            reactions=self._spans(client.reactions),
        )

    def _spans(self, spans: list[Span]) -> list[Span]:
        """Delay spans; each is as long as it was."""
        return [(self.at(from_ms), self.at(from_ms) + to_ms - from_ms) for from_ms, to_ms in spans]


def _moments(client: RecordedClient) -> list[int]:
    """Return when a client does something of its own account."""
    moments = [client.begins_ms, *[time_ms for time_ms, _ in client.subscriptions]]
    moments += [moment for span in (*client.silences, *client.stalls) for moment in span]
    return moments if client.ends_ms is None else [*moments, client.ends_ms]


def _part(number: int, place: int) -> int:
    """Return a number below `_PARTS`, the same in every run."""
    return uuid5(NAMESPACE_OID, f"{number} {place}").int % _PARTS if number else 0


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
