"""A history to ask questions of: a few groups with a few troubles, made by the core itself.

`orders` loses a member, is slow to rejoin, commits backwards. `shared` is used by two applications. `nervous` has a
member that comes and goes. `moving` is a consumer group. `fleet` is static. `archive` has been idle for weeks,
`forgotten` has died of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from schemas.history import History, HistoryRecord
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned
from tests.coordinator_state.harness import DAY_MS, MINUTE_MS, GroupHarness, assignment, subscription

START_MS = int(datetime(2026, 11, 20, 14, 0, tzinfo=UTC).timestamp()) * 1000
"""2026-11-20 14:00 UTC."""


def moment(text: str) -> int:
    """`2026-11-20 14:02:00` -> milliseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@cache
def example_history() -> tuple[History, ...]:
    """All records, group after group, each group's in order."""
    groups = (orders(), shared(), nervous(), fleet(), cooperative(), archive(), forgotten(), moving())
    return tuple(record for group in groups for record in history(group))


def history(group: GroupHarness) -> list[History]:
    return [output for output in group.outputs if isinstance(output, HistoryRecord)]


def orders() -> GroupHarness:
    """`b` is not heard any more at 14:01:00 and expires; `a` needs 4 s to rejoin; a commit goes back."""
    group = GroupHarness("orders", START_MS)
    fields = {"session_timeout_ms": 30_000}
    group.add("a", client_id="orders-1", **fields)
    group.sleep(0)
    group.sync("a", 1, {"a": assignment("payments", 0, 1, 2)})
    group.add("b", client_id="orders-2", **fields)
    group.sleep(1_000)
    group.join("a", client_id="orders-1", **fields)
    plan = {"a": assignment("payments", 0, 1), "b": assignment("payments", 2)}
    group.sync("b", 2)
    group.sync("a", 2, plan)
    group.commit("b", 2, {("payments", 2): 500})
    group.commit("a", 2, {("payments", 0): 100, ("payments", 1): 100})
    for _ in range(3):
        group.sleep(20_000)
        group.heartbeat("a", 2)
        if group.now_ms <= START_MS + 41_000:
            group.heartbeat("b", 2)
    group.sleep(10_000)  # 14:01:11: b was heard at 14:00:41
    group.heartbeat("a", 2)
    group.sleep(4_000)
    group.join("a", client_id="orders-1", **fields)
    group.sync("a", 3, {"a": assignment("payments", 0, 1, 2)})
    group.commit("a", 3, {("payments", 2): 480})
    group.heartbeat("a", 2)  # refused: an old generation
    group.sleep(5_000)
    return group


def moving() -> GroupHarness:
    """A consumer group: `x` has foo 0-3, `y` joins at 14:00:10, and `x` needs 5 s to give up 2 and 3."""
    group = ConsumerHarness("moving", START_MS, group_consumer_assignment_interval_ms=0)
    group.joins("x", "foo")
    group.sleep(10_000)
    group.joins("y", "foo")
    group.told("x", 2)
    group.sleep(5_000)
    group.told("x", 2, topic_partitions=owned(FOO, 0, 1))
    group.sleep(1_000)
    group.told("y", 3)
    return group


def shared() -> GroupHarness:
    """Billing reads invoices, audit reads logs, under one group id; a third brings another protocol and is refused."""
    group = GroupHarness("shared", START_MS)
    group.add("m1", client_id="billing-1", protocols={"range": subscription("invoices")})
    group.sleep(0)
    group.sync("m1", 1, {"m1": assignment("invoices", 0)})
    group.add("m2", client_id="audit-1", protocols={"range": subscription("logs")})
    group.join("m1", client_id="billing-1", protocols={"range": subscription("invoices")})
    group.sync("m2", 2)
    group.sync("m1", 2, {"m1": assignment("invoices", 0), "m2": assignment("logs", 0)})
    group.join(client_id="etl-1", new_member_id="m3", protocols={"roundrobin": subscription("logs")})
    return group


def nervous() -> GroupHarness:
    """A member that joins and leaves five times within ten minutes."""
    group = GroupHarness("nervous", START_MS)
    for number in range(1, 6):
        group.add(f"n{number}", client_id="nervous-1")
        group.sleep(0)
        group.sync(f"n{number}", 2 * number - 1, {f"n{number}": assignment("t", 0)})
        group.sleep(MINUTE_MS // 10)
        group.leave(f"n{number}")
        group.sleep(MINUTE_MS)
    return group


def fleet() -> GroupHarness:
    """A static member restarts without a rebalance; its old id is fenced."""
    group = GroupHarness("fleet", START_MS)
    fields = {"group_instance_id": "truck", "client_id": "fleet-1"}
    group.join(new_member_id="s1", **fields)
    group.sleep(0)
    group.sync("s1", 1, {"s1": assignment("t", 0, 1)})
    group.sleep(5_000)
    group.join(new_member_id="s2", **fields)
    group.heartbeat("s1", 1, group_instance_id="truck")
    return group


def cooperative() -> GroupHarness:
    """A second member comes; the first keeps what it has, hands one partition over in two steps."""
    group = GroupHarness("gentle", START_MS)
    fields = {"protocols": {"cooperative-sticky": subscription("t")}}
    group.add("c1", client_id="gentle-1", **fields)
    group.sleep(0)
    assignor = "cooperative-sticky"
    group.sync("c1", 1, {"c1": assignment("t", 0, 1)}, protocol_name=assignor)
    group.sleep(3_000)
    group.add("c2", client_id="gentle-2", **fields)
    group.sleep(1_000)
    group.join("c1", client_id="gentle-1", **fields)
    group.sync("c2", 2, protocol_name=assignor)
    group.sync("c1", 2, {"c1": assignment("t", 0)}, protocol_name=assignor)
    group.sleep(500)
    group.join("c1", client_id="gentle-1", **fields)
    group.sleep(500)
    group.join("c2", client_id="gentle-2", **fields)
    group.sync("c2", 3, protocol_name=assignor)
    group.sync("c1", 3, {"c1": assignment("t", 0), "c2": assignment("t", 1)}, protocol_name=assignor)
    return group


def archive() -> GroupHarness:
    """Committed three weeks before the others, and never again; its offsets are kept for long."""
    group = GroupHarness("archive", START_MS - 21 * DAY_MS, offsets_retention_minutes=525_600)
    group.commit(offsets={("old", 0): 7})
    return group


def forgotten() -> GroupHarness:
    """Committed, expired, dead; its name is used again by somebody who never joins."""
    group = GroupHarness("forgotten", START_MS - 10 * DAY_MS)
    group.commit(offsets={("old", 0): 7, ("old", 1): 8})
    group.sleep(8 * DAY_MS)
    assert group.state == "none"
    group.join(new_member_id="ghost", client_id="ghost")
    group.sleep(MINUTE_MS)
    return group
