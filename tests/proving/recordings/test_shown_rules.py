"""Which decisions of Kafka 4.4 a log shows, each by itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.kafka_versions import KAFKA_VERSIONS, RULES, name_with, rules_named
from group_coordinator.proving.recordings.broker_settings import settings_of
from group_coordinator.proving.recordings.shown_rules import shown_rules
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.messages import JoinGroupProtocol, JoinGroupRequest, Request
from tests.proving.recordings.broker_logs import FIXTURES
from tests.proving.recordings.logged_histories import group_request, records_in

OF_4_3 = FIXTURES / "consumer_histories"
OF_4_4 = FIXTURES / "kafka_4_4" / "differing.jsonl.gz"


def history(path: Path, name: str) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        return next(found for found in map(json.loads, file) if found["name"] == name)


@pytest.mark.parametrize(
    ("rule", "family", "name"),
    [
        ("emptied_group_ends_assignment", "boundary", "session-deadline"),
        ("transactional_commits_have_topic_ids", "txn", "authorization-2"),
        ("assignor_vote_raises_epoch", "boundary", "assignor-votes"),
    ],
)
def test_records_show_a_rule(rule: str, family: str, name: str) -> None:
    found = [history(OF_4_4, name)]
    for path in sorted(OF_4_3.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            found += [each for each in map(json.loads, file) if each["name"] == name]
    assert [shown_rules(records_in(each), {})[rule][0] for each in found] == [True, False]


FULL, RELEASED_LATER, NONE, UNKNOWN, INCONSISTENT = 81, 111, 0, -1, 23


def beat(member_id: str, epoch: int, instance_id: str | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, instance_id=instance_id
    )


def shown_by(*asked: tuple[Request, int]) -> dict[str, bool]:
    requests = [group_request(request, {"errorCode": code}, second) for second, (request, code) in enumerate(asked)]
    return {rule: holds for rule, (holds, _) in shown_rules({}, {"g": requests}).items()}


@pytest.mark.parametrize(("code", "holds"), [(NONE, True), (RELEASED_LATER, True), (FULL, False)])
def test_a_full_group_shows_a_rule(code: int, holds: bool) -> None:
    asked = [(beat("a", 0, "i"), NONE), (beat("b", 0), FULL), (beat("a", -2, "i"), NONE)]
    shown = shown_by(*asked, (beat("c", 0, "i"), code))
    assert shown == {"full_group_takes_known_instances": holds}


def test_a_group_that_has_room_shows_none() -> None:
    asked = [(beat("a", 0, "i"), NONE), (beat("b", 0), FULL), (beat("c", -1), NONE)]
    assert shown_by(*asked, (beat("d", 0, "i"), NONE)) == {}
    assert shown_by((beat("b", 0, "j"), FULL)) == {}


@pytest.mark.parametrize(("code", "holds"), [(INCONSISTENT, True), (UNKNOWN, False)])
def test_a_malformed_subscription_shows_a_rule(code: int, holds: bool) -> None:
    protocols = (JoinGroupProtocol(name="range", metadata=b"\0"),)
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=protocols
    )
    assert shown_by((beat("a", 0), NONE), (join, code)) == {"malformed_subscription_is_inconsistent": holds}
    assert shown_by((join, code)) == {}  # a group of the classic protocol


def test_a_broker_between_two_versions() -> None:
    records = records_in(history(OF_4_4, "session-deadline"))
    shown = KAFKA_VERSIONS["4.3"], "as the answers to ApiVersions show"
    settings = settings_of({}, {}, records, shown=shown)
    assert settings.config.kafka_rules == "4.3+emptied_group_ends_assignment"
    (note,) = [note for note in settings.notes if note.startswith("kafka.rules")]
    assert "the target of a group that becomes empty is ended" in note


def test_names_of_rules() -> None:
    assert len(RULES) >= 5
    for rule in RULES:
        name = name_with(KAFKA_VERSIONS["4.4"], {rule: False})
        assert name == f"4.4-{rule}"
        habits, habits_of_4_4 = rules_named(name)._asdict(), KAFKA_VERSIONS["4.4"]._asdict()
        assert habits == {**habits_of_4_4, "name": name, rule: False}
    assert name_with(KAFKA_VERSIONS["4.4"], dict.fromkeys(RULES, True)) == "4.4"
    for wrong in ("4.9", "4.3+", "4.3+has_metadata_hash", "next"):
        with pytest.raises(ValueError, match=r"^kafka_rules "):
            rules_named(wrong)
