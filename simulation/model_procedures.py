"""The model's procedures: what the requests and the timers of a group have in common, under their names in the
description."""

from __future__ import annotations

from coordinator_state.config import GroupConfig
from schemas.consumer_protocol import subscribed_topics
from schemas.error_codes import ErrorCode
from schemas.java_hash import java_string_hash
from schemas.messages import JoinGroupResponse, JoinGroupResponseMember, Response, SyncGroupResponse
from schemas.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode_group_metadata_value,
    encode_key,
)
from simulation.model_life import Alarm, AlarmKind, Answered, Life, Logged, No, Person, Said, State


class Procedures:
    """One group: `said` collects what it says; `life` is the group, None without one."""

    def __init__(self, group_id: str, config: GroupConfig, partition: int = 0) -> None:
        self.group_id = group_id
        self.config = config
        self.partition = partition
        self.life: Life | None = None
        self.said: list[Said] = []

    # --------------------------------------------------------------------------------------------- saying, and alarms

    def answer(self, request_id: str, response: Response, now_ms: int) -> None:
        self.said.append(Answered(request_id, now_ms, response))

    def log(self, life: Life, key: bytes, value: bytes | None) -> None:
        life.in_log = True
        self.said.append(Logged(life.now_ms, key, value))

    def log_group(self, life: Life) -> None:
        members = tuple(
            MemberMetadata(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=each.rebalance_ms,
                session_timeout_ms=each.session_ms,
                subscription=each.metadata(life.protocol),
                assignment=each.assignment,
            )
            for each in life.people
        )
        value = GroupMetadataValue(
            protocol_type=life.protocol_type or "",
            generation=life.generation,
            protocol=life.protocol,
            leader=life.leader,
            current_state_timestamp_ms=life.since_ms,
            members=members,
        )
        self.log(life, encode_key(GroupMetadataKey(self.group_id)), encode_group_metadata_value(value, 3))

    def arm(self, life: Life, kind: AlarmKind, delay_ms: int, who: str = "") -> None:
        self.disarm(life, kind, who)
        life.alarms.append(Alarm(kind, who, life.now_ms + delay_ms, life.now_ms))

    def disarm(self, life: Life, kind: AlarmKind, who: str = "") -> None:
        life.alarms = [each for each in life.alarms if (each.kind, each.who) != (kind, who)]

    def ring(self, life: Life, alarm: Alarm) -> None:
        """An alarm is due."""
        life.alarms.remove(alarm)
        life.now_ms = max(life.now_ms, alarm.deadline_ms)
        match alarm.kind:
            case "session":
                self.session_expired(life, alarm.who)
            case "join":
                self.join_expired(life)
            case "sync":
                self.sync_expired(life)

    def go(self, life: Life, state: State) -> None:
        life.came_from, life.state, life.since_ms = life.state, state, life.now_ms

    # ---------------------------------------------------------------------------------------------------- procedures

    def prepare_rebalance(self, life: Life) -> None:
        if life.state == "CompletingRebalance":
            for each in life.people:
                each.assignment = b""
            self.answer_syncs(life, ErrorCode.REBALANCE_IN_PROGRESS)
        life.must_sync = []
        self.disarm(life, "sync")
        initial = life.state == "Empty"
        if initial:
            delay_ms = self.config.group_initial_rebalance_delay_ms
            life.initial = (delay_ms, max(life.patience_ms() - delay_ms, 0))
            self.arm(life, "join", delay_ms)
        self.go(life, "PreparingRebalance")
        if not initial:
            if life.everybody_joined():
                self.complete_join(life)
            else:
                self.arm(life, "join", life.patience_ms())

    def maybe_complete_join(self, life: Life) -> None:
        if life.state == "PreparingRebalance" and life.came_from != "Empty" and life.everybody_joined():
            self.complete_join(life)

    def rebalance_or_complete(self, life: Life) -> None:
        if life.state == "PreparingRebalance":
            self.maybe_complete_join(life)
        else:
            self.prepare_rebalance(life)

    def join_expired(self, life: Life) -> None:
        if life.initial is not None:
            delay_ms, remaining_ms = life.initial
            if life.extend and remaining_ms:
                life.extend = False
                next_ms = min(self.config.group_initial_rebalance_delay_ms, remaining_ms)
                life.initial = (next_ms, max(remaining_ms - delay_ms, 0))
                self.arm(life, "join", next_ms)
                return
        self.complete_join(life)

    def complete_join(self, life: Life) -> None:
        self.disarm(life, "join")
        life.initial = None
        for absent in [each for each in life.people if each.join is None and each.instance_id is None]:
            self.disarm(life, "session", absent.member_id)
            self.remove(life, absent)
        leader = life.person(life.leader) if life.leader is not None else None
        if leader is not None and leader.join is None:
            present = [each for each in life.people if each.join is not None]
            if not present:
                self.arm(life, "join", max(life.patience_ms(), 1_000))  # Kafka: even 0, for ever
                return
            life.leader = present[0].member_id
        life.generation = -(2**31) if life.generation == 2**31 - 1 else life.generation + 1
        life.must_sync = []
        life.protocol = self.vote(life) if life.people else None
        life.topics = self.topics_of_everybody(life)
        if not life.people:
            self.go(life, "Empty")
            self.log_group(life)
            return
        self.go(life, "CompletingRebalance")
        for each in life.people:
            if each.join is not None:
                request_id, each.join = each.join, None
                self.answer(request_id, self.joined(life, each), life.now_ms)
            self.arm(life, "session", each.session_ms, each.member_id)
            each.new = False
            life.must_sync.append(each.member_id)
        self.arm(life, "sync", life.patience_ms())

    def sync_expired(self, life: Life) -> None:
        if not life.must_sync or life.state not in ("CompletingRebalance", "Stable"):
            return
        for each in [each for each in life.people if each.member_id in life.must_sync]:
            self.disarm(life, "session", each.member_id)
            self.answer_removed(life, each)
            self.remove(life, each)
        self.prepare_rebalance(life)

    def session_expired(self, life: Life, member_id: str) -> None:
        preparing = life.state == "PreparingRebalance"
        if member_id in life.handed_out:
            life.handed_out.remove(member_id)
            if preparing and life.everybody_joined():
                self.complete_join(life)
            return
        each = life.person(member_id)
        if each is None or (not each.new and (each.join is not None or each.sync is not None)):
            return
        self.answer_removed(life, each)
        self.remove(life, each)
        if not preparing:
            self.prepare_rebalance(life)
        elif life.everybody_joined():
            self.complete_join(life)

    def remove(self, life: Life, each: Person) -> None:
        life.people.remove(each)
        life.must_sync = [member_id for member_id in life.must_sync if member_id != each.member_id]
        if life.leader == each.member_id:
            life.leader = life.people[0].member_id if life.people else None

    def answer_removed(self, life: Life, each: Person) -> None:
        """What a member waits for when it is removed. (Kafka leaves a SyncGroup unanswered.)"""
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if each.join is not None:
            self.answer(each.join, JoinGroupResponse(error_code=code), life.now_ms)
        if each.sync is not None:
            self.answer(each.sync, SyncGroupResponse(error_code=code), life.now_ms)

    def answer_syncs(self, life: Life, code: ErrorCode) -> None:
        for each in life.people:
            if each.sync is not None:
                response = SyncGroupResponse(error_code=code) if code else self.synced(life, each)
                self.answer(each.sync, response, life.now_ms)
                each.sync = None
                self.arm(life, "session", each.session_ms, each.member_id)

    def joined(self, life: Life, each: Person) -> JoinGroupResponse:
        everybody = tuple(
            JoinGroupResponseMember(
                member_id=other.member_id,
                group_instance_id=other.instance_id,
                metadata=other.metadata(life.protocol),
            )
            for other in life.people
        )
        return JoinGroupResponse(
            generation_id=life.generation,
            protocol_type=life.protocol_type,
            protocol_name=life.protocol,
            leader=life.leader or "",
            member_id=each.member_id,
            members=everybody if each.member_id == life.leader else (),
        )

    def synced(self, life: Life, each: Person) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=life.protocol_type, protocol_name=life.protocol, assignment=each.assignment
        )

    def vote(self, life: Life) -> str:
        """Most votes win; equals are settled by the order of a Java hash map of 16 buckets, doubled when three
        quarters full."""
        votes = [next(name for name, _ in each.protocols if life.common(name)) for each in life.people]
        names = list(dict.fromkeys(votes))
        buckets = 16
        while len(names) * 4 > buckets * 3:
            buckets *= 2
        spread = {name: java_string_hash(name) % 2**32 for name in names}
        names.sort(key=lambda name: (spread[name] ^ spread[name] >> 16) % buckets)
        return max(names, key=votes.count)

    def topics_of_everybody(self, life: Life) -> tuple[str, ...] | None:
        if life.protocol_type != "consumer":
            return None
        each_topics = [subscribed_topics(each.metadata(life.protocol)) for each in life.people]
        if any(topics is None for topics in each_topics):
            return None
        return tuple(dict.fromkeys(topic for topics in each_topics for topic in topics or ()))

    def validate(self, life: Life | None, member_id: str, instance_id: str | None) -> tuple[Life, Person]:
        """The order of these checks is seen by clients."""
        if life is None:
            raise No(ErrorCode.UNKNOWN_MEMBER_ID)
        holder = life.holder(instance_id)
        if instance_id is not None and holder is None:
            raise No(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder is not None and holder.member_id != member_id:
            raise No(ErrorCode.FENCED_INSTANCE_ID)
        each = life.person(member_id)
        if each is None:
            raise No(ErrorCode.UNKNOWN_MEMBER_ID)
        return life, each

    def require_group_id(self) -> None:
        if not self.group_id:
            raise No(ErrorCode.INVALID_GROUP_ID)
