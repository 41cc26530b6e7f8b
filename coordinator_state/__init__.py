"""This is the pure state machine of one group. It imports only `schemas`, and has no clock, chance or I/O."""

from coordinator_state.classic.group import ClassicGroup, classic_group
from coordinator_state.classic.states import GroupState
from coordinator_state.config import GroupConfig
from coordinator_state.coordinator import Coordinator, GroupCoordinator
from coordinator_state.dispatch import decode_group, encode_group
from coordinator_state.group import Group
from coordinator_state.outputs import (
    Answer,
    AssignmentChange,
    GroupEvent,
    LogRecord,
    Output,
    RecordedEvent,
    RenewalEvent,
    RequestEvent,
    TopicsDeletedEvent,
    TransactionEndedEvent,
    group_event,
)
from coordinator_state.rule_changes import RuleChange
from coordinator_state.state import StateError

__all__ = [
    "Answer",
    "AssignmentChange",
    "ClassicGroup",
    "Coordinator",
    "Group",
    "GroupConfig",
    "GroupCoordinator",
    "GroupEvent",
    "GroupState",
    "LogRecord",
    "Output",
    "RecordedEvent",
    "RenewalEvent",
    "RequestEvent",
    "RuleChange",
    "StateError",
    "TopicsDeletedEvent",
    "TransactionEndedEvent",
    "classic_group",
    "decode_group",
    "encode_group",
    "group_event",
]
