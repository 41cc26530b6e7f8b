"""The gateway answers some requests itself; it sends all others to the coordinator group by group, and merges the
answers.

It answers FindCoordinator (a pure function), ListGroups (from what coordinator and responders say of groups), requests
that are not allowed, and the first JoinGroup of a new member, which only asks for a member id (KIP-394).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Protocol
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.answer_sizes import SIZED, AnswerSizes
from group_coordinator.coordinating.gateway.authorization import Authorizer
from group_coordinator.coordinating.gateway.brokers import Coordinators, Node
from group_coordinator.coordinating.gateway.config import Bounds
from group_coordinator.coordinating.gateway.consumer_groups import (
    in_kafkas_order,
    subscribes_to_refused,
    with_operations,
    without_refused,
)
from group_coordinator.coordinating.gateway.fan_out import FanOut
from group_coordinator.coordinating.gateway.group_configs import ConfigsRequest
from group_coordinator.coordinating.gateway.group_events import GroupEvent, OnAnswer
from group_coordinator.coordinating.gateway.held_requests import HeldRequest, HeldRequests, key_of
from group_coordinator.coordinating.gateway.id_bounds import ids_problem
from group_coordinator.coordinating.gateway.issued_member_ids import IssuedMemberIds
from group_coordinator.coordinating.gateway.own_settings import OwnSettings
from group_coordinator.coordinating.gateway.pending_request import AnyResponse, PendingRequest
from group_coordinator.coordinating.gateway.refusals import refusal
from group_coordinator.coordinating.gateway.request_bounds import weight_of_deciding
from group_coordinator.coordinating.gateway.topic_access import TopicAccess
from group_coordinator.coordinating.gateway.transactions import TransactionLog, added_code
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from schemas.error_codes import ErrorCode
from schemas.events import groups_named
from schemas.message_versions import GroupResponse
from schemas.messages import (
    Coordinator,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    Request,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from schemas.several_groups import joined, one_per_group
from schemas.transaction_messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

Reply = Callable[[AnyResponse], None]

_MEMBER_ID_REQUIRED_VERSION = 4
_WEIGHED_MAX = 100
"""Of so many groups of a request the answers are reckoned with; of more, each is asked when there is room for its
answer."""
_UNVOUCHED_VERSION = _MEMBER_ID_REQUIRED_VERSION - 1


class CoordinatorClient(Protocol):
    """The coordinator answers every event exactly once, in doubt with a code that costs no membership."""

    def ask(self, event: GroupEvent, on_answer: OnAnswer) -> None: ...


class Groups(Protocol):
    """The groups, as clients were answered (`group_coordinator.coordinating.gateway.group_lists`)."""

    def list(self, on_listed: Callable[[Iterable[ListedGroup] | None], None]) -> None: ...


class RequestRouter:
    """The router takes the requests of all connections. A gateway has one; it holds no state of groups."""

    def __init__(
        self,
        coordinator: CoordinatorClient,
        groups: Groups,
        nodes: Callable[[], tuple[Node, ...]],
        authorizer: Authorizer,
        *,
        bounds: Bounds,
        sizes: AnswerSizes,
        topics: TopicAccess,
        answer_member_id_required: bool = True,
        own_settings: OwnSettings | None = None,
        transaction_log: TransactionLog | None = None,
        now_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`sizes` knows how long answers are, `topics` which topics clients may name. `own_settings` alters and
        describes the settings of groups. `transaction_log` None: no offsets in transactions are asked for."""
        self._coordinator = coordinator
        self._groups = groups
        self._nodes = nodes
        self._authorizer = authorizer
        self._answer_member_id_required = answer_member_id_required
        self._bounds = bounds
        self._sizes = sizes
        self._topics = topics
        self._own_settings = own_settings
        self._transaction_log = transaction_log
        self._issued_ids = IssuedMemberIds(now_ms)
        self._held_requests = HeldRequests()

    @property
    def held_requests(self) -> int:
        """The number of groups for which a request waits for its answer."""
        return len(self._held_requests)

    def ask(self, pending: PendingRequest, node_id: int | None, reply: Reply) -> None:
        """Answer a request, now or later. `node_id` is the broker for which the gateway stands; None is any."""
        context = _RequestContext(pending=pending, reply=reply)
        if not isinstance(pending.request, ConfigsRequest):
            problem = ids_problem(pending.request, pending.client_id, self._bounds)
            if problem is not None:
                reply(refusal(pending.request, problem))
                return
        match pending.request:
            case FindCoordinatorRequest() as request:
                brokers = Coordinators(self._nodes())
                coordinators = [self._find(context, key, brokers) for key in request.coordinator_keys]
                reply(FindCoordinatorResponse(coordinators=tuple(coordinators)))
            case ListGroupsRequest() as request:
                self._groups.list(partial(self._list, context, request, node_id))
            case (JoinGroupRequest() | SyncGroupRequest() | ConsumerGroupHeartbeatRequest()) as request:
                self._hold_request(context, request)
            case DescribeGroupsRequest() as request:
                shown = replace(context, reply=partial(self._show_classic, context, request))
                self._ask_groups(shown, request)
            case ConsumerGroupDescribeRequest() as request:
                shown = replace(context, reply=partial(self._show, context, request))
                self._ask_groups(shown, request)
            case (DeleteGroupsRequest() | OffsetFetchRequest()) as request:
                self._ask_groups(context, request)
            case ConfigsRequest() as request:
                assert self._own_settings is not None
                self._own_settings.ask(request, partial(self._allows, context), reply)
            case (AddOffsetsToTxnRequest() | TxnOffsetCommitRequest()) as request:
                self._ask_in_transaction(context, request)
            case request:
                self._ask_group(context, request, reply)

    def weigh(self, pending: PendingRequest) -> int:
        """Return about how many bytes of answers a request leads to, or how many it must count as because it takes the
        coordinator long to decide: it decides one request after the other."""
        request = pending.request
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            return weight_of_deciding(request)
        if not isinstance(request, SIZED):
            return 0  # an answer that is about as long as its request, or is given here, or must not wait for others
        # A group that is named again is asked about once, and stands in the answer again.
        groups = islice(Counter(groups_named(request)).items(), _WEIGHED_MAX)
        expected = sum([self._sizes.expect(pending.api, group_id) * mentions for group_id, mentions in groups])
        return min(expected, self._bounds.answer_bytes_max)

    # -------------------------------------------------------------------------------------------------- to the groups

    def _ask_groups(self, context: _RequestContext, request: Request) -> None:
        """Ask each group, and reply when all have answered."""
        requests = [own for _, own in one_per_group(request)]
        if len(requests) == 1:
            self._ask_group(context, requests[0], context.reply)
            return
        fan_out = FanOut(
            context.pending.api,
            requests,
            partial(self._ask_group, context),
            self._sizes,
            self._bounds.answer_bytes_max,
            self._bounds.groups_per_request_max,
        )
        fan_out.begin(lambda answers: context.reply(joined(context.pending.api, answers)))

    def _ask_group(self, context: _RequestContext, request: Request, on_answer: OnAnswer) -> None:
        (group_id,) = groups_named(request)
        if not self._allows(context, group_id):
            on_answer(refusal(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        elif isinstance(request, ConsumerGroupHeartbeatRequest) and subscribes_to_refused(
            request, self._topics, context.pending.principal
        ):
            on_answer(refusal(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            self._coordinator.ask(context.event(group_id, request), on_answer)

    def _show(
        self, context: _RequestContext, request: ConsumerGroupDescribeRequest, answer: GroupResponse
    ) -> None:
        """Show consumer groups as far as the client may see their topics."""
        assert isinstance(answer, ConsumerGroupDescribeResponse)
        answer = without_refused(answer, self._topics, context.pending.principal)
        if request.include_authorized_operations:
            answer = replace(answer, groups=with_operations(answer.groups))
        context.reply(in_kafkas_order(answer))

    def _show_classic(self, context: _RequestContext, request: DescribeGroupsRequest, answer: GroupResponse) -> None:
        assert isinstance(answer, DescribeGroupsResponse)
        if request.include_authorized_operations:
            answer = replace(answer, groups=with_operations(answer.groups))
        context.reply(answer)

    def _allows(self, context: _RequestContext, group_id: str) -> bool:
        return self._authorizer.allows(context.pending.principal, context.pending.client_host, group_id)

    def _ask_in_transaction(
        self, context: _RequestContext, request: TxnOffsetCommitRequest | AddOffsetsToTxnRequest
    ) -> None:
        """Let the transaction reach the log of transactions, in place of the brokers' offsets topic, or commit in it.
        """
        pending = context.pending
        assert self._transaction_log is not None
        if not self._authorizer.allows_transaction(pending.principal, pending.client_host, request.transactional_id):
            context.reply(refusal(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        elif isinstance(request, TxnOffsetCommitRequest):
            self._ask_group(context, request, context.reply)
        elif not self._allows(context, request.group_id):
            context.reply(refusal(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        else:
            version, reply = context.pending.api_version, context.reply
            self._transaction_log.add(
                request, lambda code: reply(AddOffsetsToTxnResponse(error_code=added_code(code, version)))
            )

    # ----------------------------------------------------------------------------- JoinGroup, SyncGroup, heartbeats

    def _hold_request(self, context: _RequestContext, request: HeldRequest) -> None:
        """Count a request, for the number of them under way is bounded for each member."""
        key = key_of(request)
        if not self._held_requests.begin(key):
            context.reply(refusal(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def release_and_reply(answer: GroupResponse) -> None:
            self._held_requests.end(key)
            context.reply(answer)

        counted_context = replace(context, reply=release_and_reply)
        if isinstance(request, JoinGroupRequest):
            self._join(counted_context, request)
        else:
            self._ask_group(counted_context, request, release_and_reply)

    def _join(self, context: _RequestContext, request: JoinGroupRequest) -> None:
        pending, group_id = context.pending, request.group_id
        if not self._allows(context, group_id):
            context.reply(refusal(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        version, new_member_id = pending.api_version, None
        if not request.member_id:
            prefix = pending.client_id if request.group_instance_id is None else request.group_instance_id
            new_member_id = f"{prefix}-{uuid4()}"
            if self._asks_for_member_id_only(version, request):
                self._issued_ids.remember(group_id, new_member_id)
                context.reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_member_id))
                return
        elif self._issued_ids.take(group_id, request.member_id):
            # The coordinator has not heard of this id: it is told as the one to give out, in a version that takes a
            # new member without asking it back.
            new_member_id = request.member_id
            request, version = replace(request, member_id=""), _UNVOUCHED_VERSION
        event = context.event(group_id, request, version=version, new_member_id=new_member_id)
        self._coordinator.ask(event, context.reply)

    def _asks_for_member_id_only(self, version: int, request: JoinGroupRequest) -> bool:
        return (
            self._answer_member_id_required
            and version >= _MEMBER_ID_REQUIRED_VERSION
            and request.group_instance_id is None
            and bool(request.group_id)
        )

    # --------------------------------------------------------------------------------------------- without the groups

    def _find(self, context: _RequestContext, group_id: str, brokers: Coordinators) -> Coordinator:
        if not self._allows(context, group_id):
            return _no_coordinator(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        node = brokers.of(group_id)
        if node is None:
            return _no_coordinator(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(
            key=group_id, node_id=node.node_id, host=node.address.host, port=node.address.port, error_message=""
        )

    def _list(
        self,
        context: _RequestContext,
        request: ListGroupsRequest,
        node_id: int | None,
        listed: Iterable[ListedGroup] | None,
    ) -> None:
        """Show the groups of this broker: admin tools ask all brokers and merge their answers."""
        if listed is None:
            context.reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        states = {state.strip().lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        brokers = None if node_id is None else Coordinators(self._nodes())

        def is_wanted(group: ListedGroup) -> bool:
            coordinator = None if brokers is None else brokers.of(group.group_id)
            return (
                (coordinator is None or coordinator.node_id == node_id)
                and (not states or group.group_state.lower() in states)
                and (not types or group.group_type in types)
                and self._allows(context, group.group_id)
            )

        context.reply(ListGroupsResponse(groups=tuple(filter(is_wanted, listed))))


class _RequestContext(Struct, frozen=True, kw_only=True):
    """One request and the way back to its client."""

    pending: PendingRequest
    reply: Reply

    def event(
        self, group_id: str, request: Request, *, version: int | None = None, new_member_id: str | None = None
    ) -> GroupEvent:
        return GroupEvent(
            group_id=group_id,
            api=self.pending.api,
            api_version=self.pending.api_version if version is None else version,
            client_id=self.pending.client_id,
            client_host=f"/{self.pending.client_host}",
            new_member_id=new_member_id,
            request=request,
            size=self.pending.size,
            principal=self.pending.principal,
        )


def _no_coordinator(group_id: str, error_code: ErrorCode) -> Coordinator:
    return Coordinator(key=group_id, node_id=-1, error_code=error_code)
