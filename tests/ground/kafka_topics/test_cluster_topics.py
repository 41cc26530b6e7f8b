"""The table of the cluster's topics that the topics topic tells of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics, SharedRacks
from schemas.events import encode_json
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.known_topics import VERSIONS_KEY, KnownTopic, VersionsBegin

IDS = tuple(f"00000000-0000-0000-0000-00000000000{number}" for number in range(4))
EVERYTHING = 1_000_000
Record = tuple[bytes, bytes | None]


def record(number: int, name: str, partitions: int | None = 1, *, is_gone: bool = False) -> Record:
    racks = None if partitions is None else (("r",),) * partitions
    topic = KnownTopic(name=name, topic_id=IDS[number], partitions=racks, is_gone=is_gone)
    return IDS[number].encode(), encode_json(topic)


def tombstone(number: int) -> Record:
    return IDS[number].encode(), None


def table(*records: Record) -> ClusterTopics:
    topics = ClusterTopics()
    for offset, (key, value) in enumerate(records):
        topics.take(key, value, offset)
    return topics


def described(number: int, name: str, partitions: int = 1) -> DescribedTopic:
    return DescribedTopic(name=name, topic_id=IDS[number], partitions=(("r",),) * partitions)


def test_topics_that_exist_and_that_do_not() -> None:
    topics = table(record(0, "a"), record(1, "b", 3), record(0, "a", 2))
    assert list(topics.metadata(["a", "none", "b"], EVERYTHING)) == [
        TopicMetadata(version=2, topics=(described(0, "a", 2), described(1, "b", 3)), absent=("none",))
    ]
    assert list(topics.metadata([], EVERYTHING)) == []


def test_one_that_is_gone_does_not_exist_before_everybody_knows() -> None:
    topics = table(record(0, "a"), record(0, "a", is_gone=True))
    assert list(topics.metadata(["a"], EVERYTHING)) == [TopicMetadata(version=1, topics=(), absent=("a",))]
    assert IDS[0] in topics.known


def test_a_topic_made_again_has_the_name_whoever_is_told_to_be_gone() -> None:
    topics = table(record(0, "a"), record(1, "a", 5), record(0, "a", is_gone=True), tombstone(0))
    assert topics.described("a") == described(1, "a", 5)


def test_a_name_that_falls_back_to_an_older_topic_has_changed() -> None:
    """A broker that was behind told of a topic that was gone before: groups were told of it, and must be told again."""
    topics = table(record(0, "a"), record(1, "a"))
    assert topics.version_of("a") == 1
    topics.take(*record(0, "a", is_gone=True), 2)
    assert topics.version_of("a") == 2, "groups know of the newest one, and hear of it once more"
    topics = table(record(0, "a"), record(1, "a"), record(1, "a", is_gone=True))
    assert topics.described("a") == described(0, "a")
    assert topics.version_of("a") == 2
    assert topics.changed_since(1) == {"a"}


def test_of_a_topic_whose_partitions_are_not_known_nothing_is_said() -> None:
    """An earlier version has written it."""
    topics = table(record(0, "a", None), record(1, "b"))
    assert list(topics.metadata(["a", "b"], EVERYTHING)) == [TopicMetadata(version=1, topics=(described(1, "b"),))]
    assert list(topics.metadata(["a"], EVERYTHING)) == []


def test_what_is_not_understood_counts_as_nothing() -> None:
    topics = table(record(0, "a"), record(1, "b"), (IDS[1].encode(), b"{"), (b"\xff", b"1"))
    assert (topics.version, topics.described("a"), topics.described("b")) == (3, described(0, "a"), None)


def test_versions_are_counted_on_from_a_record_that_says_so() -> None:
    topics = table(record(0, "a"), (VERSIONS_KEY, encode_json(VersionsBegin(version=50))), record(1, "b"))
    assert topics.version == 51
    assert (topics.version_of("a"), topics.version_of("b"), topics.version_of("none")) == (0, 51, None)
    assert topics.changed_since(49) == {"b"}
    topics.take(VERSIONS_KEY, b"{", 3)
    assert topics.version == 3, "what is not understood counts as nothing"


def test_pieces_are_bounded_and_complete() -> None:
    topics = table(*[record(number, f"topic{number}", 20) for number in range(4)])
    pieces = list(topics.metadata([f"topic{number}" for number in range(40)], 300))
    assert max(len(encode_json(piece)) for piece in pieces) < 500
    assert [topic.name for piece in pieces for topic in piece.topics] == [f"topic{number}" for number in range(4)]
    assert [name for piece in pieces for name in piece.absent] == [f"topic{number}" for number in range(4, 40)]


RECORDS = st.lists(
    st.builds(
        lambda number, name, partitions, kind: tombstone(number)
        if kind == "tombstone"
        else record(number, name, partitions, is_gone=kind == "gone"),
        st.integers(0, 3),
        st.sampled_from("ab"),
        st.integers(1, 3),
        st.sampled_from(["live", "live", "gone", "tombstone"]),
    ),
    max_size=12,
)


@given(RECORDS)
def test_compaction_changes_nothing(records: list[Record]) -> None:
    last = {key: offset for offset, (key, _) in enumerate(records)}
    full, compacted = ClusterTopics(), ClusterTopics(SharedRacks())
    for offset, (key, value) in enumerate(records):
        full.take(key, value, offset)
        if last[key] == offset:
            compacted.take(key, value, offset)
    assert list(full.metadata("ab", EVERYTHING)) == list(compacted.metadata("ab", EVERYTHING))
    assert (full.version, full.known) == (compacted.version, compacted.known)
