"""The brokers' lists of topics tell which topics exist and which are gone. `streaming.topic_watcher` asks for them.
Pure.

A topic is known by its id: another topic may have its name later. It counts as gone when two lists in a row say so: the
name is unknown, or has another id. No answer, no right to see the topic, or an answer from a broker that is behind (it
names an id that is gone already) says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from group_coordinator.ground.kafka_topics.cluster_topics import Racks

LISTINGS_TO_BE_GONE = 2
LISTINGS_TO_AGREE = 5
"""So many looks in a row must show the same topic under a name before an id that was never seen counts as another's.
They count from when a group was seen to have stored it: looks of before may be older than the topic."""
AGREE_S = 6.0
_REMOVED_MAX = 10_000


class TopicListing(Struct, frozen=True, kw_only=True):
    """The brokers' answer about topics at one moment."""

    topics: Mapping[str, str]
    """Name -> id, of topics that are there."""
    racks: Mapping[str, Racks] = {}
    """Name -> the racks of each partition's replicas, of the same topics."""
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
        self._removed: dict[str, None] = {}
        self._agreed: dict[str, tuple[str | None, int]] = {}
        """Name of a topic that is gone -> what looks show there now (None: nothing), and how many in a row."""
        self._listings = 0
        self._unseen: dict[tuple[str, str], int] = {}
        """(name, id) of what groups have stored and no look has shown -> looks until it was first met."""
        self._is_where_groups_read = False
        """Whether groups were seen to have offsets of topics that are known here. Their clients' topics may lie in
        another cluster."""

    @property
    def names(self) -> frozenset[str]:
        """The names that must be asked for: a list of all topics does not say which are missing."""
        return frozenset(self._live.values())

    @property
    def live(self) -> Mapping[str, str]:
        """The topics that exist, id -> name; also those that one look has missed."""
        return self._live

    @property
    def in_doubt(self) -> bool:
        """True if the next list decides about a topic."""
        return bool(self._missed)

    def meet(self, topics: Mapping[str, str]) -> None:
        """Take in topics that others have seen, id -> name: they were there, and lists tell whether they still are."""
        self._live |= {
            topic_id: name
            for topic_id, name in topics.items()
            if topic_id not in self._live and not self._is_dead(topic_id)
        }

    def is_in_doubt(self, name: str) -> bool:
        """Return whether the next list decides about a topic of this name."""
        return any(self._live[topic_id] == name for topic_id in self._missed)

    def learn(
        self, listing: TopicListing, names: frozenset[str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the changes since the last list: (new topics, topics that are gone), id -> name. `names`: no others
        were asked for; None: all were."""
        if names is None:
            self._listings += 1
        gone: dict[str, str] = {}
        for topic_id, name in list(self._live.items()):
            if names is not None and name not in names:
                continue
            missed = self._missed.pop(topic_id, 0)
            if not self._misses(topic_id, name, listing):
                continue
            if missed + 1 < LISTINGS_TO_BE_GONE:
                self._missed[topic_id] = missed + 1
                continue
            del self._live[topic_id]
            gone[topic_id] = name
        self._gone |= gone
        if names is None:  # looks at a few topics follow one another too soon to agree
            self._agreed = {name: self._agreement(name, listing) for name in sorted(set(self._gone.values()))}
        came = {
            topic_id: name
            for name, topic_id in listing.topics.items()
            if topic_id not in self._live and not self._is_dead(topic_id)
        }
        self._live |= came
        return came, gone

    def mark_removed(self, topic_id: str) -> None:
        """Note that every group knows that the topic is gone. Its id is kept for a while, against answers that are
        behind."""
        self._gone.pop(topic_id, None)
        self._removed[topic_id] = None
        if len(self._removed) > _REMOVED_MAX:
            del self._removed[next(iter(self._removed))]

    def dead_ids(
        self, name: str, gone_id: str, stored: frozenset[str | None], *, is_first: bool
    ) -> tuple[str | None, ...]:
        """Return the ids under which a group must drop offsets of a topic that is gone, among those that it has stored.

        These are the id that is known to be gone, and any other that is not the topic's present one, since a topic may
        be made and deleted unseen. An offset without an id counts at `is_first`, when offsets committed for the old
        topic are inspected; later it counts only while no topic has the name, for it may be one of the new topic.
        """
        with_id = sorted(filter(None, stored))
        if any(self.is_alive(topic_id) or self._is_dead(topic_id) for topic_id in with_id):
            self._is_where_groups_read = True
        dead_ids = [topic_id for topic_id in with_id if topic_id == gone_id or self._is_foreign(name, topic_id)]
        if not dead_ids and None in stored and (is_first or self._is_absent(name)):
            dead_ids = [gone_id]
        return tuple(dead_ids)

    def has_undecided(self, name: str) -> bool:
        """Return whether groups have stored an id of this topic about which lists have not yet agreed."""
        return any(
            of == name and not self.is_alive(topic_id) and self._listings < met + LISTINGS_TO_AGREE
            for (of, topic_id), met in self._unseen.items()
        )

    def is_alive(self, topic_id: str) -> bool:
        return topic_id in self._live

    def _misses(self, topic_id: str, name: str, listing: TopicListing) -> bool:
        present = listing.topics.get(name)
        if present is None:
            return name in listing.absent
        return present != topic_id and not self._is_dead(present)

    def _is_dead(self, topic_id: str) -> bool:
        return topic_id in self._gone or topic_id in self._removed

    def _is_absent(self, name: str) -> bool:
        shown, listings = self._agreed.get(name, (None, 0))
        return shown is None and listings >= LISTINGS_TO_BE_GONE

    def _is_foreign(self, name: str, topic_id: str) -> bool:
        """Return whether lists have agreed for a while that the topic of this name has another id."""
        if self.is_alive(topic_id):
            return False
        shown, listings = self._agreed.get(name, (None, 0))
        if not self._is_dead(topic_id):
            met = self._unseen.setdefault((name, topic_id), self._listings)
            listings = min(listings, self._listings - met)
            if len(self._unseen) > _REMOVED_MAX:
                del self._unseen[next(iter(self._unseen))]
        return self._is_where_groups_read and listings >= LISTINGS_TO_AGREE and shown != topic_id

    def _agreement(self, name: str, listing: TopicListing) -> tuple[str | None, int]:
        shown = listing.topics.get(name)
        if (shown is None and name not in listing.absent) or (shown is not None and self._is_dead(shown)):
            return None, 0
        before, listings = self._agreed.get(name, (None, 0))
        return shown, listings + 1 if shown == before or not listings else 1


class TopicRemoval:
    """The removal of a topic goes through the committed offsets in four rounds, until every group knows of it.

    The first round is at once. The second comes when all events that were in the log then are handled. The third comes
    when the brokers have agreed for a while on the name's present topic. The fourth comes when no client can still
    commit for the old topic in good faith, and all such commits are handled.
    """

    def __init__(self, topic_id: str, name: str, now_s: float, settle_s: float) -> None:
        self.topic_id, self.name = topic_id, name
        self.rounds = 0
        self._due_s = (now_s, now_s, now_s + min(AGREE_S, settle_s), now_s + settle_s)
        self._wait_for: int | None = None
        """The next round waits until the events are handled up to here."""

    @property
    def is_new(self) -> bool:
        """True while offsets committed without a topic's id belong to this topic."""
        return self.rounds < 2

    def wants_end(self, now_s: float) -> bool:
        """Return whether the removal needs to know where the log ends."""
        return self._wait_for is None and now_s >= self._due_s[self.rounds]

    def log_ends_at(self, offset: int) -> None:
        self._wait_for = offset

    def is_ready(self, handled: int) -> bool:
        """Return whether the next round can begin, given how much of the log is handled."""
        return self._wait_for is not None and (self.rounds == 0 or handled >= self._wait_for)

    def end_round(self, undecided: bool) -> bool:
        """Return whether the round was the last. The last one is repeated while an offset met in it is `undecided`."""
        if self.rounds:
            self._wait_for = None
        if undecided and self.rounds == len(self._due_s) - 1:
            return False
        self.rounds += 1
        return self.rounds == len(self._due_s)
