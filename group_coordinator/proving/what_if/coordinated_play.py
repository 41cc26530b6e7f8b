"""The coordinator of a play, its clock, its topics, and what is to happen when."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import UNSET
from msgspec.structs import replace

from coordinator_state import Answer, GroupConfig, GroupCoordinator, GroupEvent, RequestEvent, RuleChange
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.no_group import NoGroup
from coordinator_state.outputs import MetadataEvent
from group_coordinator.coordinating.members.action_queue import ActionQueue
from group_coordinator.proving.what_if.group_log import GroupLog
from group_coordinator.proving.what_if.recorded_topics import KnownTopics, RecordedTopics
from schemas.events import RequestEnvelope, encode_json
from schemas.group_metadata_events import RegexesResolved, TopicMetadata
from schemas.history import HistoryRecord
from schemas.messages import Request

LATENCY_MS = 2
"""How long an answer takes to its client, and the topics of an expression to the group."""


class Player(Protocol):
    """Whoever sends requests and wants their answers."""

    def receive(self, answer: Answer) -> None:
        """Take an answer."""

    def topics_changed(self) -> None:
        """Note that the cluster's topics have changed."""


class CoordinatedPlay:
    """A log that is played again: events go in at their time, answers go to the players, history comes out."""

    def __init__(self, log: GroupLog, config: GroupConfig) -> None:
        self.now_ms = 0
        self.history: list[bytes] = []
        self.topics = KnownTopics()
        self._log = log
        self._actions = ActionQueue()
        self._coordinator = GroupCoordinator(log.group_id, config, partition=log.partition)
        self._offset = log.events[0].offset
        for time_ms, change in log.rule_changes:
            self._actions.enter(time_ms, partial(self._change_rules, change))
        self._senders: dict[str, Player] = {}
        self._players: list[Player] = []
        self._resolving_since_ms: int | None = None
        self._tells_topics = False

    def run(self, players: list[Player]) -> None:
        """Play until the log ends. What the players do first has been entered by `at`."""
        self._players = players
        ends_ms = self._log.ends_ms
        while (next_ms := self._next_ms()) is not None and next_ms <= ends_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self._coordinator.advance_to(self._log.clock.at(self.now_ms))
            self._deliver()
            self._actions.do_due(self.now_ms)

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._actions.enter(max(time_ms, self.now_ms), action)

    def tell_topics(self, topics: RecordedTopics, begins_ms: int, *, is_needed: bool) -> None:
        """Enter what is to be told of topics. Not `is_needed`: no member of the consumer protocol wants to know."""
        self._tells_topics = is_needed
        for time_ms, metadata in topics.events(begins_ms):
            self.at(time_ms, partial(self._tell, metadata))

    def send(self, envelope: RequestEnvelope, request: Request, sender: Player | None) -> None:
        """Append a request to the log and handle it."""
        if sender is not None:
            self._senders[envelope.request_id] = sender
        group = self._coordinator.group
        has_no_group = group is None or type(group.body) is NoGroup
        is_first = self._tells_topics and has_no_group  # which has been told of nothing
        envelope = replace(envelope, topic_metadata=self.topics.metadata if is_first else UNSET)
        self._handle(RequestEvent(0, 0, 0, envelope, request))

    def repeat(self, event: GroupEvent) -> None:
        """Append an event that was in the log."""
        self._handle(event)

    def _change_rules(self, change: RuleChange) -> None:
        """Go by other rules from here on: in a play events have places of their own."""
        self._coordinator.change_rules(change._replace(offset=self._offset))

    def _tell(self, metadata: TopicMetadata) -> None:
        self.topics.learn(metadata)
        if self._tells_topics:
            self._handle(MetadataEvent(0, 0, 0, metadata))
        for player in self._players:
            player.topics_changed()

    def _handle(self, event: GroupEvent) -> None:
        self._offset += 1
        clock_ms = self._log.clock.at(self.now_ms)
        self._coordinator.handle(replace(event, offset=self._offset, clock_ms=clock_ms, timestamp_ms=self.now_ms))
        self._deliver()
        self._resolve()

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
                self.at(self.now_ms + LATENCY_MS, partial(player.receive, output))

    def _resolve(self) -> None:
        """Look up the topics of the group's expressions when it has begun to wait for them."""
        group = self._coordinator.group
        body = None if group is None else group.body
        began_ms = body.regex_refresh_began_ms if type(body) is ConsumerGroup else None
        if began_ms is not None and began_ms != self._resolving_since_ms and type(body) is ConsumerGroup:
            self.at(self.now_ms + LATENCY_MS, partial(self._resolved, tuple(sorted(body.regex_counts)), began_ms))
        self._resolving_since_ms = began_ms

    def _resolved(self, regexes: tuple[str, ...], began_ms: int) -> None:
        resolved = {regex: self.topics.matching(regex) for regex in regexes}
        fact = RegexesResolved(version=self.topics.version, resolved=resolved, began_ms=began_ms)
        self._handle(MetadataEvent(0, 0, 0, fact))
