"""The settings of consumer groups: Kafka's defaults, bounds, and what Kafka does not start with."""

import pytest

from coordinator_state import GroupConfig


def test_kafkas_defaults_are_valid() -> None:
    config = GroupConfig()
    assert config.problems() == []
    assert config.consumer_assignors == ("uniform", "range")
    assert (config.may_upgrade, config.may_downgrade, config.takes_classic_members) == (True, True, True)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"group_consumer_session_timeout_ms": 44_999}, "group_consumer_session_timeout_ms is 44999"),
        ({"group_consumer_heartbeat_interval_ms": 15_001}, "group_consumer_heartbeat_interval_ms is 15001"),
        ({"group_consumer_assignment_interval_ms": 15_001}, "group_consumer_assignment_interval_ms is 15001"),
        (
            {"group_consumer_heartbeat_interval_ms": 45_000, "group_consumer_max_heartbeat_interval_ms": 45_000},
            "is not smaller than group_consumer_session_timeout_ms",
        ),
        ({"group_consumer_migration_policy": "sideways"}, "must be one of bidirectional"),
        ({"group_consumer_assignors": "range,range"}, "each once"),
        ({"group_consumer_assignors": ""}, "each once"),
        ({"group_consumer_regex_refresh_interval_ms": 9_999}, "at least 10000"),
    ],
)
def test_what_kafka_does_not_start_with(settings: dict[str, int | str], problem: str) -> None:
    problems = GroupConfig(**settings).problems()  # type: ignore[arg-type]
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("Upgrade", (True, False, True)), ("downgrade", (False, True, True)), ("DISABLED", (False, False, False))],
)
def test_policies(policy: str, expected: tuple[bool, bool, bool]) -> None:
    config = GroupConfig(group_consumer_migration_policy=policy)
    assert (config.may_upgrade, config.may_downgrade, config.takes_classic_members) == expected
