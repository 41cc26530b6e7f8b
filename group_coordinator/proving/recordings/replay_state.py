"""The state of a replay of one group, what came out of it, and what the group was told in it."""

from __future__ import annotations

from msgspec import Struct

from coordinator_state import ClassicGroup, Group
from group_coordinator.proving.recordings.expectations import FactValue, Step
from group_coordinator.proving.recordings.group_requests import GroupRequest
from schemas.group_metadata_events import RegexesResolved
from schemas.recorded import RecordedFact
from schemas.records import GROUP_METADATA_TYPE
from schemas.wire import INT16


class State(Struct, frozen=True):
    """The state of a replay before a step."""

    blobs: tuple[bytes, bytes] | None
    clock_ms: int
    waiting: tuple[int, ...]
    """Indexes of the requests that are not answered yet."""
    next_record: int
    next_entry: int
    taken_records: tuple[int, ...]
    """Records beyond the next one that came out already: an old broker writes those of one commit in any order."""
    taken_entries: tuple[int, ...]
    """Entries beyond the next one that came out already: expirations of one moment have no order."""
    next_load: int
    group_metadata: bytes | None
    """The value of the group's last record in the offsets log."""
    next_fact: int
    """Of what the group is told besides requests."""
    state_slack_ms: int
    """How far the time of the group's last transition may differ from the broker's."""


class Agreed(Struct, frozen=True):
    """A request that was answered as the broker answered it."""

    step: Step
    time_ms: int
    """When."""
    by_timer: bool
    """By a timer on the way to the next request, not by that request."""


InputValue = GroupRequest | RecordedFact | RegexesResolved | FactValue


class GroupInput(Struct, frozen=True):
    """An input of the group at a time of its clock: a request, the leader that the broker elects, or another fact."""

    clock_ms: int
    value: InputValue


def is_bare(group: Group | None) -> bool:
    """Return whether a classic group has neither members nor offsets."""
    return group is not None and type(group.body) is ClassicGroup and not (group.body.members or group.offsets.topics)


NO_STEP = -2
"""In place of the index of a step. (What was armed at -1 counts for nothing: `coordinator_state.consumer.timers`.)"""
GROUP_METADATA_PREFIX = INT16.pack(GROUP_METADATA_TYPE)
START = State(None, 0, (), 0, 0, (), (), 0, None, 0, 0)
