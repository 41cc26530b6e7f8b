"""Names of topics in lines of brokers' logs: few lines have the id and the name of a topic, in the forms that follow.

A broker tells both when it loads its logs (from Kafka 2.8 on), and when the fetch of a follower fails. A client cannot
write such a line: what comes before is the line's time and level, and nothing of the coordinator's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from group_coordinator.watching.broker_logs.kafka_json import KafkaJsonError, topic_id_from_kafka

_ID, _NAME = rb"([\w-]{22})", rb"([\w.-]{1,249})"
_LOADED = re.compile(
    rb"Completed load of Log\(dir=[^,]{1,4096}, topicId=" + _ID + rb", topic=" + _NAME + rb", partition="
)
_FETCHED = re.compile(rb"Error in response for fetch request \(type=FetchRequest, ")
_PARTITION = re.compile(rb"[{ ]" + _NAME + rb"-\d{1,9}=PartitionData\(topicId=" + _ID + rb", fetchOffset=")
_BEFORE = re.compile(rb'(?:^|(?<!\\\\)"|\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b[^()"]{0,100})$')
_OF_GROUPS = (b"[Group", b"[group")


def topic_names_in(line: bytes) -> dict[str, str]:
    """Return the names of topics that a line tells, by id in hexadecimal digits."""
    if b"topicId=" not in line:
        return {}
    return dict(_named(line))


def _named(line: bytes) -> Iterator[tuple[str, str]]:
    loaded, fetched = _LOADED.search(line), _FETCHED.search(line)
    if loaded is not None and is_own_message(line[: loaded.start()]):
        yield from _pair(loaded[1], loaded[2])
    elif fetched is not None and is_own_message(line[: fetched.start()]):
        for partition in _PARTITION.finditer(line, fetched.end()):
            yield from _pair(partition[2], partition[1])


def is_own_message(before: bytes) -> bool:
    """Return whether the broker began its message behind these bytes."""
    return _BEFORE.search(before) is not None and not any(word in before for word in _OF_GROUPS)


def _pair(topic_id: bytes, name: bytes) -> Iterator[tuple[str, str]]:
    try:
        plain = topic_id_from_kafka(topic_id.decode())
    except KafkaJsonError:
        return
    if plain is not None:
        yield plain.replace("-", ""), name.decode()
