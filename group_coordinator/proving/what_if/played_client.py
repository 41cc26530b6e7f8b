"""A member that acts as a recorded client did: it comes, subscribes, falls silent, stalls and ends when that did."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from uuid import UUID

from msgspec import Raw
from msgspec.structs import replace

from coordinator_state import Answer, RequestEvent
from group_coordinator.coordinating.assignors import Assignor
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.consumer_member import ConsumerGroupMember
from group_coordinator.coordinating.members.effects import (
    Assigned,
    LogBoundsNeeded,
    PartitionCountsNeeded,
    Send,
    TopicNamesNeeded,
)
from group_coordinator.coordinating.members.member import new_member
from group_coordinator.coordinating.members.membership import ConsumerMemberState, MemberState
from group_coordinator.coordinating.members.requests import request_ids
from group_coordinator.proving.what_if.coordinated_play import CoordinatedPlay
from group_coordinator.proving.what_if.group_log import Span
from group_coordinator.proving.what_if.recorded_clients import RecordedClient, Wanted
from schemas.events import RequestEnvelope, ResponseEnvelope
from schemas.messages import OffsetCommitRequest

_POLL_MS = (1, 2_000)
"""How long a member that waits for something is not polled: after the first poll, and at most."""
_COMMIT_WITH_EPOCH = 9
"""The first version of OffsetCommit that a member of the consumer protocol may use."""


class PlayedClient:
    """One client of the play."""

    def __init__(
        self,
        play: CoordinatedPlay,
        client: RecordedClient,
        config: MemberConfig,
        namespace: UUID,
        assignors: Mapping[str, Assignor],
        *,
        keeps_time: bool,
    ) -> None:
        """`namespace`: of ids that the log does not tell. `keeps_time`: its heartbeats may fall when the recorded
        client's did."""
        self.client = client
        self._play = play
        self._config = config
        self._member = new_member(config, _ids(client, config, namespace), assignors=assignors)
        self._keeps_time = keeps_time
        self._lives = False
        # The coordinator makes those of classic members, and begins them with the client id: their order counts.
        self._new_ids = iter(client.member_ids if client.protocol == "classic" else ())
        self._has_joined = False
        self._told_generation: int | None = None
        self._wake_ms: int | None = None
        self._poll_ms: int | None = None
        self._pause_ms = self._next_pause_ms = _POLL_MS[0]

    def begin(self) -> None:
        client, play = self.client, self._play
        self._lives = True
        self._member.partitions_changed(play.topics.partition_counts)
        self._member.start(play.now_ms)
        self._subscribe(client.wanted)
        for time_ms, wanted in client.subscriptions:
            play.at(time_ms, partial(self._awake, partial(self._subscribe, wanted)))
        for _, until_ms in (*client.silences, *client.stalls):
            play.at(until_ms, self._poll)
        for from_ms, _ in client.stalls:
            play.at(from_ms - 1, self._poll)  # the last one for long
        if client.ends_ms is not None:
            play.at(client.ends_ms, self._end)
        self._poll()

    def receive(self, answer: Answer) -> None:
        until_ms = self._covering(self.client.silences)
        if until_ms is not None:
            self._play.at(until_ms, partial(self.receive, answer))
        elif self._lives:
            envelope = ResponseEnvelope(
                request_id=answer.request_id, group_id=answer.group_id, epoch=answer.epoch, seq=answer.seq,
                api=answer.api,
                api_version=answer.api_version, answers_offset=answer.answers_offset, time_ms=answer.time_ms,
                body=Raw(b"{}"),
            )  # fmt: skip
            waited = self._waits
            self._member.receive(envelope, answer.response, self._play.now_ms)
            self._next_pause_ms, _ = _POLL_MS
            is_told = self._waits and not waited
            self._pause_ms = self.client.reaction_at(self._play.now_ms) if is_told else self._next_pause_ms
            self._act()

    def topics_changed(self) -> None:
        if self._lives:
            self._member.partitions_changed(self._counts(self._member.topics_of_interest))
            self._act()

    def commit(self, event: RequestEvent) -> None:
        """Commit what the recorded client committed, as the member that this one is."""
        member, request = self._member, event.request
        assert isinstance(request, OffsetCommitRequest)
        is_native = isinstance(member, ConsumerGroupMember)
        may_commit = member.generation_id > 0 if is_native else member.state is MemberState.STABLE
        if self._lives and may_commit:
            own_request = replace(
                request,
                member_id=member.member_id,
                generation_id_or_member_epoch=member.generation_id,
                group_instance_id=self._config.group_instance_id,
            )
            least = _COMMIT_WITH_EPOCH if is_native else event.envelope.api_version
            envelope = replace(event.envelope, api_version=max(event.envelope.api_version, least))
            self._play.send(envelope, own_request, None)

    # ---------------------------------------------------------------------------------------------------------- inside

    def _subscribe(self, wanted: Wanted) -> None:
        member, regex = self._member, wanted.regex
        if regex is None:
            member.subscribe(wanted.topics)
        elif isinstance(member, ConsumerGroupMember):
            member.subscribe_pattern(regex)
        else:  # such a client looks itself for the topics that match
            member.subscribe((*wanted.topics, *self._play.topics.matching(regex)))

    def _counts(self, topics: tuple[str, ...]) -> dict[str, int]:
        counts = self._play.topics.partition_counts
        return {topic: counts.get(topic, 0) for topic in topics}

    def _covering(self, spans: list[Span]) -> int | None:
        """The end of the span that is now."""
        now_ms = self._play.now_ms
        return next((until_ms for from_ms, until_ms in spans if from_ms <= now_ms < until_ms), None)

    def _awake(self, action: Callable[[], None]) -> None:
        if self._lives:
            action()
            self._act()
            self._poll()

    def _poll(self) -> None:
        if not self._lives:
            return
        self._poll_ms = None
        if self._covering(self.client.silences) is None and self._covering(self.client.stalls) is None:
            self._member.poll(self._play.now_ms)
            self._pause_ms, self._next_pause_ms = self._next_pause_ms, min(2 * self._next_pause_ms, _POLL_MS[1])
            self._act()
            self._plan_poll()

    @property
    def _waits(self) -> bool:
        """A poll may move something on."""
        member = self._member
        if isinstance(member, ConsumerGroupMember):
            return member.is_rejoining or member.state is not ConsumerMemberState.STABLE
        return (
            member.is_rejoining
            or member.state is not MemberState.STABLE
            or member.generation_id != self._told_generation
        )

    def _plan_poll(self) -> None:
        """The next poll: soon where it moves something on, else only to say that the application lives."""
        pause_ms = self._pause_ms if self._waits else max(self._config.max_poll_interval_ms // 3, _POLL_MS[0])
        at_ms = self._play.now_ms + pause_ms
        if self._lives and (self._poll_ms is None or at_ms < self._poll_ms):
            self._poll_ms = at_ms
            self._play.at(at_ms, partial(self._poll_planned, at_ms))

    def _poll_planned(self, at_ms: int) -> None:
        if self._poll_ms == at_ms:
            self._poll()

    def _end(self) -> None:
        if not self._lives:
            return
        if self.client.leaves and self._member.failure is None:
            # A static member stays when it closes, unless the recorded one was static and left nevertheless.
            for_good = self.client.instance_id is not None and not self.client.returns
            self._member.close(self._play.now_ms, leave_group=True if for_good else None)
            self._act()
            self._poll()
        else:
            self._lives = False

    def _act(self) -> None:
        while outputs := self._member.take_outputs():
            for output in outputs:
                match output:
                    case Send():
                        self._send(output)
                    case Assigned(generation_id=generation_id):
                        self._told_generation = generation_id
                    case PartitionCountsNeeded(topics=topics):
                        self._member.partitions_changed(self._counts(topics))
                    case TopicNamesNeeded(topic_ids=topic_ids):
                        names = self._play.topics.names
                        self._member.topic_names({key: names[key] for key in topic_ids if key in names})
                    case LogBoundsNeeded(partitions=partitions):
                        self._member.log_bounds(dict.fromkeys(partitions, (0, 0)))
        if self._member.failure is not None or self._member.is_closed:
            self._lives = False
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
        self._play.send(envelope, send.request, self)

    def _set_timer(self) -> None:
        due_ms = self._member.next_deadline_ms()
        if due_ms is not None and self._keeps_time and not self._waits:
            due_ms = self.client.heartbeat_at(due_ms, self.client.heartbeat_interval_ms)
        if due_ms is not None and (
            self._wake_ms is None or due_ms < self._wake_ms or self._wake_ms < self._play.now_ms
        ):
            self._wake_ms = due_ms
            self._play.at(due_ms, self._wake)

    def _wake(self) -> None:
        if not self._lives or self._wake_ms is None or self._play.now_ms < self._wake_ms:
            return
        until_ms = self._covering(self.client.silences)
        if until_ms is not None:
            self._play.at(until_ms, self._wake)
            return
        self._wake_ms = None
        self._member.advance_to(self._play.now_ms)
        self._act()


def _ids(client: RecordedClient, config: MemberConfig, namespace: UUID) -> Iterator[str]:
    """Return the ids of its requests. The first is the id of a member that makes it itself: that of the recorded one,
    if that made it, too."""
    own_id = urlsafe_b64encode(namespace.bytes).rstrip(b"=").decode()
    if client.protocol == "consumer" and client.member_ids:
        own_id = client.member_ids[0]
    return chain([own_id] if config.group_protocol == "consumer" else [], request_ids(namespace))
