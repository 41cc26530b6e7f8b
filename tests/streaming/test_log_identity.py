"""A checkpoint goes on with the topics that it was made with, and with no others of the same names."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import Mock

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatResponse
from streaming import log_identity, query_failures
from streaming.application import Application
from streaming.checkpoints import CheckpointError
from streaming.config import StreamingConfig
from streaming.log_identity import require_same_topics
from streaming.query_failures import cause_of
from streaming.shard_state import read_shard_state
from streaming.topics import TopicError
from tests.streaming.running_app import HEARTBEAT, TIMEOUT_S, Client, RunningApp
from tests.waiting import wait_until

ANSWER = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def delete(admin: AdminClient, names: Iterable[str]) -> None:
    for deleted in admin.delete_topics(list(names)).values():
        deleted.result(20)


def refused(config: StreamingConfig, spark: SparkSession, *, rebuild: bool = False) -> str:
    """Why a start is refused."""
    started: list[object] = []
    with pytest.raises(CheckpointError) as failure:
        Application(config, spark=spark, on_start=started.append, rebuild=rebuild).run(threading.Event())
    assert started == []
    assert "failOnDataLoss" not in str(failure.value)
    return str(failure.value)


def test_another_log_is_refused_and_nothing_is_made(
    spark: SparkSession, kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path
) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, checkpoint=str(tmp_path),
        offsets_partitions=1, responses_partitions=2,
    )  # fmt: skip
    topics = config.topics
    note = tmp_path / "shard-0" / "topic_ids"
    with RunningApp(config, spark):
        client = Client(config)
        assert client.answer(client.send("Heartbeat", 4, HEARTBEAT)) == ANSWER
    ids = json.loads(note.read_text())
    assert ids.keys() == {topics.events, topics.assignments, topics.offsets, topics.history}
    note.unlink()  # as an older release leaves it: the offsets fit, so the log is taken
    with RunningApp(config, spark) as app:
        client = Client(config)
        assert client.answer(client.send("Heartbeat", 4, HEARTBEAT)) == ANSWER
        assert json.loads(note.read_text()) == ids
        delete(admin, [topics.events])
        app.join()
    assert isinstance(app.failure, TopicError)
    (sentence,) = app.failure.mistakes
    assert sentence.startswith(f"{topics.events} was deleted while the coordinator ran")
    wait_until(lambda: _absent(admin, topics.events), TIMEOUT_S)
    delete(admin, [topics.responses])
    wait_until(lambda: _absent(admin, topics.responses), TIMEOUT_S)
    for rebuild in (False, True):
        assert f"is of another {topics.events} than there is" in refused(config, spark, rebuild=rebuild)
    assert not {topics.events, topics.responses} & admin.list_topics(timeout=10).topics.keys()
    note.unlink()
    sentence = refused(config, spark)
    assert "the topic is not there" in sentence
    assert "--topic-prefix" in sentence
    with pytest.raises(CheckpointError, match="another"):
        read_shard_state(spark, config, 0)


def _absent(admin: AdminClient, topic: str) -> bool:
    """Whether the topic is gone; where a client that still ran has made it anew, it is deleted again."""
    if topic not in admin.list_topics(timeout=10).topics:
        return True
    delete(admin, [topic])
    return False


def checkpoint(topic_ids: dict[str, str], *, has_batches: bool = True, planned: int | None = 5) -> Mock:
    directory = Mock(path="/c/shard-0")
    directory.has_batches.return_value = has_batches
    directory.topic_ids.return_value = topic_ids
    directory.planned_end.return_value = planned
    return directory


CONFIG = StreamingConfig(bootstrap_servers="unused", checkpoint="/c")
TOPICS = CONFIG.topics


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({TOPICS.events: "e", TOPICS.offsets: "o"}, None),
        ({TOPICS.events: None, TOPICS.offsets: None}, None),  # brokers without ids tell nothing
        ({TOPICS.events: "x", TOPICS.offsets: "o"}, "--topic-prefix"),
        ({TOPICS.offsets: "o"}, "it is not there any more"),
        ({TOPICS.events: "e", TOPICS.offsets: "x"}, "--rebuild"),
        ({TOPICS.events: "e"}, "--rebuild"),
    ],
)
def test_each_topic_counts(found: dict[str, str | None], words: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = checkpoint({TOPICS.events: "e", TOPICS.offsets: "o"})
    monkeypatch.setattr(log_identity, "Directory", lambda *_: directory)
    if words is None:
        require_same_topics(Mock(), CONFIG, 0, found)
    else:
        with pytest.raises(CheckpointError, match=words):
            require_same_topics(Mock(), CONFIG, 0, found)


def test_a_checkpoint_without_batches_is_of_any_log(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = checkpoint({TOPICS.events: "e"}, has_batches=False)
    monkeypatch.setattr(log_identity, "Directory", lambda *_: directory)
    require_same_topics(Mock(), CONFIG, 0, {})


def test_sparks_advice_to_lose_data_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = (
        "[STREAM_FAILED] Query terminated: Partition events-0's offset was changed from 8 to 3, some data may have "
        "been missed.\nSome data may have been lost because they are not available in Kafka any more; either the data "
        "was aged out by Kafka or the topic may have been deleted before all the data in the topic was processed. If "
        "you don't want your streaming query to fail on such cases, set the source option "
        '"failOnDataLoss" to "false".\n'
    )
    query = Mock()
    query.exception.return_value = failure
    monkeypatch.setattr(query_failures, "_innermost", lambda _: "")
    told = cause_of(query)
    assert "failOnDataLoss" not in told
    assert "changed from 8 to 3" in told
    assert "offsets export" in told
