"""A cluster whose offsets topic may not be read, polled through the admin API: a source of the dashboard."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, MemberDescription

from group_coordinator.dashboard.clusters import unqualified
from group_coordinator.dashboard.end_poller import EndPoller
from group_coordinator.dashboard.index import Index, decoded
from group_coordinator.dashboard.sources import SourceError
from group_coordinator.dashboard.watched import WatchedSource
from group_coordinator.history.order import sort_key
from group_coordinator.kafka_topics.described import brokers_of
from group_coordinator.kafka_topics.errors import TIMEOUT_S, TopicReadError, explaining
from group_coordinator.narrative import words
from group_coordinator.observed.polled import PolledGroup, Polls
from group_coordinator.watch.offsets_topic import OFFSETS_TOPIC
from group_coordinator.watch.telling import Telling
from group_coordinator.watch.what_is_watched import BETWEEN_POLLS, Cluster, ends_polled, in_cluster, name_of, watched
from group_coordinator.watch.writing import GroupHistory
from schemas.history import AssignedTopic, MemberIdentity

INTERVAL_S = 5.0
_DESCRIBED_AT_ONCE = 200
_LOST = (
    "Groups are polled every {:g} s, because the offsets topic is not read ({}). Generations are counted here and are "
    "not Kafka's."
)
_GRANT = "It needs the right to describe groups: --operation Describe --group '*'."
_STATES = {
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": "Dead",
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}
_log = logging.getLogger(__name__)

Offsets = Mapping[tuple[str, int], int]


class PollSource:
    """Asks, and changes nothing."""

    is_live = True

    def __init__(
        self, properties: Mapping[str, str], why: str, interval_s: float = INTERVAL_S, cluster: str = ""
    ) -> None:
        """`properties` are librdkafka's. `why` the offsets topic is not read. `cluster`: where there are several."""
        self.name = name_of(cluster, properties)
        self._cluster_name = cluster
        self._properties = dict(properties)
        self._lost = _LOST.format(interval_s, why.rstrip("."))
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._polled = threading.Event()
        self._problem = ""
        self._cluster = Cluster(servers=self.name)
        self._thread: threading.Thread | None = None
        self._end_poller: EndPoller | None = None
        self._index: Index | None = None

    def start(self, index: Index) -> None:
        """Raises SourceError when the groups cannot be listed."""
        admin = AdminClient({"log_level": "0", **self._properties})
        try:
            with explaining(self._properties):
                admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
        except TopicReadError as problem:
            raise SourceError(str(problem)) from problem
        index.doubt(self._cluster_name, in_cluster(self._cluster_name, (self._lost,)))
        self._index = index
        self._thread = threading.Thread(target=self._run, args=(admin, index), name="watch-polls", daemon=True)
        self._thread.start()
        self._end_poller = EndPoller(self._properties, index, self._polled.is_set, cluster=self._cluster_name)
        self._end_poller.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(TIMEOUT_S)
        if self._end_poller is not None:
            self._end_poller.stop()

    def progress(self) -> dict[str, Any]:
        is_known = self._polled.is_set() and not self._problem
        return {"caught_up": is_known, "detail": self._problem or ("" if is_known else "the first poll is under way")}

    @property
    def is_whole(self) -> bool:
        """Whether there was a poll."""
        return self._polled.is_set()

    @property
    def changes(self) -> int:
        """Grows with what the polls tell."""
        return 0 if self._index is None else self._index.records

    def histories(self) -> Iterator[GroupHistory]:
        """What the dashboard still has of each group, in the order of groups: nothing else has what polls told."""
        cluster = self._cluster_name
        for group_id in () if self._index is None else self._index.group_ids(cluster):
            kept = None if self._index is None else self._index.kept(group_id)
            if kept is not None:
                records = sorted(chain(decoded(kept.life), decoded(kept.commits)), key=sort_key)
                yield GroupHistory(cluster, [unqualified(cluster, record) for record in records])

    def read_request(self, partition: int, offset: int) -> Any:
        """None: what a broker was asked lies in no topic."""
        return None

    def _run(self, admin: AdminClient, index: Index) -> None:
        polls, telling = Polls(), Telling(index, self._cluster_name)
        while not self._stopping.is_set():
            begun_s = time.monotonic()
            try:
                refused: list[str] = []
                groups = list(poll(admin, refused))
                now_ms = time.time_ns() // 1_000_000
                telling.tell(polls.take(now_ms, groups))
                index.doubt(self._cluster_name, in_cluster(self._cluster_name, self._doubts(groups, refused)))
                self._problem = ""
                self._polled.set()
                self._describe(admin, index, now_ms, len(groups))
            except (KafkaException, TimeoutError) as problem:
                _log.warning("polling groups: %s", problem)
                self._problem = f"Kafka does not answer: {problem}"
            took_s = time.monotonic() - begun_s
            self._stopping.wait(max(self._interval_s, took_s))

    def _doubts(self, groups: Sequence[PolledGroup], refused: Sequence[str]) -> Iterator[str]:
        """What is not shown, and why, in sentences."""
        yield self._lost
        if refused:
            yield f"This client may not describe {words.count(len(refused), 'group')}, which are left out. {_GRANT}"
        elif not groups:
            yield f"No group is shown to this client: there is none, or it may not see them. {_GRANT}"

    def _describe(self, admin: AdminClient, index: Index, now_ms: int, groups: int) -> None:
        """Say what is watched, and how."""
        if not self._cluster.brokers:
            metadata = admin.list_topics(timeout=TIMEOUT_S)
            self._cluster = Cluster(servers=self.name, id=metadata.cluster_id or "", brokers=brokers_of(metadata))
        detail = f"{words.count(groups, 'group')}, asked every {self._interval_s:g} s"
        polled = WatchedSource(kind="poll", name="polls of groups", detail=detail, to_ms=now_ms)
        refused = WatchedSource(kind="offsets_log", name=OFFSETS_TOPIC, problem="not read")
        ends = () if self._end_poller is None else (ends_polled(self._end_poller.asked_ms),)
        index.watch(self._cluster_name, watched(self._cluster, (polled, refused, *ends), (BETWEEN_POLLS,)))


def poll(admin: AdminClient, refused: list[str]) -> Iterator[PolledGroup]:
    """All groups as they are. `refused`: takes those that this client may not describe.

    Raises KafkaException, TimeoutError where nothing is answered.
    """
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S + 1).valid
    group_ids = [each.group_id for each in listed]
    for begin in range(0, len(group_ids), _DESCRIBED_AT_ONCE):
        some = group_ids[begin : begin + _DESCRIBED_AT_ONCE]
        described = admin.describe_consumer_groups(some, request_timeout=TIMEOUT_S)
        asked = {
            group_id: admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group_id)], request_timeout=TIMEOUT_S
            )[group_id]
            for group_id in some
        }
        for group_id, future in described.items():
            try:
                group = future.result(TIMEOUT_S + 1)
            except (KafkaException, TimeoutError) as problem:
                _log.debug("group %s is not described: %s", group_id, problem)
                if _is_refusal(problem):
                    refused.append(group_id)
                continue
            yield _polled(group, _offsets(asked[group_id]))


def _is_refusal(problem: Exception) -> bool:
    error = problem.args[0] if problem.args else None
    return isinstance(error, KafkaError) and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def _polled(group: ConsumerGroupDescription, offsets: Offsets | None) -> PolledGroup:
    return PolledGroup(
        group_id=group.group_id,
        state=_STATES.get(group.state.name, group.state.name.title()),
        protocol_type="consumer",
        assignor=group.partition_assignor or None,
        members={each.member_id: (_identity(each), _topics(each)) for each in group.members},
        offsets=offsets,
    )


def _identity(member: MemberDescription) -> MemberIdentity:
    return MemberIdentity(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id or None,
        client_id=member.client_id or "",
        client_host=member.host or "",
    )


def _topics(member: MemberDescription) -> tuple[AssignedTopic, ...]:
    found: dict[str, list[int]] = {}
    places: Iterable[Any] = member.assignment.topic_partitions if member.assignment else ()
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return tuple(AssignedTopic(topic=topic, partitions=tuple(sorted(found[topic]))) for topic in sorted(found))


def _offsets(future: Any) -> Offsets | None:
    try:
        found = future.result(TIMEOUT_S + 1).topic_partitions or ()
    except (KafkaException, TimeoutError):
        return None
    return {(each.topic, each.partition): each.offset for each in found if each.error is None and each.offset >= 0}
