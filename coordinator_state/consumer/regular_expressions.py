"""The check of a member's regular expression. Source: `throwIfRegularExpressionIsInvalid` (Kafka 4.3)."""

from __future__ import annotations

from coordinator_state.errors import Refusal
from schemas.error_codes import ErrorCode
from schemas.topic_regexes import InvalidTopicRegex, check_topic_regex


def require_valid_regex(regex: str) -> None:
    """Raise `Refusal` for an expression that is none."""
    try:
        check_topic_regex(regex)
    except InvalidTopicRegex as problem:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION, "invalid_regular_expression",
            f"{regex!r:.300} is not a valid regular expression: {problem!s:.300}",
        ) from None  # fmt: skip
