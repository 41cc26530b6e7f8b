"""Names of topics, wherever a source has them: records of every version, brokers' logs, and a word where none has."""

from __future__ import annotations

import gzip
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.watching.broker_logs.broker_log import topic_names_in
from group_coordinator.watching.commands.observed_source import observed_source
from group_coordinator.watching.observed.doubts import unnamed_topics
from group_coordinator.watching.observed.modern_records import read_step
from group_coordinator.watching.observed.offsets_log import LogRecord
from group_coordinator.watching.observed.topic_names import NamesInRecords
from schemas.history import AssignedTopic
from tests.watching.observed.recorded import CLUSTERS, lines, observed, polls

ID = "2fbe5a31fe4a4e919758a5b66d8da479"
IDS = {bytes([number]) * 16: bytes([number]).hex() * 16 for number in range(3)}
LOADED = (
    b"[2026-11-27 04:02:21,938] INFO Completed load of Log(dir=/data/eu.orders-0, topicId=L75aMf5KTpGXWKW2bY2keQ, "
    b"topic=eu.orders, partition=0, highWatermark=0) with 1 segments (kafka.log.LogManager)\n"
)
FETCHED = (
    b"[2026-11-27 04:55:41,132] WARN [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Error in response for fetch "
    b"request (type=FetchRequest, replicaId=1, fetchData={eu.orders-2=PartitionData(topicId=L75aMf5KTpGXWKW2bY2keQ, "
    b"fetchOffset=21, logStartOffset=0)}) (kafka.server.ReplicaFetcherThread)\n"
)


@pytest.mark.parametrize("name", ["rack-4.0", "hanging-4.1"])
@pytest.mark.parametrize("with_logs", [True, False], ids=["with-logs", "without-logs"])
def test_records_of_these_versions_name_all_topics(name: str, with_logs: bool) -> None:
    assert observed(name, with_logs=with_logs).unnamed_topics == ()


def test_a_migration_does_not_double_the_lanes() -> None:
    topics = {
        place.rpartition("-")[0]
        for poll in polls("rack-4.0")
        if poll.group_id == "mig"
        for place, _ in poll.owners
    }  # fmt: skip
    assert topics == {"eu.orders"}
    told = repr([record for record in observed("rack-4.0", with_logs=True).history if record.group_id == "mig"])
    assert "L75aMf5KTpGXWKW2bY2keQ" not in told


@pytest.mark.parametrize(
    "line",
    [
        LOADED,
        FETCHED,
        b'{"level":"INFO","message":"' + LOADED[len(b"[2026-11-27 04:02:21,938] INFO ") : -1] + b'"}',
        b"broker-0 kafka " + LOADED,
    ],
)
def test_lines_of_brokers_have_names(line: bytes) -> None:
    assert topic_names_in(line) == {ID: "eu.orders"}


@pytest.mark.parametrize("told", [LOADED, FETCHED])
def test_what_a_client_says_of_itself_is_no_name(told: bytes) -> None:
    message = told[told.index(b"Completed" if told is LOADED else b"[Replica") :].rstrip()
    line = (
        b"[2026-11-27 04:02:21,938] INFO [GroupCoordinator 1]: Preparing to rebalance group g in state Stable with old "
        b"generation 1 (reason: INFO " + message + b") (kafka.coordinator.group.GroupCoordinator)"
    )
    assert topic_names_in(line) == {}


def test_a_broker_that_is_started_again_tells_names() -> None:
    log = gzip.decompress((CLUSTERS / "hanging-4.1.server.log.gz").read_bytes()).splitlines()
    names = {name for line in log for name in topic_names_in(line).values()}
    assert {"in", "out", "__consumer_offsets"} <= names


def record(name: str, value: dict[str, Any] | None, **key: object) -> LogRecord:
    full_key: dict[str, object] = {"group_id": "g", **key}
    return LogRecord(
        partition=7, offset=0, timestamp_ms=0, leader_epoch=0, group_id="g", name=name, key=full_key, value=value,
        raw=(b"", b""),
    )  # fmt: skip


def member(member_id: str, *names: str, regex: str = "", classic: str | None = None) -> LogRecord:
    protocols = None if classic is None else {"supported_protocols": ({"name": classic},)}
    value = {
        "subscribed_topic_names": names, "subscribed_topic_regex": regex, "classic_member_metadata": protocols
    }  # fmt: skip
    return record("ConsumerGroupMemberMetadata", value, member_id=member_id)


def target(member_id: str, *numbers: int) -> LogRecord:
    topics = tuple({"topic_id": bytes([number]) * 16, "partitions": (0,)} for number in numbers)
    return record("ConsumerGroupTargetAssignmentMember", {"topic_partitions": topics}, member_id=member_id)


def names_of(*records: LogRecord) -> tuple[dict[str, str], set[str]]:
    """Return the names that the records tell, and how many ids are without."""
    known: dict[str, str] = {}
    names = NamesInRecords(known)
    for each in records:
        found = names.take(each)
        while found:
            known |= found
            found = names.named(found)
    return known, set(names.unnamed)


def test_who_subscribes_to_one_topic_is_given_that_topic() -> None:
    assert names_of(member("m", "orders"), target("m", 1)) == ({IDS[bytes([1]) * 16]: "orders"}, set())


def test_what_several_members_share_may_have_one_name() -> None:
    two = member("m", "orders", "payments"), target("m", 1)
    assert names_of(*two)[0] == {}
    assert names_of(*two, member("n", "payments", "returns"), target("n", 1))[0] == {"01" * 16: "payments"}


@pytest.mark.parametrize("is_told_later", [False, True])
def test_topics_of_one_target_have_different_names(is_told_later: bool) -> None:
    both, one = (member("m", "orders", "payments"), target("m", 1, 2)), (member("n", "orders"), target("n", 1))
    records = (*both, *one) if is_told_later else (*one, *both)
    assert names_of(*records) == ({"01" * 16: "orders", "02" * 16: "payments"}, set())


def test_topics_of_different_targets_may_have_one_name() -> None:
    """One may have been deleted, and made again."""
    both, one = (member("m", "orders", "payments"), target("m", 2)), (member("n", "orders"), target("n", 1))
    assert names_of(*one, *both) == ({"01" * 16: "orders"}, {"02" * 16})


def test_an_expression_counts_once_it_is_resolved() -> None:
    resolved = record("ConsumerGroupRegularExpression", {"topics": ("orders",)}, regular_expression="o.*")
    assert names_of(member("m", regex="o.*"), target("m", 1)) == ({}, {"01" * 16})
    assert names_of(member("m", regex="o.*"), resolved, target("m", 1))[0] == {"01" * 16: "orders"}


def test_a_compacted_log_has_an_expression_behind_the_targets_that_hold() -> None:
    """It is resolved again and again; of a target that was there before, the member's last one counts."""
    resolved = record("ConsumerGroupRegularExpression", {"topics": ("orders",)}, regular_expression="o.*")
    before = member("m", regex="o.*"), target("m", 2), target("m", 1)
    assert names_of(*before, resolved) == ({"01" * 16: "orders"}, {"02" * 16})
    assert names_of(*before, record("ConsumerGroupRegularExpression", None, regular_expression="o.*"))[0] == {}


@pytest.mark.parametrize(
    "end", [{"name": "ConsumerGroupMemberMetadata", "member_id": "m"},
            {"name": "ConsumerGroupRegularExpression", "regular_expression": "o.*"}],
)  # fmt: skip
def test_targets_of_who_is_gone_wait_for_no_expression(end: dict[str, str]) -> None:
    key = {name: value for name, value in end.items() if name != "name"}
    resolved = record("ConsumerGroupRegularExpression", {"topics": ("orders",)}, regular_expression="o.*")
    assert names_of(member("m", regex="o.*"), target("m", 1), record(end["name"], None, **key), resolved)[0] == {}


@pytest.mark.parametrize(("assignor", "known"), [("range", 1), ("of-their-own", 0)])
def test_an_assignor_of_a_client_may_give_out_anything(assignor: str, known: int) -> None:
    assert len(names_of(member("m", "orders", classic=assignor), target("m", 1))[0]) == known


def test_what_has_no_name_says_where_one_can_be_got(tmp_path: Path) -> None:
    (told,) = unnamed_topics([ID])
    assert "1 topic is shown by id" in told
    assert "L75aMf5KTpGXWKW2bY2keQ" in told
    assert "--topic-names" in told
    source = observed_source([CLUSTERS / "rack-4.0.offsets.jsonl.gz"], (), None, UTC, UTC)
    assert not any("--topic-names" in doubt for doubt in source.doubts)
    assert lines("rack-4.0")


def test_two_topics_of_one_name_lose_no_partition() -> None:
    """A topic was deleted and made again while a member had partitions of both."""
    old, new, _ = IDS
    value = {
        "member_epoch": 3,
        "previous_member_epoch": 2,
        "state": 1,
        "assigned_partitions": [{"topic_id": new, "partitions": [2, 0]}, {"topic_id": old, "partitions": [1, 0]}],
        "partitions_pending_revocation": [{"topic_id": old, "partitions": [1]}],
    }
    record = LogRecord(
        partition=0, offset=0, timestamp_ms=0, leader_epoch=0, group_id="g", raw=(b"", b""),
        name="ConsumerGroupCurrentMemberAssignment", key={"member_id": "m"}, value=value,
    )  # fmt: skip
    step = read_step("consumer", [record], {old.hex(): "orders", new.hex(): "orders"})
    current = step.current["m"]
    assert current is not None
    assert current.assigned == (AssignedTopic(topic="orders", partitions=(0, 1, 2)),)
    assert current.pending_revocation == (AssignedTopic(topic="orders", partitions=(1,)),)
