"""What a group is told of topics with a request that joins it is what the brokers have at that moment.

The gateway knows the cluster's topics as the coordinator's watcher has published them. Before a member joins it asks
the brokers. Where they say otherwise the watcher is told to look, and the request waits a moment for what it publishes:
so a topic that was made just now is assigned at once, and still all who read the published topics know the same ones in
the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import UnsetType

from group_coordinator.coordinating.gateway.published_groups import PublishedGroup
from group_coordinator.coordinating.gateway.topic_cache import Absent, Answers, Topic, TopicCache
from group_coordinator.coordinating.gateway.topic_images import TopicImages
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.group_metadata_events import TopicMetadata
from schemas.java_hash import group_partition
from schemas.messages import JoinGroupRequest
from schemas.query_progress import GroupsAsked, SeenTopic, TopicsSeen

PUBLISHED_WITHIN_S = 1.0
"""So long a request waits for the watcher. While the coordinator is away nobody watches."""
TOLD_FOR_S = 1.0
"""So long the watcher is not told the same again."""
TOLD_MAX = 10_000
"""Topics that were told, after which some may be told again."""
TOPICS_PER_RECORD = 500
AGREED_MAX = 10_000
"""Topics of groups that brokers were found to know as published, after which they may be asked about some again."""

Joining = ConsumerGroupHeartbeatRequest | JoinGroupRequest
Attached = TopicMetadata | UnsetType


class Channel(Protocol):
    """The way to watchers and responders (`group_coordinator.coordinating.gateway.progress_channel`)."""

    @property
    def shards(self) -> int: ...

    def write(self, shard: int, record: TopicsSeen | GroupsAsked) -> None: ...


class JoinedTopics:
    """All methods run in one thread."""

    def __init__(
        self,
        images: TopicImages,
        published: Callable[[str], PublishedGroup | None],
        cache: TopicCache,
        channel: Channel,
        cluster_id: Callable[[], str | None],
        call_later: Callable[[float, Callable[[], None]], object],
        now_s: Callable[[], float],
    ) -> None:
        """`published`: a group as last published. `channel`: the way to the watchers. `cluster_id`: of the brokers that
        are asked; None: not known."""
        self._images = images
        self._published = published
        self._cache = cache
        self._channel = channel
        self._cluster_id = cluster_id
        self._call_later = call_later
        self.now_s = now_s
        self._told: dict[tuple[int, SeenTopic, bool], float] = {}
        self._agreed: set[tuple[str, str, int | None]] = set()
        """Group, topic and the published version that was like what brokers knew. A member that has joined brings it
        along again without a question, while its group has yet to be published: others may wait for what it says."""

    def attached(self, request: Joining) -> Attached | None:
        """Return what goes with the request; None if `look_up` must ask for it."""
        names = self._to_ask(request)
        if not names or not self._channel.shards:
            return self.as_published(request)
        answers = self._cache.known(names, at_present=True)
        if answers is None or self._unlike(request.group_id, answers):
            return None
        return self.as_published(request)

    def as_published(self, request: Joining) -> Attached:
        """Return the same without asking anybody."""
        return self._images.metadata_for(request, self._published(request.group_id))

    def look_up(self, request: Joining, on_known: Callable[[Attached], None]) -> None:
        """Let brokers and watcher be asked; `on_known` is called once, later, with what goes with the request."""
        names = self._to_ask(request)
        answers = self._cache.known(names, at_present=True)

        def compare(answers: Answers) -> None:
            self._compare(request, answers, on_known)

        if answers is not None:
            self._call_later(0.0, lambda: compare(answers))
        elif not self._cache.look_up(names, compare, at_present=True):
            self._call_later(0.0, lambda: compare({}))  # too many names wait: they are as they are published

    def tell_of(self, group_id: str, answers: Answers) -> None:
        """Tell the watcher of topics that brokers know otherwise than it has published."""
        self._tell(group_id, self._images.unlike(group_id, answers))

    def tell_of_past(self, group_id: str, topic_ids: Mapping[str, set[str]]) -> None:
        """Tell the watcher of topics that are gone, by name: the ids under which they were there."""
        if self._cluster_id() is not None:
            gone = [SeenTopic(name, one) for name, ids in topic_ids.items() for one in sorted(ids)]
            self._write(group_id, gone, is_past=True)

    def _to_ask(self, request: Joining) -> dict[str, int]:
        """Return the topics about which brokers must be asked, with the partition that must be there: any."""
        group_id, names = request.group_id, self._images.named(request, self._published(request.group_id))
        is_member = isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch != JOIN_EPOCH
        return {
            name: -1
            for name in names
            if not is_member or (group_id, name, self._images.version_of(group_id, name)) not in self._agreed
        }

    def _unlike(self, group_id: str, answers: Answers) -> Mapping[str, Topic | Absent]:
        """Return the topics that brokers know otherwise than they are published, and note the others."""
        unlike = self._images.unlike(group_id, answers)
        if len(self._agreed) + len(answers) > AGREED_MAX:
            self._agreed.clear()
        self._agreed |= {
            (group_id, name, self._images.version_of(group_id, name))
            for name, verdict in answers.items()
            if isinstance(verdict, Topic) and not verdict.is_doubtful and name not in unlike
        }
        return unlike

    def _compare(self, request: Joining, answers: Answers, on_known: Callable[[Attached], None]) -> None:
        group_id = request.group_id

        def answer() -> None:
            unlike = self._unlike(group_id, answers)
            on_known(self._images.metadata_for(request, self._published(group_id), unlike))

        other = self._images.unlike(group_id, answers)
        self._tell(group_id, other)
        if any(isinstance(verdict, Topic) for verdict in other.values()):
            present = {name: verdict for name, verdict in other.items() if isinstance(verdict, Topic)}
            self._images.when(
                lambda: not self._images.unlike(group_id, present), answer, PUBLISHED_WITHIN_S, self._call_later
            )
        else:
            answer()

    def _tell(self, group_id: str, other: Mapping[str, Topic | Absent]) -> None:
        knows_cluster = self._cluster_id() is not None
        self._write(
            group_id,
            [
                SeenTopic(name, verdict.topic_id if isinstance(verdict, Topic) and knows_cluster else None)
                for name, verdict in other.items()
            ],
        )

    def _write(self, group_id: str, topics: list[SeenTopic], *, is_past: bool = False) -> None:
        """`is_past`: they are gone, which is news although it was told a moment ago that they are there."""
        if not self._channel.shards:
            return
        shard, now_s = group_partition(group_id, self._channel.shards), self.now_s()
        new = [topic for topic in topics if self._told.get((shard, topic, is_past), -TOLD_FOR_S) <= now_s - TOLD_FOR_S]
        if len(self._told) + len(new) > TOLD_MAX:
            self._told.clear()
        self._told |= {(shard, topic, is_past): now_s for topic in new}
        for begin in range(0, len(new), TOPICS_PER_RECORD):
            piece = tuple(new[begin : begin + TOPICS_PER_RECORD])
            self._channel.write(shard, TopicsSeen(cluster_id=self._cluster_id(), topics=piece))
