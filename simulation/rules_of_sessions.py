"""These rules compute expiries from the requests and answers alone."""

from __future__ import annotations

from typing import Any

from coordinator_state import Answer, GroupConfig
from schemas.consumer_group_history import GroupConverted
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.history import JoinPhaseCompleted, MemberExpired, MemberJoined, MemberReplaced
from schemas.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from simulation.checker import Rule, Step
from simulation.rules_of_offsets import MAY_COMMIT, commit_codes

NEW_MEMBER_MS = 300_000
_HEARD_OF_COMMIT = {ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


class OnlyTicksMoveTime(Rule):
    """A group's time is the last tick's, or still that at which it began, before the first one."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._epoch, self._now_ms = -1, 0

    def check(self, step: Step) -> str | None:
        group = step.group
        if group is None:
            return None
        if group.epoch != self._epoch:
            self._epoch, self._now_ms = group.epoch, 0
        before_ms, self._now_ms = self._now_ms, group.now_ms
        if group.now_ms > max(before_ms, step.clock_ms) + step.moved_ms:
            return f"the group's time went on to {group.now_ms}, but the clock stands at {step.clock_ms}"
        return None


class SessionsKept(Rule):
    """A member that sent something within its session is not expired; any other is, as soon as the clock reaches its
    deadline."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._last_heard_ms: dict[str, tuple[int, int]] = {}
        """Member -> when it was last heard, or its session renewed, and for how long that is good."""
        self._sessions: dict[str, int] = {}
        """Member -> its session timeout, as it was before this step."""
        self._syncs: dict[int, str] = {}
        self._sent_away: dict[str, None] = {}
        """Members whose parked requests were answered because an upgrade to a consumer group began, and then failed. In
        Kafka such a member may have lost its session while it waited, and has none until it joins again."""

    def check(self, step: Step) -> str | None:
        problem = None
        if step.is_classic:
            problem = self._check(step)
        else:
            self._begin_again(step)
        members = step.classic.members.values() if step.classic is not None else ()
        self._sessions = {member.member_id: member.session_timeout_ms for member in members}
        return problem

    def _begin_again(self, step: Step) -> None:
        """The group has been a consumer group; the sessions of a classic one begin when it becomes that."""
        converted_ms = [output.time_ms for output in step.outputs if isinstance(output, GroupConverted)]
        members = step.classic.members.values() if step.classic is not None else ()
        self._last_heard_ms = {
            member.member_id: (converted_ms[-1], NEW_MEMBER_MS if member.is_new else member.session_timeout_ms)
            for member in members
        }
        self._syncs.clear()

    def _check(self, step: Step) -> str | None:
        now_ms = step.group.now_ms if step.group is not None else step.clock_ms
        if step.moved_ms:
            self._last_heard_ms = {
                member_id: (heard_ms + step.moved_ms, good_ms)
                for member_id, (heard_ms, good_ms) in self._last_heard_ms.items()
            }
        if step.renewed and step.classic is not None:
            for member in step.classic.members.values():
                session_ms = NEW_MEMBER_MS if member.is_new else member.session_timeout_ms
                self._renew(member.member_id, session_ms, now_ms)
        self._note_request(step, now_ms)
        for output in step.outputs:
            if isinstance(output, MemberExpired):
                heard_ms, session_ms = self._last_heard_ms.pop(output.member.member_id, (output.time_ms, 0))
                may_be_lost = session_ms == NEW_MEMBER_MS and output.member.member_id in self._sent_away
                if output.time_ms - heard_ms < session_ms and not may_be_lost:
                    silent_ms = output.time_ms - heard_ms
                    return f"{output.member.member_id} is expired after a silence of {silent_ms} ms of {session_ms} ms"
            else:
                self._note_output(step, output)
        return self._overdue(step)

    def _note_request(self, step: Step, now_ms: int) -> None:
        event = step.event
        if event is None or step.before is None:
            return
        match event.request:
            case SyncGroupRequest(member_id=member_id):
                self._syncs[event.offset] = member_id
            case HeartbeatRequest(member_id=member_id):
                if any(_accepts_heartbeat(output) for output in step.outputs):
                    self._note(step, member_id, now_ms)
            case OffsetCommitRequest(member_id=member_id):
                codes = commit_codes(step)
                if codes and set(codes) <= _HEARD_OF_COMMIT and step.before.state in MAY_COMMIT:
                    self._note(step, member_id, now_ms)

    def _note_output(self, step: Step, output: Any) -> None:
        match output:
            case MemberJoined():
                self._last_heard_ms[output.member.member_id] = (output.time_ms, NEW_MEMBER_MS)
            case MemberReplaced():
                self._last_heard_ms.pop(output.old_member_id, None)
                self._last_heard_ms[output.member.member_id] = (
                    output.time_ms,
                    self._sessions.get(output.old_member_id, 0),
                )
            case JoinPhaseCompleted():
                for member_id in output.members:
                    self._note(step, member_id, output.time_ms)
            case Answer(response=JoinGroupResponse(member_id=member_id)) if _upgrades(step):
                self._sent_away[member_id] = None
            case Answer(response=SyncGroupResponse(error_code=code), answers_offset=offset):
                member_id = self._syncs.pop(offset, "")
                if _upgrades(step):
                    self._sent_away[member_id] = None
                    return
                was_parked = (step.event is None or step.event.offset != offset) and not _sends_again(step, member_id)
                brought_assignments = (
                    step.before is not None
                    and step.before.state == "CompletingRebalance"
                    and code is ErrorCode.NONE
                )
                if was_parked or brought_assignments:
                    self._note(step, member_id, output.time_ms)

    def _note(self, step: Step, member_id: str, now_ms: int) -> None:
        member = step.classic.members.get(member_id) if step.classic is not None else None
        session_ms = self._sessions.get(member_id) if member is None else member.session_timeout_ms
        if session_ms is not None:
            self._last_heard_ms[member_id] = (now_ms, session_ms)
            self._sent_away.pop(member_id, None)

    def _renew(self, member_id: str, session_ms: int, now_ms: int) -> None:
        """A whole session from now, as the member has it now; but none ends sooner than it would have."""
        heard_ms, good_ms = self._last_heard_ms.get(member_id, (now_ms, 0))
        whole_ms = NEW_MEMBER_MS if good_ms == NEW_MEMBER_MS else session_ms
        if now_ms + whole_ms > heard_ms + good_ms:
            self._last_heard_ms[member_id] = (now_ms, whole_ms)

    def _overdue(self, step: Step) -> str | None:
        group, classic = step.group, step.classic
        if group is None or classic is None:
            return None
        for member in classic.members.values():
            heard_ms, session_ms = self._last_heard_ms.get(member.member_id, (group.now_ms, 1))
            waits = member.awaiting_join is not None or member.awaiting_sync is not None
            protected = waits and session_ms != NEW_MEMBER_MS
            if member.member_id in self._sent_away:
                continue
            if not protected and max(group.now_ms, step.clock_ms) - heard_ms >= session_ms:
                silent_ms = max(group.now_ms, step.clock_ms) - heard_ms
                return f"{member.member_id} is still a member after a silence of {silent_ms} ms of {session_ms} ms"
        return None


def _upgrades(step: Step) -> bool:
    """Return whether somebody wants to make a consumer group of the group."""
    return step.event is not None and isinstance(step.event.request, ConsumerGroupHeartbeatRequest)


def _sends_again(step: Step, member_id: str) -> bool:
    """Return whether the member itself sends another SyncGroup: the one that waited is answered, and renews nothing."""
    request = None if step.event is None else step.event.request
    return isinstance(request, SyncGroupRequest) and request.member_id == member_id


def _accepts_heartbeat(output: object) -> bool:
    return (
        isinstance(output, Answer)
        and isinstance(output.response, HeartbeatResponse)
        and output.response.error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    )
