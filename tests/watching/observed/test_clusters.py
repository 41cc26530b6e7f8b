"""Recordings of real clusters: what is made of their evidence is what polls, members and the driver saw."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from random import Random

import pytest

from group_coordinator.watching.narrative.rebalances import rebalances as explained
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import LogRecord
from schemas.consumer_group_history import GroupConverted, GroupEpochBumped
from schemas.events import encode_json
from schemas.history import (
    GroupEmpty,
    GroupRecorded,
    History,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberLeft,
    RebalanceStarted,
)
from tests.watching.observed.recorded import (
    CLUSTERS,
    entries,
    epoch_at,
    is_known_at,
    lines,
    members_at,
    observed,
    offsets_over_time,
    owners_at,
    polls,
    quiet_polls,
    rebalances,
    truth,
)

CLASSIC = [
    *("old-2.8", "old-3.9", "three-brokers", "connect"),
    *("roll-4.2", "failover-3.7", "lifecycle-3.4", "orphan-4.2"),
]
COMPACTED = ["lifecycle-3.4"]
"""Their dumps do not have all records: what those said that are gone is not known."""
REPLICATED = ["failover-3.7", "orphan-4.2"]
REPLICATED_MS = 35_000
"""Where a replica was missing, a coordinator of 3.x told so long of a commit that it does not have, which its log has:
until another commit came."""
CONVERTED = ["migration", "migration-refused", "transactions", "rack-4.0", "hanging-4.1"]
"""With groups of both protocols, and some that go from one to the other."""
ALL = [*CLASSIC, *CONVERTED, "consumer-protocol"]
NO_MEMBERS = {("hanging-4.1", "tx-b")}
"""They were killed when they were none any more: their sessions had ended while they hung."""
PREPARING = re.compile(
    r"Preparing to rebalance group (.+) in state \w+ with old generation (\d+) .*?"
    r"\(reason: (.*?)(?:; client reason: .*)?\)\.? \("
)
LOGS = pytest.mark.parametrize("with_logs", [True, False], ids=["with-logs", "without-logs"])


@LOGS
@pytest.mark.parametrize("name", [*ALL, "share-streams"])
def test_owners_are_those_of_the_polls(name: str, with_logs: bool) -> None:
    checked = 0
    for poll in quiet_polls(name):
        if poll.group["protocol_type"] == "connect":  # an admin client does not know tasks
            continue
        if name in COMPACTED and not is_known_at(name, poll.group_id, poll.at_ms, with_logs=with_logs):
            assert owners_at(name, poll.group_id, poll.at_ms, with_logs=with_logs) == set()
            continue
        assert owners_at(name, poll.group_id, poll.at_ms, with_logs=with_logs) == poll.owners
        checked += 1
    assert checked > 40


@pytest.mark.parametrize("name", [*CONVERTED, "consumer-protocol", "share-streams"])
def test_groups_members_and_epochs_are_those_of_the_polls(name: str) -> None:
    checked = 0
    for poll in quiet_polls(name):
        epoch = poll.group.get("group_epoch")
        if epoch is None:
            continue
        members = {member["member_id"] for member in poll.group["members"]}
        moments = (poll.at_ms, poll.until_ms)
        assert (epoch, members) in [
            (epoch_at(name, poll.group_id, at), members_at(name, poll.group_id, at)) for at in moments
        ]
        checked += 1
    assert checked > 10


@pytest.mark.parametrize("name", ALL)
def test_committed_offsets_are_those_of_the_polls(name: str) -> None:
    over_time = offsets_over_time(name)
    for poll in polls(name):
        for place, offset in poll.group.get("offsets", {}).items():
            changes = over_time.get((poll.group_id, place), [])
            since_ms = poll.at_ms - (REPLICATED_MS if name in REPLICATED else 0)
            before = [offset for time_ms, offset in changes if time_ms <= since_ms][-1:] or [None]
            during = [offset for time_ms, offset in changes if since_ms <= time_ms <= poll.until_ms]
            if name in COMPACTED and before == [None]:
                continue  # the record of this offset is gone
            assert offset in (*before, *during)


@pytest.mark.parametrize("name", ALL)
def test_each_rebalance_that_is_told_is_there_with_its_reason_and_none_is_invented(name: str) -> None:
    expected: Counter[tuple[str, int, str]] = Counter()
    for path in CLUSTERS.glob(f"{name}.*server.log.gz"):
        with gzip.open(path, "rt") as file:
            expected.update((match[1], int(match[2]), match[3]) for match in map(PREPARING.search, file) if match)
    observed_rebalances = [
        rebalance
        for rebalance in rebalances(name, with_logs=True)
        if (rebalance.group_id, rebalance.seq) not in _of_epochs(name)
    ]
    assert (
        Counter(
            (rebalance.group_id, rebalance.generation_before, rebalance.reason) for rebalance in observed_rebalances
        )
        == expected
    )
    for rebalance in observed_rebalances:
        assert rebalance.trigger != "not_known"
        assert (
            rebalance.member_id is None
            or rebalance.member_id in rebalance.reason
            or rebalance.trigger == "group_converted"
        )


def _of_epochs(name: str) -> set[tuple[str, int]]:
    """Return the rebalances of consumer groups, of which no log gives reasons."""
    started: dict[str, int] = {}
    of_epochs = set()
    for record in observed(name, with_logs=True).history:
        if isinstance(record, RebalanceStarted):
            started[record.group_id] = record.seq
        elif isinstance(record, GroupEpochBumped):
            of_epochs.add((record.group_id, started[record.group_id]))
    return of_epochs


@LOGS
@pytest.mark.parametrize("name", ALL)
def test_each_generation_that_left_a_record_is_there(name: str, with_logs: bool) -> None:
    stored = {
        (record.group_id, record.value["generation"])
        for record in entries(name)
        if isinstance(record, LogRecord) and record.name == "GroupMetadata" and record.value and record.value["members"]
    }
    recorded = observed(name, with_logs=with_logs).history
    generations = {
        (rebalance.group_id, rebalance.generation_after) for rebalance in rebalances(name, with_logs=with_logs)
    }
    begun = GroupRecorded | GroupConverted
    generations |= {(record.group_id, record.generation_id) for record in recorded if isinstance(record, begun)}
    assert stored <= generations


@pytest.mark.parametrize("name", CLASSIC)
def test_without_logs_no_cause_is_claimed(name: str) -> None:
    assert {rebalance.trigger for rebalance in rebalances(name, with_logs=False)} == {"not_known"}
    types = Counter(type(record).__name__ for record in observed(name, with_logs=False).history)
    assert not types.keys() & {"MemberExpired", "MemberLeft", "MemberDropped", "MemberFenced"}
    assert types["MemberGone"] > 0


@pytest.mark.parametrize(
    ("action", "ways"),
    [("kill", (MemberExpired, MemberDropped)), ("stop", (MemberLeft, MemberExpired))],
)
@pytest.mark.parametrize("name", ALL)
def test_what_the_driver_did_is_found_in_the_causes(name: str, action: str, ways: tuple[type[History], ...]) -> None:
    """But for members that came back in time, and those of which nothing was told before the recording ended. A member
    may also have been forgotten by a new coordinator before it expired."""
    starts = [start for start in truth(name) if start["action"] == "start"]
    history = observed(name, with_logs=True).history
    for done in (done for done in truth(name) if done["action"] == action and "group" in done):
        if (name, done["client_id"]) in NO_MEMBERS:
            continue
        if any(start["client_id"] == done["client_id"] and start["at_ms"] > done["at_ms"] for start in starts):
            continue
        after = [
            record
            for record in history
            if record.group_id == done["group"] and record.timestamp_ms > done["at_ms"] - 500
        ]
        departures = [
            record for record in after if isinstance(record, ways) and _name(record).startswith(done["client_id"])
        ]
        of_group = [record for record in history if record.group_id == done["group"]]
        all_rebalances = list(explained(of_group))
        after_it = [each for each in all_rebalances if each.started.timestamp_ms > done["at_ms"] - 500]
        rebalanced = [record.seq for each in all_rebalances for record in (*each.causes, *each.steps)]
        rebalanced += [record.seq for record in departures if getattr(record, "reason", "") == "not_stored"]
        empty = any(isinstance(record, GroupEmpty) for record in after)
        assert departures or not after_it, done
        assert empty or not departures or any(record.seq in rebalanced for record in departures), done


def _name(record: History) -> str:
    """Return the client id of the member that a record is about, or the member id that has it in front."""
    member = getattr(record, "member", None)
    assert isinstance(member, MemberIdentity)
    return member.client_id or member.member_id


@pytest.mark.parametrize("name", ALL)
def test_the_history_is_a_function_of_the_set_of_records_and_lines(name: str) -> None:
    ordered, shuffled = lines(name), list(lines(name))
    Random(7).shuffle(shuffled)
    once = [encode_json(record) for record in observe(entries(name), ordered, {}).history]
    again = [encode_json(record) for record in observe(entries(name), [*shuffled, *shuffled[:20]], {}).history]
    assert again == once
