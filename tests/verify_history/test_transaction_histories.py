"""Kafka 4.3.1's own coordinator, history by history: offsets in transactions, with what its log has of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.proving.recordings.forgetful_coordinator import ForgetfulCoordinator
from tests.verify_history import histories
from tests.verify_history.histories import verify_histories
from tests.verify_history.topic_checks import TopicChecks
from tests.verify_history.transactional_records import RecordedTransactions

FOLDER = Path(__file__).parents[1] / "fixtures" / "consumer_histories"
FAMILIES = {"txn": 17, "txn_classic": 14}
"""With the number of their histories."""

Json = dict[str, Any]


def differences(path: Path) -> list[str]:
    return [line for difference in verify_histories([path]).differences[:3] for line in difference.lines()]


@pytest.mark.parametrize("family", FAMILIES)
def test_history_reproduces(family: str) -> None:
    path = FOLDER / f"{family}.jsonl.gz"
    report = verify_histories([path])
    assert (report.histories, report.records > 200) == (FAMILIES[family], True)
    assert differences(path) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_but_the_blobs_is_needed_between_steps(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "Coordinator", ForgetfulCoordinator)
    assert differences(FOLDER / f"{family}.jsonl.gz") == []


def transactional(step: Json) -> Json | None:
    return next((record for record in step.get("records", ()) if "producer_id" in record), None)


def end_otherwise(step: Json) -> None:
    marker = step["request"]["markers"][0]
    marker["transactionResult"] = not marker["transactionResult"]


def commit_otherwise(step: Json) -> None:
    step["records"][0]["value_b64"] = "AAQAAAAAAAAAAP////8BAAAAAAAAAAAA"


def write_for_another(step: Json) -> None:
    step["records"][0]["producer_epoch"] += 1


@pytest.mark.parametrize(
    ("api", "change", "what"),
    [
        ("WriteTxnMarkers", end_otherwise, "records"),
        ("TxnOffsetCommit", commit_otherwise, "pending"),
        ("TxnOffsetCommit", write_for_another, "pending"),
    ],
)
def test_a_difference_is_found(api: str, change: Callable[[Json], None], what: str, tmp_path: Path) -> None:
    """The first transaction that commits something is changed in one place."""
    with gzip.open(FOLDER / "txn_classic.jsonl.gz", "rt") as file:
        recorded = json.loads(file.readline())
    step = next(step for step in recorded["steps"] if step.get("api") == api and transactional(step))
    change(step)
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(recorded) + "\n")
    assert what in {difference.what for difference in verify_histories([path]).differences}


# ---------------------------------------------------------------------- what the log says by itself


def offset(place: str, value: str | None, producer_id: int | None = None) -> Json:
    topic, partition = place.split("-")
    key = {"group": "g", "topic": topic, "partition": int(partition)}
    record: Json = {"type": "OffsetCommit", "at_ms": 1, "key": key, "key_b64": place}
    record |= {"value": value, "value_b64": value}
    return record if producer_id is None else record | {"producer_id": producer_id, "producer_epoch": 0}


def marker(producer_id: int, result: str) -> Json:
    return {"type": "EndTransactionMarker", "at_ms": 2, "producer_id": producer_id, "value": {"result": result}}


@pytest.mark.parametrize(
    ("log", "counting"),
    [
        ([offset("t-0", "a", 7), marker(7, "COMMIT")], ["t-0 a at 2"]),
        ([offset("t-0", "a", 7), marker(7, "ABORT")], []),
        ([offset("t-0", "a", 7), marker(8, "COMMIT")], []),
        ([offset("t-0", "a", 7), offset("t-0", "b"), marker(7, "COMMIT")], ["t-0 b at 1"]),
        ([offset("t-0", "b"), offset("t-0", "a", 7), marker(7, "COMMIT")], ["t-0 b at 1", "t-0 a at 2"]),
        (
            [offset("t-0", "a", 7), offset("t-0", "b", 8), marker(8, "COMMIT"), marker(7, "COMMIT")],
            ["t-0 b at 2"],
        ),
        ([offset("t-0", "a", 7), offset("t-0", None), marker(7, "COMMIT")], ["t-0 None at 1"]),
        ([offset("t-1", "a", 7), offset("t-0", "b", 7), marker(7, "COMMIT")], ["t-0 b at 2", "t-1 a at 2"]),
    ],
)
def test_what_counts_of_a_log(log: list[Json], counting: list[str]) -> None:
    found = RecordedTransactions().committed(log)
    assert [f"{record['key_b64']} {record['value_b64']} at {record['at_ms']}" for record in found] == counting


# ---------------------------------------------------------------------- what a broker checks before it asks

CHECKS = TopicChecks({"t": "T", "u": "U", "secret": "S"}, {"t": 2, "u": 1, "secret": 1}, ["secret"])


def named(**partitions: tuple[int, ...]) -> list[Json]:
    return [
        {"name": name, "partitions": [{"partitionIndex": index} for index in indexes]}
        for name, indexes in partitions.items()
    ]


def answered(**partitions: dict[int, int]) -> list[Json]:
    return [
        {
            "name": name,
            "partitions": [{"partitionIndex": index, "errorCode": code} for index, code in codes.items()],
        }
        for name, codes in partitions.items()
    ]


def test_unknown_partitions_are_refused_and_come_first_in_the_answer() -> None:
    request = {"topics": named(t=(0, 2, 1), other=(0,), secret=(0,))}
    asked, refused = CHECKS.split("TxnOffsetCommit", 5, request)
    assert asked == {"topics": named(t=(0, 1))}
    answer = CHECKS.finish("TxnOffsetCommit", 5, request, {"topics": answered(t={0: 0, 1: 0})}, refused)
    assert answer == {"topics": answered(t={2: 3, 0: 0, 1: 0}, other={0: 3}, secret={0: 29})}


def test_a_commit_of_which_nothing_is_left_is_not_asked_but_a_delete_is() -> None:
    request = {"topics": named(other=(0,))}
    asked, refused = CHECKS.split("OffsetCommit", 9, request)
    assert asked is None
    assert CHECKS.finish("OffsetCommit", 9, request, None, refused) == {"topics": answered(other={0: 3})}
    assert CHECKS.split("OffsetDelete", 0, request)[0] == {"topics": []}
    failed = {"errorCode": 69, "topics": []}
    assert CHECKS.finish("OffsetDelete", 0, request, failed, CHECKS.split("OffsetDelete", 0, request)[1]) == failed


def test_a_fetch_names_topics_by_id_and_has_refused_ones_last() -> None:
    topics = [{"topicId": "X", "partitionIndexes": [0]}, {"topicId": "T", "partitionIndexes": [7]}]
    request = {"groups": [{"groupId": "g", "topics": topics}]}
    asked, refused = CHECKS.split("OffsetFetch", 10, request)
    assert asked == {"groups": [{"groupId": "g", "topics": topics[1:]}]}
    found: Json = {"topicId": "T", "partitions": [{"partitionIndex": 7, "committedOffset": 3}]}
    answer = CHECKS.finish("OffsetFetch", 10, request, {"groups": [{"groupId": "g", "topics": [found]}]}, refused)
    unknown = {"partitionIndex": 0, "committedOffset": -1, "committedLeaderEpoch": -1, "metadata": "", "errorCode": 100}
    assert answer["groups"][0]["topics"] == [found, {"topicId": "X", "partitions": [unknown]}]


def test_a_fetch_of_all_topics_leaves_out_what_may_not_be_seen() -> None:
    request = {"groupId": "g", "topics": None}
    answer = {"topics": [{"name": "t", "partitions": []}, {"name": "secret", "partitions": []}], "errorCode": 0}
    assert CHECKS.split("OffsetFetch", 7, request) == (request, [])
    assert [topic["name"] for topic in CHECKS.finish("OffsetFetch", 7, request, answer, [])["topics"]] == ["t"]
