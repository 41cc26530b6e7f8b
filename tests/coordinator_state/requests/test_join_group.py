"""JoinGroup: who is let in, when the answer comes, and what the answer says."""

from typing import Any
from uuid import uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.classic.join_group import MEMBER_ID_NAMESPACE, member_uuid
from schemas.error_codes import ErrorCode
from schemas.history import (
    LeaderElected,
    MemberRejoined,
    MemberReplaced,
    ProtocolChosen,
    RebalanceExtended,
    RebalanceStarted,
)
from schemas.messages import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponseMember
from tests.coordinator_state.harness import GroupHarness, assignment, of_type, subscription

# -------------------------------------------------------------------------------------------------------- a new member


def test_a_new_member_is_told_its_id_first_and_joins_with_it() -> None:
    """KIP-394, since version 4."""
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    answer = group.answer(group.join(new_member_id="a", version=4))
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "a")
    assert group.state == "Empty"
    group.join("a", version=4)
    assert group.state == "PreparingRebalance"


def test_a_client_of_before_version_4_is_a_member_at_once() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.join(new_member_id="a", version=3)
    assert group.state == "PreparingRebalance"


def test_a_static_member_needs_no_second_join() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.join(new_member_id="s", group_instance_id="i")
    assert group.state == "PreparingRebalance"


def test_a_handed_out_id_is_not_taken_together_with_an_instance_id() -> None:
    group = GroupHarness()
    group.join(new_member_id="a")
    assert group.answer(group.join("a", group_instance_id="i")).error_code is ErrorCode.UNKNOWN_SERVER_ERROR


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


@given(st.text())
def test_a_member_id_ends_with_the_uuid_of_its_request_id(request_id: str) -> None:
    assert member_uuid(request_id) == str(uuid5(MEMBER_ID_NAMESPACE, request_id))


@pytest.mark.parametrize(
    ("session_timeout_ms", "error"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_the_session_timeout_lies_within_the_brokers_bounds(session_timeout_ms: int, error: ErrorCode) -> None:
    group = GroupHarness()
    assert group.answer(group.join(session_timeout_ms=session_timeout_ms)).error_code is error


def test_a_negative_rebalance_timeout_means_the_session_timeout() -> None:
    group = GroupHarness()
    group.add("a", rebalance_timeout_ms=-1)
    assert group.group is not None
    assert group.classic.members["a"].rebalance_timeout_ms == 10_000


# ----------------------------------------------------------------------------------------------------------- protocols


def test_the_protocol_with_most_votes_is_chosen_among_those_that_all_support() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    metadata = subscription("t")
    group.add("a", protocols={"only-a": metadata, "range": metadata, "sticky": metadata})
    group.add("b", protocols={"sticky": metadata, "range": metadata})
    group.add("c", protocols={"sticky": metadata, "range": metadata})
    outputs = group.sleep(6_000)
    (chosen,) = of_type(outputs, ProtocolChosen)
    assert chosen.protocol_name == "sticky"
    assert chosen.votes == {"range": ("a",), "sticky": ("b", "c")}


@pytest.mark.parametrize("other", [{"protocol_type": "connect"}, {"protocols": {"own": b""}}, {"protocols": {}}])
def test_a_member_without_a_protocol_in_common_is_refused(other: dict[str, Any]) -> None:
    group = GroupHarness()
    group.stable("a")
    assert group.answer(group.join(**other)).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.state == "Stable"


def test_a_protocol_listed_twice_counts_once() -> None:
    group = GroupHarness()
    twice = (JoinGroupProtocol(name="range", metadata=b"1"), JoinGroupProtocol(name="range", metadata=b"2"))
    group.join(new_member_id="a")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="a",
        protocol_type="consumer",
        protocols=twice,
    )
    group.send("JoinGroup", request)
    group.sleep(0)
    assert group.state == "CompletingRebalance"
    assert group.group is not None
    assert group.classic.members["a"].protocols == (("range", b"1"),)
    assert group.classic.protocol_name == "range"


@pytest.mark.parametrize("metadata", [b"\0\0\xff\xff\xff\xff", b"\0\0\x7f\xff\xff\xff", b"", b"\0"])
def test_malformed_subscriptions_do_not_wedge_the_group(metadata: bytes) -> None:
    group = GroupHarness()
    group.add("a", protocols={"range": metadata})
    group.sleep(0)
    assert group.state == "CompletingRebalance"
    assert group.group is not None
    assert group.classic.subscribed_topics is None


# ------------------------------------------------------------------------------------------------------- the join phase


def test_the_leader_alone_is_told_the_members_and_their_metadata() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.add("a", protocols={"range": subscription("t")})
    group.add("b", protocols={"range": subscription("u")})
    leader, follower = group.answers(group.sleep(6_000)).values()
    assert (leader.generation_id, leader.protocol_type, leader.protocol_name) == (1, "consumer", "range")
    assert leader.leader == follower.leader == "a"
    assert leader.members == (
        JoinGroupResponseMember(member_id="a", metadata=subscription("t")),
        JoinGroupResponseMember(member_id="b", metadata=subscription("u")),
    )
    assert (follower.member_id, follower.members) == ("b", ())


def test_a_rebalance_waits_for_the_largest_rebalance_timeout() -> None:
    group = GroupHarness()
    group.stable("a", rebalance_timeout_ms=30_000, session_timeout_ms=60_000)
    outputs = group.add("b", rebalance_timeout_ms=5_000)
    assert of_type(outputs, RebalanceStarted)[0].deadline_ms == group.now_ms + 30_000


def test_a_leader_that_does_not_rejoin_in_time_gives_way() -> None:
    group = GroupHarness()
    timeouts = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 10_000}
    group.stable("a", "b", **timeouts)
    group.join("b", protocols={"range": subscription("t", "u")}, **timeouts)
    outputs = group.sleep(10_000)
    (elected,) = of_type(outputs, LeaderElected)
    assert (elected.leader.member_id, elected.reason) == ("b", "leader_gone")
    (answer,) = group.answers(outputs).values()
    assert [member.member_id for member in answer.members] == ["b"]


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


def test_a_superseded_join_is_answered() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.add("a")
    first = f"r{group.offset}"
    answers = group.answers(group.join("a"))
    assert answers[first].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert f"r{group.offset}" not in answers


def test_a_request_that_lies_in_the_log_twice_is_not_superseded_by_its_own_copy() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.join(new_member_id="s", group_instance_id="i", request_id="once")
    assert group.answers(group.join(new_member_id="s2", group_instance_id="i", request_id="once")) == {}
    answers = group.answers(group.sleep(3_000))
    assert list(answers) == ["once"]
    assert answers["once"].error_code is ErrorCode.NONE


# ------------------------------------------------------------------------------------------------------------ rejoining


def test_a_follower_that_has_not_changed_gets_the_present_generation_again() -> None:
    group = GroupHarness()
    generation_id = group.stable("a", "b")
    answer = group.answer(group.join("b"))
    assert (answer.generation_id, answer.leader, answer.members) == (generation_id, "a", ())
    assert group.state == "Stable"


def test_a_leader_that_joins_again_before_it_syncs_gets_the_members_again() -> None:
    group = GroupHarness()
    group.add("a")
    group.sleep(0)
    answer = group.answer(group.join("a"))
    assert [member.member_id for member in answer.members] == ["a"]
    assert group.state == "CompletingRebalance"


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"protocols": {"sticky": subscription("t"), "range": subscription("t")}}, ("protocols",)),
        ({"protocols": {"range": subscription("u")}}, ("metadata",)),
        (
            {"protocols": {"range": subscription("u")}, "session_timeout_ms": 20_000, "rebalance_timeout_ms": 1_000},
            ("metadata", "session_timeout", "rebalance_timeout"),
        ),
    ],
)
def test_a_follower_that_has_changed_begins_a_rebalance(fields: dict[str, object], changed: tuple[str, ...]) -> None:
    group = GroupHarness()
    group.stable("a", "b")
    outputs = group.join("b", **fields)
    assert of_type(outputs, RebalanceStarted)[0].trigger == "member_changed"
    assert of_type(outputs, MemberRejoined)[0].changed == changed


# ------------------------------------------------------------------------------------------------------- static members


def static_group() -> GroupHarness:
    """Stable, with the static members `a` (instance `i`, leading) and `b` (instance `j`)."""
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.join(new_member_id="a", group_instance_id="i")
    group.join(new_member_id="b", group_instance_id="j")
    group.sleep(6_000)
    group.sync("b", 1)
    group.sync("a", 1, {"a": assignment("t", 0), "b": assignment("t", 1)})
    assert group.state == "Stable"
    return group


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    group = static_group()
    outputs = group.join(new_member_id="b2", group_instance_id="j")
    answer = group.answer(outputs)
    assert (answer.error_code, answer.generation_id, answer.member_id) == (ErrorCode.NONE, 1, "b2")
    assert of_type(outputs, MemberReplaced)[0].old_member_id == "b"
    assert group.state == "Stable"
    assert group.answer(group.sync("b2", 1)).assignment == assignment("t", 1)


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    group = static_group()
    answer = group.answer(group.join(new_member_id="a2", group_instance_id="i"))
    assert (answer.leader, answer.skip_assignment) == ("a2", True)
    assert {member.member_id for member in answer.members} == {"a2", "b"}


def test_a_static_leader_of_before_version_9_does_not_learn_that_it_leads() -> None:
    """It would compute an assignment that nobody asked for."""
    group = static_group()
    answer = group.answer(group.join(new_member_id="a2", group_instance_id="i", version=8))
    assert (answer.leader, answer.skip_assignment, answer.members) == ("a", False, ())


def test_a_static_member_that_waits_is_fenced_by_its_successor() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.join(new_member_id="a", group_instance_id="i")
    first = f"r{group.offset}"
    answers = group.answers(group.join(new_member_id="a2", group_instance_id="i"))
    assert answers[first].error_code is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("member_id", "instance", "error"),
    [
        ("b", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("b", "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_rejoining_member_names_its_own_instance(member_id: str, instance: str | None, error: ErrorCode) -> None:
    group = static_group()
    assert group.answer(group.join(member_id, group_instance_id=instance)).error_code is error


# --------------------------------------------------------------------------------------------------------------- bounds


def test_a_full_group_takes_no_further_member() -> None:
    group = GroupHarness(group_max_size=2)
    group.stable("a", "b")
    assert group.answer(group.join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.answer(group.join("b")).error_code is ErrorCode.NONE


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
    assert group.classic.members_bytes == 0
    assert group.answer(group.join()).error_code is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_lists_only_so_many_protocols() -> None:
    group = GroupHarness(member_max_protocols=2)
    protocols = {f"own-{number}": b"" for number in range(3)}
    assert group.answer(group.join(protocols=protocols)).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    protocols.popitem()
    assert group.answer(group.join(protocols=protocols)).error_code is ErrorCode.MEMBER_ID_REQUIRED
