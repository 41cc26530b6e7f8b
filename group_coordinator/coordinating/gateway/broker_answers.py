"""The broker's answers on one connection: in the order of what was forwarded, changed on their way where that is
wanted."""

from __future__ import annotations

from collections import deque

from group_coordinator.coordinating.gateway.answer_order import AnswerOrder, Change, Slot
from group_coordinator.coordinating.gateway.fetch import HEAD_BYTES_MAX
from group_coordinator.coordinating.gateway.frames import CORRELATION, FrameError, FrameSplitter, RequestHead, frame


class BrokerAnswers:
    """Puts them into the order of all answers."""

    def __init__(self, order: AnswerOrder, answer_bytes_max: int) -> None:
        self.splitter = FrameSplitter(answer_bytes_max)
        self.forwarded: deque[Slot] = deque()
        """Those of the order that the broker will answer."""
        self._order = order

    def clear(self) -> None:
        """Expect no answers any more."""
        self.splitter.clear()
        self.forwarded.clear()

    def forward(self, head: RequestHead, rewrite: Change | None) -> Slot:
        """Return a place in the order that the broker will fill."""
        slot = self._order.place(head)
        slot.rewrite = rewrite
        self.forwarded.append(slot)
        return slot

    def read(self) -> bool:
        """Take the next answer, or what is here of it; False: more of it is needed. Raises FrameError."""
        slot = self.forwarded[0]
        if slot.rewrite is not None:
            payload = self.splitter.whole()
            if payload is None:
                return False
            _insist_on_correlation(slot, payload)
            changed_payload = slot.rewrite(payload)
            self._order.hold(slot, b"" if changed_payload is None else frame(changed_payload), done=True)
        else:
            piece = self._piece(slot)
            if piece is None:
                return False
            self._order.hold(slot, piece, done=not self.splitter.mid_frame)
        if slot.done:
            self.forwarded.popleft()
        self._order.release()
        return slot.done

    def _piece(self, slot: Slot) -> bytes | None:
        """Return a piece of an answer that passes unchanged; None if its beginning is not here yet."""
        if self.splitter.mid_frame:
            return self.splitter.piece()
        beginning = self.splitter.peek(HEAD_BYTES_MAX)
        if beginning is None or (len(beginning) < HEAD_BYTES_MAX and not self.splitter.is_complete):
            return None
        _insist_on_correlation(slot, beginning)
        piece = self.splitter.piece()
        return piece if slot.change_beginning is None else slot.change_beginning(piece)


def _insist_on_correlation(slot: Slot, payload: bytes) -> None:
    if len(payload) < CORRELATION.size or CORRELATION.unpack_from(payload)[0] != slot.head.correlation_id:
        raise FrameError("the broker's answer is not the one to the oldest request")
