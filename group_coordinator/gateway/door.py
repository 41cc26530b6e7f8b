"""What the gateway answers itself, and what it asks the coordinator: each group of a request by itself, put together again.

At the door: FindCoordinator (a pure function), ListGroups (from the groups as last published), requests that are not
allowed, and the first JoinGroup of a new member, which only wants a member id (KIP-394).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Protocol, cast
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.gateway.answer_sizes import SIZED, AnswerSizes
from group_coordinator.gateway.asked import Asked
from group_coordinator.gateway.authorization import Authorizer
from group_coordinator.gateway.beats import DoorBeats
from group_coordinator.gateway.brokers import Coordinators, Node
from group_coordinator.gateway.config import Bounds
from group_coordinator.gateway.gathering import Gathering
from group_coordinator.gateway.handed_out import HandedOutIds
from group_coordinator.gateway.held_requests import HeldRequests, key_of
from group_coordinator.gateway.refusals import refusal
from schemas.error_codes import ErrorCode
from schemas.events import groups_named
from schemas.message_versions import GroupResponse
from schemas.messages import (
    Coordinator,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
    SyncGroupRequest,
)

Reply = Callable[[GroupResponse], None]

_MEMBER_ID_REQUIRED_VERSION = 4
_WEIGHED_MAX = 100
"""Of so many groups of a request the answers are reckoned with; of more, each is asked when there is room for its answer."""
_UNVOUCHED_VERSION = _MEMBER_ID_REQUIRED_VERSION - 1


class GroupEvent(Struct, frozen=True, kw_only=True):
    """One request to one group, for the coordinator."""

    group_id: str
    api: str
    api_version: int
    client_id: str
    client_host: str
    """As Java prints an address: with a leading slash."""
    new_member_id: str | None
    request: Request
    size: int = 0
    """Bytes of the client's request on the wire."""


class CoordinatorClient(Protocol):
    """The way to the coordinator. It answers every event exactly once, in doubt with a code that costs no membership."""

    def ask(self, event: GroupEvent, on_answer: Callable[[Response], None]) -> None: ...


class Groups(Protocol):
    """The groups as last published; None: they have not all been read yet."""

    def listed(self) -> Iterable[ListedGroup] | None: ...


class Door:
    """Takes what connections ask. One for a gateway; it holds no state of groups."""

    def __init__(
        self,
        coordinator: CoordinatorClient,
        groups: Groups,
        nodes: Callable[[], tuple[Node, ...]],
        authorizer: Authorizer,
        *,
        hands_out_member_ids: bool = True,
        bounds: Bounds | None = None,
        sizes: AnswerSizes | None = None,
        beats: DoorBeats | None = None,
        now_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`sizes`: is told, by whoever reads them, how long answers are. `beats`: answers heartbeats at once, by the time that
        `now_ms` tells; None: the coordinator answers them."""
        self._coordinator = coordinator
        self._groups = groups
        self._nodes = nodes
        self._authorizer = authorizer
        self._hands_out_member_ids = hands_out_member_ids
        self._bounds = bounds or Bounds()
        self._sizes = sizes or AnswerSizes()
        self._beats = beats
        self._now_ms = now_ms
        self._handed_out = HandedOutIds(now_ms)
        self._held = HeldRequests()

    @property
    def held_requests(self) -> int:
        """For how many groups a request waits for its answer."""
        return len(self._held)

    def ask(self, asked: Asked, node_id: int | None, reply: Reply) -> None:
        """Answer a request, now or later. `node_id`: the broker for which the gateway stands; None: any."""
        visit = _Visit(asked=asked, reply=reply)
        match asked.request:
            case FindCoordinatorRequest() as request:
                brokers = Coordinators(self._nodes())
                coordinators = [self._find(visit, key, brokers) for key in request.coordinator_keys]
                reply(FindCoordinatorResponse(coordinators=tuple(coordinators)))
            case ListGroupsRequest() as request:
                reply(self._list(visit, request, node_id))
            case (JoinGroupRequest() | SyncGroupRequest()) as request:
                self._hold(visit, request)
            case DescribeGroupsRequest() as request:
                self._each(visit, [replace(request, groups=(group_id,)) for group_id in request.groups])
            case DeleteGroupsRequest() as request:
                # Brokers drop repeated names before they ask the coordinator.
                names = dict.fromkeys(request.groups_names)
                self._each(visit, [replace(request, groups_names=(group_id,)) for group_id in names])
            case OffsetFetchRequest() as request:
                self._each(visit, [replace(request, groups=(group,)) for group in request.groups])
            case request:
                self._each(visit, [request])

    def weigh(self, asked: Asked) -> int:
        """About how many bytes of answers will come of a request."""
        request = asked.request
        if not isinstance(request, SIZED):
            return 0  # an answer that is about as long as its request, or is given here, or must not wait for others
        groups = dict.fromkeys(groups_named(request))
        expected = sum([self._sizes.expect(asked.api, group_id) for group_id in islice(groups, _WEIGHED_MAX)])
        return min(expected, self._bounds.answer_bytes_max)

    # -------------------------------------------------------------------------------------------------- to the groups

    def _each(self, visit: _Visit, requests: list[Request]) -> None:
        """Ask the groups; the reply when all have their answer."""
        if len(requests) == 1:
            self._one(visit, requests[0], lambda answer: visit.reply(_merged(visit, [answer])))
            return
        gathering = Gathering(
            visit.asked.api,
            requests,
            partial(self._one, visit),
            self._sizes,
            self._bounds.answer_bytes_max,
            self._bounds.groups_per_request_max,
        )
        gathering.begin(lambda answers: visit.reply(_merged(visit, answers)))

    def _one(self, visit: _Visit, request: Request, on_answer: Callable[[Response], None]) -> None:
        (group_id,) = groups_named(request)
        if not self._allows(visit, group_id):
            on_answer(refusal(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        elif self._beats is not None and isinstance(request, HeartbeatRequest):
            self._beat(visit, self._beats, request, on_answer)
        else:
            self._coordinator.ask(visit.event(group_id, request), on_answer)

    def _beat(
        self, visit: _Visit, beats: DoorBeats, request: HeartbeatRequest, on_answer: Callable[[Response], None]
    ) -> None:
        """A heartbeat goes to the coordinator in any case."""
        now_ms = self._now_ms()
        at_once = beats.answer(request, now_ms)
        beats.sent(request, now_ms)

        def heard(answer: Response) -> None:
            assert isinstance(answer, HeartbeatResponse)
            beats.heard(request, answer.error_code)
            if at_once is None:
                on_answer(answer)

        self._coordinator.ask(visit.event(request.group_id, request), heard)
        if at_once is not None:
            on_answer(HeartbeatResponse(error_code=at_once))

    def _allows(self, visit: _Visit, group_id: str) -> bool:
        return self._authorizer.allows(visit.asked.principal, visit.asked.client_host, group_id)

    # ------------------------------------------------------------------------------------------ JoinGroup and SyncGroup

    def _hold(self, visit: _Visit, request: JoinGroupRequest | SyncGroupRequest) -> None:
        """What may wait for others: so much of it for each member."""
        key = key_of(request)
        if not self._held.begin(key):
            visit.reply(refusal(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def answered(answer: GroupResponse) -> None:
            self._held.end(key)
            visit.reply(answer)

        counted = replace(visit, reply=answered)
        if isinstance(request, JoinGroupRequest):
            self._join(counted, request)
        else:
            self._each(counted, [request])

    def _join(self, visit: _Visit, request: JoinGroupRequest) -> None:
        asked, group_id = visit.asked, request.group_id
        if not self._allows(visit, group_id):
            visit.reply(refusal(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        version, new_member_id = asked.api_version, None
        if not request.member_id:
            prefix = asked.client_id if request.group_instance_id is None else request.group_instance_id
            new_member_id = f"{prefix}-{uuid4()}"
            if self._only_wants_an_id(version, request):
                self._handed_out.remember(group_id, new_member_id)
                visit.reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_member_id))
                return
        elif self._handed_out.take(group_id, request.member_id):
            # The coordinator has not heard of this id: it is told as the one to give out, in a version that takes a
            # new member without asking it back.
            new_member_id = request.member_id
            request, version = replace(request, member_id=""), _UNVOUCHED_VERSION
        event = visit.event(group_id, request, version=version, new_member_id=new_member_id)
        self._coordinator.ask(event, visit.reply)

    def _only_wants_an_id(self, version: int, request: JoinGroupRequest) -> bool:
        return self._hands_out_member_ids and version >= _MEMBER_ID_REQUIRED_VERSION and request.group_instance_id is None

    # --------------------------------------------------------------------------------------------- without the groups

    def _find(self, visit: _Visit, group_id: str, brokers: Coordinators) -> Coordinator:
        if not self._allows(visit, group_id):
            return _no_coordinator(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        node = brokers.of(group_id)
        if node is None:
            return _no_coordinator(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(key=group_id, node_id=node.node_id, host=node.address.host, port=node.address.port, error_message="")

    def _list(self, visit: _Visit, request: ListGroupsRequest, node_id: int | None) -> ListGroupsResponse:
        """The groups of this broker, as it were: admin tools ask all brokers and put their answers together."""
        listed = self._groups.listed()
        if listed is None:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        states = {state.strip().lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        brokers = None if node_id is None else Coordinators(self._nodes())

        def is_wanted(group: ListedGroup) -> bool:
            coordinator = None if brokers is None else brokers.of(group.group_id)
            return (
                (coordinator is None or coordinator.node_id == node_id)
                and (not states or group.group_state.lower() in states)
                and (not types or group.group_type in types)
                and self._allows(visit, group.group_id)
            )

        return ListGroupsResponse(groups=tuple(filter(is_wanted, listed)))


class _Visit(Struct, frozen=True, kw_only=True):
    """One request at the door."""

    asked: Asked
    reply: Reply

    def event(
        self, group_id: str, request: Request, *, version: int | None = None, new_member_id: str | None = None
    ) -> GroupEvent:
        return GroupEvent(
            group_id=group_id,
            api=self.asked.api,
            api_version=self.asked.api_version if version is None else version,
            client_id=self.asked.client_id,
            client_host=f"/{self.asked.client_host}",
            new_member_id=new_member_id,
            request=request,
            size=self.asked.size,
        )


def _merged(visit: _Visit, answers: list[Response]) -> GroupResponse:
    """One answer of the answers of all groups, in the order of the request."""
    match visit.asked.request:
        case DescribeGroupsRequest():
            described = cast(list[DescribeGroupsResponse], answers)
            return DescribeGroupsResponse(groups=tuple(group for answer in described for group in answer.groups))
        case DeleteGroupsRequest():
            deleted = cast(list[DeleteGroupsResponse], answers)
            return DeleteGroupsResponse(results=tuple(result for answer in deleted for result in answer.results))
        case OffsetFetchRequest():
            fetched = cast(list[OffsetFetchResponse], answers)
            return OffsetFetchResponse(groups=tuple(group for answer in fetched for group in answer.groups))
    (answer,) = answers
    return answer


def _no_coordinator(group_id: str, error_code: ErrorCode) -> Coordinator:
    return Coordinator(key=group_id, node_id=-1, error_code=error_code)
