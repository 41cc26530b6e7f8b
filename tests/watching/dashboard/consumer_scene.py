"""A group that migrates, with a member that does not give up its partitions: what its page is shown with."""

from __future__ import annotations

from functools import cache

from schemas.events import encode_json
from schemas.group_metadata_events import RegexesResolved
from schemas.history import History, HistoryRecord
from tests.coordinator_state.harness import assignment, of_type, subscription
from tests.watching.dashboard.consumer_members import DrivenMember, Story, cluster

GROUP = "orders"
CULPRIT = "orders-2"
"""Its client id."""
_CLASSIC = "orders-old-8e2b9d0c-5a11-4f7e-9c07-2f6f6d2f0a11"
_ASSIGNOR = "cooperative-sticky"
_IDS = ("q7PSb5mLRyGCVxRVgnDvwQ", "zP8ZtVkqTTa6c1sJfYj4xw", "B0kX7mX1Q1mT2h0vC9aN5g")


@cache
def scene() -> Story:
    """Members of the consumer protocol come into a classic group; one of them keeps what it must give up."""
    story = Story(GROUP, cluster(orders=8, payments=4), group_consumer_migration_policy="bidirectional")
    _classic_group(story)
    story.join(DrivenMember(member_id=_IDS[0], client_id="orders-1", topics=("orders", "payments")))
    _go_on(story, 30_000)
    story.join(
        DrivenMember(
            member_id=_IDS[1], client_id=CULPRIT, topics=("orders", "payments"), regex="pay.*", revokes=False
        )
    )
    _go_on(story, 10_000)
    _resolve(story)
    _go_on(story, 40_000)
    story.join(DrivenMember(member_id=_IDS[2], client_id="orders-3", topics=("orders", "payments")))
    _go_on(story, 85_000)
    story.group.commit(_IDS[0], story.members["orders-1"].epoch, {("payments", 0): 17})
    return story


def _classic_group(story: Story) -> None:
    group, protocols = story.group, {_ASSIGNOR: subscription("orders", "payments")}
    group.add(_CLASSIC, client_id="orders-old", protocols=protocols, session_timeout_ms=45_000)
    group.sync(_CLASSIC, 1, {_CLASSIC: assignment("orders", *range(8))}, protocol_name=_ASSIGNOR)
    group.sleep(8_000)
    group.heartbeat(_CLASSIC, 1)


def _go_on(story: Story, duration_ms: int) -> None:
    """Time passes; the classic member rejoins when it is told to."""
    group = story.group
    for _ in range(duration_ms // 5_000):
        story.go_on(5_000)
        epoch = group.body.members[_CLASSIC].member_epoch
        response = group.answer(group.heartbeat(_CLASSIC, epoch))
        if response.error_code:
            protocols = {_ASSIGNOR: subscription("orders", "payments")}
            joined = group.answer(group.join(_CLASSIC, client_id="orders-old", protocols=protocols))
            group.sync(_CLASSIC, joined.generation_id, protocol_name=_ASSIGNOR)


def _resolve(story: Story) -> None:
    body = story.group.body
    began_ms = body.regex_refresh_began_ms
    assert began_ms is not None
    story.group.tell(RegexesResolved(version=1, resolved={"pay.*": ("payments",)}, began_ms=began_ms))


@cache
def values() -> tuple[bytes, ...]:
    """The history, as it lies on the topic."""
    records: list[History] = of_type(scene().group.outputs, HistoryRecord)  # type: ignore[arg-type]
    return tuple([encode_json(record) for record in records])
