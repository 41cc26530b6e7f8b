"""How far a responder has answered: an answer counts when Kafka has taken it, not when it is handed over or sent."""

from __future__ import annotations

from typing import NamedTuple


class LogPlace(NamedTuple):
    """A place in a shard's log."""

    end_offset: int
    """It is before this event."""
    clock_ms: int
    """The shard's clock there."""


class TakenAnswers:
    """Knows the answers that Kafka has not taken yet."""

    def __init__(self) -> None:
        self._waiting: dict[int, LogPlace] = {}
        """Number of an answer -> the place before the event that it follows from."""

    def sent(self, number: int, before: LogPlace) -> None:
        """Note an answer that Kafka is to get; later ones have larger numbers."""
        self._waiting[number] = before

    def taken(self, number: int) -> None:
        """Note that Kafka has taken an answer."""
        self._waiting.pop(number, None)

    def up_to(self, here: LogPlace) -> LogPlace:
        """Return the place up to which all is answered, where all up to `here` is decided."""
        return next(iter(self._waiting.values()), here)
