"""Odd values for the fields of events, and good events of a group that are no requests of clients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from coordinator_state import decode_group, encode_group
from schemas.events import RENEWAL_AT_PRESENT, DeletedTopic, TopicsDeleted, encode_json
from schemas.messages import JoinGroupProtocol
from schemas.recorded import (
    RecordedDeparture,
    RecordedGroup,
    RecordedLeader,
    RecordedLoad,
    RecordedMember,
    RecordedOffset,
    RecordedSession,
    RecordingGap,
)
from streaming.operator import coordinate_rows
from streaming.operator_config import OperatorConfig
from streaming.rows import EventRow

State = tuple[bytes, bytes]
NOW_MS = 1_795_000_000_000

TOPIC_ID = "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90"
MEMBER = RecordedMember(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/127.0.0.1",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=9_000,
    protocols=(JoinGroupProtocol(name="range", metadata=b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"),),
)
RECORDED = RecordedGroup(
    generation_id=1,
    protocol_type="consumer",
    protocol_name="range",
    leader_id="m",
    members=(MEMBER,),
    offsets=(RecordedOffset(topic="t", partition=0, offset=1, leader_epoch=1, metadata="x", topic_id=TOPIC_ID),),
)
OTHERS = [
    encode_json(RecordedLoad(loaded_ms=1, group_metadata=None, broker_id=1)),
    encode_json(RecordedSession(member_id="m", ends_ms=1)),
    encode_json(RecordedSession(member_id=None, ends_ms=1)),
    encode_json(RecordedDeparture(member_id="m")),
    *map(encode_json, (RECORDED, RecordedLeader(member_ids=("m",)), RecordingGap(reason="lines are missing"))),
    encode_json(TopicsDeleted(topics=(DeletedTopic(name="t", topic_id=TOPIC_ID),))),
    RENEWAL_AT_PRESENT,
]
TEXTS = ("", "\0", "no id", "\x1b[0m", "range", "-1", "ü" * 20_000, "x" * 32_767, "x" * 40_000)
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63))


def with_odd_values(document: Any) -> Iterator[Any]:
    """The document again and again, each time with another value somewhere."""
    for inside, place in places(document):
        original = inside[place]
        odd: tuple[Any, ...] = ([], None, "", 0)
        if isinstance(original, str | int):
            odd = TEXTS if isinstance(original, str) else NUMBERS
        for value in odd:
            inside[place] = value
            yield document
        inside[place] = original


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in a JSON document, as what it is in and where."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, inner in list(members):
        yield value, place
        yield from places(inner)


class OddGroup:
    """A group of this key that hears events, with these settings."""

    def __init__(self, key: bytes, config: OperatorConfig) -> None:
        self._key, self._config = key, config

    def lived(self, values: list[bytes], before: State | None = None, first: int = 1) -> State | None:
        """Return its state after some events, from this offset on."""
        rows = [EventRow(number, NOW_MS + number, NOW_MS + number, value) for number, value in enumerate(values, first)]
        return self._after(rows, NOW_MS, before)

    def hears(
        self, example: bytes, befores: Iterable[State | None], afterwards: list[bytes], later_ms: int
    ) -> None:
        """Hear an event with each odd value, in each of these states, then others, and then nothing for a while.

        What follows is a function of the state that the odd one leaves: most leave one that another has left.
        """
        states = list(befores)
        left: set[State | None] = set()
        for odd in with_odd_values(json.loads(example)):
            value = json.dumps(odd).encode()
            left |= {self.lived([value], before) for before in states}
        for state in left:
            self._after([], NOW_MS + later_ms, self.lived(afterwards, state, first=2))

    def _after(self, rows: list[EventRow], clock_ms: int, before: State | None) -> State | None:
        group = None if before is None else decode_group(*before)
        left = coordinate_rows(self._key, rows, self._config, group=group, clock_ms=clock_ms).group
        return None if left is None else encode_group(left)
