"""Kafka 4.3.1's own coordinator, history by history: how the core is compared with it.

That all histories are reproduced is a test of `tests/coordinating/responder/test_recorded_logs.py`, which goes on with
what the core said."""

import gzip
import json
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import pytest

from schemas.kafka.json_form import uuid_to_json
from schemas.records import OffsetCommitKey, OffsetCommitValue
from tests.encoded_records import encode_key, encode_offset_commit_value
from tests.proving.recordings.forgetful_coordinator import ForgetfulCoordinator
from tests.verify_history import histories
from tests.verify_history.histories import merge_patch, verify_histories

FOLDER = Path(__file__).parents[1] / "fixtures" / "histories"
FAMILIES = sorted(FOLDER.glob("*.jsonl.gz"))


def test_all_families_are_there() -> None:
    assert len(FAMILIES) == 24


@pytest.mark.parametrize("family", ["soup", "static_restart", "expiry", "offsets", "long_rebalance"])
def test_nothing_but_the_blobs_is_needed_between_steps(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "Coordinator", ForgetfulCoordinator)
    report = verify_histories([FOLDER / f"{family}.jsonl.gz"])
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []


def test_a_difference_is_found_and_told(tmp_path: Path) -> None:
    with gzip.open(FOLDER / "single_member.jsonl.gz", "rt") as file:
        recorded = json.loads(file.readline())
    step = next(step for step in recorded["steps"] if step.get("answers"))
    step["answers"][0]["response"]["errorCode"] = 99
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(recorded) + "\n")
    report = verify_histories([path])
    assert report.summary().endswith("1 differences")
    report_text = "\n".join(report.differences[0].lines())
    assert recorded["name"] in report_text
    assert '"errorCode": 99' in report_text


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text('{"name": "x"}\n')
    with pytest.raises(ValueError, match="line 1: not a recorded history"):
        verify_histories([path])


def test_merge_patch() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "e": 4}) == {"a": {"c": 2}, "d": 3, "e": 4}


def _offset_record(at_ms: int, partition: int, topic_id: str | None, offset: int) -> dict[str, object]:
    """A commit of group g for topic t, or its tombstone (without a topic id)."""
    key = encode_key(OffsetCommitKey("g", "t", partition))
    value = OffsetCommitValue(offset=offset, commit_timestamp_ms=at_ms, topic_id=topic_id)
    encoded = None if topic_id is None else b64encode(encode_offset_commit_value(value, 4)).decode()
    return {
        "at_ms": at_ms, "type": "OffsetCommit",
        "key": {"group": "g", "topic": "t", "partition": partition}, "key_b64": b64encode(key).decode(),
        "value": None if encoded is None else {"offset": offset}, "value_b64": encoded,
    }  # fmt: skip


def _commit(step: int, at_ms: int, topic_id: str, offset: int) -> dict[str, object]:
    partitions = [{"partitionIndex": 0, "committedOffset": offset, "committedLeaderEpoch": -1, "committedMetadata": ""}]
    request = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "groupInstanceId": None}
    answer = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]}
    return {
        "id": step, "at_ms": at_ms, "api": "OffsetCommit", "version": 9, "client_id": "c",
        "request": {**request, "topics": [{"name": "t", "partitions": partitions}]},
        "answers": [{"id": step, "at_ms": at_ms, "response": answer}],
        "records": [_offset_record(at_ms, 0, topic_id, offset)],
    }  # fmt: skip


def test_a_topic_that_goes_and_comes_back_with_another_id(tmp_path: Path) -> None:
    """A step may change the cluster's topics; from then on the named ones exist and no others."""
    old, new = str(UUID(int=1)), str(UUID(int=2))

    def cluster(step: int, at_ms: int, *topics: str) -> dict[str, object]:
        topic_documents = [
            {"name": "t", "topic_id": uuid_to_json(UUID(topic).bytes), "partitions": 1} for topic in topics
        ]
        return {"id": step, "at_ms": at_ms, "cluster": {"version": step, "topics": topic_documents}, "answers": []}

    steps = [
        cluster(0, 1_000, old),
        _commit(1, 2_000, old, 50) | {"groups": {"g": {"state": "Empty", "state_since_ms": 2_000, "generation": 0}}},
        cluster(2, 3_000, new) | {"records": [_offset_record(3_000, 0, None, 0)]},
        _commit(3, 4_000, new, 7),
        cluster(4, 5_000, new),
        cluster(5, 6_000) | {"records": [_offset_record(6_000, 0, None, 0)]},
    ]
    path = tmp_path / "topics.jsonl"
    path.write_text(json.dumps({"name": "topics", "config": {"start_ms": 0}, "steps": steps}) + "\n")
    report = verify_histories([path])
    assert [line for difference in report.differences for line in difference.lines()] == []
    assert (report.steps, report.records) == (6, 4)


@pytest.mark.parametrize(("told", "differences"), [("client-7f47491b", 0), ("client-another", 1)])
def test_a_history_may_tell_no_states_and_name_the_ids_that_were_made(
    tmp_path: Path, told: str, differences: int
) -> None:
    join = {
        "groupId": "g",
        "sessionTimeoutMs": 10_000,
        "rebalanceTimeoutMs": 10_000,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
    }
    answer = {"errorCode": 79, "generationId": -1, "protocolName": "", "leader": "", "members": [], "memberId": told}
    step = {
        "id": 0,
        "at_ms": 1_000,
        "api": "JoinGroup",
        "version": 4,
        "client_id": "client",
        "request": join,
        "new_member_id": "client-7f47491b",
        "answers": [{"id": 0, "at_ms": 1_000, "response": answer}],
    }
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps({"name": "made", "config": {"start_ms": 0}, "steps": [step]}) + "\n")
    report = verify_histories([path])
    # The record of the new group is left out.
    assert {difference.what for difference in report.differences} == {"records", *["answers"] * differences}
