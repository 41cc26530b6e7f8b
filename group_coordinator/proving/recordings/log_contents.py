"""A request log also holds other things than requests that are understood: other protocols, other brokers, damage.

Counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from group_coordinator.proving.recordings.expectations import MAY_BE_PARKED, Load
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.log_clock import SESSION_SLACK_US
from group_coordinator.proving.recordings.old_brokers import is_of_old_broker
from group_coordinator.proving.recordings.request_lines import OTHER_PROTOCOLS, ReadLine
from schemas.error_codes import ErrorCode
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)

_SECOND_US = 1_000_000


class Stretch(Struct, frozen=True):
    """A time in which a group is not classic."""

    from_us: int
    until_us: int
    """The last heartbeat: soon after it the group is classic again, or gone."""
    kind: str

    @property
    def why(self) -> str:
        """Why nothing can be said of requests in it."""
        return f"of a {self.kind}, which is not decided here"

    def covers(self, request: GroupRequest) -> bool:
        """Return whether a request was handled in it, or waited when it began."""
        logged = request.logged
        waits = logged.api in MAY_BE_PARKED and logged.handled_us < self.from_us <= logged.ready_us
        return waits or self.from_us <= logged.handled_us <= self.until_us


class ProtocolTimes:
    """Fed with heartbeats of other protocols and with what classic leaders are told, in any order."""

    def __init__(self) -> None:
        self._heartbeats_us: dict[str, dict[tuple[int, str], tuple[int, int]]] = {}
        """Group -> second and kind of group -> first and last heartbeat in it."""
        self._classic_us: dict[str, list[int]] = {}
        self._stretches: dict[str, tuple[Stretch, ...]] = {}

    def note_heartbeat(self, group_id: str, kind: str, us: int) -> None:
        of_group, key = self._heartbeats_us.setdefault(group_id, {}), (us // _SECOND_US, kind)
        first_us, last_us = of_group.get(key, (us, us))
        of_group[key] = min(first_us, us), max(last_us, us)

    def note_classic(self, group_id: str, us: int) -> None:
        self._classic_us.setdefault(group_id, []).append(us)

    def stretches(self, group_id: str) -> tuple[Stretch, ...]:
        """Return the stretches of a group in their order, when all lines have been read."""
        if group_id not in self._heartbeats_us:
            return ()
        stretches = self._stretches.get(group_id)
        if stretches is None:
            stretches = self._stretches[group_id] = tuple(self._find_stretches(group_id))
        return stretches

    def _find_stretches(self, group_id: str) -> list[Stretch]:
        heartbeats = [
            (us, kind) for (_, kind), times in self._heartbeats_us[group_id].items() for us in dict.fromkeys(times)
        ]
        classic = [(us, "") for us in self._classic_us.get(group_id, ())]
        stretches: list[Stretch] = []
        is_classic = True
        for us, kind in sorted((*heartbeats, *classic)):
            if not kind:
                is_classic = True
            elif is_classic or kind != stretches[-1].kind:
                stretches.append(Stretch(us, us, kind))
                is_classic = False
            else:
                stretches[-1] = Stretch(stretches[-1].from_us, us, kind)
        return stretches


NO_GENERATION = -1
NAMES_MAX = 10_000
"""Of groups, connections and kinds of damage that are told apart; what is beyond is counted together."""
BEYOND = "others"

_NOT_HERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
OF_MEMBERS = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat"})

_LEAVE = "LeaveGroup"


class GroupPlaces(Struct):
    """The brokers that answered for a group."""

    address: str | None = None
    """The last that did as its coordinator."""
    moves: int = 0
    refused_after: int = 0
    """Requests that a broker refused as not being the group's coordinator (yet), after one had been."""
    refused_us: int | None = None
    """Since when the last coordinator is none any more, and nobody is in its place; None: it still is."""


class _Leader(Struct):
    """The member that must send the assignment of a group's generation."""

    member_id: str
    generation: int
    connection: str
    stays: bool = False
    """It goes on as a member of that generation, and nothing was seen of its assignment."""


class LogContents:
    """Fed with every line that is a request, then with every request to a group."""

    def __init__(self) -> None:
        self.resolution_us = 1_000
        """How exact the least exact time is."""
        self.coarse_lines = 0
        """With times to the second."""
        self.unknown_zones: Counter[str] = Counter()
        """Names of zones that stand behind times and say nothing -> how many lines."""
        self.damage: Counter[str] = Counter()
        """What was wrong -> how many lines."""
        self.other_protocols: dict[str, Counter[str]] = {}
        """Kind of group -> group -> its heartbeats."""
        self.refused_protocols: Counter[str] = Counter()
        """Groups that stayed classic, though members came with another protocol -> their heartbeats."""
        self.protocols = ProtocolTimes()
        """When groups were not classic."""
        self.transactional: Counter[str] = Counter()
        """Group -> its commits in transactions."""
        self.has_transaction_ends = False
        """Something tells how transactions ended: brokers tell each other on a listener that may not be logged."""
        self.old_broker_lines = 0
        self.version: str | None = None
        """Of the broker, as its first answer to ApiVersions shows it."""
        self.set_aside: Counter[str] = Counter()
        """Why requests did not reach the group machine -> how many."""
        self.places: dict[str, GroupPlaces] = {}
        self.last_requests: dict[str, tuple[int, int, bool]] = {}
        """Group -> when it was last asked something by a member, in which file, and whether to leave."""
        self.loads: dict[str, list[Load]] = {}
        """Group -> when brokers loaded it, as far as that is known."""
        self._silences: list[tuple[str, int, int]] = []
        self.not_joined = 0
        """How often a member is one in a generation that the log does not show it to join."""
        self.not_assigned = 0
        """How often a leader stays in a generation of which the log does not show its assignment."""
        self._leaders: dict[str, _Leader] = {}
        self._generations: dict[tuple[str, str], int] = {}
        self._heard_us: dict[tuple[str, str], int] = {}
        """Group and member -> when it was last answered."""
        self._sessions_us: dict[tuple[str, str], int] = {}

    def note_line(self, line: ReadLine) -> None:
        self.resolution_us = max(self.resolution_us, line.resolution_us)
        self.coarse_lines += line.resolution_us > 1_000
        if line.unknown_zone is not None:
            _count(self.unknown_zones, line.unknown_zone)
        self.old_broker_lines += is_of_old_broker(line.connection)
        self.version = self.version or line.version
        if line.api_key in OTHER_PROTOCOLS and line.group_id is not None:
            if line.is_well:
                kind = OTHER_PROTOCOLS[line.api_key]
                self.other_protocols.setdefault(kind, Counter())[line.group_id] += 1
                self.protocols.note_heartbeat(line.group_id, kind, line.arrival_us)
            else:
                _count(self.refused_protocols, line.group_id)
        elif line.leads_group_id is not None and line.request is not None:
            self.protocols.note_classic(line.leads_group_id, line.request.ready_us)

    def note_damage(self, detail: str) -> None:
        _count(self.damage, detail)

    def why_not_understood(self, request: GroupRequest) -> str | None:
        """Return why a request cannot be understood; None if it can."""
        for stretch in self.protocols.stretches(request.group_id):
            if stretch.covers(request):
                return stretch.why
        is_blind = request.group_id in self.transactional and not self.has_transaction_ends
        if request.logged.api == "OffsetFetch" and is_blind:
            return "for offsets of groups that commit in transactions, whose markers the log does not have"
        return None

    def note_request(self, request: GroupRequest) -> None:
        """Note a request; requests come in the order of their arrival."""
        if request.set_aside is not None:
            _count(self.set_aside, request.set_aside)
        else:
            if request.logged.api == "TxnOffsetCommit":
                _count(self.transactional, request.group_id)
            self._note_member(request)
            self._note_assignment(request)
        self._note_last(request)
        if request.set_aside is None and request.logged.api != "FindCoordinator" and request.group_id in self.places:
            self.places[request.group_id].refused_us = None
        if request.logged.api not in OF_MEMBERS:
            return
        if request.group_id not in self.places and len(self.places) >= NAMES_MAX:
            return
        places = self.places.setdefault(request.group_id, GroupPlaces())
        code = _first_code(request.response)
        address = request.logged.connection.split("-", 1)[0]
        if code == ErrorCode.NOT_COORDINATOR and places.address == address and places.refused_us is None:
            places.refused_us = request.logged.ready_us
        if code in _NOT_HERE:
            places.refused_after += places.address is not None
        elif code == ErrorCode.NONE:
            places.moves += places.address is not None and places.address != address
            places.address = address

    def _note_member(self, request: GroupRequest) -> None:
        """Note a member that lives on, though the log has no request of it for longer than its session."""
        body, logged = request.request, request.logged
        member_id = getattr(body, "member_id", "") or request.new_member_id
        if not member_id or request.response.get("errorCode", 0) != ErrorCode.NONE:
            return
        key = request.group_id, member_id
        # In a transaction members of consumer groups tell their epoch there.
        is_in_transaction = isinstance(body, TxnOffsetCommitRequest)
        generation = NO_GENERATION if is_in_transaction else getattr(body, "generation_id", NO_GENERATION)
        if isinstance(body, JoinGroupRequest):
            self._sessions_us[key] = body.session_timeout_ms * 1000
            self._generations[key] = request.response.get("generationId", NO_GENERATION)
        elif generation != NO_GENERATION and self._generations.get(key) != generation:
            self._generations[key] = generation
            self.not_joined += 1
        heard_us = self._heard_us.get(key)
        session_us = self._sessions_us.get(key)
        if (
            heard_us is not None
            and session_us is not None
            and logged.arrival_us - heard_us > session_us + SESSION_SLACK_US
            and len(self._silences) < NAMES_MAX
        ):
            self._silences.append((request.group_id, heard_us, logged.arrival_us))
        self._heard_us[key] = max(logged.ready_us, heard_us or 0)

    def _note_last(self, request: GroupRequest) -> None:
        logged, group_id = request.logged, request.group_id
        leaves = logged.api == _LEAVE
        is_of_group = (leaves or logged.api in OF_MEMBERS) and not request.refused_as_coordinator
        if is_of_group and (group_id in self.last_requests or len(self.last_requests) < NAMES_MAX):
            self.last_requests[group_id] = logged.arrival_us, logged.file_index, leaves

    def _note_assignment(self, request: GroupRequest) -> None:
        """Note whether a leader sends the assignment of its generation: clients do so at once, and fetch offsets only
        with it."""
        body = request.request
        if isinstance(body, JoinGroupRequest) and request.response.get("members"):
            member_id, generation = (
                request.response.get("memberId", ""),
                request.response.get("generationId", NO_GENERATION),
            )
            self._leaders[request.group_id] = _Leader(member_id, generation, request.logged.connection)
            return
        leader = self._leaders.get(request.group_id)
        if leader is None:
            return
        is_its_own = (getattr(body, "member_id", ""), getattr(body, "generation_id", None)) == (
            leader.member_id,
            leader.generation,
        )
        if isinstance(body, SyncGroupRequest) and is_its_own:
            self.not_assigned -= leader.stays
            del self._leaders[request.group_id]
        elif not leader.stays and (
            (isinstance(body, HeartbeatRequest) and is_its_own and request.response.get("errorCode") == ErrorCode.NONE)
            or (isinstance(body, OffsetFetchRequest) and request.logged.connection == leader.connection)
        ):
            leader.stays = True
            self.not_assigned += 1

    def silences_us(self) -> list[int]:
        """Return when a member still was one, though the log has nothing of it for longer than its session.

        A session that began anew when the group was loaded is no such case.
        """
        return [
            arrival_us
            for group_id, heard_us, arrival_us in self._silences
            if not any(heard_us <= load.loaded_us <= arrival_us for load in self.loads.get(group_id, ()))
        ]

    def moved_groups(self) -> Iterator[str]:
        """Yield the groups that another broker coordinated for a while, at times that nothing tells."""
        for group_id, places in self.places.items():
            if (places.moves or places.refused_after) and not self.loads.get(group_id):
                yield group_id


def _count(counter: Counter[str], name: str) -> None:
    counter[name if name in counter or len(counter) < NAMES_MAX else BEYOND] += 1


def _first_code(response: object) -> int | None:
    """The first error code of an answer, wherever it stands."""
    if isinstance(response, dict):
        code = response.get("errorCode")
        if isinstance(code, int):
            return code
        response = list(response.values())
    if isinstance(response, list):
        return next((code for part in response if (code := _first_code(part)) is not None), None)
    return None
