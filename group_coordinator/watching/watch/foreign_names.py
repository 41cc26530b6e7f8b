"""Lag under the names and labels that other exporters have, for dashboards that people have already.

The names are those of KMinion's list of exported metrics, of Kafka Lag Exporter's README and of Burrow's /metrics. What
is not known here is an empty label: a group's `coordinator_id` and `protocol_type`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from group_coordinator.ground.monitoring.metrics import Metric, Value
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.lag import GroupLag, PartitionLag, total
from schemas.group_states import GroupState

OK, WARN, ERR = 1, 2, 3
"""Burrow's numbers of a group's status."""

Names = Callable[[Group, GroupLag, str], Iterator[Value]]
"""Yields the series of a group. The text is the name of its cluster."""


def _family(prefix: str, labels: tuple[str, ...], **meanings: str) -> dict[str, Metric]:
    return {
        name: Metric(name=f"{prefix}{name}", kind="gauge", labels=labels, meaning=meaning)
        for name, meaning in meanings.items()
    }


_KMINION = "kminion_kafka_"
_OF_KMINION = {
    **_family(
        _KMINION, ("coordinator_id", "group_id", "protocol", "protocol_type", "state"),
        consumer_group_info="1 while the group is Stable, else 0.",
    ),
    **_family(
        _KMINION, ("group_id",),
        consumer_group_members="Members of the group.",
        consumer_group_empty_members="Members of the group without a partition.",
    ),
    **_family(
        _KMINION, ("group_id", "topic_name"),
        consumer_group_topic_members="Members that have partitions of the topic.",
        consumer_group_topic_assigned_partitions="Partitions of the topic that members have.",
        consumer_group_topic_offset_sum="Sum of the committed offsets.",
        consumer_group_topic_lag="Messages that the group has yet to read of the topic.",
    ),
    **_family(
        _KMINION, ("group_id", "partition_id", "topic_name"),
        consumer_group_topic_partition_lag="Messages that the group has yet to read of the partition.",
    ),
    **_family(
        _KMINION, ("partition_id", "topic_name"),
        topic_partition_low_water_mark="The first offset of the log.",
        topic_partition_high_water_mark="The offset behind the last message of the log.",
    ),
}  # fmt: skip


def kminion(row: Group, lag: GroupLag, _: str) -> Iterator[Value]:
    """KMinion has one cluster: the groups of several begin with its name."""
    of, group_id = _OF_KMINION, row.group_id
    labels = "", group_id, lag.assignor or "", "", row.state
    yield Value(of["consumer_group_info"], labels, row.state == GroupState.STABLE)
    yield Value(of["consumer_group_members"], (group_id,), row.members)
    yield Value(of["consumer_group_empty_members"], (group_id,), row.members - lag.members_with_partitions)
    for topic, (members, partitions) in lag.assigned.items():
        yield Value(of["consumer_group_topic_members"], (group_id, topic), members)
        yield Value(of["consumer_group_topic_assigned_partitions"], (group_id, topic), partitions)
    for topic, of_topic in lag.by_topic().items():
        offsets = sum(each.offset for each in of_topic)
        yield Value(of["consumer_group_topic_offset_sum"], (group_id, topic), offsets)
        if (known := total([each.lag for each in of_topic if each.lag is not None])) is not None:
            yield Value(of["consumer_group_topic_lag"], (group_id, topic), known.messages)
    for each in lag.partitions:
        number, topic = str(each.partition), each.topic
        if each.lag is not None:
            yield Value(of["consumer_group_topic_partition_lag"], (group_id, number, topic), each.lag.messages)
        if each.bounds is not None:
            yield Value(of["topic_partition_low_water_mark"], (number, topic), each.bounds.begin)
            yield Value(of["topic_partition_high_water_mark"], (number, topic), each.bounds.end)


_LAG_EXPORTER = "kafka_"
_OF_LAG_EXPORTER = {
    **_family(
        _LAG_EXPORTER,
        ("cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id"),
        consumergroup_group_offset="The committed offset.",
        consumergroup_group_lag="Messages that the group has yet to read of the partition.",
        consumergroup_group_lag_seconds="How long ago the next message was written.",
    ),
    **_family(
        _LAG_EXPORTER, ("cluster_name", "group"),
        consumergroup_group_max_lag="The largest lag of a partition.",
        consumergroup_group_max_lag_seconds="The largest lag of a partition in seconds.",
        consumergroup_group_sum_lag="The lag of all partitions.",
    ),
    **_family(
        _LAG_EXPORTER, ("cluster_name", "group", "topic"),
        consumergroup_group_topic_sum_lag="The lag of all partitions of the topic.",
    ),
    **_family(
        _LAG_EXPORTER, ("cluster_name", "topic", "partition"),
        partition_latest_offset="The offset behind the last message of the log.",
        partition_earliest_offset="The first offset of the log.",
    ),
}  # fmt: skip


def lag_exporter(row: Group, lag: GroupLag, cluster: str) -> Iterator[Value]:
    """Kafka Lag Exporter: series of each partition, with its owner."""
    of, group_id = _OF_LAG_EXPORTER, row.id_in_cluster
    of_group = cluster, group_id
    for each in lag.partitions:
        number = str(each.partition)
        owner = ("", "", "") if each.owner is None else (
            each.owner.client_host, each.owner.member_id, each.owner.client_id
        )  # fmt: skip
        labels = (*of_group, each.topic, number, *owner)
        yield Value(of["consumergroup_group_offset"], labels, each.offset)
        if each.lag is not None:
            yield Value(of["consumergroup_group_lag"], labels, each.lag.messages)
            if each.lag.behind_ms is not None:
                yield Value(of["consumergroup_group_lag_seconds"], labels, each.lag.behind_ms / 1_000)
        if each.bounds is not None:
            yield Value(of["partition_latest_offset"], (cluster, each.topic, number), each.bounds.end)
            yield Value(of["partition_earliest_offset"], (cluster, each.topic, number), each.bounds.begin)
    for topic, of_topic in lag.by_topic().items():
        if (known := _messages(of_topic)) is not None:
            yield Value(of["consumergroup_group_topic_sum_lag"], (*of_group, topic), sum(known))
    if (known := _messages(lag.partitions)) is not None:
        yield Value(of["consumergroup_group_sum_lag"], of_group, sum(known))
        yield Value(of["consumergroup_group_max_lag"], of_group, max(known))
    seconds = [each.lag.behind_ms for each in lag.partitions if each.lag is not None and each.lag.behind_ms is not None]
    if seconds:
        yield Value(of["consumergroup_group_max_lag_seconds"], of_group, max(seconds) / 1_000)


def _messages(partitions: Iterable[PartitionLag]) -> list[int] | None:
    return [each.lag.messages for each in partitions if each.lag is not None] or None


_BURROW = "burrow_kafka_"
_OF_BURROW = {
    **_family(
        _BURROW, ("cluster", "consumer_group"),
        consumer_lag_total="The lag of all partitions.",
        consumer_status="1 (OK); 2 (WARN): it will lose messages; 3 (ERR): partitions stand still, or nobody reads.",
    ),
    **_family(
        _BURROW, ("cluster", "consumer_group", "topic", "partition"),
        consumer_current_offset="The committed offset.",
        consumer_partition_lag="Messages that the group has yet to read of the partition.",
    ),
    **_family(
        _BURROW, ("cluster", "topic", "partition"),
        topic_partition_offset="The offset behind the last message of the log.",
    ),
}  # fmt: skip


def burrow(row: Group, lag: GroupLag, cluster: str) -> Iterator[Value]:
    """Burrow: series of each partition; the status is that of our verdicts on committed offsets."""
    of, of_group = _OF_BURROW, (cluster, row.id_in_cluster)
    is_loss = row.found("lost", "will_lose") > 0
    status = ERR if row.found("stalled") or row.verdict == "empty_with_lag" else WARN if is_loss else OK
    yield Value(of["consumer_status"], of_group, status)
    if (known := _messages(lag.partitions)) is not None:
        yield Value(of["consumer_lag_total"], of_group, sum(known))
    for each in lag.partitions:
        number = str(each.partition)
        yield Value(of["consumer_current_offset"], (*of_group, each.topic, number), each.offset)
        if each.lag is not None:
            yield Value(of["consumer_partition_lag"], (*of_group, each.topic, number), each.lag.messages)
        if each.bounds is not None:
            yield Value(of["topic_partition_offset"], (cluster, each.topic, number), each.bounds.end)


NAMES: Mapping[str, Names] = {"kminion": kminion, "kafka-lag-exporter": lag_exporter, "burrow": burrow}
METRICS_OF: Mapping[str, tuple[Metric, ...]] = {
    "kminion": tuple(_OF_KMINION.values()),
    "kafka-lag-exporter": tuple(_OF_LAG_EXPORTER.values()),
    "burrow": tuple(_OF_BURROW.values()),
}
