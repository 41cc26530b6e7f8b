"""The interface of one kind of group: the requests, timers and events that each kind handles in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from coordinator_state.config import GroupConfig
from coordinator_state.group import Group, GroupBody
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from schemas.history import GroupSnapshot
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from schemas.recorded import RecordedLoad


class GroupKind(ABC):
    """One object serves all groups of its kind: it has no state of its own. Requests raise `Refusal`.

    The kind of the group decides which object gets a request; where there is no group, the request does (`dispatch`).
    """

    body: ClassVar[type[GroupBody]]
    """The state of a group of this kind."""

    @abstractmethod
    def join_group(self, step: Step, request: JoinGroupRequest) -> None: ...

    @abstractmethod
    def sync_group(self, step: Step, request: SyncGroupRequest) -> None: ...

    @abstractmethod
    def heartbeat(self, step: Step, request: HeartbeatRequest) -> None: ...

    @abstractmethod
    def leave_group(self, step: Step, request: LeaveGroupRequest) -> None: ...

    @abstractmethod
    def validate_offset_commit(self, step: Step, request: OffsetCommitRequest) -> None:
        """Check that the sender may commit, and count the commit as a sign of life.

        Without a group, create a simple one.
        """

    @abstractmethod
    def validate_txn_offset_commit(self, step: Step, request: TxnOffsetCommitRequest) -> None:
        """Check that the sender may commit in a transaction; it is no sign of life.

        Without a group, create a simple one.
        """

    @abstractmethod
    def timer_expired(self, step: Step, name: str, timer: Timer) -> None:
        """Handle one of the kind's own timers; the retention check is not one."""

    @abstractmethod
    def renew_sessions(self, step: Step) -> None:
        """Begin all sessions anew: the clock had stood still. None ends sooner than it would have."""

    @abstractmethod
    def load(self, step: Step, fact: RecordedLoad) -> None:
        """Go on as a broker that has just loaded the group, as a recording tells. (The first kind: without one, too.)
        """

    @abstractmethod
    def snapshot(self, group: Group, seq: int, config: GroupConfig) -> GroupSnapshot:
        """Return a group as it is published on the assignments topic."""
