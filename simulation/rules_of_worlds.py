"""These rules check a whole world: its drivers against the checker, its healthy members, its end."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_state import decode_group
from schemas.error_codes import ErrorCode
from schemas.events import EventProblem, TopicsDeleted, decode_group_event
from schemas.history import MemberExpired, RequestRefused
from simulation.checker import CheckResult, Violation
from simulation.driver import Driver, Written, encode_output
from simulation.log import tick_of, ticks_of
from simulation.process import Process
from simulation.scenario import BrokerClockJump, DriverCrash, Scenario, StrayTick, WallClockJump
from simulation.settled import why_unsettled
from simulation.world import World
from streaming.clock import REST_AFTER_MS, REST_INTERVALS

_REFUSED_MEMBER = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID)

Numbered = dict[tuple[int, str, int, int], bytes]
"""(shard, group, epoch, seq) -> the output."""


def check_drivers(
    written: list[Written], drivers: list[Driver], result: CheckResult, timestamp_ms: int
) -> Iterator[Violation]:
    """Check that the drivers' outputs, in batches and with crashes, are those of the checker in one pass."""
    first: Numbered = {}
    for shard, output, data in written:
        key = (shard, output.group_id, output.epoch, output.seq)
        if first.setdefault(key, data) != data:
            yield Violation("RepeatsAreEqual", f"output {key} was written twice, and differently", key[1], timestamp_ms)
    expected: Numbered = {
        (shard, group_id, output.epoch, output.seq): encode_output(output)
        for (shard, group_id), outputs in result.outputs.items()
        for output in outputs
    }
    if first != expected:
        yield _batching_seen(first, expected, timestamp_ms)
    dead_letters = [sorted(driver.dead_letters) for driver in drivers]
    if dead_letters != [sorted(letter) for letter in result.dead_letters]:
        yield Violation("BatchesCannotBeSeen", "the dead letters differ", "", timestamp_ms)


def _batching_seen(first: Numbered, expected: Numbered, timestamp_ms: int) -> Violation:
    key = min(key for key in {*first, *expected} if first.get(key) != expected.get(key))
    in_batches, in_one_pass = first.get(key, b"nothing"), expected.get(key, b"nothing")
    message = f"output {key} is {in_batches!r} in batches, {in_one_pass!r} in one pass"
    return Violation("BatchesCannotBeSeen", message, key[1], timestamp_ms)


def check_expiries(world: World, result: CheckResult) -> Iterator[Violation]:
    """Check that no member expires within a session of the clock's return, nor while it runs and can send.

    That time begins when the log's clock stood one session before the deadline: if driver or broker paused meanwhile,
    the pause lies in it, and is no excuse. Before the first tick of a log there is no such clock.
    """
    for seen_ms, expiry in result.expiries:
        session_ms = _session_of(world, expiry)
        for back_ms in _returns(world, expiry.group_id):
            if back_ms < expiry.time_ms < back_ms + session_ms:
                late_ms = expiry.time_ms - back_ms
                message = (
                    f"{expiry.member.member_id} is expired {late_ms} ms after the clock's return, of "
                    f"{session_ms} ms"
                )
                yield Violation("PausesCostNobody", message, expiry.group_id, seen_ms)
        holder = _holder(world, expiry.member.member_id, seen_ms)
        from_ms = _append_time(world, expiry.group_id, expiry.time_ms - session_ms)
        if holder is None or from_ms is None:
            continue
        was_well = from_ms <= seen_ms and holder.was_well(from_ms, seen_ms)
        if was_well and not _was_refused(world, result, expiry, session_ms):
            message = f"{holder.name} was alive and well, and yet {expiry.member.member_id} is expired"
            yield Violation("TheLivingStay", message, expiry.group_id, seen_ms)


def _was_refused(world: World, result: CheckResult, expiry: MemberExpired, session_ms: int) -> bool:
    """Return whether the member was heard in its last session, and was not taken for a member.

    A heartbeat of an epoch that is over is refused, and in Kafka so is the native static member that then begins again,
    until its own earlier self has expired. A member that saw no answer for so long that it repeats its first heartbeat
    fares no better.
    """
    outputs = result.outputs[world.shard_of(expiry.group_id), expiry.group_id]
    return any(
        isinstance(output, RequestRefused)
        and output.error_code in _REFUSED_MEMBER
        and output.cause.member_id == expiry.member.member_id
        and 0 <= expiry.time_ms - output.time_ms <= session_ms
        for output in outputs
    )


def _session_of(world: World, expiry: MemberExpired) -> int:
    """Return the session that a member has to keep. In a consumer group the record has the time that it had, a pause
    included."""
    for process in world.processes:
        if any(member_id == expiry.member.member_id for _, member_id in process.identities):
            if process.plan.protocol == "consumer":
                return world.scenario.config.group_consumer_session_timeout_ms
            return min(process.plan.session_timeout_ms, expiry.session_timeout_ms or 0)
    return min(expiry.session_timeout_ms or 0, world.scenario.config.group_consumer_session_timeout_ms)


def _returns(world: World, group_id: str) -> Iterator[int]:
    """Yield the times at which the clock went on after a pause of any kind: the log had no tick for half of the
    shortest session, or, in a log at rest, for longer than its clock stands. A clock that waits for its query repeats
    its tick after half of a pause; a log that came to rest before that was at rest.

    A tick that is not valid moves nothing, but the log has taken it: it was no pause.
    """
    records = world.log.partitions[world.shard_of(group_id)]
    pause_ms = world.scenario.config.group_min_session_timeout_ms // 2
    rest_ms = REST_INTERVALS * world.scenario.tick_ms
    bound_ms = world.scenario.config.tick_ahead_bound_ms
    first_ms = next((tick_ms for _, tick_ms in ticks_of(records, bound_ms)), None)
    if first_ms is None:
        return
    # Until its first tick a log's clock stood, from its first record on.
    clock_ms, ticked_ms, heard_ms, was_at_rest = first_ms, records[0].time_ms, records[0].time_ms, False
    for record in records:
        if record.key is not None:
            heard_ms = record.time_ms
            continue
        if record.time_ms - ticked_ms >= pause_ms + (rest_ms if was_at_rest else 0):
            yield clock_ms
        ticked_ms, tick_ms = record.time_ms, tick_of(record, bound_ms)
        was_at_rest = heard_ms + REST_AFTER_MS <= ticked_ms + pause_ms // 2 + world.scenario.tick_ms
        if tick_ms is not None and tick_ms - clock_ms > rest_ms:
            yield tick_ms  # it left behind what it would not catch up
        clock_ms = max(clock_ms, tick_ms or 0)


def _holder(world: World, member_id: str, at_ms: int) -> Process | None:
    return next((process for process in world.processes if process.identity_at(at_ms) == member_id), None)


def _append_time(world: World, group_id: str, clock_ms: int) -> int | None:
    """Return when the log's clock reached this time; None if it was past it from the beginning."""
    was_earlier = False
    for ticked_ms, tick_ms in ticks_of(
        world.log.partitions[world.shard_of(group_id)], world.scenario.config.tick_ahead_bound_ms
    ):
        if tick_ms >= clock_ms:
            return ticked_ms if was_earlier else None
        was_earlier = True
    return None


def check_ticks(world: World, result: CheckResult) -> Iterator[Violation]:
    """Check that hardly any tick of ours lies too far in the future: one may, when a ticker starts or a clock was just
    set."""
    starts = sum(isinstance(fault, DriverCrash) and not fault.ticker_lives for fault in world.scenario.faults)
    jumps = sum(isinstance(fault, WallClockJump | BrokerClockJump) for fault in world.scenario.faults)
    strays = sum(isinstance(fault, StrayTick) for fault in world.scenario.faults)
    for dead_letters in result.dead_letters:
        malformed = sum(letter.reason == EventProblem.MALFORMED_TICK for letter in dead_letters)
        if malformed > strays + starts + 2 * jumps + 2:
            yield Violation("OwnTicksCount", f"{malformed} ticks were malformed", "", world.ended_ms)


def check_end(world: World) -> Iterator[Violation]:
    """Check that every group settles once nothing goes wrong any more."""
    if not world.settled:
        for group_id in groups_of(world.scenario):
            reason = why_unsettled(world, group_id)
            if reason:
                yield Violation("GroupsSettle", f"{group_id} does not settle: {reason}", group_id, world.ended_ms)


def check_topics(world: World) -> Iterator[Violation]:
    """Check that no offset outlives its topic where the topic was known, and that no event reports an existing topic
    as gone."""
    for watch, driver in zip(world.topic_watches, world.drivers, strict=True):
        for group_id, blobs in driver.states.items():
            for topic, partition, committed in decode_group(*blobs).offsets:
                topic_id = committed.topic_id
                if topic_id in watch.ever_kept and topic_id != world.cluster_topics.id_of(topic):
                    message = f"{topic}-{partition} has outlived the topic {topic_id}"
                    yield Violation("OffsetsGoWithTheirTopic", message, group_id, world.now_ms)
    for records in world.log.partitions:
        for record in records:
            if record.key is None or not (record.value or b"").startswith(b'{"type":"topics_deleted"'):
                continue
            event = decode_group_event(record.key.decode(), record.value)
            for deleted in event.topics if isinstance(event, TopicsDeleted) else ():
                if world.cluster_topics.was_alive(deleted.name, deleted.topic_id, record.time_ms):
                    message = f"{deleted.name} is told to be gone, and is there with the id {deleted.topic_id}"
                    yield Violation("OffsetsGoWithTheirTopic", message, record.key.decode(), record.time_ms)


def groups_of(scenario: Scenario) -> list[str]:
    return list(dict.fromkeys(plan.group_id for plan in scenario.members))
