"""Answers that members have missed, for which the gateway has so much room and no more."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.consumer_group_messages import LEAVE_EPOCH
from tests.gateway.heartbeat_bench import AS_BEFORE, BEAT, IN_DOUBT, Bench, news


def test_answers_that_members_have_missed_have_a_bound_in_bytes() -> None:
    """A member whose answer finds no room is in doubt, and says everything; what is told or gone takes no room."""
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(news(6, *range(1_000)))
    missed = bench.beats.news_bytes
    assert 40_000 <= missed < 50_000
    bench.ask()
    assert bench.coordinator_says(replace(AS_BEFORE, member_epoch=6)) == [news(6, *range(1_000))]
    assert bench.beats.news_bytes == 0

    for full, goes in ((False, True), (False, False), (True, False)):
        bench = Bench(news_bytes_max=missed - full).settled()
        bench.ask()
        bench.coordinator_says(news(6, *range(1_000)))
        assert bench.beats.news_bytes == (0 if full else missed)
        if goes:
            bench.ask(replace(BEAT, member_epoch=LEAVE_EPOCH))
        else:
            assert bench.ask() == ([IN_DOUBT] if full else [])
            bench.ask(replace(BEAT, member_epoch=0, subscribed_topic_names=("t",), topic_partitions=()))
        assert bench.beats.news_bytes == 0


def test_who_was_forgotten_meanwhile_keeps_no_room() -> None:
    bench = Bench().settled()
    bench.ask()
    bench.ask(replace(BEAT, member_epoch=LEAVE_EPOCH))
    bench.coordinator_says(news(6, 1, 2, 3))
    assert (len(bench.beats), bench.beats.news_bytes) == (0, 0)
