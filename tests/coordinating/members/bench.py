"""One member on the bench: its requests are answered by hand."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import NAMESPACE_OID

from msgspec import Raw

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import Assigned, GaveUp, Output, Send
from group_coordinator.coordinating.members.member import new_member
from group_coordinator.coordinating.members.requests import request_ids
from schemas.consumer_protocol import Assignment, TopicPartition, encode_assignment
from schemas.error_codes import ErrorCode
from schemas.events import ResponseEnvelope
from schemas.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    Response,
    SyncGroupResponse,
)

N = TypeVar("N")
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Bench:
    """Drives one member; `sent` and `told` hold all that it said."""

    def __init__(self, **settings: Any) -> None:
        config = MemberConfig(**({"group_id": "g", "client_id": "c", "auto_offset_reset": "earliest"} | settings))
        self.member = new_member(config, request_ids(NAMESPACE_OID))
        self.now_ms = 1_000_000
        self.sent: list[Send] = []
        self.told: list[Output] = []
        self._open: dict[str, Send] = {}
        self.member.start(self.now_ms, ("orders",))
        self.member.partitions_changed({"orders": 2})
        self._listen()

    def poll(self) -> None:
        self.member.poll(self.now_ms)
        self._listen()

    def wait(self, duration_ms: int) -> None:
        """Time passes; the member is woken when it wants to be."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.member.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            self.member.advance_to(self.now_ms)
            self._listen()
        self.now_ms = end_ms
        self.member.advance_to(self.now_ms)
        self._listen()

    def reopen(self, send: Send) -> None:
        """Let a request be open that the member has given up: its answer comes late."""
        self._open[send.request_id] = send

    def open(self, api: str) -> list[Send]:
        """The requests of this API that wait for their answers, oldest first."""
        return [send for send in self._open.values() if send.api == api]

    def asked(self, kind: type[N]) -> N:
        """The oldest open request of this kind."""
        return next(send.request for send in self._open.values() if isinstance(send.request, kind))

    def answer(self, api: str, response: Response) -> Send:
        """Answer the oldest open request of this API."""
        send = self.open(api)[0]
        del self._open[send.request_id]
        self.deliver(send, response)
        return send

    def deliver(self, send: Send, response: Response) -> None:
        envelope = ResponseEnvelope(
            request_id=send.request_id,
            group_id="g",
            epoch=0,
            seq=0,
            api=send.api,
            api_version=send.api_version,
            answers_offset=0,
            time_ms=self.now_ms,
            body=Raw(b"{}"),
        )
        self.member.receive(envelope, response, self.now_ms)
        self._listen()

    def last(self, kind: type[N]) -> N:
        """The last notification of this kind."""
        return [notification for notification in self.told if isinstance(notification, kind)][-1]

    def heard(self, kind: type[N]) -> list[N]:
        return [notification for notification in self.told if isinstance(notification, kind)]

    def join(self, generation_id: int = 1, member_id: str = "c-1", leader: str = "other", **fields: Any) -> None:
        """Answer the open JoinGroup with success."""
        members = fields.pop("members", ())
        if leader == member_id and not members:
            metadata = self.asked(JoinGroupRequest).protocols[0].metadata
            members = (JoinGroupResponseMember(member_id=member_id, metadata=metadata),)
        response = JoinGroupResponse(
            generation_id=generation_id,
            protocol_type="consumer",
            protocol_name=fields.pop("protocol_name", self.member.config.partition_assignment_strategy[0]),
            leader=leader,
            member_id=member_id,
            members=members,
            **fields,
        )
        self.answer("JoinGroup", response)

    def sync(self, *partitions: TopicPartition) -> None:
        """Answer the open SyncGroup with these partitions."""
        data = encode_assignment(Assignment(partitions=partitions))
        name = self.member.protocol_name
        self.answer("SyncGroup", SyncGroupResponse(protocol_type="consumer", protocol_name=name, assignment=data))

    def stable(self, *partitions: TopicPartition, committed: int = 0, generation_id: int = 1) -> None:
        """Bring the member to where it owns these partitions and knows its positions in them."""
        self.poll()
        self.join(generation_id)
        self.sync(*partitions)
        self.poll()
        assert self.last(Assigned).partitions == partitions
        if partitions:
            self.offsets(dict.fromkeys(partitions, committed))

    def offsets(self, committed: dict[TopicPartition, int], error_code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the open OffsetFetch."""
        topics = tuple(
            OffsetFetchResponseTopic(
                name=partition.topic,
                partitions=(
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition, committed_offset=offset, error_code=error_code
                    ),
                ),
            )
            for partition, offset in committed.items()
        )
        self.answer("OffsetFetch", OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=topics),)))

    def commit_answer(self, error_code: ErrorCode = ErrorCode.NONE, only: TopicPartition | None = None) -> Send:
        """Answer the oldest open OffsetCommit: every partition with this code, or only one and the others with NONE."""
        request = self.asked(OffsetCommitRequest)
        topics = tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error_code
                        if only in (None, TopicPartition(topic.name, partition.partition_index))
                        else ErrorCode.NONE,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return self.answer("OffsetCommit", OffsetCommitResponse(topics=topics))

    def _listen(self) -> None:
        for output in self.member.take_outputs():
            match output:
                case Send():
                    self.sent.append(output)
                    self._open[output.request_id] = output
                case GaveUp(request_id=request_id):
                    self._open.pop(request_id, None)
                    self.told.append(output)
                case _:
                    self.told.append(output)
