"""What the gateway refuses of requests about offsets, and the order of its answers, against what Kafka's own broker
did: in the histories of consumer groups (`tests/fixtures/consumer_histories`) a cluster has topics that come and go,
and some that nobody may name."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.offset_topics import (
    BY_ID_FROM,
    Commit,
    Rules,
    ids_in,
    shown,
    split_commit,
    split_fetch,
    with_names,
    with_offsets,
    with_refused,
    without_gone,
    without_id,
)
from group_coordinator.coordinating.gateway.topic_cache import ABSENT, UNKNOWN, Answers, Topic
from schemas.error_codes import ErrorCode
from schemas.kafka.json_form import from_json, uuid_from_json
from schemas.message_versions import GroupRequest, request_of, response_of
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from schemas.wire import topic_id_text

HISTORIES = sorted((Path(__file__).parents[2] / "fixtures" / "consumer_histories").glob("*.jsonl.gz"))
Json = dict[str, Any]
_BEFORE_THE_COORDINATOR = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Cluster:
    """The topics of a history, as its steps tell of them."""

    def __init__(self, config: Json) -> None:
        self.denied = frozenset(config.get("denied_topics", ()))
        self.topics: dict[str, Topic] = {}
        self.names: dict[str, str] = {}

    def change(self, topics: list[Json]) -> None:
        self.topics = {
            topic["name"]: Topic(
                topic_id_text(uuid_from_json(topic["topic_id"])), topic.get("partitions") or len(topic["racks"])
            )
            for topic in topics
        }
        self.names = {str(topic.topic_id): name for name, topic in self.topics.items()}

    def rules(self, version: int) -> Rules:
        return Rules(topics=_Complete(self.topics), refuses=self.denied.__contains__, by_id=version >= BY_ID_FROM)


class _Complete(dict[str, Any]):
    """Of a topic that is not there it is known that it is not."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, ABSENT)


def steps(path: Path) -> Iterator[tuple[Cluster, Json]]:
    """Requests about offsets with Kafka's answers, where all topics of the cluster are known."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            history = json.loads(line)
            cluster = Cluster(history["config"])
            is_known = False
            for step in history["steps"]:
                if "cluster" in step:
                    cluster.change(step["cluster"]["topics"])
                    is_known = True
                if is_known and step.get("api") in ("OffsetCommit", "OffsetFetch"):
                    yield cluster, step


def response(step: Json) -> Any:
    (answer,) = [answer["response"] for answer in step["answers"] if answer["id"] == step["id"]]
    values = from_json(f"{step['api']}Response", step["version"], {"throttleTimeMs": 0, **answer})
    return response_of(step["api"], step["version"], values)


def named(cluster: Cluster, step: Json) -> GroupRequest:
    values = from_json(f"{step['api']}Request", step["version"], step["request"])
    return with_names(request_of(step["api"], step["version"], values), cluster.names)


def answered(cluster: Cluster, step: Json, seen: Counter[str]) -> None:
    """What the gateway makes of the coordinator's part of Kafka's answer is Kafka's answer."""
    rules, request, recorded = cluster.rules(step["version"]), named(cluster, step), response(step)
    if isinstance(request, OffsetCommitRequest):
        passed, refused = split_commit(request, rules)
        own = [
            replace(topic, partitions=partitions)
            for topic in recorded.topics
            if (partitions := tuple(each for each in topic.partitions if _is_asked(passed, topic, each)))
        ]
        made = with_refused(refused, OffsetCommitResponse(topics=tuple(own)), rules) if passed.topics else refused
        assert codes(made.topics) == codes(recorded.topics), step
        seen.update(str(code.name) for *_, code in codes(refused.topics))
        return
    assert isinstance(request, OffsetFetchRequest)
    for group, answer in zip(request.groups, recorded.groups, strict=True):
        asked, gone = split_fetch(group, rules)
        if answer.error_code:
            continue
        if group.topics is None:
            kept = [(topic.name, topic.partitions) for topic in shown(answer, rules).topics]
            assert kept == [(topic.name, topic.partitions) for topic in answer.topics], step
            continue
        # The histories have topics by name in the order of names.
        denied = [topic for topic in answer.topics if topic.partitions[0].error_code in _BEFORE_THE_COORDINATOR]
        assert sorted(codes(denied)) == sorted(codes(gone)), step
        asked_for = [(topic.topic_id if rules.by_id else topic.name) or "" for topic in asked.topics or ()]
        others = [topic.topic_id or topic.name for topic in answer.topics if topic not in denied]
        assert sorted(others) == sorted(asked_for), step
        assert not (rules.by_id and gone) or answer.topics[-len(gone) :] == tuple(denied), "last"
        seen.update(str(code.name) for *_, code in codes(gone))


def _is_asked(passed: Commit, topic: Any, partition: Any) -> bool:
    return any(
        partition.partition_index in [each.partition_index for each in asked.partitions]
        for asked in passed.topics
        if (asked.topic_id == topic.topic_id if topic.topic_id else asked.name == topic.name)
    )


def codes(topics: Any) -> list[tuple[str, int, ErrorCode]]:
    return [
        (topic.topic_id or topic.name, partition.partition_index, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ]


def test_refusals_are_kafkas() -> None:
    seen: Counter[str] = Counter()
    for path in HISTORIES:
        for cluster, step in steps(path):
            answered(cluster, step, seen)
    for name in ("UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION"):
        assert seen[name] > 2, seen


# ------------------------------------------------------------------------------------------------- beyond the histories

ID, OTHER = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Topic(ID, 1), ErrorCode.NONE),
        (Topic(OTHER, 1), ErrorCode.UNKNOWN_TOPIC_ID),
        (Topic(None, 1), ErrorCode.NONE),
        (ABSENT, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_name_that_was_heard_before_need_not_be_that_of_the_id_now(verdict: Any, code: ErrorCode) -> None:
    """The topic may be gone, or made again under its name, since a broker said which one it is."""
    topics: Answers = {"t": verdict}
    assert Rules(topics=topics, by_id=True).of_topic("t", ID) is code
    assert Rules(topics={}, by_id=True).of_topic("t", ID) is ErrorCode.NONE, "in doubt nothing is refused"


def test_a_fetch_of_all_by_ids_has_the_ids_that_brokers_know() -> None:
    topics: Answers = {"t": Topic(ID, 1), "old": Topic(None, 1), "gone": ABSENT}
    rules = Rules(topics=topics, by_id=True, refuses="secret".__eq__)
    values: Json = {"groups": ({"group_id": "g", "error_code": 0, "topics": tuple(
        {"name": name, "partitions": ()} for name in ("t", "old", "gone", "secret")
    )},)}  # fmt: skip
    answer = response_of("OffsetFetch", 9, values)
    assert isinstance(answer, OffsetFetchResponse)
    (group,) = answer.groups
    assert without_id(group, rules) == ["t", "old", "gone", "secret"]
    assert [(topic.name, topic.topic_id) for topic in shown(group, rules).topics] == [("t", ID)]


def test_only_what_is_named_by_its_id_needs_a_name() -> None:
    by_name: Json = {"group_id": "g", "topics": ({"name": "t", "topic_id": bytes(16), "partitions": ()},)}
    assert not ids_in(request_of("OffsetCommit", 9, by_name))


def test_offsets_of_topics_that_are_gone_are_not_shown_and_their_ids_are_told() -> None:
    now, before = "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000001"

    def committed(index: int, topic_id: str | UnsetType = UNSET) -> OffsetFetchResponsePartition:
        return OffsetFetchResponsePartition(partition_index=index, committed_offset=5, committed_topic_id=topic_id)

    none = OffsetFetchResponsePartition(partition_index=1)
    answer = OffsetFetchResponseGroup(
        group_id="g",
        topics=(
            OffsetFetchResponseTopic(name="gone", partitions=(committed(0, before), none)),
            OffsetFetchResponseTopic(name="again", partitions=(committed(0, before), committed(1, now), committed(2))),
            OffsetFetchResponseTopic(name="in doubt", partitions=(committed(0, before),)),
            OffsetFetchResponseTopic(name="unknown", partitions=(committed(0, before),)),
            OffsetFetchResponseTopic(name="without id", partitions=(committed(0),)),
        ),
    )
    assert with_offsets(answer) == ["gone", "again", "in doubt", "unknown", "without id"]
    topics: Answers = {
        "gone": ABSENT, "again": Topic(now, 9), "in doubt": Topic(now, 2**31), "unknown": UNKNOWN,
        "without id": Topic(now, 9),
    }  # fmt: skip
    shown_group, past_ids = without_gone(answer, topics, all_topics=False)
    assert past_ids == {"gone": {before}, "again": {before}}
    assert [[each.committed_offset for each in topic.partitions] for topic in shown_group.topics] == [
        [-1, -1], [-1, 5, 5], [5], [5], [5],
    ]  # fmt: skip
    shown_group, _ = without_gone(replace(answer, topics=answer.topics[:2]), topics, all_topics=True)
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in shown_group.topics] == [
        ("gone", [1]), ("again", [1, 2]),
    ]  # fmt: skip
    only = replace(answer, topics=(replace(answer.topics[0], partitions=(committed(0, before),)),))
    assert without_gone(only, topics, all_topics=True)[0].topics == ()
