"""What a worker of Kafka Connect runs: connectors and tasks, from the bytes of its subscription and of its assignment.

In version 0 the assignment is all that a worker runs. From version 1 on (incremental cooperative) a worker says in its
subscription what it runs, and the assignment has what it begins and what it must give up. Source: `ConnectProtocol` and
`IncrementalCooperativeConnectProtocol` of Kafka's connect-runtime, versions 0 to 2.

A connector is shown as a topic, its tasks as partitions; the connector itself is task -1, as in Connect's bytes.
"""

from __future__ import annotations

from schemas.history import AssignedTopic
from schemas.wire import DecodeError, Reader

_LAST_VERSION = 2
_INCREMENTAL = 1
"""The first version in which workers keep what they run."""
_CONNECTOR_SIZE_MIN = 6
"""An empty name and no tasks."""

Tasks = dict[str, list[int]]
"""Connector -> tasks."""


def connect_tasks(subscription: bytes, assignment: bytes) -> tuple[AssignedTopic, ...]:
    """Return the connectors and tasks that a worker runs once it has its assignment. Raises `DecodeError`."""
    version, given, taken = _assignment(assignment)
    running = _running(subscription) if version >= _INCREMENTAL else {}
    for connector, tasks in given.items():
        running[connector] = sorted({*running.get(connector, ()), *tasks})
    for connector, tasks in taken.items():
        running[connector] = [task for task in running.get(connector, ()) if task not in tasks]
    return tuple(
        AssignedTopic(topic=connector, partitions=tuple(tasks)) for connector, tasks in running.items() if tasks
    )


def _assignment(data: bytes) -> tuple[int, Tasks, Tasks]:
    """Return the version, the tasks that are given, and those that must be given up."""
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= _LAST_VERSION:
        raise DecodeError(f"version {version} of Connect's protocol", reader.position)
    reader.int16()  # an error, 0 for none
    reader.string()  # the leader's member id
    reader.string()  # the leader's address
    reader.int64()  # how far its configuration has been read
    return version, _tasks(reader), _tasks(reader) if version >= _INCREMENTAL else {}


def _running(subscription: bytes) -> Tasks:
    """Return the tasks that a worker runs while it joins."""
    reader = Reader(subscription)
    if reader.int16() < _INCREMENTAL:
        return {}
    reader.string()  # the worker's address
    reader.int64()  # how far its configuration has been read
    running = reader.nullable_blob()
    return _assignment(running)[1] if running else {}


def _tasks(reader: Reader) -> Tasks:
    tasks_by_connector: Tasks = {}
    items = reader.nullable_array(lambda: (reader.string(), reader.int32_array()), _CONNECTOR_SIZE_MIN)
    for connector, tasks in items or ():
        tasks_by_connector.setdefault(connector, []).extend(tasks)
    return tasks_by_connector
