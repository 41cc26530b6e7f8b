"""What the driver did to members, held against what is told of them: kills, stops and freezes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct, field

from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from schemas.history import History, MemberDropped, MemberExpired, MemberLeft
from schemas.messages import LeaveGroupRequest
from schemas.observed_history import MemberGone
from tests.watching.observed.recorded import Poll, driver_s_name, files, is_within, polls, truth
from tests.watching.observed.scores import Sources, gaps_of, history

_SESSION_MS = 8_000
_SOON_MS = 25_000
"""So soon after an act it is told: after a session, a restart of the broker and a slow machine."""
_EARLIER_MS = 500
_ENDS = {"kill": {"expired"}, "freeze": {"expired"}, "stop": {"left"}, "hang": {"left", "expired"}}
"""A member that hangs asks to leave, and expires where it finds no coordinator."""
_LEAVES = re.compile(
    r'"clientId":"([^"]*)","requestApiKeyName":"(?:SHARE|STREAMS)_GROUP_HEARTBEAT"},"request":{[^}]*"memberEpoch":-'
)
"""A member of another kind of group asks to leave."""
Departure = MemberLeft | MemberExpired | MemberDropped | MemberGone


class Act(NamedTuple):
    """Something that ends a membership."""

    at_ms: int
    action: str
    client_id: str
    group: str
    is_static: bool
    back_ms: int | None
    """When the member was thawed, or started again under its name."""
    is_silent: bool
    """No broker was asked to let a member of this client leave: it was told before that it is no member."""

    @property
    def kinds(self) -> set[str]:
        """How it may be told. A static member says nothing when it is stopped, and its session ends."""
        says_nothing = self.action == "stop" and (self.is_static or self.is_silent)
        return {"expired"} if says_nothing else _ENDS[self.action]

    @property
    def window(self) -> range:
        return range(self.at_ms - _EARLIER_MS, self.at_ms + _SOON_MS)

    def is_seen(self, of_group: Iterable[Poll]) -> bool:
        """True where an admin client saw that the member went, and not just that it came back under a new id."""
        if self.is_static and self.back_ms is not None and self.back_ms < self.at_ms + _SESSION_MS:
            return False
        ids: list[set[str]] = [set()]
        for poll in of_group:
            own = {
                each["member_id"]
                for each in poll.group.get("members", ())
                if driver_s_name(each["client_id"]) == self.client_id
            }
            if poll.until_ms < self.at_ms:
                ids = [own]
            elif poll.at_ms in self.window:
                ids.append(own)
        return any(ids[0] - later for later in ids[1:])


class Acts(Struct, kw_only=True):
    """How acts are told. What is `missed` or `wrong` has a line that says so."""

    told: int = 0
    not_known: int = 0
    missed: int = 0
    wrong: int = 0
    lines: list[str] = field(default_factory=list)


def judge(name: str, sources: Sources) -> Acts:
    """Hold the departures that some sources of a recording tell against what the driver did."""
    result, departures = Acts(), list(_departures(name, history(name, sources)))
    for act in _acts(name):
        of_group = [poll for poll in polls(name) if poll.group_id == act.group]
        of_client = [record for client_id, record in departures if client_id == act.client_id]
        _judge_act(result, act, of_client, of_group, is_within(act.at_ms, gaps_of(name, sources)[act.group]))
    return result


def _judge_act(
    result: Acts, act: Act, of_client: Iterable[Departure], of_group: Iterable[Poll], is_in_gap: bool
) -> None:
    """`is_in_gap`: it is told that nothing is known of the group at that time."""
    kinds = [_kind(record) for record in of_client if record.timestamp_ms in act.window]
    if act.kinds.intersection(kinds):
        result.told += 1
    elif "not known" in kinds or (is_in_gap and not kinds):
        result.not_known += 1
    elif kinds:
        result.wrong += 1
        result.lines.append(f"wrong: {act.client_id} {act.action} at {act.at_ms} is told as {kinds}")
    elif act.is_seen(of_group):
        result.missed += 1
        result.lines.append(f"missed: {act.client_id} {act.action} at {act.at_ms}")


def _acts(name: str) -> Iterator[Act]:
    said = truth(name)
    for number, one in enumerate(said):
        if one["action"] in _ENDS:
            later = (other for other in said[number:] if other.get("client_id") == one["client_id"])
            back = next((other["at_ms"] for other in later if other["action"] in ("start", "thaw")), None)
            is_static = _is_static(said, number)
            is_silent = one["client_id"] not in _leaving(name)
            yield Act(one["at_ms"], one["action"], one["client_id"], one["group"], is_static, back, is_silent)


@cache
def _leaving(name: str) -> frozenset[str]:
    """Return the client ids of members that asked to leave at some time."""
    log = RequestLog(files(name, "request.log.gz"))
    log.read()
    asked = {
        request.logged.client_id
        for request in log.group_requests(log.topic_ids())
        if isinstance(request.request, LeaveGroupRequest) or getattr(request.request, "member_epoch", 0) < 0
    }
    for path in files(name, "request.log.gz"):
        asked.update(_LEAVES.findall(gzip.decompress(path.read_bytes()).decode()))
    return frozenset(map(driver_s_name, asked))


def _is_static(said: tuple[dict[str, Any], ...], number: int) -> bool:
    client_id = said[number]["client_id"]
    starts = (one for one in reversed(said[:number]) if one["action"] == "start" and one["client_id"] == client_id)
    return "group.instance.id" in next(starts)["props"]


def _departures(name: str, records: Iterable[History]) -> Iterator[tuple[str, Departure]]:
    """Yield departures with the client id of the member. Ids of KIP-848 have none in front."""
    clients = {one["member_id"]: one["member"] for one in truth(name) if one.get("member_id")}
    members = (member for poll in polls(name) for member in poll.group.get("members", ()))
    clients |= {member["member_id"]: member["client_id"] for member in members}
    for record in records:
        if isinstance(record, MemberLeft | MemberExpired | MemberDropped | MemberGone):
            member = record.member
            yield driver_s_name(member.client_id or clients.get(member.member_id) or member.member_id[:-37]), record


def _kind(record: Departure) -> str:
    if isinstance(record, MemberGone) or record.cause.certainty == "not_known":
        return "not known"
    return "left" if isinstance(record, MemberLeft) else "expired"
