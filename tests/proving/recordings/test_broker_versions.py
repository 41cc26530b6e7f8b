"""Which version of Kafka a log is of: what its broker says, what it answers, what it writes."""

from __future__ import annotations

import gzip
import json

import pytest

from coordinator_state.kafka_versions import KAFKA_VERSIONS, version_named
from group_coordinator.proving.recordings.broker_versions import shown_version
from group_coordinator.proving.recordings.offsets_log import LoggedRecord, read_offsets_log
from group_coordinator.proving.recordings.request_lines import version_of_apis
from tests.proving.recordings.broker_logs import FIXTURES
from tests.proving.recordings.logged_histories import records_in

CLUSTERS = FIXTURES / "clusters"
RECORDED = {
    "old-2.8": "3.9", "lifecycle-3.4": "3.9", "failover-3.7.broker-1": "3.9", "old-3.9": "3.9", "rack-4.0": "4.0",
    "hanging-4.1": "4.1", "orphan-4.2.broker-2": "4.2", "connect": "4.3",
}  # fmt: skip


@pytest.mark.parametrize(("name", "version"), RECORDED.items())
def test_the_answers_to_api_versions_show_it(name: str, version: str) -> None:
    with gzip.open(CLUSTERS / f"{name}.request.log.gz") as log:
        lines = [line for line in log if b'"API_VERSIONS"' in line or b'"requestApiKey":18,' in line]
    logged = [json.loads(line[line.index(b"{") : line.rindex(b"}") + 1]) for line in lines]
    answers = [request["response"] for request in logged if request["listener"] != "CONTROLLER"]
    shown = {version_of_apis(json.dumps(answer).encode()) for answer in answers if answer["errorCode"] == 0}
    assert shown == {version}


@pytest.mark.parametrize(
    ("name", "version"), [("rack-4.0", "4.0"), ("hanging-4.1", "4.2"), ("consumer-protocol", "4.3"), ("old-3.9", None)]
)
def test_the_fields_of_records_show_it(name: str, version: str | None) -> None:
    """4.1 and 4.2 write the same."""
    shown = shown_version(None, None, read_offsets_log(CLUSTERS / f"{name}.offsets.jsonl.gz").by_group)
    assert (None if shown is None else shown[0].name) == version


def test_what_the_broker_says_counts_most() -> None:
    shown = shown_version("4.1", "4.0", {})
    assert shown is not None
    assert shown == (KAFKA_VERSIONS["4.1"], "as the broker's log tells: Kafka 4.1")


@pytest.mark.parametrize(
    ("told", "name"), [("2.8", "3.9"), ("3.7", "3.9"), ("4.0", "4.0"), ("4.3", "4.3"), ("4.4", "4.4"), ("5.1", "4.4")]
)
def test_each_version_has_its_entry(told: str, name: str) -> None:
    assert version_named(told).name == name


def test_an_answer_that_cannot_be_read_shows_nothing() -> None:
    assert version_of_apis(b"[") is None
    assert version_of_apis(b'{"errorCode":35,"apiKeys":[{"apiKey":18,"minVersion":0,"maxVersion":4}]}') is None


def test_a_controller_s_answer_shows_nothing() -> None:
    """Its listener tells the APIs that controllers have, without those of clients: not the version of a broker."""
    with gzip.open(FIXTURES / "recordings" / "crash.request.log.gz") as log:
        (line,) = [line for line in log if b'"API_VERSIONS"' in line]
    logged = json.loads(line[line.index(b"{") : line.rindex(b"}") + 1])
    assert logged["listener"] == "CONTROLLER"
    assert version_of_apis(json.dumps(logged["response"]).encode()) is None


def records_of(name: str) -> dict[str, list[LoggedRecord]]:
    """The records of a history that Kafka 4.4.0's classes wrote, as a log of the offsets topic."""
    path = CLUSTERS.parent / "kafka_4_4" / "differing.jsonl.gz"
    with gzip.open(path, "rt") as file:
        return records_in(next(found for found in map(json.loads, file) if found["name"] == name))


@pytest.mark.parametrize("name", ["session-deadline", "authorization-2"])
def test_an_emptied_group_and_a_commit_in_a_transaction_show_kafka_4_4(name: str) -> None:
    shown = shown_version(None, None, records_of(name))
    assert shown is not None
    assert shown[0].name == "4.4"
