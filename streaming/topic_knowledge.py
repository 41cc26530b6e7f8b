"""Which topics are there and which are gone: what `streaming.topic_watcher` concludes from what brokers tell. Pure.

A topic is known by its id: one that is made again under its name is another. It counts as gone when two looks in a row
say so: the name is unknown, or has another id. No answer, no right to see it, or an answer from a broker that is behind
(it names an id that is gone already) says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

LOOKS_TO_BE_GONE = 2
LOOKS_TO_AGREE = 5
"""So many looks in a row must show the same topic under a name before an id that was never seen counts as another's. They count
from when a group was seen to have stored it: looks of before may be older than the topic."""
AGREE_S = 6.0
_BURIED_MAX = 10_000


class Look(Struct, frozen=True, kw_only=True):
    """What the brokers told at one moment."""

    topics: Mapping[str, str]
    """Name -> id, of topics that are there."""
    absent: frozenset[str] = frozenset()
    """Names that were asked for and that the brokers do not know. A name that is in neither was not answered for."""


class TopicKnowledge:
    """The topics of the cluster by id."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """`known`: id -> name, as last kept."""
        self._live = dict(known)
        self._missed: dict[str, int] = {}
        """Looks in a row that did not find it."""
        self._gone: dict[str, str] = {}
        self._buried: dict[str, None] = {}
        self._agreed: dict[str, tuple[str | None, int]] = {}
        """Name of a topic that is gone -> what looks show there now (None: nothing), and how many in a row."""
        self._looks = 0
        self._unseen: dict[tuple[str, str], int] = {}
        """(name, id) of what groups have stored and no look has shown -> looks until it was first met."""
        self._is_where_groups_read = False
        """Whether groups were seen to have offsets of topics that are known here. Their clients' topics may lie in another cluster."""

    @property
    def names(self) -> frozenset[str]:
        """Names that must be asked for: whoever lists all topics is not told which are missing."""
        return frozenset(self._live.values())

    @property
    def in_doubt(self) -> bool:
        """Whether the next look decides."""
        return bool(self._missed)

    def learn(self, look: Look) -> tuple[dict[str, str], dict[str, str]]:
        """What is new since the last look: (topics that came, topics that are gone), id -> name."""
        self._looks += 1
        gone: dict[str, str] = {}
        for topic_id, name in list(self._live.items()):
            missed = self._missed.pop(topic_id, 0)
            if not self._misses(topic_id, name, look):
                continue
            if missed + 1 < LOOKS_TO_BE_GONE:
                self._missed[topic_id] = missed + 1
                continue
            del self._live[topic_id]
            gone[topic_id] = name
        self._gone |= gone
        self._agreed = {name: self._agreement(name, look) for name in sorted(set(self._gone.values()))}
        came = {
            topic_id: name
            for name, topic_id in look.topics.items()
            if topic_id not in self._live and not self._is_dead(topic_id)
        }
        self._live |= came
        return came, gone

    def bury(self, topic_id: str) -> None:
        """Every group has been told of it. Its id is remembered for a while, against answers that are behind."""
        self._gone.pop(topic_id, None)
        self._buried[topic_id] = None
        if len(self._buried) > _BURIED_MAX:
            del self._buried[next(iter(self._buried))]

    def dead_ids(self, name: str, gone_id: str, stored: frozenset[str | None], *, is_first: bool) -> tuple[str | None, ...]:
        """With which ids a group is to be told that a topic is gone, given those with which its offsets are stored.

        Beside the id that is known to be gone: any other that is not the topic's present one, where nobody saw the topic
        between being made and deleted. An offset without an id counts at `is_first`, when what had been committed for the
        old topic is looked at; later only while there is no topic of that name, for it may be one of the new topic.
        """
        with_id = sorted(filter(None, stored))
        if any(self.is_alive(each) or self._is_dead(each) for each in with_id):
            self._is_where_groups_read = True
        found = [each for each in with_id if each == gone_id or self._is_foreign(name, each)]
        if not found and None in stored and (is_first or self._is_absent(name)):
            found = [gone_id]
        return tuple(found)

    def has_undecided(self, name: str) -> bool:
        """Whether groups have stored an id of this topic about which looks have not had the time to agree."""
        return any(
            of == name and not self.is_alive(topic_id) and self._looks < met + LOOKS_TO_AGREE
            for (of, topic_id), met in self._unseen.items()
        )

    def is_alive(self, topic_id: str) -> bool:
        return topic_id in self._live

    def _misses(self, topic_id: str, name: str, look: Look) -> bool:
        present = look.topics.get(name)
        if present is None:
            return name in look.absent
        return present != topic_id and not self._is_dead(present)

    def _is_dead(self, topic_id: str) -> bool:
        return topic_id in self._gone or topic_id in self._buried

    def _is_absent(self, name: str) -> bool:
        shown, looks = self._agreed.get(name, (None, 0))
        return shown is None and looks >= LOOKS_TO_BE_GONE

    def _is_foreign(self, name: str, topic_id: str) -> bool:
        """Whether looks have agreed for a while that the topic of this name is not the one with this id."""
        if self.is_alive(topic_id):
            return False
        shown, looks = self._agreed.get(name, (None, 0))
        if not self._is_dead(topic_id):
            met = self._unseen.setdefault((name, topic_id), self._looks)
            looks = min(looks, self._looks - met)
            if len(self._unseen) > _BURIED_MAX:
                del self._unseen[next(iter(self._unseen))]
        return self._is_where_groups_read and looks >= LOOKS_TO_AGREE and shown != topic_id

    def _agreement(self, name: str, look: Look) -> tuple[str | None, int]:
        shown = look.topics.get(name)
        if (shown is None and name not in look.absent) or (shown is not None and self._is_dead(shown)):
            return None, 0
        before, looks = self._agreed.get(name, (None, 0))
        return shown, looks + 1 if shown == before or not looks else 1


class Burial:
    """A topic that is gone, until every group has been told, in four rounds through what is committed.

    The first is at once; the second when all is handled that was in the log then; the third when the brokers have agreed for
    a while on what is there instead; the fourth when nobody can still commit for it in good faith, and all of that is handled, too.
    """

    def __init__(self, topic_id: str, name: str, now_s: float, settle_s: float) -> None:
        self.topic_id, self.name = topic_id, name
        self.rounds = 0
        self._due_s = (now_s, now_s, now_s + min(AGREE_S, settle_s), now_s + settle_s)
        self._wait_for: int | None = None
        """The next round waits until the events are handled up to here."""

    @property
    def is_new(self) -> bool:
        """What is committed without a topic's id was committed for this one."""
        return self.rounds < 2

    def wants_end(self, now_s: float) -> bool:
        """Whether it is to be told where the log ends."""
        return self._wait_for is None and now_s >= self._due_s[self.rounds]

    def log_ends_at(self, offset: int) -> None:
        self._wait_for = offset

    def is_ready(self, handled: int) -> bool:
        """Whether the next round can begin, where so much of the log is handled."""
        return self._wait_for is not None and (self.rounds == 0 or handled >= self._wait_for)

    def end_round(self, undecided: bool) -> bool:
        """Whether it was the last. The last one is repeated while something that was met in it is `undecided`."""
        if self.rounds:
            self._wait_for = None
        if undecided and self.rounds == len(self._due_s) - 1:
            return False
        self.rounds += 1
        return self.rounds == len(self._due_s)
