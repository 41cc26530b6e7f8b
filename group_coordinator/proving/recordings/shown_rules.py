"""Which decisions of Kafka 4.4 a broker has taken, each by itself: a later release of 4.3 may have some of them.

The rules are those of `coordinator_state.kafka_versions`; what shows each of them is a record that follows another, or
an answer. Where nothing shows a rule, the broker's version tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from coordinator_state.kafka_versions import OF_NEW_LOGS, OF_OLD_LOGS, name_with, rules_named
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.watching.observed.offsets_log import CommitRecord
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.consumer_group_records import (
    CURRENT_MEMBER_TYPE,
    MEMBER_METADATA_TYPE,
    METADATA_TYPE,
    TARGET_METADATA_TYPE,
)
from schemas.consumer_protocol import decode_subscription
from schemas.error_codes import ErrorCode
from schemas.messages import JoinGroupRequest, LeaveGroupRequest
from schemas.records import OFFSET_COMMIT_TYPE
from schemas.wire import INT16, DecodeError

_HEARD_US = 5_000_000
"""For so long after it was heard a member is surely there: no session of a consumer group is shorter in practice."""
_NEVER_US = -(2**62)
_DEFAULT_ASSIGNOR = "uniform"
_SUBSCRIPTION = ("subscribed_topic_names", "subscribed_topic_regex")
_Shown = tuple[str, bool, str]
"""A rule, whether it holds, and what shows that."""


def shown_rules(
    records: Mapping[str, Sequence[LoggedRecord]], groups: Mapping[str, Sequence[GroupRequest]]
) -> dict[str, tuple[bool, str]]:
    """Return for each rule that something shows whether it holds, and what shows it. What comes first counts.

    `records`: those of the offsets log, by group.
    """
    shown: dict[str, tuple[bool, str]] = {}
    for of_group in records.values():
        for rule, holds, why in (*_of_commits(of_group), *_GroupRecords().read(of_group)):
            shown.setdefault(rule, (holds, why))
    for requests in groups.values():
        for rule, holds, why in _GroupRequests().read(requests):
            shown.setdefault(rule, (holds, why))
    return shown


def with_shown_rules(name: str, shown: Mapping[str, tuple[bool, str]]) -> tuple[str, str] | None:
    """Return the name of the rules of a version with those that something shows, and what shows what is otherwise; None
    where nothing is. Between 4.3 and 4.4 a broker may have some."""
    version = rules_named(name)
    other = {rule: why for rule, (holds, why) in shown.items() if getattr(version, rule) != holds}
    if not other or name not in (OF_OLD_LOGS, OF_NEW_LOGS):
        return None
    return name_with(version, {rule: shown[rule][0] for rule in other}), "; ".join(other.values())


def _of_commits(records: Iterable[LoggedRecord]) -> Iterator[_Shown]:
    for record in records:
        if record.producer_id is None or record.value is None or _type_of(record) > OFFSET_COMMIT_TYPE:
            continue
        entry = record.decoded()
        if isinstance(entry, CommitRecord) and entry.value is not None:
            holds = entry.value.topic_id is not None
            why = f"commits in transactions {'name' if holds else 'do not name'} ids of topics"
            yield "transactional_commits_have_topic_ids", holds, why
            return


def _type_of(record: LoggedRecord) -> int:
    return int(INT16.unpack_from(record.key)[0])


def _is_target_without_time(record: LoggedRecord) -> bool:
    if record.value is None or _type_of(record) != TARGET_METADATA_TYPE:
        return False
    entry = record.decoded()
    assert not isinstance(entry, CommitRecord)
    return not (entry.value or {}).get("assignment_timestamp")


class _GroupRecords:
    """The members of a group as its records tell them."""

    def __init__(self) -> None:
        self._members: dict[str, dict[str, Any]] = {}
        self._had_members = False
        self._hash: int | None = None
        """At the last record of the group's epoch, or since."""

    def read(self, records: Sequence[LoggedRecord]) -> Iterator[_Shown]:
        """Yield what the records show. The last one shows nothing: what follows it may be missing."""
        before = None
        for record, following in pairwise(records):
            record_type = _type_of(record)
            if record_type == METADATA_TYPE and self._is_for_nothing(record, before):
                yield "assignor_vote_raises_epoch", True, "votes for assignors that are equal raise a group's epoch"
            before = record_type
            if record_type == MEMBER_METADATA_TYPE:
                if self._vote_changes(record):
                    holds = _type_of(following) == METADATA_TYPE
                    why = f"a vote for an assignor {'raises' if holds else 'does not raise'} a group's epoch"
                    yield "assignor_vote_raises_epoch", holds, why
            elif record_type == METADATA_TYPE and record.value is not None and self._was_emptied():
                holds = _is_target_without_time(following)
                why = f"the target of a group that becomes empty {'is' if holds else 'is not'} ended"
                yield "emptied_group_ends_assignment", holds, why

    def _is_for_nothing(self, record: LoggedRecord, before: int | None) -> bool:
        """Return whether a group's epoch rises while nothing changes and votes are equal, of which another comes first
        then: the one that just spoke is counted anew (`HashMap.compute`)."""
        entry = record.decoded()
        assert not isinstance(entry, CommitRecord)
        metadata_hash, self._hash = self._hash, (entry.value or {}).get("metadata_hash")
        is_same = self._hash is not None and metadata_hash == self._hash
        return is_same and before in (TARGET_METADATA_TYPE, CURRENT_MEMBER_TYPE) and self._preferred() is None

    def _was_emptied(self) -> bool:
        """Return whether the last member went just now."""
        emptied = not self._members and self._had_members
        self._had_members = bool(self._members)
        return emptied

    def _vote_changes(self, record: LoggedRecord) -> bool:
        """Take in a member's record; return whether nothing but its vote is new, and changes what most ask for."""
        entry = record.decoded()
        assert not isinstance(entry, CommitRecord)
        member_id, value = str(entry.key["member_id"]), entry.value
        before, voted_before = self._members.get(member_id), self._preferred()
        if value is None:
            self._members.pop(member_id, None)
            return False
        self._members[member_id] = value
        self._had_members = True
        if before is None or any(before[name] != value[name] for name in (*_SUBSCRIPTION, "instance_id")):
            return False
        voted = self._preferred()
        return voted is not None and voted_before is not None and voted != voted_before

    def _preferred(self) -> str | None:
        """Return the assignor that most ask for; None where it cannot be told."""
        votes = Counter(value["server_assignor"] for value in self._members.values() if value["server_assignor"])
        most = votes.most_common(2)
        if not most:
            return _DEFAULT_ASSIGNOR
        return None if len(most) == 2 and most[0][1] == most[1][1] else str(most[0][0])


class _GroupRequests:
    """The instances of a group as its requests tell them, and whether it is full."""

    def __init__(self) -> None:
        self._heard_us: dict[str, int] = {}
        """Instance id -> when it was last taken for a member, or left for a while."""
        self._native_us = _NEVER_US
        """When a member of the consumer protocol was last answered."""
        self._is_full = False

    def read(self, requests: Iterable[GroupRequest]) -> Iterator[_Shown]:
        """Yield what the answers show."""
        for request in requests:
            code = request.response.get("errorCode")
            match request.request:
                case ConsumerGroupHeartbeatRequest() as beat:
                    if beat.member_epoch == JOIN_EPOCH:
                        yield from self._joins(request, beat.instance_id, code)
                    if code == ErrorCode.NONE:
                        self._beats(request, beat)
                case JoinGroupRequest() as join if request.logged.ready_us - self._native_us <= _HEARD_US:
                    yield from self._joins(request, join.group_instance_id, code)
                    yield from self._malformed(join, code)
                case LeaveGroupRequest():
                    self._is_full = False
                    self._heard_us.clear()

    def _beats(self, request: GroupRequest, beat: ConsumerGroupHeartbeatRequest) -> None:
        self._native_us = request.logged.ready_us
        if beat.member_epoch == -1:
            self._is_full = False
            self._heard_us.pop(beat.instance_id or "", None)
        elif beat.instance_id is not None:
            self._heard_us[beat.instance_id] = request.logged.ready_us

    def _joins(self, request: GroupRequest, instance_id: str | None, code: object) -> Iterator[_Shown]:
        """A static member that the group knows comes back while it is full."""
        rule = "full_group_takes_known_instances"
        heard_us = self._heard_us.get(instance_id or "")
        is_known = heard_us is not None and request.logged.ready_us - heard_us <= _HEARD_US
        if code == ErrorCode.GROUP_MAX_SIZE_REACHED:
            self._is_full = True
            if is_known:
                yield rule, False, "a full group refuses an instance that it has"
        elif self._is_full and is_known and code in (ErrorCode.NONE, ErrorCode.UNRELEASED_INSTANCE_ID):
            yield rule, True, "a full group lets in an instance that it has"

    def _malformed(self, join: JoinGroupRequest, code: object) -> Iterator[_Shown]:
        if join.protocol_type != "consumer" or not join.protocols or not _is_malformed(join.protocols[0].metadata):
            return
        if code in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.UNKNOWN_SERVER_ERROR):
            holds = code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            why = f"a subscription that cannot be read is answered {ErrorCode(code).name}"  # type: ignore[arg-type]
            yield "malformed_subscription_is_inconsistent", holds, why


def _is_malformed(subscription: bytes) -> bool:
    try:
        decode_subscription(subscription)
    except DecodeError:
        return True
    return False
