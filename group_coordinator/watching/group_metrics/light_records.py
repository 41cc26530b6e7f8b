"""Records of our topics, decoded only as far as they are counted: most of their bytes are skipped over.

All of them raise `msgspec.DecodeError`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from schemas.error_codes import ErrorCode
from schemas.foreign_json import json_decoder
from schemas.light_snapshot import LightSnapshot


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


class _Way(Struct, frozen=True, gc=False):
    """A member of a consumer group on its way."""

    uses_classic_protocol: bool = False
    revoking_since_ms: int | None = None


class LightMember(Struct, frozen=True, gc=False):
    """A member."""

    consumer: _Way | None = None

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return "classic" if self.consumer is None or self.consumer.uses_classic_protocol else "consumer"


class CountedSnapshot(LightSnapshot[tuple[LightMember, ...]], frozen=True, gc=False):
    """A group as it is."""

    @property
    def type(self) -> str:
        """The type of the group."""
        return "classic" if self.subscription is None else "consumer"

    @property
    def revoking_since_ms(self) -> int | None:
        """Since when a member has not given up what it was told to; None: nobody must."""
        ways = [member.consumer for member in self.members if member.consumer is not None]
        return min((way.revoking_since_ms for way in ways if way.revoking_since_ms is not None), default=None)

    @property
    def unresolved(self) -> int:
        """The number of its regular expressions whose topics are not known yet."""
        return 0 if self.subscription is None else sum(topics is None for topics in self.subscription.regexes.values())


_KNOWN = frozenset(ErrorCode)

read_event: Callable[[bytes], LightEvent] = json_decoder(LightEvent)
read_answer: Callable[[bytes], LightAnswer] = json_decoder(LightAnswer)
read_snapshot: Callable[[bytes], CountedSnapshot] = json_decoder(CountedSnapshot)
