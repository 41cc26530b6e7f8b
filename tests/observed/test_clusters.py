"""Recordings of real clusters: what is made of their evidence is what polls, members and the driver saw."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from random import Random

import pytest

from group_coordinator.observed.broker_lines import RebalancePrepared
from group_coordinator.observed.cluster import observe
from group_coordinator.observed.offsets_log import LogRecord
from schemas.events import encode_json
from schemas.history import GroupRecorded
from tests.observed.recorded import (
    CLUSTERS,
    entries,
    lines,
    observed,
    offsets_over_time,
    owners_at,
    polls,
    quiet_polls,
    rebalances,
    truth,
)

CLASSIC = ["old-2.8", "old-3.9", "three-brokers", "connect"]
PREPARING = re.compile(
    r"Preparing to rebalance group (\S+) in .*old generation (\d+) .*?\(reason: (.*?)(?:; client reason: .*)?\)\.? \("
)
LOGS = pytest.mark.parametrize("with_logs", [True, False], ids=["with-logs", "without-logs"])


@LOGS
@pytest.mark.parametrize("name", CLASSIC)
def test_owners_are_those_of_the_polls(name: str, with_logs: bool) -> None:
    checked = 0
    for poll in quiet_polls(name):
        if poll.group["protocol_type"] != "connect":  # an admin client does not know tasks
            assert owners_at(name, poll.group_id, poll.at_ms, with_logs=with_logs) == poll.owners
            checked += 1
    assert checked > 40


@pytest.mark.parametrize("name", CLASSIC)
def test_committed_offsets_are_those_of_the_polls(name: str) -> None:
    over_time = offsets_over_time(name)
    for poll in polls(name):
        for place, offset in poll.group.get("offsets", {}).items():
            changes = over_time.get((poll.group_id, place), [])
            before = [each for time_ms, each in changes if time_ms <= poll.at_ms][-1:] or [None]
            during = [each for time_ms, each in changes if poll.at_ms <= time_ms <= poll.until_ms]
            assert offset in (*before, *during)


@pytest.mark.parametrize("name", CLASSIC)
def test_each_rebalance_that_is_told_is_there_with_its_reason_and_none_is_invented(name: str) -> None:
    told: Counter[tuple[str, int, str]] = Counter()
    for path in CLUSTERS.glob(f"{name}.*server.log.gz"):
        with gzip.open(path, "rt") as file:
            told.update((found[1], int(found[2]), found[3]) for found in map(PREPARING.search, file) if found)
    ours = [each for each in rebalances(name, with_logs=True) if each.trigger != "not_known"]
    assert Counter((each.group_id, each.generation_before, each.reason) for each in ours) == told
    for each in ours:
        assert each.member_id is None or each.member_id in each.reason


@LOGS
@pytest.mark.parametrize("name", CLASSIC)
def test_each_generation_that_left_a_record_is_there(name: str, with_logs: bool) -> None:
    stored = {
        (each.group_id, each.value["generation"])
        for each in entries(name)
        if isinstance(each, LogRecord) and each.name == "GroupMetadata" and each.value and each.value["members"]
    }
    recorded = observed(name, with_logs=with_logs).history
    shown = {(each.group_id, each.generation_after) for each in rebalances(name, with_logs=with_logs)}
    shown |= {(each.group_id, each.generation_id) for each in recorded if isinstance(each, GroupRecorded)}
    assert stored <= shown


@pytest.mark.parametrize("name", CLASSIC)
def test_without_logs_no_cause_is_claimed(name: str) -> None:
    assert {each.trigger for each in rebalances(name, with_logs=False)} == {"not_known"}
    types = Counter(type(each).__name__ for each in observed(name, with_logs=False).history)
    assert not types.keys() & {"MemberExpired", "MemberLeft", "MemberDropped", "MemberFenced"}
    assert types["MemberGone"] > 0


@pytest.mark.parametrize(("action", "triggers"), [("kill", {"member_expired"}), ("stop", {"member_left", "member_expired"})])
@pytest.mark.parametrize("name", CLASSIC)
def test_what_the_driver_did_is_found_in_the_causes(name: str, action: str, triggers: set[str]) -> None:
    """But for members that came back in time, and those of which the brokers had told nothing when the recording ended."""
    began = [each for each in truth(name) if each["action"] == "start"]
    for done in (each for each in truth(name) if each["action"] == action and "group" in each):
        back = [each for each in began if each["client_id"] == done["client_id"] and each["at_ms"] > done["at_ms"]]
        window_ms = range(done["at_ms"] - 500, done["at_ms"] + 25_000)
        causes = [
            each
            for each in rebalances(name, with_logs=True)
            if each.group_id == done["group"] and each.started_ms in window_ms and each.trigger in triggers
        ]
        later = [each.event for each in lines(name) if each.time_ms > done["at_ms"]]
        seen = any(isinstance(each, RebalancePrepared) and each.group_id == done["group"] for each in later)
        assert back or not seen or any((each.client_id or "").startswith(done["client_id"]) for each in causes), done


@pytest.mark.parametrize("name", CLASSIC)
def test_the_history_is_a_function_of_the_set_of_records_and_lines(name: str) -> None:
    told, shuffled = lines(name), list(lines(name))
    Random(7).shuffle(shuffled)
    once = [encode_json(each) for each in observe(entries(name), told, {}).history]
    again = [encode_json(each) for each in observe(entries(name), [*shuffled, *shuffled[:20]], {}).history]
    assert again == once
