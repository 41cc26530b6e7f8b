"""The own settings of groups, as admin clients alter, describe and list them at this gateway.

They are the coordinator's: what it has published of them, and for a moment what was written here and is not published
yet. An alteration is an event of the group's log, `group_config`, and is answered when the coordinator has handled it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from msgspec import Struct

from group_coordinator.coordinating.gateway.config import Bounds
from group_coordinator.coordinating.gateway.group_configs import (
    GROUP,
    NOTHING,
    REQUEST_TIMED_OUT,
    ConfigProblem,
    ConfigsRequest,
    ConfigsResponse,
    Values,
    altered,
    described,
    refused,
)
from group_coordinator.coordinating.gateway.group_events import GroupEvent, OnAnswer
from group_coordinator.coordinating.gateway.id_bounds import is_too_long
from group_coordinator.coordinating.gateway.refusals import refusal
from group_coordinator.coordinating.gateway.versions import OtherApi
from schemas.error_codes import ErrorCode
from schemas.events import encode_json
from schemas.group_metadata_events import GroupConfiguration
from schemas.group_settings import OwnSettingsBounds
from schemas.messages import DescribeGroupsRequest

_UNPUBLISHED_S = 30.0
"""So long what was written here counts though something else is published."""
_UNPUBLISHED_MAX = 1_000
_IN_DOUBT = "The coordinator has not answered in time; the change may still come."

Write = Callable[[str, GroupConfiguration, Callable[[bool], None]], None]
"""Write a group's settings to its log; the answer, once and later: whether the coordinator has handled them."""


class EventLog(Protocol):
    """Where events go: `group_coordinator.coordinating.gateway.coordinator_client.EventsClient`."""

    def append(self, group_id: str, value: bytes, on_failure: Callable[[], None]) -> None: ...

    def ask(self, event: GroupEvent, on_answer: OnAnswer) -> None: ...


def write_to(log: EventLog) -> Write:
    """Return what writes settings to a log. A question follows them in it: its answer says that they are handled."""

    def write(group_id: str, own: GroupConfiguration, on_end: Callable[[bool], None]) -> None:
        waiting = [on_end]

        def end(*, is_handled: bool) -> None:
            if waiting:
                waiting.pop()(is_handled)

        log.append(group_id, encode_json(own), lambda: end(is_handled=False))
        request = DescribeGroupsRequest(groups=(group_id,))
        question = GroupEvent(
            group_id=group_id, api="DescribeGroups", api_version=5, client_id="", client_host="/127.0.0.1",
            new_member_id=None, request=request,
        )  # fmt: skip
        doubt = refusal(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        log.ask(question, lambda answer: end(is_handled=answer != doubt))

    return write


class _Written(Struct, frozen=True):
    own: GroupConfiguration
    at_s: float


class OwnSettings:
    """One for a gateway; all methods run in one thread."""

    def __init__(
        self,
        bounds: OwnSettingsBounds,
        published: Callable[[], Mapping[str, GroupConfiguration]],
        write: Write,
        now_s: Callable[[], float],
        groups_max: int = 1_000,
        id_bytes_max: int = Bounds.id_bytes_max,
    ) -> None:
        """`published`: the groups that have settings of their own, as last published. `groups_max`: so many groups of
        one request are answered; those beyond are to come again."""
        self._bounds = bounds
        self._published = published
        self._write = write
        self._now_s = now_s
        self._groups_max = groups_max
        self._id_bytes_max = id_bytes_max
        self._written: dict[str, _Written] = {}
        """The oldest first."""

    def of(self, group_id: str) -> GroupConfiguration:
        """Return a group's own settings."""
        published = self._published().get(group_id, NOTHING)
        written = self._written.get(group_id)
        if written is None:
            return published
        if written.own == published or self._now_s() - written.at_s > _UNPUBLISHED_S:
            del self._written[group_id]
            return published
        return written.own

    def _groups(self) -> list[str]:
        """Return the groups that have settings of their own."""
        group_ids = self._published().keys() | self._written.keys()
        return sorted(group_id for group_id in group_ids if self.of(group_id) != NOTHING)

    def ask(
        self, request: ConfigsRequest, allows: Callable[[str], bool], reply: Callable[[ConfigsResponse], None]
    ) -> None:
        """Alter, describe or list; `reply` is called once, now or later. `allows`: whether the client may use a group.
        """
        if request.api_key == OtherApi.LIST_CONFIG_RESOURCES:
            allowed = filter(allows, self._groups())
            reply(ConfigsResponse(tuple([{"resource_name": each, "resource_type": GROUP} for each in allowed])))
            return
        results: dict[int, Values] = {}

        def take(place: int, result: Values) -> None:
            results[place] = result
            if len(results) == len(request.resources):
                reply(ConfigsResponse(tuple([results[number] for number in range(len(request.resources))])))

        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for place, resource in enumerate(request.resources):
            if place < self._groups_max:
                self._ask_one(request, resource, allows, partial(take, place))
            else:
                take(place, refused(request, resource, code, code.meaning))

    def _ask_one(
        self, request: ConfigsRequest, resource: Values, allows: Callable[[str], bool], take: Callable[[Values], None]
    ) -> None:
        group_id: str = resource["resource_name"]
        if not allows(group_id):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            take(refused(request, resource, code, code.meaning))
        elif request.api_key == OtherApi.DESCRIBE_CONFIGS:
            take(described(request, resource, self.of(group_id), self._bounds))
        else:
            self._alter(request, resource, take)

    def _alter(self, request: ConfigsRequest, resource: Values, take: Callable[[Values], None]) -> None:
        group_id = resource["resource_name"]
        if is_too_long(group_id, self._id_bytes_max):
            code = ErrorCode.INVALID_GROUP_ID
            take(refused(request, resource, code, f"the group id has more than {self._id_bytes_max} bytes"))
            return
        try:
            own = altered(request, resource, self.of(group_id), self._bounds)
        except ConfigProblem as problem:
            take(refused(request, resource, problem.code, str(problem)))
            return
        if request.validate_only:
            take(refused(request, resource, ErrorCode.NONE, None))
            return

        def done(*, is_handled: bool) -> None:
            if not is_handled and self._written.get(group_id) is written:
                del self._written[group_id]
            code, message = (ErrorCode.NONE, None) if is_handled else (REQUEST_TIMED_OUT, _IN_DOUBT)
            take(refused(request, resource, code, message))

        written = _Written(own, self._now_s())
        self._written.pop(group_id, None)
        self._written[group_id] = written
        if len(self._written) > _UNPUBLISHED_MAX:
            del self._written[next(iter(self._written))]
        self._write(group_id, own, lambda is_handled: done(is_handled=is_handled))
