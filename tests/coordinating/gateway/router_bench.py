"""A request router without a coordinator: requests go in, answers and events come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.authorization import Authorizer, parse_rules
from group_coordinator.coordinating.gateway.brokers import Node
from group_coordinator.coordinating.gateway.config import Address, Bounds
from group_coordinator.coordinating.gateway.group_configs import ConfigsResponse
from group_coordinator.coordinating.gateway.group_events import GroupEvent
from group_coordinator.coordinating.gateway.pending_request import AnyResponse, PendingRequest
from group_coordinator.coordinating.gateway.request_router import RequestRouter
from group_coordinator.coordinating.gateway.topic_access import TopicAccess
from schemas.message_versions import GroupRequest, GroupResponse
from schemas.messages import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    JoinGroupRequest,
    ListedGroup,
    Response,
)

NODES = tuple(Node(node_id, Address("gateway", 20_000 + node_id)) for node_id in (1_001, 2, 7))


class Coordinator:
    """Keeps what is asked; answers when told."""

    def __init__(self) -> None:
        self.events: list[tuple[GroupEvent, Callable[[Response], None]]] = []

    def ask(self, event: GroupEvent, on_answer: Callable[[Response], None]) -> None:
        self.events.append((event, on_answer))


class Groups:
    def __init__(self, *listed: ListedGroup) -> None:
        self.groups: Iterable[ListedGroup] | None = listed

    def list(self, on_listed: Callable[[Iterable[ListedGroup] | None], None]) -> None:
        on_listed(self.groups)


class Bench:
    """A request router, its inputs and its outputs."""

    def __init__(self, rules: str | None = None, *listed: ListedGroup, hands_out: bool = True) -> None:
        self.coordinator = Coordinator()
        self.groups = Groups(*listed)
        self.nodes = NODES
        self.answers: list[GroupResponse] = []
        authorizer = Authorizer(None if rules is None else parse_rules(rules, "coordinator"))
        self.router = RequestRouter(
            self.coordinator,
            self.groups,
            lambda: self.nodes,
            authorizer,
            bounds=Bounds(),
            sizes=AnswerSizes(),
            answer_member_id_required=hands_out,
            topics=TopicAccess("coordinator", authorizer),
        )

    def ask(
        self,
        api: str,
        request: GroupRequest,
        version: int = 5,
        node_id: int | None = None,
        principal: str = "User:alice",
        client_id: str = "client",
    ) -> list[GroupResponse]:
        """What is answered at once."""
        before = len(self.answers)
        pending = PendingRequest(
            number=1, api=api, api_version=version, client_id=client_id, client_host="127.0.0.1",
            principal=principal, request=request,
        )
        self.router.ask(pending, node_id, self._take)
        return self.answers[before:]

    def _take(self, answer: AnyResponse) -> None:
        assert not isinstance(answer, ConfigsResponse)
        self.answers.append(answer)

    @property
    def events(self) -> list[GroupEvent]:
        return [event for event, _ in self.coordinator.events]


def join(member_id: str = "", instance: str | None = None, group_id: str = "g") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id, session_timeout_ms=10_000, member_id=member_id, group_instance_id=instance,
        protocol_type="consumer", protocols=(),
    )


def described(name: str, size: int) -> DescribeGroupsResponse:
    member = DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=bytes(size), member_assignment=b""
    )
    return DescribeGroupsResponse(groups=(DescribedGroup(group_id=name, group_state="Stable", members=(member,)),))
