"""Who owned what at a moment: held against what an admin client saw then."""

from __future__ import annotations

import re
from datetime import UTC

import pytest

from group_coordinator.watching.commands.owners_at import owner_lines, owners_at
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.observer import Observer
from tests.watching.observed.recorded import Poll, entries, quiet_polls
from tests.watching.observed.recorded import lines as lines_of

HEADER = "TOPIC PARTITIONS OWNER HOST SINCE"


def told(lines: list[str]) -> set[tuple[str, str]]:
    """Return partitions and the names of their owners, as the table has them. A partition that is gone is not known."""
    assert lines[0].startswith("Owners at ")
    assert lines[1].split() == HEADER.split()
    rows = [re.split(" {2,}", line) for line in lines[2:]]
    return {
        (f"{row[0]}-{number}", row[2])
        for row in rows
        for number in numbers_of(row[1])
        if row[2] not in ("nobody", "not known")
    }


def numbers_of(ranges: str) -> list[int]:
    parts = [part.split("-") for part in ranges.split(", ")]
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


def seen(poll: Poll) -> set[tuple[str, str]]:
    return {(place, words.name(member_id)) for place, member_id in poll.owners}


@pytest.mark.parametrize("name", ["lifecycle-3.4", "roll-4.2"])
def test_owners_are_those_that_an_admin_client_saw(name: str) -> None:
    observer = Observer()
    observer.add_records(entries(name))
    observer.add_lines(lines_of(name))
    histories = {group_id: tuple(observer.kept_of(group_id).follow()[1]) for group_id in observer.group_ids()}
    polls = [poll for poll in quiet_polls(name) if poll.owners]
    assert len(polls) > 20
    for poll in polls[:: len(polls) // 20]:
        owners = owners_at(histories[poll.group_id], poll.at_ms)
        named = {(f"{each.topic}-{each.partition}", each.member_id) for each in owners if each.member_id is not None}
        assert named == poll.owners, (poll.group_id, poll.at_ms)
        assert told(list(owner_lines(owners, poll.at_ms, UTC))) == seen(poll), (poll.group_id, poll.at_ms)


def test_before_anybody_owned_anything() -> None:
    observer = Observer()
    observer.add_records(entries("lifecycle-3.4"))
    for group_id in observer.group_ids():
        assert owners_at(tuple(observer.kept_of(group_id).follow()[1]), 0) == []
