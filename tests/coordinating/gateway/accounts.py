"""A clock and a holder of bytes, for bounds."""

from __future__ import annotations


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Someone:
    def __init__(self) -> None:
        self.called = 0
        self.given_up: list[str] = []

    def flush_soon(self) -> None:
        self.called += 1

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)
