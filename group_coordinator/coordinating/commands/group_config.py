"""`group-config`: a consumer group's own settings, as `kafka-configs --entity-type groups` alters them."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from confluent_kafka import KafkaError, KafkaException, Message

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import CONNECTION, with_settings
from group_coordinator.command_line.output_options import JsonOption
from group_coordinator.command_line.tables import print_json, print_line
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.reader import partition_count
from group_coordinator.ground.settings.loading import did_you_mean
from group_coordinator.watching.commands.published_groups import read_published
from schemas.events import encode_json
from schemas.group_metadata_events import GroupConfiguration
from schemas.group_settings import OWN_SETTINGS, OwnSettingsBounds, configuration_problems
from schemas.java_hash import group_partition
from schemas.settings import settings_of
from streaming.config import StreamingConfig


@with_settings(*CONNECTION, *settings_of(OwnSettingsBounds), of=StreamingConfig)
def group_config(
    settings: Settings,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group's id. There need not be such a group yet.")],
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One setting; repeated for more. Others are unset."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="The group has no settings of its own any more.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give a consumer group settings of its own, or show those that it has.

    They are `consumer.session.timeout.ms`, `consumer.heartbeat.interval.ms` and `consumer.assignment.interval.ms`, and
    replace all that the group had. They belong to its id: they are there before the group, and after. Members feel them
    at their next heartbeat. The values must be within the coordinator's bounds; name its --config-file where they are
    not the defaults.

    Examples:

        group-coordinator group-config billing
        group-coordinator group-config billing --set consumer.session.timeout.ms=60000
        group-coordinator group-config billing --clear
    """
    if values and clear:
        raise CommandError("Choose one of --set and --clear.", WRONG_USE)
    if not group:
        raise CommandError("The group's id is empty.", WRONG_USE)
    config = settings.config
    if not values and not clear:
        _show(config, group, as_json=as_json)
        return
    own = parse(values or [])
    problems = configuration_problems(config.group, own)
    if problems:
        raise CommandError("\n".join(problems), WRONG_USE)
    _write(config, group, own)
    if as_json:
        return print_json(_values(own))
    print_line(f"The settings of {group} are in the log: {_text(own)}.")


def parse(values: list[str]) -> GroupConfiguration:
    """Return the settings of texts `NAME=VALUE`. Raises CommandError."""
    fields: dict[str, int] = {}
    problems: list[str] = []
    for text in values:
        name, equals, value = text.partition("=")
        field = OWN_SETTINGS.get(name)
        if not equals:
            problems.append(f"{text!r} is not of the form NAME=VALUE.")
        elif field is None:
            problems.append(f"A group has no setting {name!r}.{did_you_mean(name, sorted(OWN_SETTINGS))}")
        elif field in fields:
            problems.append(f"{name} is set twice.")
        elif not (value.isascii() and value.isdecimal()):
            problems.append(f"{name} is {value!r}, but must be a whole number of milliseconds.")
        else:
            fields[field] = int(value)
    if problems:
        raise CommandError("\n".join(problems), WRONG_USE)
    try:
        return msgspec.convert({"type": "group_config", **fields}, GroupConfiguration)
    except msgspec.ValidationError as problem:
        raise CommandError(f"{problem}.", WRONG_USE) from None


def _show(config: StreamingConfig, group: str, *, as_json: bool) -> None:
    snapshot = next((each for each in read_published(config) if each.group_id == group), None)
    own = None if snapshot is None else snapshot.configuration
    values = _values(own if isinstance(own, GroupConfiguration) else None)
    if as_json:
        return print_json(values)
    for name, value in values.items():
        print_line(f"{name}={'(of all groups)' if value is None else value}")


def _write(config: StreamingConfig, group: str, own: GroupConfiguration) -> None:
    """Append the event to the group's log. Raises KafkaException and TopicReadError."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    topic = config.topics.events
    partition = group_partition(group, partition_count(config.client_properties, topic))
    producer = new_producer(config.client_properties, {"enable.idempotence": True})
    producer.produce(topic, key=group.encode(), value=encode_json(own), partition=partition, on_delivery=delivered)
    producer.flush()
    if failures:
        raise KafkaException(failures[0])


def _text(own: GroupConfiguration) -> str:
    values = _values(own).items()
    return ", ".join(f"{name}={value}" for name, value in values if value is not None) or "none of its own"


def _values(own: GroupConfiguration | None) -> dict[str, int | None]:
    """Return the settings by Kafka's names; None: it is that of all groups."""
    return {name: None if own is None else getattr(own, field) for name, field in OWN_SETTINGS.items()}
