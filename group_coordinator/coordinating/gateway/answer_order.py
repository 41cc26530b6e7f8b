"""The answers of one connection leave in the order of their requests, whether broker or coordinator gives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count

from group_coordinator.coordinating.gateway.frames import RequestHead, frame

REQUEST_BITS = 32
"""The number of a request is that of its connection, followed by so many bits for its place on it."""
_connections = count(1)
Change = Callable[[bytes], bytes | None]
"""A broker's answer -> what the client is told; None: nothing."""


class Slot:
    """One request's place in the order of answers."""

    __slots__ = ("change_beginning", "done", "events", "head", "held", "number", "rewrite")

    def __init__(self, head: RequestHead, number: int, events: int) -> None:
        self.head = head
        self.number = number
        """Names it in this process."""
        self.events = events
        """How many events it becomes: one for each group that it names."""
        self.held: list[bytes] = []
        """The parts of the answer that are here and cannot be sent yet."""
        self.done = False
        self.rewrite: Change | None = None
        """The change to the broker's whole answer; None: it goes through as it comes."""
        self.change_beginning: Callable[[bytes], bytes] | None = None
        """The change to the beginning of an answer that goes through as it comes."""


class AnswerOrder:
    """An answer that is held (a JoinGroup) holds those behind it, as at a broker."""

    def __init__(self) -> None:
        self.to_client: list[bytes] = []
        """What may be sent."""
        self.pending_events = 0
        """The events of all requests without an answer."""
        self.held_bytes = 0
        """Of answers that wait behind others."""
        self.steps = 0
        """Rises with every request that is taken and every piece of an answer that may leave."""
        self._number = next(_connections) << REQUEST_BITS
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

    def answer_at_once(self, head: RequestHead, payload: bytes) -> None:
        """Answer a request that has no place yet."""
        self.hold(self.place(head), frame(payload), done=True)
        self.release()

    def hold(self, slot: Slot, data: bytes, *, done: bool) -> None:
        """Hold a piece of an answer, or all of it, until its turn."""
        slot.held.append(data)
        slot.done = done
        self.held_bytes += len(data)

    def release(self) -> None:
        """Move the answers at the head of the order to `to_client`."""
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
