"""Settings: where they come from, and what is said of wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from coordinator_state import GroupConfig
from coordinator_state.kafka_versions import OF_OLD_LOGS
from schemas.settings import settings_of
from streaming.config import ENVIRONMENT_PREFIX, ConfigError, StreamingConfig
from streaming.topics import TopicSettings

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(name)


def test_flags_go_before_environment_before_file_before_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('shards = 2\nshuffle_partitions = 3\ntopic_prefix = "file"\n[kafka]\n"security.protocol" = "SSL"\n')
    monkeypatch.setenv("GROUP_COORDINATOR_SHARDS", "4")
    monkeypatch.setenv("GROUP_COORDINATOR_TOPIC_PREFIX", "environment")
    monkeypatch.setenv("GROUP_COORDINATOR_SPARK", '{"spark.driver.memory": "2g"}')
    config = StreamingConfig.load({"topic_prefix": "flag"}, file)
    assert (config.topic_prefix, config.shards, config.shuffle_partitions) == ("flag", 4, 3)
    assert (config.kafka, config.spark) == ({"security.protocol": "SSL"}, {"spark.driver.memory": "2g"})
    assert config.tick_interval_ms == 500


def test_defaults_are_those_of_the_core_and_of_the_topics() -> None:
    """But for the rules: a log names its own, and until then goes by those of logs that name none."""
    config = StreamingConfig()
    assert config.group == GroupConfig(kafka_rules=OF_OLD_LOGS)
    assert config.kafka_rules == GroupConfig().kafka_rules
    assert config.topic_settings == TopicSettings()
    assert StreamingConfig(shards=3).group.shard_count == 3


def test_a_server_assignor_that_nobody_has_is_told_before_the_start() -> None:
    assert StreamingConfig(group_consumer_assignors="range").problems() == []
    with pytest.raises(ConfigError, match=r"group_consumer_assignors: there is no server assignor named 'by-weight'"):
        StreamingConfig(group_consumer_assignors="range,by-weight")


def test_every_setting_is_documented() -> None:
    settings = settings_of(StreamingConfig)
    assert [name for name, setting in settings.items() if not setting.text] == []
    assert settings["group_max_size"].text.startswith("`group.max.size`")


def test_texts_are_there_in_an_archive(tmp_path: Path) -> None:
    """As with --py-files: nothing is read from files beside the modules."""
    archive = tmp_path / "ours.zip"
    with ZipFile(archive, "w") as written:
        for package in ("schemas", "coordinator_state", "streaming", "group_coordinator"):
            for file in (ROOT / package).rglob("*.py"):
                written.write(file, file.relative_to(ROOT))
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); from streaming import config; assert {archive.name!r} in config.__file__\n"
        "from schemas.settings import settings_of\n"
        "print(*(name for name, setting in settings_of(config.StreamingConfig).items() if not setting.text))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_all_mistakes_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('shards = "many"\ncolour = "red"\ntick_interval_ms = 5\n[kafka]\ncolour = "red"\n')
    monkeypatch.setenv("GROUP_COORDINATOR_GROUP_MAX_SIZE", "0")
    with pytest.raises(ConfigError) as caught:
        StreamingConfig.load({"shard": 3, "offset_commit_value_version": 9}, file)
    problems = caught.value.problems
    for beginning in (
        'shards is "many", but must be a valid integer',
        f"{file}: there is no setting colour.",
        "tick_interval_ms is 5, but must be at least 10.",
        f"{file}: kafka: colour is not a property",
        "group_max_size is 0, but must be at least 1.",
        "shard is 3, but there are 1 shards",
        "offset_commit_value_version is 9, but must be 3 or 4.",
    ):
        assert any(sentence.startswith(beginning) for sentence in problems), (beginning, problems)
    assert len(problems) == 7
    assert all(sentence.endswith(".") for sentence in problems)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("shards = [", r"settings\.toml cannot be read: .*\(at end of document\)"),
        ("a = 1\n= 2", r"settings\.toml cannot be read: .*line 2"),
        (None, "does not exist"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, text: str | None, sentence: str) -> None:
    file = tmp_path / "settings.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        StreamingConfig.load({}, file)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"event_max_bytes": 4_194_304}, "output_max_bytes is 4194304, but an event of"),
        ({"tick_interval_ms": 2_000}, "tick_interval_ms is 2000, but must be at most a quarter of"),
        ({"bootstrap_servers": " "}, "bootstrap_servers is empty"),
        ({"max_events_per_batch": 0}, "max_events_per_batch is 0"),
        ({"replication_factor": 0}, "replication_factor is 0"),
    ],
)
def test_settings_that_do_not_go_together_are_told(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        StreamingConfig(**settings)


def test_counts_of_existing_topics_go_before_settings() -> None:
    config = StreamingConfig(responses_partitions=8, offsets_partitions=50)
    operator = config.operator_config({"coordinator.responses": 3}, partition=1)
    assert (operator.reply_partitions.count, operator.offsets_partitions, operator.partition) == (3, 50, 1)


def test_the_sinks_producer_gets_no_settings_of_the_sources_consumer() -> None:
    config = StreamingConfig()
    assert config.source_options["kafka.fetch.max.wait.ms"] == "0", (
        "Spark would wait half a second at the end of the log"
    )
    assert not {"kafka.fetch.max.wait.ms", "kafka.max.poll.records"} & set(config.sink_options), (
        "a producer would warn of them"
    )


def test_what_is_misspelt_is_told_with_the_nearest_name_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        'checkpont = "x"\n"bootstrap-servers" = "x"\n[kafka]\n"secruity.protocol" = "SSL"\n[spark]\n"driver.memory" = '
        '"2g"\n'
    )
    with pytest.raises(ConfigError) as caught:
        StreamingConfig.load({}, file)
    assert caught.value.problems == (
        f"{file}: there is no setting checkpont. Did you mean checkpoint?",
        f"{file}: there is no setting bootstrap-servers. Did you mean bootstrap_servers?",
        f"{file}: kafka: secruity.protocol is not a property that both of our Kafka clients understand. Did "
        "you mean security.protocol?",
        f"{file}: spark: driver.memory is no setting of Spark, which all begin with `spark.`: Spark would "
        "pass over it.",
    )


@pytest.mark.parametrize("value", ["hush", "2 g", "-1g", "", "2gg"])
def test_a_size_of_memory_with_which_no_jvm_starts_is_told_without_its_text(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StreamingConfig.load({"spark": {"spark.driver.memory": value, "spark.executor.memory": "2G"}}, None)
    assert caught.value.problems == (
        "spark: spark.driver.memory is no size: write a number and a unit, as 2g or 512m.",
    )


def test_a_table_in_the_environment_that_is_no_json_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP_COORDINATOR_KAFKA", 'password="hush"')
    with pytest.raises(ConfigError, match=r"GROUP_COORDINATOR_KAFKA cannot be read: write a JSON object") as caught:
        StreamingConfig.load({}, None)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_is_none_is_told(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "settings.toml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="is no settings file"):
        StreamingConfig.load({}, file)
