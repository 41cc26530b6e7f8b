"""A member of a consumer group in the state: what is written is read."""

import msgspec

from coordinator_state.consumer.member import ClassicMemberMetadata, ConsumerMember, MemberState

TOPIC = "00000000-0000-0001-0000-000000000001"


def test_a_new_member_is_stable_at_epoch_0_and_has_nothing() -> None:
    member = ConsumerMember("a")
    assert (member.member_epoch, member.previous_member_epoch, member.state) == (0, -1, MemberState.STABLE)
    assert not member.assigned
    assert not member.pending_revocation
    assert not member.uses_classic_protocol


def test_what_is_written_to_the_state_is_read() -> None:
    member = ConsumerMember(
        "a", 7, 6, MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: 3, 1: 7}}, {TOPIC: {2: 3}}, "i", "rack", "range",
        60_000, "client", "/10.0.0.1", ("bar", "foo"), "f.*",
        ClassicMemberMetadata(45_000, (("range", b"\x01"), ("sticky", b""))),
    )  # fmt: skip
    written = msgspec.msgpack.encode(member)
    assert msgspec.msgpack.decode(written, type=ConsumerMember) == member


def test_a_stable_member_is_reconciled_to_its_own_epoch_only() -> None:
    member = ConsumerMember("a", 7)
    assert member.is_reconciled_to(7)
    assert not member.is_reconciled_to(8)
    assert not msgspec.structs.replace(member, state=MemberState.UNRELEASED_PARTITIONS).is_reconciled_to(7)
