"""A log of events shows how a group's clients behaved: when each came, subscribed, was silent and ended.

A recorded client is a process with one member, over all the member ids that it was given. The log has only what clients
sent, so the coordinator handles the log once more: its answers show which member each client is under a new id, and
when it was told to do something.
"""

from __future__ import annotations

from coordinator_state import Answer, GroupConfig, GroupCoordinator, GroupEvent, RecordedEvent, RequestEvent
from coordinator_state.outputs import MetadataEvent
from group_coordinator.proving.what_if.classic_reading import ClassicRequests
from group_coordinator.proving.what_if.consumer_reading import ConsumerRequests
from group_coordinator.proving.what_if.group_log import GroupLog, WhatIfError
from group_coordinator.proving.what_if.recorded_clients import RecordedClient, RecordedClients, Roster
from group_coordinator.proving.what_if.recorded_topics import RecordedTopics
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Request,
    SyncGroupRequest,
)
from schemas.recorded import RecordedGroup, RecordingGap


def read_clients(log: GroupLog, config: GroupConfig) -> RecordedClients:
    """Return the clients of a recorded log. Raises WhatIfError if no client joins, or if the members are no
    consumers."""
    return _Reader(log, config).read()


class _Reader:
    """The reader goes through the log once, with a coordinator of its own."""

    def __init__(self, log: GroupLog, config: GroupConfig) -> None:
        self._log = log
        changes = tuple(change for _, change in log.rule_changes)
        self._coordinator = GroupCoordinator(log.group_id, config, partition=log.partition, rule_changes=changes)
        self._roster = Roster()
        self._topics = RecordedTopics()
        self._classic = ClassicRequests(self._roster, self._topics)
        self._consumer = ConsumerRequests(self._roster, config)
        self._pending: dict[str, tuple[RecordedClient, Request]] = {}
        self._commits: list[tuple[RecordedClient, RequestEvent]] = []
        self._others: list[GroupEvent] = []

    def read(self) -> RecordedClients:
        for event in self._log.events:
            self._coordinator.advance_to(event.clock_ms)
            self._answers()
            if isinstance(event, RequestEvent):
                self._request(event)
            elif isinstance(event, MetadataEvent):
                self._fact(event)
            elif not isinstance(event, RecordedEvent):
                self._others.append(event)
            elif isinstance(event.fact, RecordedGroup | RecordingGap):
                raise WhatIfError(
                    "This recording does not tell all of the group's life, so nobody knows what would have been "
                    "otherwise."
                )
            self._coordinator.handle(event)
            self._answers(event.timestamp_ms)
        clients = self._roster.clients
        if not clients:
            raise WhatIfError("In this log nobody joins the group: there is nothing to play again.")
        for client in clients:
            client.conclude(self._log.ends_ms)
        return RecordedClients(
            clients=tuple(clients),
            commits=tuple(self._commits),
            others=tuple(self._others),
            topics=self._topics,
        )

    def _request(self, event: RequestEvent) -> None:
        request = event.request
        if event.envelope.topic_metadata:
            self._topics.tell(event.timestamp_ms, event.envelope.topic_metadata)
        client: RecordedClient | None = None
        match request:
            case JoinGroupRequest() | SyncGroupRequest() | HeartbeatRequest():
                client = self._classic.request(event, request)
            case ConsumerGroupHeartbeatRequest():
                client = self._consumer.heartbeat(event, request)
            case LeaveGroupRequest():
                if not self._classic.leave(event, request):
                    self._others.append(event)
            case OffsetCommitRequest() if (client := self._roster.of(request.member_id)) is not None:
                client.sign(event.timestamp_ms)
                client.polled_ms = event.timestamp_ms
                self._commits.append((client, event))
            case OffsetFetchRequest() | DescribeGroupsRequest() | ConsumerGroupDescribeRequest():
                pass  # they change nothing
            case _:
                self._others.append(event)
        if client is not None:
            self._pending[event.envelope.request_id] = client, request

    def _fact(self, event: MetadataEvent) -> None:
        match event.fact:
            case TopicMetadata():
                self._topics.tell(event.timestamp_ms, event.fact)
            case GroupConfiguration():
                self._others.append(event)
            case RegexesResolved():
                pass  # whoever plays the log resolves them as its members ask for it

    def _answers(self, now_ms: int | None = None) -> None:
        for output in self._coordinator.take_outputs():
            pending = self._pending.pop(output.request_id, None) if isinstance(output, Answer) else None
            if pending is None or not isinstance(output, Answer):
                continue
            client, request = pending
            time_ms = self._log.clock.when(output.time_ms) if now_ms is None else now_ms
            self._classic.answered(client, request, output.response, time_ms)
            self._consumer.answered(client, request, output.response, time_ms)
