"""Requests that a log does not have, and that the broker must have got: inferred from their traces, and said.

A member that is gone, and of which no line tells why, left or expired: both explain what follows, and neither is told.

A line is written when a request is answered. A JoinGroup that was never answered (the same member sent another, or the
connection broke in a way that lost it) is in no line, but the next leader's answer lists its sender, or a rebalance
begins that nothing in the log begins. What such a request held is known from the member's other requests.

A broker that stops writes no lines of what it took last. A commit of these lies in the offsets log, and a fetch of
offsets shows it.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from coordinator_state import ClassicGroup, Group
from coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.proving.recordings.commits_in_sight import Place, partitions_of
from group_coordinator.proving.recordings.consumer_group_settings import SILENT_INTERVALS
from group_coordinator.proving.recordings.expectations import Disagreement, Expected, Step
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.watching.observed.offsets_log import CommitRecord
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Request,
    SyncGroupRequest,
)

PROMPT_US = 1_000
"""How soon a client sends its next request when it has its answer."""
SENT_AGAIN_US = 10_000_000
"""How soon a member sends a JoinGroup again whose answer it has not got."""
LEAVE_VERSION = 3
CANDIDATES_MAX = 60
COMMITS_MAX = 8
_Committed = tuple[int, int, str]
"""An offset, its leader epoch and its metadata."""
_SIGNS_OF_LIFE = ConsumerGroupHeartbeatRequest | JoinGroupRequest | SyncGroupRequest | HeartbeatRequest
"""Of members of consumer groups, of either protocol."""


class Absent(Struct, frozen=True):
    """A request that may have been there."""

    request: GroupRequest
    effect_us: int
    why: str


def absent_requests(
    steps: Sequence[Step], disagreement: Disagreement, group: Group | None, expected: Expected
) -> Iterator[tuple[Absent, ...]]:
    """Yield the requests that may be missing before a disagreement, the likeliest first: one request, or the joins of
    all members that the broker names."""
    for commits in (_stored_commits, _fetched_commits):
        yield from (absent for absent in commits(steps, disagreement, expected) if absent)
    if group is not None and type(group.body) is ConsumerGroup:
        yield from _silent_members(steps, disagreement, group.body)
        return
    classic = _classic(group)
    members = {} if classic is None else classic.members
    unknown = [
        member_id
        for member_id in dict.fromkeys(_known_ids(steps))
        if member_id in disagreement.broker and member_id not in members
    ]
    joins = [(own_joins, member_id) for member_id in unknown if (own_joins := _joins_of(steps, member_id))]
    if len(joins) > 1:
        yield tuple(
            _join(
                own_joins,
                disagreement,
                steps,
                join,
                _after_last_answer(steps, disagreement, join) or disagreement.at_us - 1,
            )
            for own_joins, join in joins
        )
    count = 0
    for member_id in _suspects(steps, disagreement, group):
        own_joins = _joins_of(steps, member_id)
        if not own_joins:
            continue
        for effect_us in _times(steps, disagreement, member_id, expected):
            for absent in (
                _join(own_joins, disagreement, steps, member_id, effect_us),
                *(_sent_before(join, member_id, effect_us) for join in own_joins),
                _leave(own_joins[-1], member_id, effect_us),
            ):
                if absent is None:
                    continue
                yield (absent,)
                count += 1
                if count >= CANDIDATES_MAX:
                    return


def _silent_members(
    steps: Sequence[Step], disagreement: Disagreement, group: ConsumerGroup
) -> Iterator[tuple[Absent, ...]]:
    """Yield each member of a consumer group that was not heard for longer than members may be silent, the one that was
    silent for the longest time first."""
    heard: dict[str, Step] = {}
    for step in steps:
        body = step.request.request
        is_well = not step.request.response.get("errorCode", 0) and step.effect_us < disagreement.at_us
        if isinstance(body, _SIGNS_OF_LIFE) and is_well:
            heard[body.member_id or str(step.request.response.get("memberId"))] = step
    silent = [(heard[member_id].effect_us, member_id) for member_id in group.members if member_id in heard]
    for heard_us, member_id in sorted(silent):
        interval_ms = heard[member_id].request.response.get("heartbeatIntervalMs", 0)
        if disagreement.at_us - heard_us > SILENT_INTERVALS * interval_ms * 1000:
            yield (_leave(heard[member_id], member_id, disagreement.at_us - 1),)


def _stored_commits(
    steps: Sequence[Step], disagreement: Disagreement, expected: Expected
) -> Iterator[tuple[Absent, ...]]:
    """Yield the commits whose records lie in the offsets log where others came out here: one, then also the next."""
    if disagreement.kind != "record" or expected.records is None:
        return
    committed: dict[int, dict[Place, _Committed]] = {}
    for record in islice(expected.records, int(disagreement.about.removeprefix("record:")), None):
        entry = record.decoded()
        if not isinstance(entry, CommitRecord) or entry.value is None or entry.producer_id is not None:
            break
        if entry.timestamp_ms not in committed and len(committed) == COMMITS_MAX:
            break
        value = entry.value
        place = entry.key.topic, entry.key.partition
        committed.setdefault(entry.timestamp_ms, {})[place] = value.offset, value.leader_epoch, value.metadata
    found: list[Absent] = []
    for at_ms, places in committed.items():
        found += _commits(steps, places, at_ms * 1000)
        yield tuple(found)


def _fetched_commits(
    steps: Sequence[Step], disagreement: Disagreement, expected: Expected
) -> Iterator[tuple[Absent, ...]]:
    """Yield the commits that a fetch shows after a broker loaded the group: the last that the old one took."""
    is_answer = disagreement.kind == "answer" and 0 <= disagreement.step < len(steps)
    if not is_answer or not isinstance(steps[disagreement.step].request.request, OffsetFetchRequest):
        return
    with suppress(ValueError):  # there was no answer here
        here = dict(partitions_of(json.loads(disagreement.here)))
        committed = {
            place: (told["committedOffset"], told.get("committedLeaderEpoch", -1), told["metadata"])
            for place, told in partitions_of(json.loads(disagreement.broker))
            if place in here and told["committedOffset"] > here[place]["committedOffset"]
        }
        for load in reversed(expected.loads):
            if load.from_us <= disagreement.at_us:
                yield tuple(_commits(steps, committed, load.from_us - 1))


def _commits(steps: Sequence[Step], committed: Mapping[Place, _Committed], effect_us: int) -> Iterator[Absent]:
    """Yield commits of these partitions, each by the member that committed them last before."""
    by_template: dict[int, set[Place]] = {}
    for place in committed:
        before = [step for step in steps if step.effect_us < effect_us and place in _places(step)]
        if before:
            by_template.setdefault(max(before, key=lambda step: step.effect_us).index, set()).add(place)
    for index, places in by_template.items():
        template = steps[index]
        body = template.request.request
        assert isinstance(body, OffsetCommitRequest)
        topics = tuple(
            replace(topic, partitions=tuple(
                replace(partition, committed_offset=offset, committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata)
                for partition in topic.partitions if (topic.name, partition.partition_index) in places
                for offset, leader_epoch, metadata in (committed[topic.name, partition.partition_index],)
            ))
            for topic in body.topics
        )  # fmt: skip
        topics = tuple(topic for topic in topics if topic.partitions)
        yield _absent(template, replace(body, topics=topics), body.member_id, effect_us)


def _places(step: Step) -> set[Place]:
    body = step.request.request
    topics = body.topics if isinstance(body, OffsetCommitRequest) else ()
    return {(topic.name, partition.partition_index) for topic in topics for partition in topic.partitions}


def _classic(group: Group | None) -> ClassicGroup | None:
    body = None if group is None else group.body
    return body if type(body) is ClassicGroup else None


def _suspects(steps: Sequence[Step], disagreement: Disagreement, group: Group | None) -> list[str]:
    """Members that may have sent what is missing: those that the broker names, then those that are there."""
    listed_ids = [member["memberId"] for member in _listed(steps, disagreement)]
    classic = _classic(group)
    rejoined = (
        [member.member_id for member in classic.members.values() if member.awaiting_join is not None] if classic else []
    )
    present = [*classic.pending_join, *classic.members] if classic is not None else []
    in_entry = [member_id for member_id in _known_ids(steps) if member_id in disagreement.broker]
    likely = [member_id for member_id in listed_ids if member_id not in rejoined]
    return list(dict.fromkeys([*likely, *in_entry, *present]))


def _listed(steps: Sequence[Step], disagreement: Disagreement) -> list[dict[str, str]]:
    """The members that the leader's answer lists, if the disagreement is about that answer."""
    if disagreement.kind not in ("answer", "time") or not 0 <= disagreement.step < len(steps):
        return []
    step = steps[disagreement.step]
    return list(step.request.response.get("members") or ()) if step.request.logged.api == "JoinGroup" else []


def _known_ids(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        request = step.request.request
        if isinstance(request, JoinGroupRequest) and (member_id := request.member_id or step.request.new_member_id):
            yield member_id


def _joins_of(steps: Sequence[Step], member_id: str) -> list[Step]:
    """The joins of a member, by the id that it had or got."""
    return [
        step
        for step in steps
        if isinstance(step.request.request, JoinGroupRequest)
        and member_id in (step.request.request.member_id, step.request.new_member_id)
    ]


def _times(steps: Sequence[Step], disagreement: Disagreement, member_id: str, expected: Expected) -> list[int]:
    """Return when the request may have come: at the time of its effect, or when the member was last answered before."""
    answered_us = _after_last_answer(steps, disagreement, member_id)
    times = [disagreement.broker_ms * 1000] if disagreement.broker_ms is not None else []
    told_us = (entry.time_ms * 1000 for entry in expected.entries or () if member_id in entry.member_ids)
    times += [us for us in told_us if (answered_us or 0) < us <= disagreement.at_us][-1:]
    times += [answered_us] if answered_us is not None else []
    return [*times, disagreement.at_us - 1]


def _after_last_answer(steps: Sequence[Step], disagreement: Disagreement, member_id: str) -> int | None:
    """Return when a client that had its last answer before the disagreement would send its next request."""
    answers_us = [
        step.request.logged.ready_us
        for step in steps
        if member_id in (getattr(step.request.request, "member_id", None), step.request.new_member_id)
        and step.request.logged.ready_us < disagreement.at_us
    ]
    return max(answers_us) + PROMPT_US if answers_us else None


def _join(
    own_joins: list[Step], disagreement: Disagreement, steps: Sequence[Step], member_id: str, effect_us: int
) -> Absent:
    before = [step for step in own_joins if step.effect_us < effect_us] or own_joins[:1]
    template = before[-1]
    request = template.request.request
    assert isinstance(request, JoinGroupRequest)
    protocol_name = _protocol(steps, disagreement)
    metadata = {member["memberId"]: member["metadata"] for member in _listed(steps, disagreement)}
    protocols = tuple(
        replace(protocol, metadata=b64decode(metadata[member_id]))
        if protocol.name == protocol_name and member_id in metadata
        else protocol
        for protocol in request.protocols
    )
    join_request = replace(request, member_id=member_id, protocols=protocols)
    return _absent(template, join_request, member_id, effect_us)


def _sent_before(join: Step, member_id: str, effect_us: int) -> Absent | None:
    """Return a JoinGroup that its member sends again, as it has no answer: the next one says what it said."""
    request = join.request.request
    if not effect_us < join.effect_us < effect_us + SENT_AGAIN_US or not isinstance(request, JoinGroupRequest):
        return None
    return _absent(join, replace(request, member_id=member_id), member_id, effect_us)


def _leave(template: Step, member_id: str, effect_us: int) -> Absent:
    leave_request = LeaveGroupRequest(
        group_id=template.request.group_id, members=(LeaveGroupMember(member_id=member_id),)
    )
    return _absent(template, leave_request, member_id, effect_us)


def _protocol(steps: Sequence[Step], disagreement: Disagreement) -> str | None:
    return (
        steps[disagreement.step].request.response.get("protocolName") if 0 <= disagreement.step < len(steps) else None
    )


def _absent(template: Step, request: Request, member_id: str, effect_us: int) -> Absent:
    is_leave = isinstance(request, LeaveGroupRequest)
    api = type(request).__name__.removesuffix("Request")
    logged = replace(
        template.request.logged,
        api=api,
        api_version=LEAVE_VERSION if is_leave else template.request.logged.api_version,
        arrival_us=effect_us,
        handled_us=effect_us,
        ready_us=effect_us,
        logged_us=effect_us,
        line_number=0,
        connection=f"absent {api} {member_id} {effect_us}",
        request=b"{}",
    )
    absent = replace(
        template.request,
        logged=logged,
        request_id=f"absent-{api}-{member_id}-{effect_us}",
        request=request,
        response={},
        new_member_id=None,
    )
    why = f"{member_id} gone: left or expired, not known which," if is_leave else f"{api} of {member_id}"
    return Absent(absent, effect_us, why)
