"""What is kept of a group id that has a configuration, but no group."""

from __future__ import annotations

from typing import ClassVar, final

from msgspec import Struct

from coordinator_state.offsets import OffsetExpirationCondition
from coordinator_state.timers import TimerCause
from schemas.messages import DescribedGroup


@final
class NoGroup(Struct, array_like=True, tag="none"):
    """There is no group. No handler ever sees this body: a step has no group then."""

    type_name: ClassVar[str] = "none"
    protocol_type: ClassVar[str | None] = None
    generation_id: ClassVar[int] = -1
    state_name: ClassVar[str] = "Dead"
    is_empty: ClassVar[bool] = True
    is_removed: ClassVar[bool] = False
    is_small: ClassVar[bool] = True
    ongoing_seq: ClassVar[int | None] = None
    regex_refresh_began_ms: ClassVar[int | None] = None

    def instance_owner(self, group_instance_id: str) -> str | None:
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def validate_offset_delete(self) -> None: ...

    def validate_delete_group(self) -> None: ...

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return False

    def offset_expiration_condition(self) -> OffsetExpirationCondition | None:
        return None

    def describe(self, group_id: str) -> DescribedGroup | None:
        return None

    def tombstone_keys(self, group_id: str) -> tuple[bytes, ...]:
        return ()

    def timer_cause(self, name: str) -> TimerCause:
        raise AssertionError("there is no group")

    def move_time(self, by_ms: int) -> None: ...
