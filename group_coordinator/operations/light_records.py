"""Records of our topics, decoded only as far as they are counted: most of their bytes are skipped over.

All of them raise `msgspec.DecodeError`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from schemas.error_codes import ErrorCode
from schemas.foreign_json import json_decoder


class LightEvent(Struct, frozen=True, gc=False):
    """A request, or another event of a group."""

    type: str = "request"
    api: str = ""


class _Part(Struct, frozen=True, gc=False):
    error_code: int = 0


class _Topic(Struct, frozen=True, gc=False):
    partitions: tuple[_Part, ...] = ()


class _Group(Struct, frozen=True, gc=False):
    error_code: int = 0
    topics: tuple[_Topic, ...] = ()


class _Body(Struct, frozen=True, gc=False):
    """The error codes of any answer, wherever its API has them."""

    error_code: int = 0
    topics: tuple[_Topic, ...] = ()
    groups: tuple[_Group, ...] = ()
    results: tuple[_Part, ...] = ()
    coordinators: tuple[_Part, ...] = ()
    members: tuple[_Part, ...] = ()

    def codes(self) -> tuple[int, ...]:
        parts = [*self.results, *self.coordinators, *self.members]
        topics = [*self.topics, *(topic for group in self.groups for topic in group.topics)]
        parts += [part for topic in topics for part in topic.partitions]
        return (*(group.error_code for group in self.groups), *(part.error_code for part in parts))


class LightAnswer(Struct, frozen=True, gc=False):
    """An answer."""

    group_id: str
    epoch: int
    seq: int
    api: str
    answers_offset: int
    body: _Body

    @property
    def error(self) -> str:
        """Kafka's name of the first error in it; NONE where there is none."""
        code = self.body.error_code or next(filter(None, self.body.codes()), 0)
        return ErrorCode(code).name if code in _KNOWN else "UNKNOWN_SERVER_ERROR"


class _Nothing(Struct, frozen=True, gc=False):
    pass


class LightSnapshot(Struct, frozen=True, gc=False):
    """A group as it is."""

    group_id: str
    state: str
    state_since_ms: int
    members: tuple[_Nothing, ...]


_KNOWN = frozenset(ErrorCode)

read_event: Callable[[bytes], LightEvent] = json_decoder(LightEvent)
read_answer: Callable[[bytes], LightAnswer] = json_decoder(LightAnswer)
read_snapshot: Callable[[bytes], LightSnapshot] = json_decoder(LightSnapshot)
