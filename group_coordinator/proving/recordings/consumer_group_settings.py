"""The settings of consumer groups (KIP-848) that a broker's answers show: the heartbeat interval, the session timeout.

No request names the session timeout of a member of the consumer protocol. It lies between how long members were silent
and lived, and how long they were silent and were gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from coordinator_state.config import GroupConfig
from group_coordinator.proving.recordings.expectations import LATE_MS, Load
from group_coordinator.proving.recordings.group_requests import GroupRequest
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode

SESSION_TIMEOUT = "group_consumer_session_timeout_ms"
NO_EVIDENCE = "the default"
NOT_KNOWN = "of who is gone by it alone is told that left or expired is not known"
_INTERVAL = "group_consumer_heartbeat_interval_ms"
_ROUND_STEPS_MS = (60_000, 30_000, 15_000, 10_000, 5_000, 1_000, 500, 100, 1)
"""The rounder a number of milliseconds, the likelier it is a setting."""
SILENT_INTERVALS = 2
"""A session is longer than so many heartbeat intervals: a member that is gone sooner did not expire."""
_NARROW = 4, 3
"""Bounds of a session in this ratio at most show what it is."""
_DESCRIBE = "ConsumerGroupDescribe"

Inferred = dict[str, tuple[int | str, str]]
"""Setting -> its value, and what shows it."""


def note(inferred: Inferred, name: str, value: int, why: str) -> None:
    """Note the value of a setting, and what shows it."""
    inferred[name] = value, f"{name.replace('_', '.')} = {value} ({why})"


class Interruptions(Struct, frozen=True):
    """When sessions did not run as they do."""

    loads: Mapping[str, Sequence[Load]] = {}
    """Group -> when brokers loaded it: sessions begin anew."""
    standstills_ms: Sequence[tuple[int, int]] = ()
    """From when until when brokers counted no time."""


def infer_consumer_groups(
    groups: Mapping[str, Sequence[GroupRequest]], interruptions: Interruptions, inferred: Inferred
) -> None:
    """Infer what native members of consumer groups are told, how they are assigned, and when they expire."""
    requests = chain.from_iterable(groups.values())
    intervals = Counter(
        int(request.response["heartbeatIntervalMs"]) for request in requests if _is_well(request, JOIN_EPOCH)
    )
    if not intervals:
        return
    inferred["group_consumer_hash_order"] = (
        True, "members of consumer groups are assigned in the order of the broker's hash maps"
    )  # fmt: skip
    interval_ms = intervals.most_common(1)[0][0]
    _infer(_INTERVAL, interval_ms, "as most members were told", inferred)
    bounds = _Bounds(interruptions, SILENT_INTERVALS * interval_ms)
    for group_id, of_group in groups.items():
        bounds.add(group_id, of_group)
    timeout_ms, why = bounds.session_timeout()
    note(inferred, SESSION_TIMEOUT, timeout_ms, why)
    _infer(SESSION_TIMEOUT, timeout_ms, why, inferred)


def _infer(name: str, value_ms: int, why: str, inferred: Inferred) -> None:
    """Take a value of a setting that has bounds of its own: they must let it be."""
    defaults = GroupConfig()
    if value_ms == getattr(defaults, name):
        return
    note(inferred, name, value_ms, why)
    least, most = (name.replace("consumer_", f"consumer_{bound}_") for bound in ("min", "max"))
    if value_ms < getattr(defaults, least):
        note(inferred, least, value_ms, "at most")
    if value_ms > getattr(defaults, most):
        note(inferred, most, value_ms, "at least")


def _is_well(request: GroupRequest, least_epoch: int) -> bool:
    """Return whether it is a heartbeat of such an epoch at least that the broker took."""
    body = request.request
    is_heartbeat = isinstance(body, ConsumerGroupHeartbeatRequest) and body.member_epoch >= least_epoch
    return is_heartbeat and request.response.get("errorCode") == ErrorCode.NONE


class _Silent(Struct):
    """A member, since it was heard last."""

    heard_us: int
    present_us: int = 0
    """It still was there then; 0: nothing shows it."""
    instance_id: str | None = None


class _Window(Struct, frozen=True):
    """A session ended: it was longer than the one, and no longer than the other."""

    after_ms: int
    until_ms: int


class _Bounds(Struct):
    """Between what the session timeout lies."""

    interruptions: Interruptions
    longer_than_ms: int
    windows: list[_Window] = field(default_factory=list)

    def add(self, group_id: str, requests: Sequence[GroupRequest]) -> None:
        """Note the silences of the members of a group."""
        silent: dict[str, _Silent] = {}
        loaded = [load.loaded_us for load in self.interruptions.loads.get(group_id, ())]
        for request in sorted(requests, key=lambda request: request.logged.handled_us):
            now_us = request.logged.handled_us
            while loaded and loaded[0] <= now_us:
                loaded_us = loaded.pop(0)
                silent = {
                    member_id: _Silent(max(loaded_us, member.heard_us), instance_id=member.instance_id)
                    for member_id, member in silent.items()
                }
            if request.set_aside is not None:
                continue
            if request.logged.api == _DESCRIBE:
                self._note_described(request, silent)
            elif isinstance(request.request, ConsumerGroupHeartbeatRequest):
                self._note_heartbeat(request, request.request, silent)

    def session_timeout(self) -> tuple[int, str]:
        """Return the number of milliseconds that explains most, and why: the roundest where they leave few."""
        likely = [window for window in self.windows if window.until_ms > self.longer_than_ms]
        ends = sorted({window.until_ms for window in likely})
        default_ms = GroupConfig().group_consumer_session_timeout_ms
        if not ends:
            least_ms = -(-(self.longer_than_ms + 1) // 1_000) * 1_000
            return max(default_ms, least_ms), f"{NO_EVIDENCE}; nothing in the log shows it: {NOT_KNOWN}"
        until_ms = max(ends, key=lambda end_ms: (_number_of(likely, end_ms), -end_ms))
        around = [window for window in likely if window.after_ms < until_ms <= window.until_ms]
        after_ms = max(self.longer_than_ms, *(window.after_ms for window in around))
        why = f"by {len(around)} that expired it is more than {after_ms} and at most {until_ms}"
        if until_ms * _NARROW[1] > max(after_ms, 1) * _NARROW[0]:
            return until_ms, f"{why}: {NOT_KNOWN}"
        if after_ms < default_ms <= until_ms:
            return default_ms, why
        rounded = (until_ms // step_ms * step_ms for step_ms in _ROUND_STEPS_MS)
        return next(value_ms for value_ms in rounded if value_ms > after_ms), why

    def _note_described(self, request: GroupRequest, silent: dict[str, _Silent]) -> None:
        for group in request.response.get("groups", ()):
            if group.get("groupId") != request.group_id or group.get("errorCode", 0) != ErrorCode.NONE:
                continue
            there = {member["memberId"] for member in group.get("members", ())}
            for member_id, member in list(silent.items()):
                if member_id in there:
                    self._lived(member, request.logged.arrival_us)
                elif member.heard_us < request.logged.arrival_us:
                    self._ended(member, request.logged.ready_us)
                    del silent[member_id]

    def _note_heartbeat(
        self, request: GroupRequest, body: ConsumerGroupHeartbeatRequest, silent: dict[str, _Silent]
    ) -> None:
        logged, member_id = request.logged, body.member_id or str(request.response.get("memberId"))
        code = request.response.get("errorCode")
        member = silent.get(member_id)
        if code == ErrorCode.UNKNOWN_MEMBER_ID and member is not None and body.member_epoch > JOIN_EPOCH:
            self._ended(member, logged.ready_us)
            del silent[member_id]
        if code != ErrorCode.NONE:
            return
        if body.member_epoch < JOIN_EPOCH:
            silent.pop(member_id, None)
            return
        if member is not None and body.member_epoch > JOIN_EPOCH:
            self._lived(member, logged.arrival_us)
        if body.member_epoch == JOIN_EPOCH and body.instance_id is not None:
            replaced = [other_id for other_id, other in silent.items() if other.instance_id == body.instance_id]
            for other_id in replaced:
                del silent[other_id]
        instance_id = body.instance_id or (None if member is None else member.instance_id)
        silent[member_id] = _Silent(logged.handled_us, instance_id=instance_id)

    def _lived(self, member: _Silent, now_us: int) -> None:
        """Note that a member was there, though it had not been heard for that long."""
        member.present_us = max(member.present_us, now_us)
        if not self._stood_still(member.heard_us, now_us):
            self.longer_than_ms = max(self.longer_than_ms, (now_us - member.heard_us) // 1000 - LATE_MS)

    def _ended(self, member: _Silent, now_us: int) -> None:
        """Note that a member is gone that had not been heard for that long."""
        if self._stood_still(member.heard_us, now_us):
            return
        after_ms = max(0, (member.present_us - member.heard_us) // 1000 - LATE_MS)
        self.windows.append(_Window(after_ms, -((member.heard_us - now_us) // 1000)))

    def _stood_still(self, from_us: int, until_us: int) -> bool:
        return any(
            begin_ms * 1000 < until_us and end_ms * 1000 > from_us
            for begin_ms, end_ms in self.interruptions.standstills_ms
        )


def _number_of(windows: Iterable[_Window], value_ms: int) -> int:
    return sum(window.after_ms < value_ms <= window.until_ms for window in windows)
