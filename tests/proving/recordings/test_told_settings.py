"""Settings of the recorded broker: what its log tells counts more than what its answers show, what is given most."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator_state import LogRecord
from group_coordinator.proving.commands.broker_log_report import keep_settings, kept_settings
from group_coordinator.proving.recordings.broker_settings import Setting, parse_settings, settings_of
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.recording import verify_recording
from schemas.consumer_group_messages import LEAVE_EPOCH
from schemas.messages import JoinGroupRequest
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type, subscription
from tests.proving.recordings.broker_logs import FIXTURES
from tests.proving.recordings.logged_histories import group_request

MIGRATION = FIXTURES / "clusters" / "migration.request.log.gz"
LOG = """\
[2026-11-22 18:14:38,612] INFO KafkaConfig values:
\tgroup.consumer.assignors = [range, uniform]
\tgroup.consumer.migration.policy = upgrade
\tgroup.consumer.min.session.timeout.ms = 6000
\tgroup.consumer.session.timeout.ms = 7000
\tgroup.coordinator.threads = 4
\tgroup.max.size = many
\toffsets.retention.check.interval.ms = 600000
\toffsets.topic.num.partitions = 3
 (org.apache.kafka.common.config.AbstractConfig)
"""


def test_a_log_s_settings_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    told = [setting for setting in verify_recording(MIGRATION, broker_logs=[path]).settings if "log tells" in setting]
    assert sorted(told) == [
        "group.consumer.assignors = range,uniform (as the broker's log tells)",
        "group.consumer.migration.policy = upgrade (as the broker's log tells)",
        "group.consumer.min.session.timeout.ms = 6000 (as the broker's log tells)",
        "group.consumer.session.timeout.ms = 7000 (as the broker's log tells)",
        "offsets.topic.num.partitions = 3 (as the broker's log tells)",
    ]


def test_no_initial_delay_takes_a_moment_too() -> None:
    """The broker's timer of nothing fires behind the requests that wait already."""
    settings = settings_of({}, {}, {}, {"group.initial.rebalance.delay.ms": "0"})
    assert settings.config.group_initial_rebalance_delay_ms == 1
    assert "group.initial.rebalance.delay.ms = 0 (as the broker's log tells)" in settings.notes


@pytest.mark.parametrize(
    ("given", "told", "expected"),
    [
        ({}, {}, 45_000),
        ({}, {"group.consumer.session.timeout.ms": "50000"}, 50_000),
        ({"group.consumer.session.timeout.ms": "55000"}, {"group.consumer.session.timeout.ms": "50000"}, 55_000),
    ],
)
def test_what_is_given_counts_most(given: Mapping[str, str], told: Mapping[str, str], expected: int) -> None:
    assert settings_of(parse_settings(given), {}, {}, told).config.group_consumer_session_timeout_ms == expected


@pytest.mark.parametrize(("took_us", "expected"), [(1_200, 0), (31_000, 0), (104_000, 100), (3_004_000, 3_000)])
def test_an_initial_delay_of_a_few_milliseconds_is_none(took_us: int, expected: int) -> None:
    """A broker takes as long without one, and longer if somebody wrote the log who sits before it."""
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=6_000, member_id="m", protocol_type="consumer", protocols=()
    )
    answer = {"errorCode": 0, "generationId": 1, "memberId": "m", "members": [{"memberId": "m"}]}
    request = group_request(join, answer, 1)
    request = replace(
        request, new_member_id="m", logged=replace(request.logged, ready_us=request.logged.handled_us + took_us)
    )
    assert settings_of({}, {"g": [request]}, {}).config.group_initial_rebalance_delay_ms == expected


@pytest.mark.parametrize("kind", ["classic", "consumer"])
@pytest.mark.parametrize("converts", [False, True])
def test_a_group_that_is_converted_is_not_one_that_a_retention_check_removed(kind: str, converts: bool) -> None:
    """Either has a tombstone for the record of its kind."""
    group = ConsumerHarness()
    if kind == "classic":
        group.stable("m", protocols={"range": subscription("foo")})
    else:
        group.joins("native", "foo")
    if converts and kind == "classic":
        group.joins("native", "foo")
    elif converts:
        group.add("m", protocols={"range": subscription("foo")})
        group.told("native", LEAVE_EPOCH)
        assert group.classic.members
    else:
        group.told("native", LEAVE_EPOCH)
        group.leave("m")
        group.sleep(600_000)
        assert group.group is None
    records = [
        LoggedRecord(
            partition=0, offset=offset, timestamp_ms=record.time_ms, group_id="g", key=record.key, value=record.value
        )
        for offset, record in enumerate(of_type(group.outputs, LogRecord))
    ]
    notes = settings_of({}, {}, {"g": records}).notes
    assert ("no retention check removed a group, so none is replayed" in notes) == converts


def test_another_policy_than_the_broker_s_is_a_difference() -> None:
    report = verify_recording(MIGRATION, config={"group.consumer.migration.policy": "disabled"})
    assert not report.agrees
    with pytest.raises(ValueError, match="group_consumer_migration_policy"):
        verify_recording(MIGRATION, config={"group.consumer.migration.policy": "sometimes"})


def test_settings_of_every_kind_are_kept_beside_events(tmp_path: Path) -> None:
    values: dict[str, Setting] = {
        "group_consumer_assignors": "range,uniform", "group_consumer_hash_order": True, "group_max_size": 3
    }  # fmt: skip
    keep_settings(tmp_path / "events.jsonl", values)
    kept: dict[str, Any] = dict(kept_settings([tmp_path / "events.jsonl"]))
    assert kept == values
    assert kept["group_consumer_hash_order"] is True
