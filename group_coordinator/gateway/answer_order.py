"""The answers of one connection, which leave in the order of their requests, whoever gives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from group_coordinator.gateway.frames import RequestHead

Change = Callable[[bytes], bytes | None]
"""A broker's answer -> what the client is told; None: nothing."""


class Slot:
    """One request's place in the order of answers."""

    __slots__ = ("done", "events", "head", "held", "number", "put_in", "rewrite")

    def __init__(self, head: RequestHead, number: int, events: int) -> None:
        self.head = head
        self.number = number
        """Names it on this connection."""
        self.events = events
        """What it counts for: one for each group that it is about."""
        self.held: list[bytes] = []
        """What is there of the answer and could not leave yet."""
        self.done = False
        self.rewrite: Change | None = None
        """What to do with the broker's whole answer; None: it goes through as it comes."""
        self.put_in: Callable[[bytes], bytes] | None = None
        """What to do with the beginning of an answer that goes through as it comes."""


class AnswerOrder:
    """An answer that is held (a JoinGroup) holds those behind it, as at a broker."""

    def __init__(self) -> None:
        self.to_client: list[bytes] = []
        """What may leave."""
        self.pending_events = 0
        """What the requests without an answer count for."""
        self.held_bytes = 0
        """Of answers that wait behind others."""
        self.steps = 0
        """Rises with every request that is taken and every piece of an answer that may leave."""
        self._number = 0
        self._slots: deque[Slot] = deque()

    def __len__(self) -> int:
        """Requests without an answer."""
        return len(self._slots)

    def clear(self) -> None:
        """Drop all answers."""
        self._slots.clear()
        self.to_client.clear()
        self.pending_events = self.held_bytes = 0

    def place(self, head: RequestHead, events: int = 1) -> Slot:
        """Return a new place at the end of the order."""
        self._number += 1
        self.steps += 1
        self.pending_events += events
        slot = Slot(head, self._number, events)
        self._slots.append(slot)
        return slot

    def hold(self, slot: Slot, data: bytes, *, done: bool) -> None:
        """Hold a piece of an answer, or all of it, until its turn."""
        slot.held.append(data)
        slot.done = done
        self.held_bytes += len(data)

    def release(self) -> None:
        """Let go what is at the head of the order."""
        while self._slots:
            slot = self._slots[0]
            self.steps += bool(slot.held)
            self.to_client += slot.held
            self.held_bytes -= sum(map(len, slot.held))
            slot.held.clear()
            if not slot.done:
                return
            self._slots.popleft()
            self.pending_events -= slot.events
