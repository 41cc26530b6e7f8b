"""Members whose heartbeats the gateway answers, and that have been at another gateway meanwhile."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from tests.gateway.heartbeat_bench import AS_BEFORE, BEAT, EVERYTHING, IN_DOUBT, Bench, news, owning


def test_who_comes_by_another_connection_is_asked_to_say_everything() -> None:
    """It may have been at another gateway, which has answered it, and have missed the coordinator's answer."""
    bench = Bench().settled()
    assert bench.ask(connection=2) == [IN_DOUBT]
    assert bench.sent == []
    assert bench.ask(EVERYTHING, connection=2) == []
    assert bench.coordinator_says(news(5, 0)) == [news(5, 0)]
    assert bench.ask(replace(BEAT, topic_partitions=owning(0)), connection=2) == []
    assert bench.coordinator_says(AS_BEFORE) == [AS_BEFORE]
    assert bench.ask(connection=2) == [AS_BEFORE]


def test_who_says_only_what_it_owns_has_not_said_everything() -> None:
    """The coordinator does not tell it again what it is to have."""
    bench = Bench().settled()
    assert bench.ask(replace(BEAT, topic_partitions=owning(0, 1)), connection=2) == [IN_DOUBT]


def test_who_joins_by_another_connection_says_everything_anyway() -> None:
    bench = Bench().settled()
    assert bench.ask(replace(EVERYTHING, member_epoch=0, topic_partitions=()), connection=2) == []
    assert len(bench.sent) == 1


@pytest.mark.parametrize("request_", [BEAT, EVERYTHING])
@pytest.mark.parametrize("connection", [1, 2])
def test_news_from_before_are_not_told_to_who_has_heard_later_ones(
    request_: ConsumerGroupHeartbeatRequest, connection: int
) -> None:
    """What has been taken from it since may be another's."""
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(news(6, 0, 1))
    later = replace(request_, member_epoch=7)
    if bench.ask(later, connection) == [IN_DOUBT]:
        assert bench.ask(later, connection) == []
    assert bench.sent[0][0] == later
    as_before = replace(AS_BEFORE, member_epoch=7)
    assert bench.coordinator_says(as_before) == [as_before]
    assert bench.beats.news_bytes == 0


def test_what_is_refused_of_a_request_makes_no_news_untold() -> None:
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(news(6, 0))
    bench.ask(replace(BEAT, subscribed_topic_regex="("))
    refused = replace(IN_DOUBT, error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert bench.coordinator_says(refused) == [refused]
    bench.ask()
    assert bench.sent[0][0] == replace(BEAT, member_epoch=6)
    assert bench.coordinator_says(replace(AS_BEFORE, member_epoch=6)) == [news(6, 0)]
