"""What `groups` prints of consumer groups beside what Kafka's tools print.

`tests/watching/history` compares the rest.
"""

from __future__ import annotations

from coordinator_state import AssignmentChange
from group_coordinator.watching.commands.group_tables import holder_lines, json_lines, list_lines, member_lines
from schemas.history import GroupSnapshot, decode_snapshot
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned
from tests.coordinator_state.harness import GroupHarness, of_type


def published(group: GroupHarness) -> GroupSnapshot:
    snapshot = of_type(group.outputs, AssignmentChange)[-1].snapshot
    assert snapshot is not None
    return snapshot


def two_members() -> ConsumerHarness:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("a", "foo")
    group.joins("b", "foo")
    return group


def test_the_list_has_types_and_epochs() -> None:
    classic = GroupHarness("c")
    classic.stable("m")
    lines = [line.split() for line in list_lines([published(classic), published(two_members())])]
    assert lines[0][:6] == ["GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION/EPOCH", "ASSIGNMENT-STRATEGY"]
    assert [line[:6] for line in lines[1:]] == [
        ["c", "Classic", "Stable", "1", "1", "range"],
        ["g", "Consumer", "Reconciling", "2", "3", "uniform"],
    ]


def test_who_holds_up_the_others_is_named_with_since_when() -> None:
    group = two_members()
    (told_later,) = holder_lines(published(group))
    assert told_later == "a must give up foo 2-3 and has not heard of it yet; b waits for it."
    group.sleep(4_000)
    group.told("a", 2)
    told = list(holder_lines(published(group)))
    assert len(told) == 1
    assert told[0].startswith("a must give up foo 2-3 since 19")
    assert told[0].endswith("; b waits for it.")
    group.sleep(4_000)
    group.beat("b", 3)
    assert list(holder_lines(published(group))) == told
    group.told("a", 2, topic_partitions=owned(FOO, 0, 1))
    assert list(holder_lines(published(group))) == []


def test_a_classic_group_has_no_epochs_in_the_table() -> None:
    classic = GroupHarness("c")
    classic.stable("m")
    names, row = [line.split() for line in member_lines(published(classic), verbose=True)]
    assert names[-4:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert (row[-4], row[-2:]) == ("-", ["-", "-"])


def test_json_has_the_type() -> None:
    (line,) = json_lines([published(two_members())])
    assert '"type":"Consumer"' in line


def test_what_earlier_versions_published_is_read() -> None:
    text = b"""{"group_id":"g","epoch":1,"seq":2,"time_ms":3,"state":"Stable","state_since_ms":1,"generation_id":1,
    "protocol_type":"consumer","protocol_name":"range","leader_id":"m","schema_version":1,"members":[{"member_id":"m",
    "group_instance_id":null,"client_id":"c","client_host":"h","session_timeout_ms":1,"rebalance_timeout_ms":1,
    "metadata":"","assignment":"","partitions":[]}]}"""
    snapshot = decode_snapshot(text)
    assert not snapshot.is_consumer_group
    assert list(holder_lines(snapshot)) == []
