"""A scenario: one group, clients by name, and the commands of a scenario file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from coordinator_state import Answer, AssignmentChange, Output
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatResponse, TopicPartitions
from schemas.consumer_protocol import Assignment, TopicPartition, encode_assignment
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import DescribedTopic, RegexesResolved, TopicMetadata
from schemas.messages import JoinGroupResponse, LeaveGroupMember
from tests.coordinator_state.consumer.harness import ConsumerHarness, consumer_heartbeat
from tests.coordinator_state.harness import of_type, subscription
from tests.scenarios.output_lines import OutputLines
from tests.scenarios.script import Command, duration_ms


class Client:
    """One client, as a consumer of Kafka keeps itself: its settings, its member id, and its generation or epoch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation_id = -1
        self.protocol_name: str | None = None
        self.settings = {"topics": "orders", "protocols": "range", "session_timeout": "10s", "rebalance_timeout": "60s"}
        self.ids_given = 0

    def forget(self) -> None:
        """The client's process has started again: it keeps its settings, and knows nothing else."""
        self.member_id, self.generation_id, self.protocol_name = "", -1, None

    def new_member_id(self) -> str:
        self.ids_given += 1
        return f"{self.name}-{self.ids_given}"

    def heartbeat_fields(self, options: dict[str, str], joins: bool) -> dict[str, Any]:
        """What a member of the consumer protocol says with a heartbeat: all, or what is another than before."""
        said = self.settings if joins else options
        fields: dict[str, Any] = {"instance_id": self.settings.get("group_instance_id")}
        if "regex" in said:
            fields["subscribed_topic_regex"] = said["regex"]
        elif "topics" in said:
            fields["subscribed_topic_names"] = tuple(said["topics"].split(","))
        if "assignor" in said:
            fields["server_assignor"] = said["assignor"]
        if joins:
            fields["rebalance_timeout_ms"] = duration_ms(self.settings["rebalance_timeout"])
        return fields

    def join_fields(self) -> dict[str, Any]:
        metadata = subscription(*self.settings["topics"].split(","))
        return {
            "client_id": self.name,
            "session_timeout_ms": duration_ms(self.settings["session_timeout"]),
            "rebalance_timeout_ms": duration_ms(self.settings["rebalance_timeout"]),
            "group_instance_id": self.settings.get("group_instance_id"),
            "protocols": dict.fromkeys(self.settings["protocols"].split(","), metadata),
        }


class Scenario:
    """Runs commands one after the other. Settings that no command changes have Kafka's defaults."""

    def __init__(self) -> None:
        self._start_with({})
        self._clients: dict[str, Client] = {}
        self._senders: dict[str, str] = {}
        self._topic_ids: dict[str, str] = {}

    def _start_with(self, config: dict[str, int]) -> None:
        settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 3_000} | config
        self._group = ConsumerHarness(now_ms=0, **settings)
        self._group.metadata = TopicMetadata(version=0, topics=())
        self._topic_names: dict[str, str] = {}
        self._lines = OutputLines(self._group.now_ms, self._topic_names)

    def run(self, command: Command) -> Iterator[str]:
        """The lines of what the command puts out."""
        run = {
            "settings": self._settings,
            "client": self._configure,
            "stable": self._stable,
            "clock": self._clock,
            "restart": self._restart,
            "create_topic": self._create_topic,
            "delete_topic": self._delete_topic,
            "renew_sessions": self._renew_sessions,
            "topics": self._topics,
            "resolve_regexes": self._resolve_regexes,
            "end_transaction": self._end_transaction,
            "ConsumerGroupHeartbeat": self._consumer_group_heartbeat,
            "TxnOffsetCommit": self._txn_offset_commit,
            "JoinGroup": self._join_group,
            "SyncGroup": self._sync_group,
            "Heartbeat": self._heartbeat,
            "LeaveGroup": self._leave_group,
            "OffsetCommit": self._offset_commit,
            "OffsetFetch": self._offset_fetch,
            "OffsetDelete": self._offset_delete,
            "DescribeGroups": self._describe_groups,
            "DeleteGroups": self._delete_groups,
            "FindCoordinator": self._find_coordinator,
        }[command.name]
        outputs = run(command)
        self._learn(outputs)
        yield from self._lines.lines(outputs, self._senders)

    def _client(self, command: Command) -> Client:
        """The client that the command names first."""
        name = command.arguments[0]
        return self._clients.setdefault(name, Client(name))

    def _sent(self, client: Client, outputs: list[Output]) -> list[Output]:
        self._senders[f"r{self._group.offset}"] = client.name
        return outputs

    def _learn(self, outputs: list[Output]) -> None:
        """Clients note the member id and the generation that a JoinGroup is answered with, or their epoch."""
        for output in outputs:
            if not isinstance(output, Answer):
                continue
            client, response = self._clients[self._senders[output.request_id]], output.response
            match response:
                case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NONE):
                    client.generation_id = response.member_epoch
                case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                    client.member_id = response.member_id
                case JoinGroupResponse(error_code=ErrorCode.NONE):
                    client.member_id, client.generation_id = response.member_id, response.generation_id
                    client.protocol_name = response.protocol_name

    # ------------------------------------------------------------------------------------ the world around the group

    def _settings(self, command: Command) -> list[Output]:
        """Broker settings, by their Kafka names."""
        assert self._group.offset == 0, "settings come first"
        self._start_with({name.replace(".", "_"): int(value) for name, value in command.options.items()})
        return []

    def _configure(self, command: Command) -> list[Output]:
        """The settings of a client, for its next JoinGroup."""
        self._client(command).settings |= command.options
        return []

    def _stable(self, command: Command) -> list[Output]:
        """The named clients join a new group, the first one leads, and get these partitions.
        Shows how the group is then."""
        members = tuple(argument.partition("=")[0] for argument in command.arguments)
        outputs: list[Output] = []
        for name in members:
            outputs += self._join_group(Command("JoinGroup", (name,), {}))
        while self._group.state == "PreparingRebalance":
            outputs += self._group.sleep(self._group.config.group_initial_rebalance_delay_ms)
        self._learn(outputs)
        for name in members[1:]:
            self._sync_group(Command("SyncGroup", (name,), {}))
        outputs += self._sync_group(Command("SyncGroup", (members[0], *command.arguments), {}))
        assert self._group.state == "Stable"
        return of_type(outputs, AssignmentChange)[-1:]  # type: ignore[return-value]

    def _clock(self, command: Command) -> list[Output]:
        return self._group.sleep(duration_ms(command.arguments[0]))

    def _restart(self, command: Command) -> list[Output]:
        self._client(command).forget()
        return []

    def _create_topic(self, command: Command) -> list[Output]:
        """From now on commits carry the id of this topic."""
        self._make_topic(command.arguments[0])
        return []

    def _make_topic(self, name: str) -> None:
        topic_id = str(UUID(int=len(self._topic_names) + 1))
        self._topic_ids[name], self._topic_names[topic_id] = topic_id, name

    def _delete_topic(self, command: Command) -> list[Output]:
        (topic,) = command.arguments
        return self._group.delete_topics((topic, self._topic_ids.pop(topic, None)))

    def _renew_sessions(self, command: Command) -> list[Output]:
        """The clock had stood still, and goes on: here, or so much later."""
        later = [duration_ms(argument) for argument in command.arguments]
        return self._group.renew_sessions(self._group.now_ms + later[0] if later else None)

    def _topics(self, command: Command) -> list[Output]:
        """The cluster has these topics with so many partitions: `orders=3`. Who sends a request knows it, and a group
        that is there is told."""
        before, counts = self._group.metadata, command.options
        known = {topic.name for topic in before.topics}
        version = before.version + 1
        for name in counts:
            if name not in self._topic_ids:
                self._make_topic(name)
        self._group.metadata = TopicMetadata(
            version=version,
            topics=tuple(
                DescribedTopic(name=name, topic_id=self._topic_ids[name], partitions=((),) * int(count))
                for name, count in counts.items()
            ),
            absent=tuple(sorted(known - counts.keys())),
            new_topics_version=version if counts.keys() - known else before.new_topics_version,
        )
        return [] if self._group.state == "none" else self._group.tell(self._group.metadata)

    def _resolve_regexes(self, _: Command) -> list[Output]:
        """The group is told which of the cluster's topics match its members' expressions."""
        metadata = self._group.metadata
        settings = [client.settings for client in self._clients.values()]
        expressions = sorted({each["regex"] for each in settings if "regex" in each})
        resolved = {
            expression: tuple(topic.name for topic in metadata.topics if re.fullmatch(expression, topic.name))
            for expression in expressions
        }
        told = RegexesResolved(version=metadata.version, resolved=resolved, began_ms=self._group.now_ms)
        return self._group.tell(told)

    def _end_transaction(self, command: Command) -> list[Output]:
        """A producer's transaction is `committed` or `aborted`."""
        (outcome,) = command.arguments
        assert outcome in ("committed", "aborted")
        return self._group.end_transaction(int(command.options["producer"]), committed=outcome == "committed")

    # --------------------------------------------------------------------------------------------------- requests

    def _consumer_group_heartbeat(self, command: Command) -> list[Output]:
        """A client that is no member joins. `owns`: what it has in hand now, `nothing` or partitions; `epoch=-1`: it
        leaves, `epoch=-2`: it does so for a while, as a static member."""
        client, options = self._client(command), dict(command.options)
        owns, epoch = options.pop("owns", None), options.pop("epoch", None)
        member_id = options.pop("member_id", None)
        member_epoch = int(epoch) if epoch else max(client.generation_id, JOIN_EPOCH)
        client.settings |= options
        client.member_id = client.member_id or client.new_member_id()
        fields = client.heartbeat_fields(options, member_epoch == JOIN_EPOCH)
        if owns is not None or member_epoch == JOIN_EPOCH:
            fields["topic_partitions"] = self._owned(owns or "nothing")
        request = consumer_heartbeat(member_id or client.member_id, member_epoch, **fields)
        outputs = self._group.send(*request, topic_metadata=self._group.metadata, client_id=client.name)
        return self._sent(client, outputs)

    def _owned(self, partitions: str) -> tuple[TopicPartitions, ...]:
        """`orders-0,orders-1` -> the partitions of each topic."""
        numbers: dict[str, tuple[int, ...]] = {}
        for topic, number in map(_partition, () if partitions == "nothing" else partitions.split(",")):
            numbers[topic] = (*numbers.get(topic, ()), number)
        ids = self._topic_ids
        return tuple(TopicPartitions(topic_id=ids[name], partitions=owned) for name, owned in numbers.items())

    def _txn_offset_commit(self, command: Command) -> list[Output]:
        """A `producer` commits offsets of a client in its transaction."""
        client = self._client(command)
        outputs = self._group.commit_in_transaction(
            int(command.options["producer"]),
            _offsets(command),
            client.member_id,
            int(command.options.get("generation", client.generation_id)),
        )
        return self._sent(client, outputs)

    def _join_group(self, command: Command) -> list[Output]:
        """A client that is asked to come back with its new id does so at once, unless `once` is said."""
        client = self._client(command)
        options = dict(command.options)
        version = int(options.pop("version", "9"))
        member_id = options.pop("member_id", client.member_id)
        client.settings |= options
        outputs = self._join(client, member_id, version)
        answer = self._group.answers(outputs).get(f"r{self._group.offset}")
        if answer is not None and answer.error_code is ErrorCode.MEMBER_ID_REQUIRED and "once" not in command.arguments:
            outputs = outputs + self._join(client, answer.member_id, version)
        return outputs

    def _join(self, client: Client, member_id: str, version: int) -> list[Output]:
        fields = client.join_fields() | {"version": version}
        if not member_id:
            fields["new_member_id"] = client.new_member_id()
        return self._sent(client, self._group.join(member_id, **fields))

    def _sync_group(self, command: Command) -> list[Output]:
        """A leader says who gets which partitions: `A=orders-0,orders-1`."""
        client = self._client(command)
        assignments = dict(self._assignment(*argument.split("=")) for argument in command.arguments[1:])
        generation_id = int(command.options.get("generation", client.generation_id))
        protocol_name = command.options.get("protocol", client.protocol_name)
        instance = client.settings.get("group_instance_id")
        outputs = self._group.sync(
            client.member_id, generation_id, assignments, protocol_name=protocol_name, group_instance_id=instance
        )
        return self._sent(client, outputs)

    def _assignment(self, name: str, partitions: str) -> tuple[str, bytes]:
        assigned = tuple(TopicPartition(*_partition(part)) for part in partitions.split(","))
        return self._clients[name].member_id, encode_assignment(Assignment(partitions=assigned))

    def _heartbeat(self, command: Command) -> list[Output]:
        client = self._client(command)
        generation_id = int(command.options.get("generation", client.generation_id))
        member_id = command.options.get("member_id", client.member_id)
        instance = client.settings.get("group_instance_id")
        return self._sent(client, self._group.heartbeat(member_id, generation_id, group_instance_id=instance))

    def _leave_group(self, command: Command) -> list[Output]:
        """A client leaves; or an admin removes static members by `group_instance_id`."""
        client = self._client(command)
        removed = command.options.get("group_instance_id")
        reason = command.options.get("reason")
        member_id = command.options.get("member_id", "" if removed else client.member_id)
        member = LeaveGroupMember(member_id=member_id, group_instance_id=removed, reason=reason)
        return self._sent(client, self._group.leave(member))

    def _offset_commit(self, command: Command) -> list[Output]:
        """A client without membership commits as a consumer that assigns itself partitions does."""
        client = self._client(command)
        outputs = self._group.commit(
            client.member_id,
            int(command.options.get("generation", client.generation_id)),
            _offsets(command),
            metadata=command.options.get("metadata", ""),
            topic_ids=self._topic_ids,
        )
        return self._sent(client, outputs)

    def _offset_fetch(self, command: Command) -> list[Output]:
        """Of the partitions that are named, or of all that have offsets. `require_stable=yes`: none that an open
        transaction may change."""
        partitions = map(_partition, command.arguments[1:])
        outputs = self._group.fetch(*partitions, require_stable=command.options.get("require_stable") == "yes")
        return self._sent(self._client(command), outputs)

    def _offset_delete(self, command: Command) -> list[Output]:
        return self._sent(self._client(command), self._group.delete_offsets(*map(_partition, command.arguments[1:])))

    def _describe_groups(self, command: Command) -> list[Output]:
        return self._sent(self._client(command), self._group.describe())

    def _delete_groups(self, command: Command) -> list[Output]:
        return self._sent(self._client(command), self._group.delete())

    def _find_coordinator(self, command: Command) -> list[Output]:
        return self._sent(self._client(command), self._group.find_coordinator())


def _partition(text: str) -> tuple[str, int]:
    """`orders-0` -> topic and partition."""
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def _offsets(command: Command) -> dict[tuple[str, int], int]:
    """`A orders-0=17` -> what A commits."""
    parts = (argument.partition("=") for argument in command.arguments[1:])
    return {_partition(partition): int(offset) for partition, _, offset in parts}
