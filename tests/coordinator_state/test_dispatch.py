"""Each kind of request has its handler."""

from __future__ import annotations

from typing import get_args

from coordinator_state.dispatch import HANDLERS
from schemas.messages import Request


def test_every_kind_of_request_is_handled_and_can_be_refused() -> None:
    assert set(HANDLERS) == set(get_args(Request))
