"""A rebalance's cause in words."""

from __future__ import annotations

from group_coordinator.watching.tables.causes import cause_text
from schemas.consumer_group_history import ConsumerMember, ConsumerMemberJoined
from schemas.history import Cause, MemberExpired, MemberIdentity


def test_causes_name_members_as_people_do() -> None:
    member = MemberIdentity(member_id="akVtgijmTEKhjDLpmOh9gQ", client_id="payments", client_host="/10.0.0.1")
    of_record = {
        "group_id": "g", "epoch": 0, "seq": 1, "time_ms": 1, "timestamp_ms": 1, "generation_id": 1,
        "cause": Cause(kind="observed", partition=7, offset=1), "caused_by": None,
    }  # fmt: skip
    expired = MemberExpired(
        **of_record,  # type: ignore[arg-type]
        member=member,
        last_heard_ms=None,
        session_timeout_ms=None,
    )
    assert cause_text(expired) == "payments (akVtgijmTEKhjDLpmOh9gQ) was not heard for its session timeout"
    consumer = ConsumerMember(
        member=member,
        rebalance_timeout_ms=None,
        subscribed_topics=None,
        subscribed_regex=None,
        server_assignor=None,
        rack_id=None,
        uses_classic_protocol=False,
    )
    joined = ConsumerMemberJoined(**of_record, joined=consumer)  # type: ignore[arg-type]
    assert cause_text(joined) == "payments (akVtgijmTEKhjDLpmOh9gQ) joined"
