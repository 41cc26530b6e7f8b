"""An expression that is none is refused."""

import pytest

from coordinator_state.consumer.subscription import require_valid_regex
from coordinator_state.errors import Refusal
from schemas.error_codes import ErrorCode


def test_an_expression() -> None:
    require_valid_regex("orders-[a-z]+|payments")


def test_one_that_is_none() -> None:
    with pytest.raises(Refusal, match=r"'orders\(' is not a valid regular expression: missing \)") as refusal:
        require_valid_regex("orders(")
    assert refusal.value.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
