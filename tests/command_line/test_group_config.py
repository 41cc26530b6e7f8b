"""`group-config`: a group's own settings, judged, written and shown."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from coordinator_state.config import GroupSettings
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.main import app
from group_coordinator.coordinating.commands.group_config import parse
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import decode_group_event
from schemas.group_metadata_events import GroupConfiguration
from schemas.group_settings import configuration_problems
from schemas.history import SnapshotSubscription
from tests.streaming.watched_cluster import Cluster

SUBSCRIPTION = SnapshotSubscription(
    topics=(), regexes={}, resolving_since_ms=None, metadata_hash=0, topics_version=-1
)


def test_settings_have_kafkas_names() -> None:
    assert parse(["consumer.session.timeout.ms=50000", "consumer.assignment.interval.ms=0"]) == GroupConfiguration(
        consumer_session_timeout_ms=50_000, consumer_assignment_interval_ms=0
    )
    assert parse([]) == GroupConfiguration()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["consumer.session.timeout.ms"], "not of the form NAME=VALUE"),
        (["consumer.sesion.timeout.ms=1"], "Did you mean consumer.session.timeout.ms"),
        (["share.session.timeout.ms=1"], "no setting 'share.session.timeout.ms'"),
        (["consumer.session.timeout.ms=1s"], "must be a whole number"),
        (["consumer.session.timeout.ms=-1"], "must be a whole number"),
        (["consumer.session.timeout.ms=٣"], "must be a whole number"),
        (["consumer.session.timeout.ms=9999999999999999999"], "."),
        (["consumer.session.timeout.ms=50000"] * 2, "set twice"),
    ],
)
def test_what_is_no_setting(values: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        parse(values)


@pytest.mark.parametrize(
    ("own", "problems"),
    [
        (GroupConfiguration(), 0),
        (GroupConfiguration(consumer_session_timeout_ms=45_000), 0),
        (GroupConfiguration(consumer_session_timeout_ms=60_000, consumer_heartbeat_interval_ms=15_000), 0),
        (GroupConfiguration(consumer_session_timeout_ms=44_999), 1),
        (GroupConfiguration(consumer_session_timeout_ms=60_001, consumer_heartbeat_interval_ms=4_999), 2),
        (GroupConfiguration(consumer_assignment_interval_ms=15_001), 1),
    ],
)
def test_bounds_are_those_of_the_coordinator(own: GroupConfiguration, problems: int) -> None:
    assert len(configuration_problems(GroupSettings(), own)) == problems


def test_a_session_is_longer_than_the_interval_of_heartbeats() -> None:
    """As a broker that is configured so refuses it."""
    loose = GroupSettings(group_consumer_min_session_timeout_ms=1)
    (problem,) = configuration_problems(loose, GroupConfiguration(consumer_session_timeout_ms=5_000))
    assert "must be larger" in problem
    assert not configuration_problems(loose, GroupConfiguration(consumer_session_timeout_ms=5_001))


def run(cluster: Cluster, *arguments: str) -> Result:
    prefix = cluster.topics.events.removesuffix(".events")
    connection = ["--bootstrap-servers", cluster.properties["bootstrap.servers"], "--topic-prefix", prefix]
    return CliRunner().invoke(app, ["group-config", *arguments, *connection])


def test_settings_go_to_the_groups_log_and_come_back_with_the_group(kafka: EmbeddedKafka, topic_prefix: str) -> None:
    cluster = Cluster(kafka.bootstrap_servers, topic_prefix, shards=1)
    given = run(cluster, "billing", "--set", "consumer.session.timeout.ms=50000")
    assert (given.exit_code, given.output) == (
        0, "The settings of billing are in the log: consumer.session.timeout.ms=50000.\n",
    )  # fmt: skip
    assert run(cluster, "billing", "--clear").exit_code == 0
    refused = run(cluster, "billing", "--set", "consumer.session.timeout.ms=1")
    assert (refused.exit_code, "must be 45000 to 60000" in refused.output) == (2, True)
    own = GroupConfiguration(consumer_session_timeout_ms=50_000)
    assert [(key, decode_group_event("billing", value)) for key, value in cluster.read(cluster.topics.events, 0)] == [
        (b"billing", own), (b"billing", GroupConfiguration()),
    ]  # fmt: skip

    assert run(cluster, "billing").output.count("(of all groups)") == 3, "nothing is published yet"
    cluster.publish("billing", SUBSCRIPTION, own)
    assert run(cluster, "billing").output.splitlines() == [
        "consumer.session.timeout.ms=50000",
        "consumer.heartbeat.interval.ms=(of all groups)",
        "consumer.assignment.interval.ms=(of all groups)",
    ]
    as_json = json.loads(run(cluster, "billing", "--json").output)
    assert as_json["consumer.session.timeout.ms"] == 50_000
    assert list(as_json.values())[1:] == [None, None]
