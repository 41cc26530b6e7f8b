"""Ids of requests, by which their answers are told apart."""

from __future__ import annotations

import secrets
from itertools import count


class RequestIds:
    """Ids that no other run gives out: a number behind what is random once. A UUID for each would cost a call of the
    system for each request."""

    def __init__(self) -> None:
        self.run_id = secrets.token_hex(8)
        """All ids begin with it."""
        self._numbers = count()

    def new(self) -> str:
        return f"{self.run_id}-{next(self._numbers):x}"
