"""The auditor of the endurance run: it passes what was done, and finds what was not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from schemas.history import (
    Cause,
    History,
    JoinPhaseCompleted,
    LeaderElected,
    MemberExpired,
    MemberIdentity,
    MemberJoined,
    MemberLeft,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.coordinating.gateway.audit import FOLLOW_UP_MS, SYNC_TIMEOUT_MS, Doings, audit, lost

_COMMON: dict[str, Any] = {
    "group_id": "g", "epoch": 1, "seq": 1, "time_ms": 0, "timestamp_ms": 0, "generation_id": 1,
    "cause": Cause(kind="request", partition=0, offset=0),
}  # fmt: skip


def who(client_id: str) -> MemberIdentity:
    return MemberIdentity(member_id=f"{client_id}-id", client_id=client_id, client_host="/h")


def started(trigger: Any, client_id: str, interrupts: int | None = None) -> History:
    return RebalanceStarted(
        **_COMMON, trigger=trigger, member=who(client_id), reason="a reason", initial=False, waiting_for=(),
        deadline_ms=0, interrupts=interrupts,
    )  # fmt: skip


def completed(outcome: Any = "stable") -> History:
    return RebalanceCompleted(
        **_COMMON, rebalance=1, outcome=outcome, trigger="member_joined", started_ms=0, duration_ms=0, join_ms=0,
        waited_for=(), slowest=None, dropped=(),
    )  # fmt: skip


def join_phase_completed() -> History:
    return JoinPhaseCompleted(
        **_COMMON, rebalance=1, duration_ms=0, members=(), waited_for=(), slowest=None, dropped=()
    )


def elected(client_id: str) -> History:
    return LeaderElected(**_COMMON, leader=who(client_id), previous_leader_id=None, reason="first_member")


def at(time_ms: int, record: History) -> History:
    return structs.replace(record, timestamp_ms=time_ms)


def joined(client_id: str) -> History:
    return MemberJoined(
        **_COMMON, member=who(client_id), session_timeout_ms=1, rebalance_timeout_ms=1, protocols=(),
        subscribed_topics=None,
    )  # fmt: skip


def expired(client_id: str) -> History:
    return MemberExpired(**_COMMON, member=who(client_id), last_heard_ms=0, session_timeout_ms=1)


def test_what_was_done_is_explained() -> None:
    doings = {"g": Doings(started={"a", "b", "c"}, closed={"b"}, killed={"c"})}
    history = [
        joined("a"), started("member_joined", "a"), started("member_left", "b"), MemberLeft(**_COMMON, member=who("b")),
        expired("c"), started("member_expired", "c"),
    ]  # fmt: skip
    result = audit(doings, history)
    assert result.problems == []
    assert result.rebalances == {"member_joined": 1, "member_left": 1, "member_expired": 1}


def test_members_that_cooperate_rejoin_after_a_rebalance_and_else_never() -> None:
    doings = Doings(is_cooperative=True, started={"a"})
    long_ms = 10 * FOLLOW_UP_MS
    history = [
        started("member_joined", "a"), at(long_ms, completed()), at(long_ms + 1, started("leader_rejoined", "a")),
        at(long_ms + 2, completed()), at(long_ms + 3, started("member_changed", "a")),
    ]  # fmt: skip
    assert audit({"g": doings}, history).problems == [], "a rebalance that waited for somebody has just ended"
    assert audit({"g": doings}, history[2:3]).problems, "there was none before it"
    assert audit({"g": doings}, [*history[:2], at(long_ms + FOLLOW_UP_MS, history[2])]).problems, "it was long ago"
    assert audit({"g": Doings(started={"a"})}, history).problems, "only those that cooperate"


def test_members_rejoin_when_a_leader_that_died_leaves_their_sync_unanswered_for_long() -> None:
    doings = {"g": Doings(started={"a", "dead", "alive"}, killed={"dead"})}
    long_ms, rejoin = 1 + SYNC_TIMEOUT_MS, started("member_changed", "a", interrupts=1)
    begun = [started("member_joined", "a"), elected("dead"), at(1, join_phase_completed())]
    assert audit(doings, [*begun, at(long_ms, completed("interrupted")), at(long_ms, rejoin)]).problems == []
    assert audit(doings, [*begun, at(long_ms - 1, rejoin)]).problems, "it was not long"
    assert audit(doings, [*begun, elected("alive"), at(long_ms, rejoin)]).problems, "the leader lives"
    assert audit(doings, [*begun, at(long_ms, started("member_changed", "a"))]).problems, "all had their answers"


def test_clients_in_go_are_excused_while_their_gateway_is_away_and_not_else() -> None:
    history = [joined("a"), MemberLeft(**_COMMON, member=who("a")), joined("a"), started("member_left", "a")]
    assert audit({"g": Doings(started={"a"}, gave_up={"a"}, away=range(1, 4))}, history).problems == []
    assert audit({"g": Doings(started={"a"}, gave_up={"a"}, away=range(3, 4))}, history).problems
    assert audit({"g": Doings(started={"a"}, gave_up={"b"}, away=range(1, 4))}, history).problems


def test_records_of_groups_that_stand_apart_count_where_the_gateway_was_away() -> None:
    apart = structs.replace(joined("b"), group_id="loops")
    history = [apart, joined("a"), apart, MemberLeft(**_COMMON, member=who("a"))]
    assert audit({"g": Doings(started={"a"}, gave_up={"a"}, away=range(3, 4))}, history, apart={"loops"}).problems == []
    assert audit({"g": Doings(started={"a"}, gave_up={"a"}, away=range(1, 3))}, history, apart={"loops"}).problems


def test_leaders_in_java_rejoin_while_their_gateway_is_away_and_do_nothing_else() -> None:
    doings = {"g": Doings(started={"a"}, looked_anew={"a"}, away=range(2))}
    assert audit(doings, [elected("a"), started("member_changed", "a")]).problems == []
    assert audit(doings, [elected("a"), started("leader_rejoined", "a")]).problems == []
    assert audit(doings, [elected("a"), completed(), started("leader_rejoined", "a")]).problems, "it is back"
    assert audit(doings, [elected("b"), started("member_changed", "a")]).problems, "another one leads"
    assert audit(doings, [elected("b"), started("leader_rejoined", "b")]).problems, "it is another library's"
    assert audit(doings, [elected("a"), MemberLeft(**_COMMON, member=who("a"))]).problems


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([started("member_left", "a")], "no reason that is known"),
        ([started("members_did_not_sync", "a")], "no reason that is known"),
        ([started("member_joined", "stranger")], "no reason that is known"),
        ([expired("a")], "a expired, but nobody killed or closed it"),
        ([MemberLeft(**_COMMON, member=who("a"))], "a left, but nobody closed it"),
        ([joined("a"), joined("a")], "a joined 2 times: it lost its place"),
    ],
)
def test_what_nobody_did_is_found(history: list[History], told: str) -> None:
    (problem,) = audit({"g": Doings(started={"a"})}, history).problems
    assert told in problem


def test_lost_records_are_found() -> None:
    assert list(lost(5, [4, 3, 2, 1, 0, 0])) == []
    assert list(lost(5, [0, 1, 4])) == ["2 of 5 records were not read, [2, 3] among them"]
