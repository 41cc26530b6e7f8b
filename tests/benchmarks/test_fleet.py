"""What a fleet needs: the arithmetic, and the page that shows it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks.document import SIZING_PAGE
from benchmarks.fleet import (
    FLEETS,
    Fleet,
    Slopes,
    computed_from,
    needs_of,
    needs_table,
    read_slopes,
    runs_of,
    slopes_table,
)

SLOPES = Slopes(
    run="Run of a test.",
    members=100,
    group_members=10,
    rate=10,
    query_us=100,
    responder_us=50,
    gateway_us=200,
    base_cores=0.1,
    query_bytes=1_000,
    responder_bytes=100,
    responder_member_bytes=2,
    gateway_bytes=500,
    gateway_member_bytes=3,
    state_group_bytes=180,
    state_member_bytes=345,
    topic_bytes={"events": 200.0, "responses": 300.0},
)


def test_a_fleet_gets_as_many_shards_and_gateways_as_are_half_busy() -> None:
    needs = needs_of(Fleet(members=30_000, groups=100, heartbeat_interval_s=3, commit_interval_s=6), {10: SLOPES})
    assert needs.shards == 3, "15,000 events a second, 5,000 to each"
    assert needs.cores == pytest.approx(3 * 0.1 + 15_000 * 150e-6)
    assert needs.bytes == 3 * 1_100 + 30_000 * 2
    assert needs.gateways == 6
    assert needs.gateway_cores == pytest.approx(3.0)
    assert needs.gateway_bytes == 6 * 500 + 30_000 * 3
    assert needs.state_bytes == 100 * 180 + 30_000 * 345
    assert needs.topic_bytes_per_s == {"events": 3e6, "responses": 4.5e6}


def test_the_slower_of_query_and_responder_decides_the_shards() -> None:
    fleet = Fleet(members=30_000, groups=100, heartbeat_interval_s=3, commit_interval_s=6)
    assert needs_of(fleet, {10: replace(SLOPES, responder_us=400)}).shards == 12


def test_the_smallest_fleet_has_a_shard_and_a_gateway() -> None:
    needs = needs_of(Fleet(members=1, groups=1, heartbeat_interval_s=3, commit_interval_s=5), {10: SLOPES})
    assert (needs.shards, needs.gateways) == (1, 1)


def test_the_page_shows_what_follows_from_the_committed_slopes() -> None:
    measured, page = read_slopes(), SIZING_PAGE.read_text()
    assert f"{computed_from(FLEETS, measured)}\n\n{needs_table(FLEETS, measured)}" in page
    assert f"{runs_of(measured)}\n\n{slopes_table(measured)}" in page


def test_the_run_with_groups_like_the_fleets_counts() -> None:
    measured = {1: replace(SLOPES, group_members=1, gateway_us=400), 10: SLOPES}
    alone = Fleet(members=30_000, groups=20_000, heartbeat_interval_s=3, commit_interval_s=6)
    assert needs_of(alone, measured).gateways == 12
    assert needs_of(replace(alone, groups=4_000), measured).gateways == 6


def test_each_gateway_may_have_a_partition_of_the_responses() -> None:
    small, large = (
        needs_of(Fleet(members=members, groups=members, heartbeat_interval_s=3, commit_interval_s=6), {10: SLOPES})
        for members in (3_000, 300_000)
    )
    assert (small.gateways, small.responses_partitions) == (1, 8)
    assert (large.gateways, large.responses_partitions) == (60, 60)
