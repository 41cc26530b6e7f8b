"""What the members of both protocols have in common, for whoever drives them.

A member is a pure state machine: it is told what happens and when, and says what to send and what to do. It has no
clock, no chance and no I/O. Time is an argument (milliseconds, of any origin, never going back); ids of requests come
from an iterator; what it has to say is taken with `take_outputs`. Whoever drives it sends the requests, hands it the
answers, polls it as often as the application would poll a consumer, and wakes it at `next_deadline_ms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Protocol

from group_coordinator.coordinating.members.commits import Commits
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import OffsetAndMetadata, Output
from group_coordinator.coordinating.members.leaving import Leaving, Shutdown
from group_coordinator.coordinating.members.membership import Membership
from group_coordinator.coordinating.members.positions import Positions
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.events import ResponseEnvelope
from schemas.messages import OffsetCommitResponse, OffsetFetchResponse, Response


class Part(Protocol):
    """A part of a member that must be woken at times."""

    def next_deadline_ms(self) -> int | None: ...


class MemberMachine(ABC):
    """A member of one group. `start` it, then `poll` it: it joins at the first poll after it has a subscription."""

    def __init__(self, membership: Membership) -> None:
        self.config: MemberConfig = membership.config
        self._membership = membership
        self._commits = Commits(membership)
        self._positions = Positions(membership, self._commits)
        self._leaving = Leaving(membership)
        self._shutdown = Shutdown(membership, self._commits, self._positions, self._leaving, self._leave_for_good)
        self._parts: list[Part] = [membership.requests, self._commits, self._positions, self._leaving, self._shutdown]
        """Those that have deadlines."""

    # ------------------------------------------------------------------------------------------ what the member says

    def take_outputs(self) -> list[Output]:
        """Return the outputs since the last call, in order: requests to send, notifications to act on."""
        outputs = list(self._membership.outputs)
        self._membership.outputs.clear()
        return outputs

    def next_deadline_ms(self) -> int | None:
        """Return the latest time for the next `advance_to`; None if only an input can change something."""
        deadlines = [part.next_deadline_ms() for part in self._parts]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --------------------------------------------------------------------------------------- what the member is told

    @abstractmethod
    def start(self, now_ms: int, topics: Iterable[str] = ()) -> None:
        """Start the member with this subscription."""

    @abstractmethod
    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics instead of what was before. Without any, leave the group."""

    def poll(self, now_ms: int) -> None:
        """Note that the application polls. It has then handled all that it was given before."""
        self.advance_to(now_ms)
        if self._shutdown.begun:
            self._shutdown.polled()
        elif self._membership.failed is None:
            self._polled()
        self._settle()

    def advance_to(self, now_ms: int) -> None:
        """Move the time to `now_ms` and do what is due."""
        membership = self._membership
        membership.now_ms = max(membership.now_ms, now_ms)
        for pending in membership.requests.overdue(membership.now_ms):
            self._on_timeout(pending)
        self._keep_place()
        self._commits.fire_due()
        if self._commits.automatic_is_due():
            self._commits.commit_positions(self._positions.to_commit())
        self._positions.fire_due()
        self._go_on()
        self._leaving.fire_due()
        self._settle()

    def receive(self, envelope: ResponseEnvelope, response: Response, now_ms: int) -> None:
        """Handle an answer. One that no request waits for (late, double, another member's) is ignored."""
        membership = self._membership
        membership.now_ms = max(membership.now_ms, now_ms)
        pending = membership.requests.answered(envelope.request_id)
        if pending is None:
            return
        match response:
            case OffsetCommitResponse():
                self._commits.on_response(pending, response)
            case OffsetFetchResponse():
                self._positions.on_response(pending, response)
            case _:
                self._answered(pending, response)
        self._settle()

    @abstractmethod
    def partitions_changed(self, counts: Mapping[str, int]) -> None:
        """Take the present number of partitions of these topics; 0 for a topic that does not exist."""

    @abstractmethod
    def topic_names(self, names: Mapping[str, str]) -> None:
        """Take names of topics by their ids, as `TopicNamesNeeded` asked. Those that are not known may come later."""

    def processed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the record at this offset is processed, so that the automatic commit goes beyond it."""
        self._positions.processed(partition, offset)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> int:
        """Commit these offsets, or else all positions.

        `Committed` or `CommitFailed` tells how it ended, by this number.
        """
        return self._commits.commit(self._positions.to_commit() if offsets is None else offsets)

    def log_bounds(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Take the first offset and the end of partitions, as `LogBoundsNeeded` asked."""
        self._positions.log_bounds(bounds)

    def out_of_range(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the log has no record at the positions of these partitions."""
        self._positions.out_of_range(partitions)

    def close(self, now_ms: int, *, leave_group: bool | None = None) -> None:
        """Commit if that is automatic, give up the partitions, leave, and say `Closed`: within `request.timeout.ms`.

        Go on polling until then: the poll after `Revoked` says that the partitions have been given up. A dynamic member
        leaves the group, a static one stays in it until its session expires; `leave_group` says otherwise.
        """
        membership = self._membership
        membership.now_ms = max(membership.now_ms, now_ms)
        self._shutdown.begin(leave_group)
        self._settle()

    # ------------------------------------------------------------------------------------------- what the member is

    @property
    @abstractmethod
    def state(self) -> StrEnum:
        """The member's state, under the names of Kafka's client."""

    @property
    def member_id(self) -> str:
        return self._membership.generation.member_id

    @property
    def generation_id(self) -> int:
        """The generation, or the member's epoch."""
        return self._membership.generation.generation_id

    @property
    def protocol_name(self) -> str | None:
        """The assignor that the group has chosen; None where the member is not told."""
        return self._membership.generation.protocol_name

    @property
    @abstractmethod
    def is_rejoining(self) -> bool:
        """True if the member will join again."""

    @property
    def is_leader(self) -> bool:
        """True if the member has decided, or will decide, the assignment of this generation."""
        return False

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the application has been told are its own."""
        return self._membership.owned

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset to process of each partition, where it is known."""
        return self._positions.known

    @property
    def may_process(self) -> bool:
        """False while positions are being committed for good, before partitions are given up."""
        return not self._shutdown.begun

    @property
    def committed(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The offsets that the coordinator is known to have, of the member's partitions."""
        return self._commits.committed

    @property
    @abstractmethod
    def subscription(self) -> tuple[str, ...]:
        """The names of topics that the member subscribes to."""

    @property
    @abstractmethod
    def topics_of_interest(self) -> tuple[str, ...]:
        """The topics whose partition counts matter to the member."""

    @property
    def failure(self) -> tuple[ErrorCode, str] | None:
        """The reason why the member has ended, if it has."""
        failed = self._membership.failed
        return None if failed is None else (failed.error_code, failed.reason)

    @property
    def is_closed(self) -> bool:
        return self._shutdown.done

    # --------------------------------------------------------------------------------- in what the protocols differ

    @abstractmethod
    def _polled(self) -> None:
        """Go on with what needs the application."""

    @abstractmethod
    def _keep_place(self) -> None:
        """Send heartbeats; leave if the application does not poll."""

    @abstractmethod
    def _go_on(self) -> None:
        """Do what else is due for the place in the group."""

    @abstractmethod
    def _answered(self, pending: PendingRequest, response: Response) -> None:
        """Handle an answer about the place in the group."""

    @abstractmethod
    def _unanswered(self, pending: PendingRequest) -> None:
        """Handle that a request about the place in the group was not answered in time."""

    @abstractmethod
    def _leave_for_good(self, leave_group: bool | None) -> None:
        """Leave the group as the last thing, as far as that is asked for, and forget the place in it."""

    # --------------------------------------------------------------------------------------------------------- inside

    def _on_timeout(self, pending: PendingRequest) -> None:
        match pending.api:
            case "OffsetCommit":
                self._commits.on_timeout(pending)
            case "OffsetFetch":
                self._positions.on_timeout(pending)
            case _:
                self._unanswered(pending)

    def _settle(self) -> None:
        """Every input may have effects in each part."""
        failed = self._membership.failed
        if failed is not None:
            self._commits.abandon(failed.error_code)
            self._positions.dropped(tuple(self._positions.known))
            self._leaving.abandon()
        self._shutdown.go_on()
