"""The clients of a recorded group are simulated again under other settings.

A log cannot simply be replayed under other settings: each request of a client follows from earlier answers. So each
client of the log is played by a member that does what Kafka's consumer does (`group_coordinator.members.member`). It
comes, falls silent, stalls and leaves when the recorded client did; its joins, syncs and heartbeats follow from the new
answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from uuid import NAMESPACE_OID, uuid5

from msgspec import Raw
from msgspec.structs import replace

from coordinator_state import Answer, GroupConfig, GroupCoordinator, RequestEvent
from group_coordinator.assignors import Assignor
from group_coordinator.members.action_queue import ActionQueue
from group_coordinator.members.config import MemberConfig
from group_coordinator.members.effects import Assigned, LogBoundsNeeded, PartitionCountsNeeded, Send
from group_coordinator.members.member import GroupMember
from group_coordinator.members.membership import MemberState
from group_coordinator.members.requests import request_ids
from group_coordinator.what_if.recorded_clients import (
    GroupLog,
    RecordedClient,
    RecordedClients,
    Span,
    WhatIfError,
    read_clients,
)
from schemas.events import RequestEnvelope, ResponseEnvelope, encode_json
from schemas.history import HistoryRecord
from schemas.messages import OffsetCommitRequest

REQUESTS_MAX = 400_000
"""Of a log that is played again: beyond that nobody would wait for it."""
_LATENCY_MS = 2
_POLL_MS = (20, 2_000)


def play(
    log: GroupLog,
    config: GroupConfig,
    assignors: Mapping[str, Assignor],
    *,
    initial_delay_ms: int | None = None,
    session_timeout_ms: int | None = None,
    static_members: bool = False,
    assignor: str | None = None,
) -> list[bytes]:
    """Return the history as it would lie on the topic. Settings that are None stay as they were. None: as it was.
    Raises WhatIfError for what cannot be played.

    `config` is what the log was coordinated with.
    """
    if len(log.events) > REQUESTS_MAX:
        raise WhatIfError(
            f"The group has {len(log.events):,} requests in this log; up to {REQUESTS_MAX:,} can be played again."
        )
    _require(config, assignors, session_timeout_ms, assignor)
    recorded = read_clients(log, config)
    instance_ids = (
        _instance_ids(recorded.clients) if static_members else [client.instance_id for client in recorded.clients]
    )
    member_configs = [
        _member_config(log.group_id, client, instance_id, session_timeout_ms, _offered(client, assignors, assignor))
        for client, instance_id in zip(recorded.clients, instance_ids, strict=True)
    ]
    delay_ms = config.group_initial_rebalance_delay_ms if initial_delay_ms is None else initial_delay_ms
    changed_config = dataclasses.replace(config, group_initial_rebalance_delay_ms=delay_ms)
    replay = _Replay(log, changed_config, recorded)
    replay.run(
        [
            _ReplayedClient(replay, client, member_config, number, assignors)
            for number, (client, member_config) in enumerate(zip(recorded.clients, member_configs, strict=True))
        ]
    )
    return replay.history


def _require(
    config: GroupConfig, assignors: Mapping[str, Assignor], session_timeout_ms: int | None, assignor: str | None
) -> None:
    least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if session_timeout_ms is not None and not least <= session_timeout_ms <= most:
        raise WhatIfError(
            f"A session timeout must lie between {least / 1000:g} s and {most / 1000:g} s: the coordinator would "
            "refuse it."
        )
    if assignor is not None and assignor not in assignors:
        raise WhatIfError(f"There is no assignor {assignor!r} here; there are {', '.join(assignors)}.")


def _offered(client: RecordedClient, assignors: Mapping[str, Assignor], assignor: str | None) -> tuple[str, ...]:
    names = (assignor,) if assignor is not None else tuple(name for name in client.assignors if name in assignors)
    if not names:
        raise WhatIfError(
            f"The members offer {', '.join(client.assignors)}, which is not known here. Choose an assignor."
        )
    return names


def _member_config(
    group_id: str,
    client: RecordedClient,
    instance_id: str | None,
    session_timeout_ms: int | None,
    names: tuple[str, ...],
) -> MemberConfig:
    session_ms = session_timeout_ms or client.session_timeout_ms
    return MemberConfig(
        group_id=group_id,
        client_id=client.client_id,
        group_instance_id=instance_id,
        client_rack=client.rack_id,
        partition_assignment_strategy=names,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(min(client.heartbeat_interval_ms, session_ms // 3), 1),
        max_poll_interval_ms=max(client.rebalance_timeout_ms, 1),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


def _instance_ids(clients: tuple[RecordedClient, ...]) -> list[str | None]:
    """Return an id of its own for each client; a client that was started anew keeps its id."""
    busy_until_ms: dict[str, list[int]] = {}
    instance_ids: list[str | None] = []
    for client in clients:
        name = client.instance_id or client.client_id or client.client_host
        until = busy_until_ms.setdefault(name, [])
        ends_ms = client.last_sign_ms if client.ends_ms is None else client.ends_ms
        number = next((number for number, busy_ms in enumerate(until) if busy_ms <= client.begins_ms), len(until))
        until[number : number + 1] = [ends_ms]
        instance_ids.append(name if number == 0 else f"{name}-{number + 1}")
    return instance_ids


class _Replay:
    """The coordinator, the clock, and what is to happen when."""

    def __init__(self, log: GroupLog, config: GroupConfig, clients: RecordedClients) -> None:
        self.now_ms = 0
        self.history: list[bytes] = []
        self.partition_counts = clients.partition_counts
        self.ends_ms = log.ends_ms
        self._log = log
        self._clients = clients
        self._actions = ActionQueue()
        self._coordinator = GroupCoordinator(log.group_id, config, partition=log.partition)
        self._offset = log.events[0].offset
        self._senders: dict[str, _ReplayedClient] = {}

    def run(self, players: list[_ReplayedClient]) -> None:
        of_client = {id(player.client): player for player in players}
        for player in players:
            self.at(player.client.begins_ms, player.begin)
        for client, event in self._clients.commits:
            self.at(event.timestamp_ms, partial(of_client[id(client)].commit, event))
        for event in self._clients.other_requests:
            self.at(event.timestamp_ms, partial(self.send, event.envelope, event.request, None))
        while (next_ms := self._next_ms()) is not None and next_ms <= self.ends_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self._coordinator.advance_to(self._log.clock.at(self.now_ms))
            self._deliver()
            self._actions.do_due(self.now_ms)

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        self._actions.enter(max(time_ms, self.now_ms), action)

    def send(self, envelope: RequestEnvelope, request: object, sender: _ReplayedClient | None) -> None:
        """Append a request to the log and handle it."""
        if sender is not None:
            self._senders[envelope.request_id] = sender
        self._offset += 1
        clock_ms = self._log.clock.at(self.now_ms)
        event = RequestEvent(self._offset, clock_ms, self.now_ms, envelope, request)  # type: ignore[arg-type]
        self._coordinator.handle(event)
        self._deliver()

    def _next_ms(self) -> int | None:
        due_ms = self._coordinator.next_deadline_ms()
        moments = (self._actions.next_ms(), None if due_ms is None else self._moment_of(due_ms))
        return min((moment for moment in moments if moment is not None), default=None)

    def _moment_of(self, clock_ms: int) -> int:
        time_ms = max(self._log.clock.when(clock_ms), self.now_ms)
        return time_ms if self._log.clock.at(time_ms) >= clock_ms else time_ms + 1

    def _deliver(self) -> None:
        for output in self._coordinator.take_outputs():
            if isinstance(output, HistoryRecord):
                self.history.append(encode_json(output))
            elif isinstance(output, Answer) and (player := self._senders.pop(output.request_id, None)) is not None:
                self.at(self.now_ms + _LATENCY_MS, partial(player.receive, output))


class _ReplayedClient:
    """A member that acts as a recorded client did."""

    def __init__(
        self,
        replay: _Replay,
        client: RecordedClient,
        config: MemberConfig,
        number: int,
        assignors: Mapping[str, Assignor],
    ) -> None:
        self.client = client
        self._replay = replay
        self._config = config
        self._member = GroupMember(config, request_ids(uuid5(NAMESPACE_OID, f"what-if-{number}")), assignors=assignors)
        self._clients = False
        self._new_ids = iter(client.member_ids)
        self._has_joined = False
        self._told_generation: int | None = None
        self._wake_ms: int | None = None
        self._poll_ms: int | None = None

    def begin(self) -> None:
        client, replay = self.client, self._replay
        self._clients = True
        self._member.start(replay.now_ms, client.topics)
        self._member.partitions_changed(replay.partition_counts)
        for time_ms, topics in client.subscriptions:
            replay.at(time_ms, partial(self._awake, partial(self._member.subscribe, topics)))
        for _, until_ms in (*client.silences, *client.stalls):
            replay.at(until_ms, self._poll)
        for from_ms, _ in client.stalls:
            replay.at(from_ms - 1, self._poll)  # the last one for long
        if client.ends_ms is not None:
            replay.at(client.ends_ms, self._end)
        self._poll()

    def receive(self, answer: Answer) -> None:
        until_ms = self._covering(self.client.silences)
        if until_ms is not None:
            self._replay.at(until_ms, partial(self.receive, answer))
        elif self._clients:
            envelope = ResponseEnvelope(
                request_id=answer.request_id, group_id=answer.group_id, epoch=answer.epoch, seq=answer.seq,
                api=answer.api,
                api_version=answer.api_version, answers_offset=answer.answers_offset, time_ms=answer.time_ms,
                body=Raw(b"{}"),
            )  # fmt: skip
            self._member.receive(envelope, answer.response, self._replay.now_ms)
            self._act()

    def commit(self, event: RequestEvent) -> None:
        """Commit what the recorded client committed, as the member that this one is."""
        member, request = self._member, event.request
        assert isinstance(request, OffsetCommitRequest)
        if self._clients and member.state is MemberState.STABLE:
            own_request = replace(
                request,
                member_id=member.member_id,
                generation_id_or_member_epoch=member.generation_id,
                group_instance_id=self._config.group_instance_id,
            )
            self._replay.send(event.envelope, own_request, None)

    # ---------------------------------------------------------------------------------------------------------- inside

    def _covering(self, spans: list[Span]) -> int | None:
        """The end of the span that is now."""
        now_ms = self._replay.now_ms
        return next((until_ms for from_ms, until_ms in spans if from_ms <= now_ms < until_ms), None)

    def _awake(self, action: Callable[[], None]) -> None:
        if self._clients:
            action()
            self._act()
            self._poll()

    def _poll(self) -> None:
        if not self._clients:
            return
        self._poll_ms = None
        if self._covering(self.client.silences) is None and self._covering(self.client.stalls) is None:
            self._member.poll(self._replay.now_ms)
            self._act()
            self._plan_poll()

    def _plan_poll(self) -> None:
        """The next poll: soon where it moves something on, else only to say that the application lives."""
        member = self._member
        waits = (
            member.is_rejoining
            or member.state is not MemberState.STABLE
            or member.generation_id != self._told_generation
        )
        least_ms, most_ms = _POLL_MS
        pause_ms = (
            min(max(2 * self.client.reaction_ms, least_ms), most_ms)
            if waits
            else max(self._config.max_poll_interval_ms // 3, least_ms)
        )
        at_ms = self._replay.now_ms + pause_ms
        if self._clients and (self._poll_ms is None or at_ms < self._poll_ms):
            self._poll_ms = at_ms
            self._replay.at(at_ms, partial(self._poll_planned, at_ms))

    def _poll_planned(self, at_ms: int) -> None:
        if self._poll_ms == at_ms:
            self._poll()

    def _end(self) -> None:
        if not self._clients:
            return
        if self.client.leaves and self._member.failure is None:
            # A static member stays when it closes, unless the recorded one was static and left nevertheless.
            self._member.close(self._replay.now_ms, leave_group=True if self.client.instance_id is not None else None)
            self._act()
            self._poll()
        else:
            self._clients = False

    def _act(self) -> None:
        while outputs := self._member.take_outputs():
            for output in outputs:
                match output:
                    case Send():
                        self._send(output)
                    case Assigned(generation_id=generation_id):
                        self._told_generation = generation_id
                    case PartitionCountsNeeded(topics=topics):
                        counts = self._replay.partition_counts
                        self._member.partitions_changed({topic: counts.get(topic, 0) for topic in topics})
                    case LogBoundsNeeded(partitions=partitions):
                        self._member.log_bounds(dict.fromkeys(partitions, (0, 0)))
        if self._member.failure is not None or self._member.is_closed:
            self._clients = False
            return
        self._plan_poll()
        self._set_timer()

    def _send(self, send: Send) -> None:
        new_id = next(self._new_ids, None) if send.api == "JoinGroup" and not self._has_joined else None
        self._has_joined = self._has_joined or send.api == "JoinGroup"
        envelope = RequestEnvelope(
            request_id=send.request_id, reply_partition=0, api=send.api, api_version=send.api_version,
            client_id=self.client.client_id, client_host=self.client.client_host, new_member_id=new_id, body=Raw(b"{}"),
        )  # fmt: skip
        self._replay.send(envelope, send.request, self)

    def _set_timer(self) -> None:
        due_ms = self._member.next_deadline_ms()
        if due_ms is not None and (
            self._wake_ms is None or due_ms < self._wake_ms or self._wake_ms < self._replay.now_ms
        ):
            self._wake_ms = due_ms
            self._replay.at(due_ms, self._wake)

    def _wake(self) -> None:
        if not self._clients or self._wake_ms is None or self._replay.now_ms < self._wake_ms:
            return
        until_ms = self._covering(self.client.silences)
        if until_ms is not None:
            self._replay.at(until_ms, self._wake)
            return
        self._wake_ms = None
        self._member.advance_to(self._replay.now_ms)
        self._act()
