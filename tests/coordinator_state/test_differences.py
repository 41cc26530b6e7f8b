"""Where we do better than Kafka, or differ for a reason: each entry of docs/differences.md has its test here."""

from msgspec import Raw

from coordinator_state import Answer, Coordinator, GroupConfig, GroupCoordinator, RequestEvent
from schemas.error_codes import ErrorCode
from schemas.events import RequestEnvelope
from schemas.history import OffsetsCommitted, RebalanceExtended, RebalanceStarted
from schemas.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator_state.harness import GroupHarness, of_type


def test_a_superseded_join_is_answered() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.add("a")
    first = f"r{group.offset}"
    answers = group.answers(group.join("a"))
    assert answers[first].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert f"r{group.offset}" not in answers


def test_a_superseded_sync_is_answered() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a")
    group.join("b")
    group.sync("b", 3)
    first = f"r{group.offset}"
    assert group.answers(group.sync("b", 3))[first].error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_request_that_lies_in_the_log_twice_is_not_superseded_by_its_own_copy() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.join(new_member_id="s", group_instance_id="i", request_id="once")
    assert group.answers(group.join(new_member_id="s2", group_instance_id="i", request_id="once")) == {}
    answers = group.answers(group.sleep(3_000))
    assert list(answers) == ["once"]
    assert answers["once"].error_code is ErrorCode.NONE


def test_the_parked_sync_of_a_leaver_is_answered() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a")
    group.join("b")
    group.sync("b", 3)
    parked = f"r{group.offset}"
    assert group.answers(group.leave("b"))[parked].error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_protocol_listed_twice_counts_once() -> None:
    group = GroupHarness()
    twice = (JoinGroupProtocol(name="range", metadata=b"1"), JoinGroupProtocol(name="range", metadata=b"2"))
    group.join(new_member_id="a")
    group.send("JoinGroup", _join(group, "a", twice))
    group.sleep(0)
    assert group.state == "CompletingRebalance"
    assert group.group is not None
    assert group.group.members["a"].protocols == (("range", b"1"),)
    assert group.group.protocol_name == "range"


def _join(group: GroupHarness, member_id: str, protocols: tuple[JoinGroupProtocol, ...]):
    return JoinGroupRequest(
        group_id=group.group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
    )


def test_malformed_subscriptions_do_not_wedge_the_group() -> None:
    for metadata in (b"\0\0\xff\xff\xff\xff", b"\0\0\x7f\xff\xff\xff", b"", b"\0"):
        group = GroupHarness()
        group.add("a", protocols={"range": metadata})
        group.sleep(0)
        assert group.state == "CompletingRebalance"
        assert group.group is not None
        assert group.group.subscribed_topics is None


def test_a_negative_rebalance_timeout_means_the_session_timeout() -> None:
    group = GroupHarness()
    group.add("a", rebalance_timeout_ms=-1)
    assert group.group is not None
    assert group.group.members["a"].rebalance_timeout_ms == 10_000


def test_a_group_that_would_outgrow_its_records_takes_no_further_member() -> None:
    group = GroupHarness(group_max_bytes=5_000, group_initial_rebalance_delay_ms=3_000)
    group.add("a", protocols={"range": b"x" * 2_000})
    answer = group.answer(group.join(protocols={"range": b"x" * 4_000}))
    assert answer.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.answer(group.join(protocols={"range": b"x" * 100})).error_code is ErrorCode.MEMBER_ID_REQUIRED


def test_handed_out_ids_count_too() -> None:
    group = GroupHarness(group_max_bytes=3_000)
    codes = [group.answer(group.join(session_timeout_ms=60_000)).error_code for _ in range(12)]
    assert codes[0] is ErrorCode.MEMBER_ID_REQUIRED
    assert codes[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED
    group.sleep(60_000)
    assert group.group is not None
    assert group.group.members_bytes == 0
    assert group.answer(group.join()).error_code is ErrorCode.MEMBER_ID_REQUIRED


def test_a_topic_that_cannot_exist_gets_no_offsets() -> None:
    group = GroupHarness()
    for name in ("", "t" * 250):
        answer = group.answer(group.commit(offsets={(name, 0): 1}))
        assert answer.topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_commit_of_very_many_partitions_is_told_in_pieces() -> None:
    group = GroupHarness()
    outputs = group.commit(offsets={("t", partition): 1 for partition in range(2_500)})
    assert [len(each.offsets) for each in of_type(outputs, OffsetsCommitted)] == [1_000, 1_000, 500]


def test_an_assignment_that_would_outgrow_the_record_is_refused_as_kafka_refuses_a_failed_append() -> None:
    group = GroupHarness(group_max_bytes=5_000)
    group.add("a")
    group.sleep(0)
    outputs = group.sync("a", 1, {"a": b"x" * 6_000})
    assert group.answer(outputs).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert of_type(outputs, RebalanceStarted)[0].trigger == "assignment_too_large"
    assert group.state == "PreparingRebalance"
    assert group.answer(group.join("a")).generation_id == 2


def _event(group_id: str, offset: int, api: str, version: int, request: object) -> RequestEvent:
    envelope = RequestEnvelope(request_id=str(offset), reply_partition=0, api=api, api_version=version, body=Raw())
    return RequestEvent(offset, 1_000, 1_000, envelope, request)  # type: ignore[arg-type]


def test_a_request_in_another_shards_partition_is_told_so_and_changes_nothing() -> None:
    config = GroupConfig(shard_count=3)  # "g" belongs to partition 103 % 3 = 1
    elsewhere = GroupCoordinator("g", config, partition=0)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="a")
    elsewhere.handle(_event("g", 5, "Heartbeat", 4, heartbeat))
    answer = next(each for each in elsewhere.outputs if isinstance(each, Answer))
    assert answer.response.error_code is ErrorCode.NOT_COORDINATOR  # type: ignore[union-attr]
    assert elsewhere.group is None
    at_home = GroupCoordinator("g", config, partition=1)
    at_home.handle(_event("g", 5, "Heartbeat", 4, heartbeat))
    answer = next(each for each in at_home.outputs if isinstance(each, Answer))
    assert answer.response.error_code is ErrorCode.UNKNOWN_MEMBER_ID  # type: ignore[union-attr]


def test_a_member_id_that_is_taken_is_not_given_again() -> None:
    group = GroupHarness()
    group.stable("a")
    assert group.answer(group.join(new_member_id="a")).error_code is ErrorCode.INVALID_REQUEST
    assert group.state == "Stable"


def test_a_member_id_without_new_member_id_is_the_same_for_the_same_request_id() -> None:
    assert _first_member_id() == _first_member_id()
    assert _first_member_id().startswith("client-")


def _first_member_id() -> str:
    group = GroupHarness()
    member_id: str = group.answer(group.join()).member_id
    return member_id


def test_a_group_without_any_record_is_not_described_yet() -> None:
    group = GroupHarness(offset_metadata_max_bytes=1)
    group.commit(metadata="too long")
    assert group.state == "Empty"
    described = group.answer(group.send("DescribeGroups", DescribeGroupsRequest(groups=("g",)), 5)).groups[0]
    assert described.group_state == "Dead"
    group.commit()
    described = group.answer(group.send("DescribeGroups", DescribeGroupsRequest(groups=("g",)), 5)).groups[0]
    assert described.group_state == "Empty"


def test_an_early_look_of_the_retention_check_says_nothing() -> None:
    """The check is armed by lower bounds: a commit renewed since makes it run too early, without a trace."""
    group = GroupHarness(offsets_retention_minutes=60, offsets_retention_check_interval_ms=60_000)
    group.commit(offsets={("t", 0): 1})
    group.sleep(50 * 60_000)
    group.commit(offsets={("t", 0): 2})
    assert group.sleep(30 * 60_000) == []
    assert group.sleep(31 * 60_000) != []
    assert group.state == "none"


def test_many_groups_in_one_process() -> None:
    coordinator = Coordinator(GroupConfig())
    for number in range(3):
        topic = OffsetCommitRequestTopic(
            name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
        )
        request = OffsetCommitRequest(group_id=f"g{number}", topics=(topic,))
        coordinator.handle(f"g{number}", _event(f"g{number}", number, "OffsetCommit", 9, request))
    assert [listed.group_id for listed in coordinator.list_groups(["empty "])] == ["g0", "g1", "g2"]
    assert coordinator.list_groups(["Stable"]) == []
    assert coordinator.list_groups(types=["consumer"]) == []
    coordinator.advance_to(30 * 24 * 60 * 60_000)
    assert coordinator.groups == {}


def test_a_join_phase_that_waits_for_silent_static_members_does_not_spin() -> None:
    group = GroupHarness()
    group.stable("d")
    group.join(new_member_id="s", group_instance_id="i", rebalance_timeout_ms=0, session_timeout_ms=10_000)
    group.join("d")
    group.sync("s", 2)
    group.sync("d", 2)
    assert group.state == "Stable"
    group.leave("d")
    extensions = of_type(group.sleep(9_999), RebalanceExtended)
    assert len(extensions) == 9, "one a second, while the session lasts"
    group.sleep(1)
    assert group.state == "Empty"
