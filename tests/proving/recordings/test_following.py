"""A log that is followed tells what the broker did; where it cannot know, it says so and tells nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from group_coordinator.proving.commands.broker_log_report import doubts
from group_coordinator.proving.recordings.following import Following, follow
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.log_doubts import doubts_of
from schemas.history import GroupRecorded, RecordingGap
from tests.proving.recordings.broker_logs import (
    CLUSTERS,
    RECORDINGS,
    Owners,
    followed,
    followed_lines,
    lines_of,
    name_of,
    outputs_of,
    owners_of_broker,
    owners_of_dump,
    owners_told,
    request_logs_of,
)


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_owners_of_every_generation_are_the_broker_s_and_nothing_is_doubted(path: Path) -> None:
    outputs = outputs_of(followed(path))
    assert owners_told(outputs) == owners_of_broker(path)
    assert not [output for output in outputs if isinstance(output, RecordingGap | GroupRecorded)]


LOGGED = [dump for dump in CLUSTERS if request_logs_of(dump)]


NOT_TOLD: dict[str, dict[str, list[int]]] = {"failover-3.7": {"sarama": [5]}}
"""Generations that the brokers wrote and request logs alone do not show. No member ever had generation 5 of `sarama`: a
join overtook the answers to its assignment, which all were REBALANCE_IN_PROGRESS."""
COMPACTED = {"lifecycle-3.4": {"expires": [1]}}
"""Generations whose records the broker has removed from the offsets topic since."""


@pytest.mark.parametrize("dump", LOGGED, ids=lambda dump: dump.name)
def test_owners_in_clusters_are_those_of_the_offsets_topic(dump: Path) -> None:
    name = dump.name.removesuffix(".offsets.jsonl.gz")
    following = followed(*request_logs_of(dump))
    told, stored = _stored(owners_told(outputs_of(following))), _stored(owners_of_dump(dump))
    not_told, compacted = NOT_TOLD.get(name, {}), COMPACTED.get(name, {})
    assert _without(told, compacted) == _without(stored, not_told)
    for group_id, numbers in not_told.items():
        assert {number for number, _ in stored[group_id]} >= set(numbers)


def _without(owners: Owners, left_out: dict[str, list[int]]) -> Owners:
    return {
        group_id: [(number, shares) for number, shares in of_group if number not in left_out.get(group_id, ())]
        for group_id, of_group in owners.items()
    }


def _stored(owners: Owners) -> Owners:
    """Without the empty generation 0: brokers before Kafka 4 keep it in memory."""
    return {
        group_id: [(generation, shares) for generation, shares in of_group if generation or shares]
        for group_id, of_group in owners.items()
    }


# ------------------------------------------------------------------------------------------- logs that are less clean

Change = Callable[[list[str]], list[str]]
LESS_CLEAN = [path for path in RECORDINGS if name_of(path) in ("chaos-a", "coop", "crash", "mixed", "static")]
"""Those that take no time."""


def clients(lines: list[str]) -> list[str]:
    decode = json.JSONDecoder().raw_decode
    client_ids = (
        decode(line, line.index("{"))[0]["requestHeader"]["clientId"] for line in lines if '"JOIN_GROUP"' in line
    )
    return sorted(set(client_ids))


def without_fifths(begin: int, end: int, lines: list[str]) -> list[str]:
    return [*lines[: len(lines) * begin // 5], *lines[len(lines) * end // 5 :]]


def without_client(number: int, lines: list[str]) -> list[str]:
    client_id = clients(lines)[number % len(clients(lines))]
    return [line for line in lines if f'"clientId":"{client_id}"' not in line]


def cuts() -> Iterator[tuple[str, Change]]:
    for part in (1, 2, 3, 4):
        yield f"begins after {part}/5", partial(without_fifths, 0, part)
    for part in (1, 2, 3):
        yield f"without {part}/5 to {part + 1}/5", partial(without_fifths, part, part + 1)
    for number in (0, 1):
        yield f"without client {number}", partial(without_client, number)
    yield "every eleventh line is missing", lambda lines: [line for place, line in enumerate(lines) if place % 11]
    yield "ends after 3/5", lambda lines: lines[: len(lines) * 3 // 5]


def assert_tells_nothing_wrong(following: Following, broker: Owners) -> None:
    for group_id, generations in owners_told(outputs_of(following)).items():
        for generation, owners in generations:
            # That all of its members are gone is told of a group of which nothing is heard any more.
            if owners or (generation, owners) != generations[-1]:
                assert (generation, owners) in broker[group_id], (
                    f"{group_id}: generation {generation} was not like this"
                )


@pytest.mark.parametrize("path", LESS_CLEAN, ids=name_of)
@pytest.mark.parametrize(("what", "change"), [pytest.param(*cut, id=cut[0]) for cut in cuts()])
def test_a_log_with_lines_missing_tells_nothing_wrong(path: Path, what: str, change: Change, tmp_path: Path) -> None:
    assert_tells_nothing_wrong(followed_lines(tmp_path, change(lines_of(path))), owners_of_broker(path))


@pytest.mark.parametrize("path", LESS_CLEAN, ids=name_of)
def test_an_assignment_that_is_missing_is_told_or_doubted(path: Path, tmp_path: Path) -> None:
    lines, broker = lines_of(path), owners_of_broker(path)
    for place in [place for place, line in enumerate(lines) if '"SYNC_GROUP"' in line]:
        file = tmp_path / "changed.request.log"
        file.write_text("".join(lines[:place] + lines[place + 1 :]))
        log = RequestLog([file])
        log.read()
        following = follow(log, {})
        is_told = owners_told(outputs_of(following)) == broker
        assert is_told or doubts_of(log) or doubts(following, UTC), f"line {place + 1} is missing"
