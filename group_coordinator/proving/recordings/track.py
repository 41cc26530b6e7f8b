"""A replay stays on track while its group is what the broker's answers show.

A single answer may differ and the group be the same. Where the broker says that it began another generation than the
replay did, is in another epoch, or goes on with a member that is gone here, what the replay tells is wrong since the
last answer that agreed.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from group_coordinator.proving.recordings.expectations import LONG_STALL_MS, Disagreement, Step
from group_coordinator.proving.recordings.log_contents import OF_MEMBERS
from group_coordinator.proving.recordings.replay_state import Agreed

_OF_A_GENERATION = frozenset({"JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"})


class Place(Struct, frozen=True):
    """A place in a replay: before this position in the order, and not later than this."""

    position: int = 0
    time_ms: int = 0


class Track(Struct):
    """Fed with what agrees and what does not, in the order of the replay."""

    confirmed: Place = Place()
    """Up to here the group is the broker's: a member was told that it is well."""
    doubt: tuple[Place, Disagreement] | None = None
    """Since when the replay may be wrong, and what shows it. The next member that is told the same settles it."""
    is_lost: bool = False
    """It is wrong, and will not be right again by itself."""

    def disagrees(self, disagreement: Disagreement, steps: Sequence[Step]) -> None:
        """Note that something differs from what the broker did, and no other order mends it."""
        is_stalled = disagreement.kind == "time" and abs(disagreement.late_ms) <= LONG_STALL_MS
        if disagreement.kind not in ("answer", "time") or is_stalled or not 0 <= disagreement.step < len(steps):
            return
        step = steps[disagreement.step]
        api = step.request.logged.api
        if api in OF_MEMBERS:
            self.doubt = self.doubt or (self.confirmed, disagreement)
            self.is_lost = self.is_lost or (api in _OF_A_GENERATION and _succeeded(step))

    def agrees(self, agreed: Agreed, position: int) -> None:
        """Note that an answer is the broker's. A member that gets no error is in a group that is as it should be."""
        step = agreed.step
        api = step.request.logged.api
        if not self.is_lost and api in OF_MEMBERS and _is_member(step) and _succeeded(step):
            self.doubt = None
            if api != "OffsetCommit":  # it says of its member alone that it is there: others may have gone, or not
                self.confirmed = Place(position if agreed.by_timer else position + 1, agreed.time_ms)


def _is_member(step: Step) -> bool:
    return bool(getattr(step.request.request, "member_id", None) or step.request.new_member_id)


def _succeeded(step: Step) -> bool:
    """Return whether the broker's answer says that the member is in the group."""
    return not any(step.request.error_codes)
