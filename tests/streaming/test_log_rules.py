"""The rules of a log: whoever decides it goes by them, from the event on that names them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from coordinator_state import GroupConfig, RuleChange
from group_coordinator.coordinating.responder.answering import AnsweringShard
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from schemas.rules_events import encode_rules
from streaming import batch_replay
from streaming.config import StreamingConfig
from streaming.event_log import RECORD_ARROW, RECORD_COLUMNS, records_of_files, records_of_topic
from streaming.events_tail import open_reader
from streaming.log_rules import RulesScan, UnknownRules
from streaming.packed_outputs import output_records
from streaming.replay import replay_batch
from streaming.rules_records import last_rules, write_rules
from streaming.session import prepare_session
from streaming.source import carry_clock
from streaming.stored_group import ShardState
from tests.coordinating.responder.query_batches import states_after_batches
from tests.streaming import test_batch_replay
from tests.streaming.random_log import make_log, with_rules
from tests.streaming.replays import CONFIG, in_process, output_order, write_log
from tests.streaming.running_app import HEARTBEAT, TIMEOUT_S, Client, RunningApp
from tests.streaming.streamed_replay import replay_streaming
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AHEAD_MS = CONFIG.group.tick_ahead_bound_ms
RULES = ("4.4", "4.3", "4.4", "4.0")
EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=0, groups={})


def log_of(seed: int) -> list[Record]:
    return make_log(seed, groups=1, mixed_groups=3, requests=300)


def changes_of(log: list[Record]) -> tuple[RuleChange, ...]:
    scan = RulesScan(AHEAD_MS)
    for record in log:
        if record.key is None:
            scan.take(record.offset or 0, record.value, record.timestamp_ms)
    return scan.changes


@pytest.fixture(params=range(4))
def log(request: pytest.FixtureRequest) -> list[Record]:
    return with_rules(log_of(request.param), *RULES)


def test_the_rules_matter() -> None:
    logs = [with_rules(log_of(0), *rules) for rules in (("4.3",), ("4.4",), ("4.3", "4.4"), ("4.4", "4.3"))]
    outputs = [[(output.key, output.value) for output in in_process(log)] for log in logs]
    assert all(one != other for number, one in enumerate(outputs) for other in outputs[:number])


def test_a_log_that_names_none_goes_by_those_of_4_3() -> None:
    log, config = log_of(1), CONFIG.changed(kafka_rules="4.4")
    assert in_process(log, config) == in_process(log)
    named = with_rules(log, "4.3")
    assert [record.value for record in in_process(named) if record.topic.endswith("assignments")] != []
    assert changes_of(named) == (RuleChange(0, 0, "4.3"),)
    assert not any("rules" in record.headers.get("reason", "") for record in in_process(named))


def test_a_responder_says_the_same_from_any_state(log: list[Record]) -> None:
    config = replace(CONFIG.operator_config(), rule_changes=changes_of(log))
    responder = CONFIG.operator_config()  # it hears of the changes from the log
    expected = [output for output in in_process(log) if output.topic == config.topics.responses]
    assert sorted(answers(AnsweringShard(responder, EMPTY), log), key=output_order) == expected
    in_few_bytes = AnsweringShard(responder, EMPTY, decoded_groups_max=1)
    assert sorted(answers(in_few_bytes, log), key=output_order) == expected
    for state in states_after_batches(log, config, batch_records=41):
        known = tuple(change for change in config.rule_changes if change.offset < state.end_offset)
        said = answers(AnsweringShard(responder, replace(state, rule_changes=known)), log[state.start_offset :])
        assert not [answer for answer in said if answer not in expected]


def answers(shard: AnsweringShard, log: list[Record]) -> list[OutputRecord]:
    return [
        answer
        for record in log
        for answer in shard.take(record.key, record.value, record.offset or 0, record.timestamp_ms or 0)
    ]


def test_a_batch_says_the_same(log: list[Record], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_replay, "ROWS_AT_ONCE", 7)
    assert sorted(map(repr, test_batch_replay.outputs(log, 1))) == sorted(map(repr, test_batch_replay.expected(log)))


def test_a_query_fails_at_a_change_that_it_does_not_know(log: list[Record]) -> None:
    columns = {name: [getattr(record, name) for record in log] for name in ("key", "offset", "value", "timestamp_ms")}
    schema = pa.schema({name: RECORD_ARROW.field(name).type for name in columns})
    batch = pa.RecordBatch.from_pydict(columns, schema)
    offsets = [change.offset for change in changes_of(log)]
    assert len(list(carry_clock([batch], AHEAD_MS, known_changes=offsets))) == 1
    with pytest.raises(UnknownRules, match=f"at offset {offsets[-1]},"):
        list(carry_clock([batch], AHEAD_MS, known_changes=offsets[:-1]))


@pytest.mark.parametrize(
    "value", [b'{"type":"kafka_rules","rules":"5.0"}', b'{"type":"kafka_rules"}', b'{"type":"kafka_rules","rules":4.4}']
)
def test_rules_that_nobody_knows_are_a_dead_letter(value: bytes) -> None:
    log = log_of(2)
    wrong = replace(log[0], key=None, value=value)
    moved = [replace(record, offset=(record.offset or 0) + 1) for record in log]
    (letter,) = [each for each in in_process([wrong, *moved]) if each.headers.get("reason") == "malformed_rules"]
    assert letter.value == value


def test_settings_of_a_process_are_not_those_of_its_log() -> None:
    config = StreamingConfig(kafka_rules="4.4")
    assert config.group.kafka_rules == config.changed(kafka_rules="4.0").group.kafka_rules == "4.3"
    assert GroupConfig().kafka_rules == "4.4"


def test_spark_says_the_same(spark: SparkSession, tmp_path: Path) -> None:
    log = with_rules(log_of(5), *RULES)
    records = records_of_files(spark, [write_log(tmp_path / "events.jsonl", log)])
    expected = in_process(log)
    for buckets in (0, 2):
        config = CONFIG.changed(max_events_per_batch=60, group_buckets=buckets)
        prepare_session(spark, config)
        streamed = replay_streaming(records, config, tmp_path / str(buckets))
        assert sorted(output_records(streamed), key=output_order) == expected
    assert sorted(output_records(replay_batch(records, config)), key=output_order) == expected


def test_a_running_coordinator_changes_its_rules(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix="rules", checkpoint=str(tmp_path), offsets_partitions=1,
        group_min_session_timeout_ms=2_000, group_initial_rebalance_delay_ms=0, tick_interval_ms=200,
    )  # fmt: skip
    with RunningApp(config, spark) as app:
        assert app.failure is None
        client = Client(config)
        client.join(60_000)
        changed_at = write_rules(config, [0], "4.3")[0]
        client.answer(client.send("Heartbeat", 4, HEARTBEAT))
    assert app.failure is None
    with RunningApp(config, spark) as again:
        client.answer(client.send("Heartbeat", 4, HEARTBEAT))
        state = again.application.read_state(0)
        wait_until(lambda: bool(again.progress), TIMEOUT_S)
    assert again.failure is None
    assert [(change.offset, change.rules) for change in state.state.rule_changes] == [(0, "4.4"), (changed_at, "4.3")]
    with open_reader(config.client_properties) as reader:
        assert last_rules(reader, config.topics.events, 0) == (changed_at, "4.3")
    rows = records_of_topic(spark, config, config.topics.events).collect()
    events = [Record(**{name: _plain(row[name]) for name in RECORD_COLUMNS}) for row in rows]
    assert events[0].value == encode_rules("4.4")
    assert changes_of(events) == state.state.rule_changes


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
