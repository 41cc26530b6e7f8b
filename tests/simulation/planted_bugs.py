"""Bugs to plant: each takes one rule away from the machine, the clock or a member."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from coordinator_state import (
    Answer,
    ClassicGroup,
    Group,
    GroupConfig,
    Output,
    coordinator,
    dispatch,
    outputs,
    retention,
    topics_deleted,
)
from coordinator_state.classic import changes, checks, commit, heartbeat, join_group, kind, sessions
from coordinator_state.classic.changes import Changes
from coordinator_state.classic.group import classic_group
from coordinator_state.classic.kind import ClassicKind
from coordinator_state.offsets import CommittedOffset, OffsetExpirationCondition, Offsets
from coordinator_state.step import Step
from group_coordinator.coordinating.members.member import GroupMember
from schemas.events import DeletedTopic
from schemas.ticks import read_tick
from schemas.wire import INT32
from simulation import checker, driver, log
from streaming import clock as clock_module
from streaming import topic_knowledge
from streaming.topic_knowledge import TopicKnowledge


def a_process_goes_by_its_own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_process(group_id: str, config: GroupConfig, *, rule_changes: object = (), **more: Any) -> Any:
        return coordinator.GroupCoordinator(group_id, config.under("4.4"), **more)

    monkeypatch.setattr(driver, "GroupCoordinator", of_the_process)


def all_go_by_the_rules_of_new_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_by(self: Any, number: int) -> None:
        self._step.config = self._config.under("4.4")

    monkeypatch.setattr(coordinator.GroupCoordinator, "_go_by", go_by)


def two_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ClassicGroup.set_assignment

    def set_assignment(self: ClassicGroup, member: Any, assignment: bytes) -> None:
        first = next((member.assignment for member in self.members.values() if member.assignment), assignment)
        real(self, member, first if assignment else assignment)

    monkeypatch.setattr(ClassicGroup, "set_assignment", set_assignment)


def a_forgotten_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Offsets.put_topic

    def put_topic(self: Offsets, topic: str, stored: dict[int, CommittedOffset]) -> None:
        real(
            self, topic, {partition: committed for partition, committed in stored.items() if committed.offset % 3 != 2}
        )

    monkeypatch.setattr(Offsets, "put_topic", put_topic)


def a_commit_that_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Step.append_record

    def append_record(self: Step, key: bytes, value: bytes | None) -> None:
        if value is None or not key.endswith(INT32.pack(1)):
            real(self, key, value)

    monkeypatch.setattr(Step, "append_record", append_record)


def no_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "append_offset_tombstone", lambda step, topic, partition: None)


def an_old_commit_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "require_generation", lambda group, generation_id: None)


def a_fenced_member_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    real = checks.require_member

    def require_member(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> Any:
        owner = group.static_members.get(group_instance_id or "", member_id)
        return real(group, owner, group_instance_id)

    monkeypatch.setattr(commit, "require_member", require_member)


def heartbeats_are_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    real = heartbeat.heartbeat

    def ignore_heartbeat(step: Step, request: Any) -> None:
        name = f"session:{request.member_id}"
        before = step.group.timers.get(name) if step.group is not None else None
        real(step, request)
        if before is not None:
            step.require_group().timers[name] = before

    monkeypatch.setattr(ClassicKind, "heartbeat", staticmethod(ignore_heartbeat))


def the_dead_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sessions.session_timer_expired

    def expire(step: Step, member_id: str, last_heard_ms: int) -> None:
        if member_id in classic_group(step.require_group()).pending_join:
            real(step, member_id, last_heard_ms)

    monkeypatch.setattr(kind, "session_timer_expired", expire)


def time_runs_before_the_first_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the records' own times: whoever joins while nobody ticks yet is expired by the next request."""
    real = outputs.group_event

    def group_event(decoded: Any, offset: int, clock_ms: int, timestamp_ms: int) -> Any:
        return real(decoded, offset, clock_ms or timestamp_ms, timestamp_ms)

    monkeypatch.setattr(driver, "group_event", group_event)


def a_static_member_keeps_its_new_subscription_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    real = GroupMember.subscribe

    def subscribe(self: Any, topics: Iterable[str]) -> None:
        joined = self._joining._joined_subscription
        real(self, topics)
        if self._joining._config.group_instance_id is not None and joined is not None:
            self._joining._joined_subscription = self._joining.subscription

    monkeypatch.setattr(GroupMember, "subscribe", subscribe)


def a_tick_of_the_future_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    real = read_tick
    for module in (driver, checker, log):
        monkeypatch.setattr(
            module, "read_tick", lambda value, timestamp_ms, ahead_max_ms: real(value, None, ahead_max_ms)
        )


def the_clock_jumps_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        clock_module, "next_clock_ms", lambda clock_ms, elapsed_ms, wall_ms, interval_ms: max(wall_ms, clock_ms)
    )


def a_pause_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    change_steps(monkeypatch, lambda clock, step: step._replace(renewal=clock_module.Renewal.NOBODY))


def waiting_for_the_query_is_taken_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """With batches that are always slow every session would begin anew for ever."""

    def unless_it_moves(ticks: clock_module.TickClock, step: clock_module.Step) -> clock_module.Step | None:
        asks = ticks.skew_ms is None or step.renewal is not clock_module.Renewal.NOBODY
        return step if asks or step.tick_ms > ticks.clock_ms else None

    change_steps(monkeypatch, unless_it_moves)


def change_steps(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[clock_module.TickClock, clock_module.Step], clock_module.Step | None],
) -> None:
    real = clock_module.TickClock.next_step

    def next_step(self: clock_module.TickClock, wall_ms: int, monotonic_ms: int) -> clock_module.Step | None:
        step = real(self, wall_ms, monotonic_ms)
        return None if step is None else change(self, step)

    monkeypatch.setattr(clock_module.TickClock, "next_step", next_step)


def a_clock_of_long_ago_is_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module.TickClock, "_leaves_behind", lambda self, broker_ms: False)


def what_a_group_waits_for_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on at the present, and to the groups all that time has gone by."""
    monkeypatch.setattr(coordinator, "move_time", lambda step, to_ms: None)


def the_brokers_clock_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module.TickClock, "_why_not", lambda self, wall_ms, broker_ms: None)


def the_clock_runs_ahead_of_timers_that_have_not_fired(monkeypatch: pytest.MonkeyPatch) -> None:
    real = clock_module.TickClock.handled

    def handled(self: Any, watermark_ms: int) -> None:
        real(self, self.clock_ms)

    monkeypatch.setattr(clock_module.TickClock, "handled", handled)


def a_log_rests_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock stands as long as that of a log at rest, and nobody's session begins anew when it goes on."""
    monkeypatch.setattr(clock_module, "REST_AFTER_MS", clock_module.REST_AFTER_MS - 10_000)


def sessions_go_on_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicKind, "renew_sessions", staticmethod(lambda step: None))


def offsets_of_a_topic_that_is_gone_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "forget_topics", lambda step, topics: None)


def offsets_without_a_topic_id_outlive_their_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    real = topics_deleted.forget_topics
    is_known = operator.attrgetter("topic_id")

    def forget_topics(step: Step, topics: tuple[DeletedTopic, ...]) -> None:
        group = step.require_group()
        without = {(name, number): committed for name, number, committed in group.offsets if not is_known(committed)}
        real(step, topics)
        for (name, number), committed in without.items():
            group.offsets.put(name, number, committed)

    monkeypatch.setattr(coordinator, "forget_topics", forget_topics)


def a_topic_made_again_loses_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    real = topics_deleted.forget_topics

    def forget_topics(step: Step, topics: tuple[DeletedTopic, ...]) -> None:
        stored = [
            DeletedTopic(name=name, topic_id=committed.topic_id) for name, _, committed in step.require_group().offsets
        ]
        real(step, topics + tuple(deleted for deleted in stored if deleted.name in {topic.name for topic in topics}))

    monkeypatch.setattr(coordinator, "forget_topics", forget_topics)


def topics_are_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicKnowledge, "_misses", lambda self, topic_id, name, look: name not in look.topics)


def a_broker_that_is_behind_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_knowledge, "LISTINGS_TO_BE_GONE", 1)
    monkeypatch.setattr(TopicKnowledge, "_is_dead", lambda self, topic_id: False)


def a_parked_answer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Changes.answer

    def answer(self: Changes, api: str, parked: Any, response: Any) -> None:
        if parked.offset % 5 or parked.offset == self.step.offset:
            real(self, api, parked, response)

    monkeypatch.setattr(Changes, "answer", answer)


def an_answer_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Changes.answer

    def answer(self: Changes, api: str, parked: Any, response: Any) -> None:
        real(self, api, parked, response)
        real(self, api, parked, response)

    monkeypatch.setattr(Changes, "answer", answer)


def an_answer_goes_to_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Changes.this_request
    parked_before: list[Any] = []

    def this_request(self: Changes) -> Any:
        parked = real(self)
        parked_before.append(parked)
        return replace(parked, request_id=parked_before[-2:][0].request_id)

    monkeypatch.setattr(Changes, "this_request", this_request)


def a_generation_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "next_generation", lambda generation_id: generation_id + 1 + (generation_id == 2))


def a_generation_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "next_generation", lambda generation_id: generation_id % 2 + 1)


def arrival_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "in_order", lambda rows: rows)


def timers_are_lost_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    real = dispatch.decode_group

    def decode_group(membership: bytes, offsets: bytes) -> Group:
        group = real(membership, offsets)
        group.timers.pop("join", None)
        return group

    monkeypatch.setattr(driver, "decode_group", decode_group)


def timers_change_their_order_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    real = dispatch.decode_group

    def decode_group(membership: bytes, offsets: bytes) -> Group:
        group = real(membership, offsets)
        group.timers = dict(reversed(group.timers.items()))
        return group

    monkeypatch.setattr(driver, "decode_group", decode_group)


def ids_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_group, "member_uuid", lambda request_id: str(uuid4()))


def time_by_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row gets the last tick of its batch, not the last one before it."""
    real = driver.carry_clock

    def carry_clock(records: Any, scan: Any) -> Any:
        return [row._replace(clock_ms=scan.clock_ms) for row in real(records, scan)]

    monkeypatch.setattr(driver, "carry_clock", carry_clock)


def absent_members_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Changes.drop
    monkeypatch.setattr(
        Changes,
        "drop",
        lambda self, member, reason: None if reason == "did_not_rejoin" else real(self, member, reason),
    )


def the_old_id_of_an_instance_is_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_group, "_fence_parked", lambda changes, member: None)


def retention_is_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetExpirationCondition, "is_expired", lambda self, committed, now_ms, retention_ms: True)


def offsets_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "grow_offsets", lambda self, by_bytes: None)


def answers_are_written_first(monkeypatch: pytest.MonkeyPatch) -> None:
    real = driver.Driver._write_all

    def answers_first(self: driver.Driver, outputs: list[Output], steps: Any) -> None:
        real(self, sorted(outputs, key=lambda output: not isinstance(output, Answer)), steps)

    monkeypatch.setattr(driver.Driver, "_write_all", answers_first)
