"""Bounds on the size of a request, and the cost of handling it, are checked before the request is decoded."""

from __future__ import annotations

from group_coordinator.coordinating.gateway.config import Bounds
from group_coordinator.coordinating.gateway.frames import FrameError, RequestHead
from group_coordinator.coordinating.gateway.produce import BEGINNING_BYTES_MAX
from group_coordinator.coordinating.gateway.versions import GROUP_APIS, TOPIC_APIS, TRANSACTION_APIS, OtherApi
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.events import groups_named
from schemas.message_versions import NO_EVENTS, GroupRequest
from schemas.messages import FindCoordinatorRequest

SASL_APIS = frozenset({OtherApi.SASL_HANDSHAKE, OtherApi.SASL_AUTHENTICATE})
_SASL_BYTES_MAX = 524_288
"""Longest request of who has not said who it is; Kafka's `sasl.server.max.receive.size`."""
_GROUPS_MAX = 10_000
"""Most groups that one request may name: to take it apart and to refuse them one by one is work for the one loop."""
ITEMS_MAX = 25_000
"""Most items (groups, members, topics, partitions) of one request. A commit of more would not fit into an event."""
PROMPT_COST = 8
"""So much is begun when it comes: as many small requests. All else waits for the connection's turn."""
SLICE_COST = 50
"""So much is begun in a turn: as many small requests, or one with very many groups or bytes."""
_BYTES_PER_COST = 1_000
_GROUPS_PER_COST = 10
_ITEMS_PER_COST = 50
_LISTED_PER_COST = 50
_EXPRESSION_WEIGHT = 32 << 20
"""RE2 takes up to a tenth of a second for an expression of a dozen bytes, and most of one for the longest. So one or
two of them are under way at once, and a heartbeat of somebody else waits for these alone."""
_NAME_WEIGHT = 1_000
"""The coordinator looks for each name that a member subscribes to."""


def insist_on_size(head: RequestHead, size: int, bounds: Bounds, *, reads_topics: bool) -> None:
    """Check the size of a request. Requests that are kept whole in memory, or come before authentication, have tighter
    bounds. Raises FrameError."""
    if head.api_key == OtherApi.API_VERSIONS:
        size_max = BEGINNING_BYTES_MAX
    elif head.api_key in SASL_APIS:
        size_max = _SASL_BYTES_MAX
    elif head.api_key in GROUP_APIS or (reads_topics and head.api_key in TRANSACTION_APIS):
        size_max = bounds.group_request_bytes_max
    elif reads_topics and head.api_key in TOPIC_APIS and head.api_key != OtherApi.PRODUCE:
        size_max = bounds.topics_request_bytes_max
    else:
        return
    if size > size_max:
        raise FrameError(f"a request of {size} bytes to API {head.api_key}; at most {size_max} are taken")


def cost_of_bytes(size: int) -> int:
    """Return the least cost of a request of so many bytes; a small one costs 1."""
    return 1 + size // _BYTES_PER_COST


def cost_of_items(items: int) -> int:
    """Return the cost of passing on so many topics and partitions."""
    return items // _ITEMS_PER_COST


def cost_of_listing(groups: int) -> int:
    """Return the cost of listing so many groups."""
    return groups // _LISTED_PER_COST


def weight_of_deciding(request: ConsumerGroupHeartbeatRequest) -> int:
    """Return the bytes of what is under way that a heartbeat counts as, because it takes the coordinator long to
    decide."""
    expression = _EXPRESSION_WEIGHT if request.subscribed_topic_regex else 0
    return expression + _NAME_WEIGHT * len(request.subscribed_topic_names or ())


def work_of(request: GroupRequest) -> tuple[int, int]:
    """Return the number of events that a request may become, and the cost of its groups.

    Raises FrameError where it names more groups than are taken.
    """
    if isinstance(request, NO_EVENTS):
        return 1, 0
    groups = len(groups_named(request))
    if groups > _GROUPS_MAX:
        raise FrameError(f"a request over {groups} groups; at most {_GROUPS_MAX} are taken")
    return 1 if isinstance(request, FindCoordinatorRequest) else max(1, groups), groups // _GROUPS_PER_COST
