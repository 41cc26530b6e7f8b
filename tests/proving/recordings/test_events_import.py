"""A request log as events: what the coordinator would have got, in its order, with the broker's clock."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from coordinator_state import Answer
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import follow
from group_coordinator.proving.recordings.group_requests import GroupRequest, group_requests
from group_coordinator.proving.recordings.kafka_request_log import DeadLetter, RequestLog
from schemas.events import decode_tick
from schemas.java_hash import group_partition
from schemas.messages import JoinGroupResponse, OffsetCommitRequest
from schemas.records_file import Record
from tests.proving.recordings.broker_logs import followed, outputs_of

FIXTURES = Path(__file__).parents[2] / "fixtures" / "recordings"


def imported(path: Path, shard_count: int = 1) -> tuple[EventsImport, list[Record], list[DeadLetter]]:
    letters: list[DeadLetter] = []
    log = RequestLog([path], dead_letter=letters.append)
    log.read()
    events = EventsImport(follow(log, {}), shard_count=shard_count)
    return events, list(events), letters


def requests_in(records: list[Record]) -> list[dict[str, Any]]:
    values = [json.loads(record.value or b"") for record in records if record.key is not None]
    return [value for value in values if value["type"] == "request"]


def change_lines(tmp_path: Path, change: Any, name: str = "crash") -> Path:
    mark = "Completed request:"
    changed = []
    for line in gzip.decompress((FIXTURES / f"{name}.request.log.gz").read_bytes()).decode().splitlines(keepends=True):
        start, end = line.index(mark) + len(mark), line.rindex("}") + 1
        content = json.loads(line[start:end])
        change(content)
        changed.append(line[:start] + json.dumps(content) + line[end:])
    path = tmp_path / "request.log"
    path.write_text("".join(changed))
    return path


def test_a_tick_before_each_request_and_one_at_the_end() -> None:
    events, records, letters = imported(FIXTURES / "crash.request.log.gz")
    assert not letters
    assert (events.counts.events, events.counts.groups) == (137, 6)
    assert [record.offset for record in records] == list(range(len(records)))
    clock_ms = -1
    for record in records:
        assert record.value is not None
        if record.key is None:
            tick = decode_tick(record.value)
            assert tick.clock_ms > clock_ms
            clock_ms = tick.clock_ms
        assert record.timestamp_ms == clock_ms
    assert records[-1].key is None


def test_replayed_they_give_the_broker_s_members_generations_and_leaders() -> None:
    path = FIXTURES / "coop.request.log.gz"
    leaders = [
        (output.response.generation_id, output.response.leader)
        for output in outputs_of(followed(path))
        if isinstance(output, Answer) and isinstance(output.response, JoinGroupResponse) and output.response.members
    ]
    log = RequestLog([path])
    log.read()
    recorded = [
        (answer["generationId"], answer["leader"])
        for request in log.requests()
        if request.api == "JoinGroup" and (answer := json.loads(request.response)).get("members")
    ]
    assert sorted(leaders) == sorted(recorded)


def test_the_same_log_gives_the_same_bytes() -> None:
    assert imported(FIXTURES / "static.request.log.gz")[1] == imported(FIXTURES / "static.request.log.gz")[1]


def test_request_ids_are_unique() -> None:
    _, records, _ = imported(FIXTURES / "churn-0.request.log.gz")
    ids = [value["request_id"] for value in requests_in(records)]
    assert len(set(ids)) == len(ids) == 399


def test_groups_go_to_their_shards_and_every_shard_has_the_last_tick() -> None:
    _, records, _ = imported(FIXTURES / "churn-0.request.log.gz", shard_count=3)
    for record in records:
        if record.key is not None:
            assert record.partition == group_partition(record.key.decode(), 3)
    last = {record.partition: record for record in records}
    assert set(last) == {0, 1, 2}
    assert len({record.value for record in last.values()}) == 1
    for partition in range(3):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(len(offsets)))


def test_requests_that_never_reached_the_group_are_left_out() -> None:
    events, records, _ = imported(FIXTURES / "chaos-a.request.log.gz")
    assert events.counts.set_aside == 3
    assert events.counts.events == len(requests_in(records)) == 348


def test_a_request_that_cannot_be_understood_is_a_dead_letter(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        if content["requestHeader"]["requestApiKey"] == 13:
            del content["request"]["groupId"]

    events, _, letters = imported(change_lines(tmp_path, change))
    assert events.counts.events == 134
    assert events.counts.inferred == 2
    assert [str(letter.reason) for letter in letters] == ["bad_body"] * 3
    assert "groupId" in letters[0].detail


def test_partitions_that_the_broker_refused_are_left_out(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        if content["requestHeader"]["requestApiKey"] == 8:
            content["response"]["topics"][0]["partitions"][0]["errorCode"] = 3

    log = RequestLog([change_lines(tmp_path, change)])
    log.read()
    commits = [
        request
        for logged in log.requests()
        for request in group_requests(logged, "log", log.topic_ids())
        if isinstance(request.request, OffsetCommitRequest)
    ]
    assert len(commits) == 11
    assert all(asked(commit) == answered(commit) for commit in commits)
    assert any(commit.set_aside is not None for commit in commits) or all(asked(commit) for commit in commits)


def asked(commit: GroupRequest) -> list[tuple[str, int]]:
    assert isinstance(commit.request, OffsetCommitRequest)
    return [
        (topic.name, partition.partition_index) for topic in commit.request.topics for partition in topic.partitions
    ]


def answered(commit: GroupRequest) -> list[tuple[str, int]]:
    return [
        (topic["name"], partition["partitionIndex"])
        for topic in commit.response["topics"]
        for partition in topic["partitions"]
    ]


def test_commits_carry_the_topic_ids_that_the_log_tells() -> None:
    _, records, _ = imported(FIXTURES / "crash.request.log.gz")
    commits = [body["body"] for body in requests_in(records) if body["api"] == "OffsetCommit"]
    assert {topic["topic_id"] for commit in commits for topic in commit["topics"]} <= {
        "c984fd3c-bcff-42d5-acce-e8ad1e52c7b1",
        "10e432d0-c879-47d8-b75a-72cd3260ddde",
    }
