"""A mistake of the client as a value: `Refusal` becomes the response to the request. Our own mistakes are
assertions."""

from __future__ import annotations

from typing import TypeVar

from schemas.error_codes import ErrorCode

AnyGroup = TypeVar("AnyGroup")


class Refusal(Exception):
    """A request is refused.

    The checks that raise it run in Kafka's order, and some run after something was changed, as in Kafka.
    """

    def __init__(self, error_code: ErrorCode, rule: str, detail: str, *, echo_member_id: bool = True) -> None:
        super().__init__(f"{error_code.name}: {detail}")
        self.error_code = error_code
        self.rule = rule
        self.detail = detail
        self.echo_member_id = echo_member_id


def require_group_id(group_id: str) -> None:
    if not group_id:
        raise Refusal(ErrorCode.INVALID_GROUP_ID, "empty_group_id", "the group id is empty")


def require_group(group: AnyGroup | None, error_code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> AnyGroup:
    if group is None:
        raise Refusal(error_code, "unknown_group", "there is no such group")
    return group
