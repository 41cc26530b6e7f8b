"""What is told of consumer groups, held against what Kafka's own classes say of the same groups after each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest
from msgspec import UNSET

from group_coordinator.watching.commands.group_tables import member_lines, state_lines
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.history.fold import GroupFold
from group_coordinator.watching.history.holding import Holder, target_of
from group_coordinator.watching.tables.fold import GroupTables
from group_coordinator.watching.tables.rows import Ownership, Target
from schemas.consumer_group_history import GroupEpochBumped
from schemas.history import (
    AssignedTopic,
    GroupSnapshot,
    History,
    HistoryRecord,
    RebalanceCompleted,
    RebalanceStarted,
    SnapshotMember,
)
from tests.watching.history.causes import has_epochs, led_to, told
from tests.watching.history.kafka_histories import FAMILIES, Json, Played, played


class Check(Protocol):
    """Follows one history."""

    def take(self, step: Played) -> None: ...

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        """Compare a consumer group as it is after the step."""


class States:
    """The state that a group is in by its history is Kafka's, also after it has become a classic one."""

    class Fold(GroupFold):
        def __init__(self) -> None:
            super().__init__()
            self.state = ""

        def state_entered(self, record: HistoryRecord, state: str) -> None:
            self.state = state

    def __init__(self) -> None:
        self._groups: dict[str, States.Fold] = {}

    def take(self, step: Played) -> None:
        for record in step.records:
            self._groups.setdefault(record.group_id, States.Fold()).add(record)

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        assert self._groups[group_id].state == group["state"]


class Rebalances:
    """Each rise of the epoch has one rebalance, which is over when the group has settled."""

    def __init__(self) -> None:
        self._running: dict[str, RebalanceStarted] = {}

    def take(self, step: Played) -> None:
        for record in step.records:
            if isinstance(record, RebalanceStarted):
                assert record.group_id not in self._running
                self._running[record.group_id] = record
            elif isinstance(record, RebalanceCompleted):
                assert self._running.pop(record.group_id).seq == record.rebalance
            elif isinstance(record, GroupEpochBumped) and "converted" not in record.reasons:
                assert self._running[record.group_id].generation_id == record.generation_id - 1

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        assert group_id not in self._running or group["state"] not in ("Stable", "Empty")


class Snapshots:
    """What is published of a group is what Kafka's group is."""

    def __init__(self) -> None:
        self.latest: dict[str, GroupSnapshot] = {}

    def take(self, step: Played) -> None:
        for group_id, snapshot in step.snapshots.items():
            if snapshot is None:
                self.latest.pop(group_id, None)
            else:
                self.latest[group_id] = snapshot

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        snapshot = self.latest[group_id]
        assert (snapshot.state, snapshot.generation_id, snapshot.assignment_epoch) == (
            group["state"], group["group_epoch"], group["assignment_epoch"],
        )  # fmt: skip
        assert {member.member_id: self._told(step, member) for member in snapshot.members} == {
            member_id: self._kafkas(step, group, member_id, member) for member_id, member in group["members"].items()
        }

    def _told(self, step: Played, member: SnapshotMember) -> Json:
        way = member.consumer
        assert way is not UNSET
        return {
            "epochs": (way.member_epoch, way.previous_member_epoch),
            "state": way.state,
            "held": step.by_name(member.partitions or ()),
            "target": step.by_name(target_of(member)),
            "must give up": step.by_name(way.pending_revocation),
            "subscribes to": (list(way.subscribed_topics), way.subscribed_regex or ""),
            "is static": member.group_instance_id,
            "may revoke until": None
            if way.revoking_since_ms is None or way.uses_classic_protocol
            else way.revoking_since_ms + member.rebalance_timeout_ms,
        }

    def _kafkas(self, step: Played, group: Json, member_id: str, member: Json) -> Json:
        held: dict[str, list[int]] = {}
        for partitions in (member["assigned"], member["pending_revocation"]):
            for topic, numbers in step.named(partitions).items():
                held[topic] = sorted([*held.get(topic, ()), *numbers])
        deadlines = group["deadlines"].get(member_id, {})
        revokes = member["pending_revocation"] and "classic" not in member
        return {
            "epochs": (member["epoch"], member["previous_epoch"]),
            "state": member["state"].lower(),
            "held": held,
            "target": {topic: numbers for topic, numbers in step.named(member["target"]).items() if numbers},
            "must give up": step.named(member["pending_revocation"]),
            "subscribes to": (member["subscribed_topics"], member["subscribed_regex"]),
            "is static": member.get("instance_id"),
            "may revoke until": deadlines.get("rebalance") if revokes else None,
        }


class Printed(Snapshots):
    """`groups` prints what kafka-consumer-groups prints of Kafka's answer to ConsumerGroupDescribe."""

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        for described in step.described:
            if described["groupId"] == group_id and described["errorCode"] == 0:
                snapshot = self.latest[group_id]
                if not _topic_ids(group) <= step.topics:
                    continue  # Kafka leaves out topics that are gone, here they stay until they are given up
                assert list(state_lines(snapshot))[1].split()[:6] == [
                    group_id, described["assignorName"], described["groupState"], str(described["groupEpoch"]),
                    str(described["assignmentEpoch"]), str(len(described["members"])),
                ]  # fmt: skip
                (names, *rows) = [line.split() for line in member_lines(snapshot, verbose=True)]
                printed = [dict(zip(names, row, strict=True)) for row in rows]
                if step.step["version"] == 0:  # which has no types of members
                    printed = [{name: text for name, text in row.items() if name != "UPGRADED"} for row in printed]
                assert sorted(printed, key=_id) == sorted(self._rows(step, described), key=_id)

    def _rows(self, step: Played, described: Json) -> Iterator[Json]:
        members = described["members"]
        types = {member.get("memberType") for member in members}
        for member in members:
            owned, target = member["assignment"]["topicPartitions"], member["targetAssignment"]["topicPartitions"]
            row = {
                "GROUP": described["groupId"],
                "CONSUMER-ID": member["memberId"],
                "HOST": member["clientHost"],
                "CLIENT-ID": member["clientId"],
                "#PARTITIONS": str(sum(len(topic["partitions"]) for topic in owned)),
                "CURRENT-EPOCH": str(member["memberEpoch"]),
                "CURRENT-ASSIGNMENT": _as_printed(owned),
                "TARGET-EPOCH": str(described["assignmentEpoch"]),
                "TARGET-ASSIGNMENT": _as_printed(target),
            }
            if any(each["instanceId"] for each in members):
                row["GROUP-INSTANCE-ID"] = member["instanceId"] or "-"
            if types == {0, 1}:
                row["UPGRADED"] = str(bool(member["memberType"])).lower()
            yield row


def _topic_ids(group: Json) -> set[str]:
    parts = ("assigned", "pending_revocation", "target")
    return {topic_id for member in group["members"].values() for part in parts for topic_id in member[part]}


def _id(row: Json) -> str:
    return str(row["CONSUMER-ID"])


def _as_printed(topics: list[Json]) -> str:
    texts = [f"{topic['topicName']}:{','.join(map(str, sorted(topic['partitions'])))}" for topic in topics]
    return ";".join(sorted(texts)) or "-"


class Tables:
    """By the tables, each member owns what Kafka's has in hand, and shall own what its target gives it."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupTables] = {}

    def take(self, step: Played) -> None:
        for record in step.records:
            self._groups.setdefault(record.group_id, GroupTables()).add(record)

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        owned, targets = set[Place](), set[Place]()
        for row in self._groups[group_id].standing(group_id):
            if isinstance(row, Ownership | Target):
                (topic,) = step.by_name((AssignedTopic(topic=row.topic, partitions=(row.partition,)),))
                (owned if isinstance(row, Ownership) else targets).add((row.member_id, topic, row.partition))
        assert owned == self._kafkas(step, group, "assigned", "pending_revocation")
        assert targets == self._kafkas(step, group, "target")

    def _kafkas(self, step: Played, group: Json, *parts: str) -> set[Place]:
        return {
            (member_id, topic, partition)
            for member_id, member in group["members"].items()
            for part in parts
            for topic, partitions in step.named(member[part]).items()
            for partition in partitions
        }


Place = tuple[str, str, int]
"""Member, topic, partition."""


class HeldUp:
    """The dashboard names who must give up partitions, since when, and who waits for them: by Kafka's groups after each
    step those that were told to, since the first step in which they were."""

    def __init__(self) -> None:
        self._facts: dict[str, GroupFacts] = {}
        self._told: dict[str, dict[Place, int]] = {}

    def take(self, step: Played) -> None:
        for record in step.records:
            self._facts.setdefault(record.group_id, GroupFacts(record.group_id)).add(record)
        for group_id, group in step.groups.items():
            if group["type"] == "consumer":
                before, at_ms = self._told.get(group_id, {}), int(step.step["at_ms"])
                told = self._places(group, "pending_revocation")
                self._told[group_id] = {place: before.get(place, at_ms) for place in told}

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        if not _topic_ids(group) <= step.topics:
            return  # by name, a topic that is gone is the one that has its name now
        facts, told = self._facts[group_id], self._told[group_id]
        pending, target = self._places(group, "pending_revocation"), self._places(group, "target")
        must_go = pending | (self._places(group, "assigned") - target)
        owners = {place[1:]: place[0] for place in target}
        expected = {}
        for member_id in {place[0] for place in must_go}:
            own = {place for place in must_go if place[0] == member_id}
            expected[member_id] = (
                {(step.topic_names[topic_id], partition) for _, topic_id, partition in own},
                min((told_ms for place, told_ms in told.items() if place[0] == member_id), default=None),
                {owners[place[1:]] for place in own if place[1:] in owners} - {member_id},
            )
        holders = facts.way.holders()
        assert {each.member_id: (self._named(step, each), each.told_ms, set(each.waiting)) for each in holders} == (
            expected
        )
        assert set(facts.classic_members) == {
            member_id for member_id, member in group["members"].items() if "classic" in member
        }

    def _places(self, group: Json, part: str) -> set[Place]:
        return {
            (member_id, topic_id, int(partition))
            for member_id, member in group["members"].items()
            for topic_id, partitions in member[part].items()
            for partition in partitions
        }

    def _named(self, step: Played, holder: Holder) -> set[tuple[str, int]]:
        return {
            (topic, partition) for topic, partitions in step.by_name(holder.topics).items() for partition in partitions
        }


class Causes:
    """Each rebalance has all of its step that led to it, also where the group went over to another protocol."""

    def __init__(self) -> None:
        self._history: dict[str, list[History]] = {}
        self._led_to: dict[str, dict[int, list[int]]] = {}

    def take(self, step: Played) -> None:
        by_origin: dict[tuple[object, ...], list[History]] = {}
        for record in step.records:
            self._history.setdefault(record.group_id, []).append(record)
            cause = record.cause
            timer = (cause.timer, cause.member_id) if cause.kind == "timer" else None
            by_origin.setdefault((record.group_id, cause.kind, cause.offset, timer), []).append(record)
        for (group_id, *_), records in by_origin.items():
            if has_epochs(records):
                self._led_to.setdefault(str(group_id), {}).update(led_to(records))

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        return

    def end(self) -> None:
        """Compare what was told in the whole history."""
        for group_id, causes in self._led_to.items():
            history = self._history[group_id]
            assert causes.items() <= told(history).items()


def checks() -> Iterator[Check]:
    yield States()
    yield Rebalances()
    yield Snapshots()
    yield Printed()
    yield Tables()
    yield HeldUp()
    yield Causes()


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "txn_classic"])
def test_history_tells_what_kafka_says(family: str) -> None:
    compared = 0
    for steps in played(family):
        followed = list(checks())
        for step in steps:
            consumer_groups = {name: group for name, group in step.groups.items() if group["type"] == "consumer"}
            for check in followed:
                try:
                    check.take(step)
                    for group_id, group in (step.groups if type(check) is States else consumer_groups).items():
                        check.compare(step, group_id, group)
                except (AssertionError, KeyError) as error:
                    error.add_note(f"{type(check).__name__} at {step.history}, step {step.step['id']}")
                    raise
            compared += len(consumer_groups)
        for check in followed:
            if isinstance(check, Causes):
                check.end()
    assert compared > 50
