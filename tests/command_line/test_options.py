"""Settings: where each comes from, and how they are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from group_coordinator.command_line.options import load_as
from group_coordinator.coordinating.commands.own_responders import TRIGGER_INTERVAL_MS, for_responders
from group_coordinator.coordinating.gateway.config import GatewaySettings
from schemas.settings import settings_of
from streaming.config import ConfigError, StreamingConfig


def test_flag_over_environment_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text('topic_prefix = "file"\nbootstrap_servers = "file:1"\nresponses_partitions = 3\n')
    monkeypatch.setenv("GROUP_COORDINATOR_TOPIC_PREFIX", "environment")
    monkeypatch.setenv("GROUP_COORDINATOR_BOOTSTRAP_SERVERS", "environment:1")
    settings = load_as(StreamingConfig, {"bootstrap_servers": "flag:1", "shards": None, "kafka": []}, file)
    config, sources = settings.config, settings.sources
    assert (config.bootstrap_servers, sources["bootstrap_servers"]) == ("flag:1", "flag")
    assert (config.topic_prefix, sources["topic_prefix"]) == ("environment", "environment")
    assert (config.responses_partitions, sources["responses_partitions"]) == (3, "file")
    assert (config.shards, sources["shards"]) == (1, "default")
    assert sources.keys() == settings_of(StreamingConfig).keys()


def test_what_a_dry_run_prints_is_a_settings_file_but_for_values_of_properties(tmp_path: Path) -> None:
    flags = {
        "kafka": ["client.id=me"], "spark": ["spark.app.tag=blue"], "shards": 2, "shard": 1,
        "checkpoint": 'a "place" #1, C:\\new',
    }  # fmt: skip
    settings = load_as(StreamingConfig, flags, None)
    printed = "\n".join(settings.lines())
    file = tmp_path / "resolved.toml"
    file.write_text(printed)
    hidden = settings.config.changed(kafka={"client.id": "********"}, spark={"spark.app.tag": "********"})
    assert StreamingConfig.load({}, file) == hidden
    assert "shards = 2" in printed
    assert "# replication_factor is not set" in printed


def test_a_dry_run_tells_what_holds_beside_responders() -> None:
    settings = for_responders(load_as(StreamingConfig, {"spark_niceness": 1}, None))
    lines = [line.split("#")[0].strip() for line in settings.lines()]
    assert {"responders = true", f"trigger_interval_ms = {TRIGGER_INTERVAL_MS}", "spark_niceness = 1"} <= set(lines)


def test_settings_say_what_holds_beside_responders() -> None:
    settings = load_as(StreamingConfig, {}, None)
    without, beside = settings.config, for_responders(settings).config
    changed = [name for name in settings_of(StreamingConfig) if getattr(without, name) != getattr(beside, name)]
    settings_of_spark = ["spark_idle_policy", "spark_niceness", "spark_tier4_factor", "trigger_interval_ms"]
    assert sorted(changed) == ["responders", *settings_of_spark]
    for name in set(changed) - {"responders"}:
        assert f"sets {str(getattr(beside, name)).lower()} unless it is set" in settings_of(StreamingConfig)[name].text


def test_each_value_has_its_source_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP_COORDINATOR_SHARDS", "4")
    lines = {
        line.split(" = ")[0]: line.rpartition("#")[2].strip()
        for line in load_as(StreamingConfig, {"shuffle_partitions": 3}, None).lines()
    }
    assert (lines["shards"], lines["shuffle_partitions"], lines["master"]) == ("environment", "flag", "default")


def test_secrets_are_not_printed() -> None:
    secret = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hush";'
    settings = load_as(StreamingConfig, {"kafka": [f"sasl.jaas.config={secret}", "ssl.key.password=hush"]}, None)
    assert settings.config.kafka["ssl.key.password"] == "hush"
    assert "hush" not in "\n".join(settings.lines())


def test_a_choice_of_numbers_can_be_made_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP_COORDINATOR_OFFSET_COMMIT_VALUE_VERSION", "3")
    assert load_as(StreamingConfig, {}, None).config.offset_commit_value_version == 3


def test_a_pair_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match=r"--kafka client\.id: write NAME=VALUE"):
        load_as(StreamingConfig, {"kafka": ["client.id"]}, None)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("GROUP_COORDINATOR_SHARDZ", "SHARD or SHARDS"),
        ("GROUP_COORDINATOR_METRIC_PORT", "METRICS_PORT"),
        ("group_coordinator_chekpoint", "CHECKPOINT"),
        ("GROUP_COORDINATOR_LISTENS", "LISTEN"),  # of a gateway; the variables are those of all commands
        ("GROUP_COORDINATOR_DASHBORD_TOKEN", "DASHBOARD_TOKEN"),
    ],
)
def test_a_variable_that_is_misspelt_is_told_with_the_nearest_name(
    name: str, nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "hush")
    with pytest.raises(ConfigError) as caught:
        load_as(StreamingConfig, {}, None)
    assert str(caught.value) == f"The environment has {name}, which is no setting. Did you mean {nearest}?"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("group_consumer_mends_defects", "group_consumer_bug_fixes_enable"),
        ("hands_out_member_ids", "answer_member_id_required"),
        ("under_way_bytes_max", "queued_max_request_bytes"),
    ],
)
def test_a_setting_that_had_another_name_is_told_with_its_new_one(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = StreamingConfig if new.startswith("group_") else GatewaySettings
    file = tmp_path / "settings.toml"
    file.write_text(f"{old} = 1")
    with pytest.raises(ConfigError, match=f"there is no setting {old}. It is called {new} now."):
        load_as(kind, {}, file)
    monkeypatch.setenv(f"GROUP_COORDINATOR_{old.upper()}", "1")
    with pytest.raises(ConfigError, match=f"which is no setting. It is called {new.upper()} now."):
        load_as(kind, {}, None)


def test_variables_of_other_commands_and_of_kubernetes_are_none_of_our_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "GROUP_COORDINATOR_LISTEN": "127.0.0.1:1",
        "GROUP_COORDINATOR_CACHE": "/tmp",
        "GROUP_COORDINATOR_SERVICE_HOST": "10.0.0.1",
        "GROUP_COORDINATOR_SERVICE_PORT_METRICS": "9464",
        "GROUP_COORDINATOR_PORT": "tcp://10.0.0.1:9464",
        "GROUP_COORDINATOR_PORT_9464_TCP_ADDR": "10.0.0.1",
        "GROUP_COORDINATOR_GATEWAY_PORT_9192_TCP": "tcp://10.0.0.1:9192",
    }.items():
        monkeypatch.setenv(name, value)
    assert load_as(StreamingConfig, {}, None).sources["shards"] == "default"
