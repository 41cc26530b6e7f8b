"""No request names the session timeout of consumer groups' members: answers show it, or it is said to be not known."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from group_coordinator.proving.recordings.consumer_group_settings import NOT_KNOWN
from group_coordinator.proving.recordings.following import Following
from group_coordinator.proving.recordings.group_requests import GroupRequest
from schemas.history import MemberExpired, MemberLeft
from schemas.observed_history import MemberGone
from tests.proving.recordings.broker_logs import (
    CLUSTERS,
    followed,
    followed_lines,
    lines_of,
    outputs_of,
    request_logs_of,
)

TIMEOUTS_MS = {"rack-4.0": 10_000, "hanging-4.1": 10_000, "consumer-protocol": 45_000, "transactions": 45_000}
_DESCRIBE = '"CONSUMER_GROUP_DESCRIBE"'


def _logs(name: str) -> list[Path]:
    [dump] = [dump for dump in CLUSTERS if dump.name == f"{name}.offsets.jsonl.gz"]
    return request_logs_of(dump)


def _whole(name: str) -> Following:
    return followed(*_logs(name))


@cache
def _not_described(name: str) -> Following:
    """Follow a recording into which no admin client has looked."""
    [path] = _logs(name)
    with tempfile.TemporaryDirectory() as directory:
        return followed_lines(Path(directory), [line for line in lines_of(path) if _DESCRIBE not in line])


@pytest.mark.parametrize("name", TIMEOUTS_MS)
def test_a_session_timeout_is_inferred_from_who_is_gone(name: str) -> None:
    settings = _whole(name).settings
    assert settings.config.group_consumer_session_timeout_ms == TIMEOUTS_MS[name]
    assert settings.is_session_timeout_known


@pytest.mark.parametrize("name", TIMEOUTS_MS)
def test_where_nothing_shows_it_that_is_said(name: str) -> None:
    following = _not_described(name)
    assert not following.settings.is_session_timeout_known
    assert any(NOT_KNOWN in note for note in following.settings.notes)
    consumer_groups = {group.group_id for group in following.groups if _has_consumer_members(group.requests)}
    for record in outputs_of(following):
        if isinstance(record, MemberGone):
            assert (record.cause.certainty, record.cause.offset) == ("not_known", -1)
        elif isinstance(record, MemberExpired) and record.group_id in consumer_groups:
            assert "-" in record.member.member_id, "a classic member has told its session timeout"


@pytest.mark.parametrize("name", ["rack-4.0", "hanging-4.1"])
def test_groups_are_followed_all_the_same(name: str) -> None:
    for following in (_whole(name), _not_described(name)):
        assert [part.gap for group in following.groups for part in group.parts if part.gap is not None] == []


@pytest.mark.parametrize("name", TIMEOUTS_MS)
def test_the_same_members_go(name: str) -> None:
    def gone(following: Following) -> list[tuple[str, str, bool]]:
        return sorted(
            (record.group_id, record.member.member_id, isinstance(record, MemberLeft))
            for record in outputs_of(following)
            if isinstance(record, MemberLeft | MemberExpired | MemberGone)
        )

    assert gone(_not_described(name)) == gone(_whole(name))


def _has_consumer_members(requests: Iterable[GroupRequest]) -> bool:
    return any(request.logged.api == "ConsumerGroupHeartbeat" for request in requests)
