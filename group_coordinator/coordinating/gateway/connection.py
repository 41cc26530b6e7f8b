"""One client's connection, without sockets: bytes come in; bytes for client and broker go out, and group requests.

The gateway answers group requests; all others go to the broker, in pieces as they come. Answers leave in the order of
their requests, so an answer that is held (of a JoinGroup) holds those behind it, as at a broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from group_coordinator.coordinating.gateway import request_bounds
from group_coordinator.coordinating.gateway.answer_order import AnswerOrder, Change, Slot
from group_coordinator.coordinating.gateway.broker_answers import BrokerAnswers
from group_coordinator.coordinating.gateway.config import Bounds
from group_coordinator.coordinating.gateway.filtered_requests import FilteredRequests
from group_coordinator.coordinating.gateway.frames import (
    LENGTH,
    FrameError,
    FrameSplitter,
    RequestHead,
    frame,
    parse_request_head,
)
from group_coordinator.coordinating.gateway.group_configs import ConfigsResponse
from group_coordinator.coordinating.gateway.pending_request import (
    MAY_BE_PARKED,
    AnyRequest,
    AnyResponse,
    PendingRequest,
    pending_request,
)
from group_coordinator.coordinating.gateway.produce import BEGINNING_BYTES_MAX, NO_ACKS, Opening, opening_of
from group_coordinator.coordinating.gateway.rewriting import Locate, refuse_api_versions, rewrite_of
from group_coordinator.coordinating.gateway.sasl import ANONYMOUS, SaslSession
from group_coordinator.coordinating.gateway.topic_filter import TopicFilter
from group_coordinator.coordinating.gateway.translation import read_request, write_response
from group_coordinator.coordinating.gateway.versions import ANSWERED_APIS, API_VERSIONS_MAX, OtherApi, Versions
from schemas.message_versions import GroupRequest
from schemas.messages import ApiKey, FindCoordinatorRequest
from schemas.wire import DecodeError, EncodeError

_KEY_TYPE_GROUP = 0
_PARKED_BYTES_MAX = 65_536
"""How much of what a client says behind a request that may wait for others is taken from its socket."""
_PIECE_BYTES_MAX = 65_536
"""How much of a request that is let through is looked at in one go."""
_BEFORE_AUTHENTICATION = request_bounds.SASL_APIS | {OtherApi.API_VERSIONS}


class Connection:
    """The machine between one client and one broker: feed it, then send `to_client`, `to_broker` and `to_coordinator`.

    A reason in `closing` ends the connection; bytes in `to_client` may still be written.
    """

    taps = False
    """Whether group requests go to the broker as well."""
    answered_apis = ANSWERED_APIS
    listing_cost: Callable[[], int] = staticmethod(lambda: 0)
    """How much work it is to list all groups."""
    outlives_client = False
    """Whether answers of the broker are waited for though the client is gone."""

    def __init__(
        self,
        gateway_versions: Versions,
        locate: Locate | None,
        bounds: Bounds,
        *,
        requires_sasl: bool,
        now_s: Callable[[], float] = lambda: 0.0,
        topic_filter: TopicFilter | None = None,
    ) -> None:
        """`locate` gives the gateway's address for a broker, None changes none; `topic_filter` None lets all topics
        pass."""
        self._order = AnswerOrder()
        self.to_client = self._order.to_client
        self.to_broker: list[bytes] = []
        self.to_coordinator: list[PendingRequest] = []
        self.closing: str | None = None
        self.client_host = self.broker_connection = ""
        self._gateway_versions = gateway_versions
        self._rewrite_of = partial(rewrite_of, locate=locate, gateway_versions=gateway_versions, taps=self.taps)
        self._bounds = bounds
        self._sasl = SaslSession(now_s) if requires_sasl else None
        self._from_client = FrameSplitter(bounds.request_bytes_max)
        self._answers = BrokerAnswers(self._order, 2**31 - 1)
        self._filtered = FilteredRequests(
            topic_filter, lambda: self.principal, self._forward, self._send, self._order.answer_at_once,
            self._rewrite_of, partial(self._ask, 0),
        )  # fmt: skip
        self._pending_slots: dict[int, Slot] = {}
        self._slice_left = 0
        """What may be begun before others have their turn."""
        self._last_parked = 0
        """Number of the latest JoinGroup or SyncGroup."""
        self._broker_was_lost = False
        self._is_unconfirmed = False
        """Whether the last thing for the broker was a Produce that has no answer."""

    # ------------------------------------------------------------------------------------------------ what comes in

    def from_client(self, data: bytes) -> None:
        """Take bytes from the client. Requests that do not fit into this slice wait for `go_on`, see `has_more`."""
        if self.closing:
            return
        self._from_client.feed(data)
        self._slice_left = request_bounds.PROMPT_COST
        self._guarded(self._read_requests)

    def go_on(self) -> None:
        """Take waiting requests: a new slice begins."""
        self._slice_left = request_bounds.SLICE_COST
        self._guarded(self._read_requests)

    def from_broker(self, data: bytes) -> None:
        """Take bytes from the broker."""
        if self.closing:
            return
        self._answers.splitter.feed(data)
        self._guarded(self._read_answers, self._read_requests)

    def broker_closed(self) -> None:
        """Close the client's side too, if requests are under way; else the next request opens the broker's side again.

        After a Produce without acks the client's side closes in any case: a broker has no other way to report an error.
        """
        if self._answers.forwarded or self._from_client.mid_frame or self._is_unconfirmed:
            self._close("the broker closed the connection")
            return
        self._broker_was_lost = True
        if self._sasl is not None:
            self._sasl.broker_lost()

    def answer(self, number: int, response: AnyResponse) -> None:
        """Answer the request of this number; drop the answer if nobody waits for it."""
        if isinstance(response, ConfigsResponse):
            self._guarded(partial(self._filtered.take_configs, response), self._read_requests)
            return
        if (slot := self._pending_slots.pop(number, None)) is None or self.closing:
            return
        head = slot.head
        try:
            payload = write_response(ANSWERED_APIS[head.api_key], head.api_version, head.correlation_id, response)
        except EncodeError as error:
            self._close(f"an answer cannot be said in version {head.api_version}: {error}")
            return
        self._order.hold(slot, frame(payload), done=True)
        self._order.release()
        self._guarded(self._read_requests)

    def end(self) -> None:
        """Drop all that lies here, at once: those who wait for an answer still hold this object."""
        self.closing = self.closing or "the client is gone"
        self._from_client.clear()
        self._answers.clear()
        self._order.clear()
        self._pending_slots.clear()
        self.to_coordinator.clear()
        self.to_broker.clear()

    # ------------------------------------------------------------------------------------------------ what is wanted

    @property
    def steps(self) -> int:
        """The number rises with every request that is taken and every piece of an answer that may leave."""
        return self._order.steps

    @property
    def answers_waiting(self) -> int:
        """The number of requests that the client has no answer to yet."""
        return len(self._order)

    @property
    def has_logged_in(self) -> bool:
        """True if the client is authenticated, or need not be."""
        return self._sasl is None or self._sasl.has_begun

    @property
    def has_more(self) -> bool:
        """True if a request, or the rest of one, waits for the connection's next slice."""
        waits = self._slice_left <= 0 and self._from_client.buffered > 0 and not self.closing
        return waits and (self._from_client.mid_frame or self._begins_requests)

    @property
    def awaits_rest(self) -> bool:
        """True if a request has begun to come that is taken only when it is whole."""
        return self._from_client.buffered > 0 and not self.has_more and self._begins_requests

    @property
    def buffered_bytes(self) -> int:
        """The bytes of requests and answers that are kept here, since they are incomplete or wait."""
        unsent = sum(map(len, self.to_broker)) if self.to_broker else 0
        incomplete = self._from_client.buffered + self._answers.splitter.buffered + self._filtered.undecided_bytes
        return incomplete + self._order.held_bytes + unsent

    @property
    def passing(self) -> tuple[int, int]:
        """Length and number of the unfinished request that is passed on; its length is reserved at the broker."""
        return self._from_client.passing, self._from_client.frames_passed

    @property
    def reads_client(self) -> bool:
        """True if more should be read from the client."""
        if self._is_parked:
            return self._from_client.buffered < _PARKED_BYTES_MAX  # what comes may be its end
        return self._begins_requests and not self.has_more

    @property
    def _begins_requests(self) -> bool:
        """True if the next request may be begun.

        A parked request stops the connection, as at a broker. Else kafka-python, which sends heartbeats while it joins,
        would get REBALANCE_IN_PROGRESS in the next generation, and a leader that joins again for it starts a rebalance.
        """
        if self._is_parked or self._filtered.undecided_bytes:
            return False
        if self._sasl is not None and self._sasl.awaits_answer:
            return False  # who the client is for what follows, the answer will tell
        return self._order.pending_events < self._bounds.pending_requests_max

    @property
    def _is_parked(self) -> bool:
        """True if a JoinGroup or SyncGroup has no answer yet. There is one at most."""
        return self._last_parked in self._pending_slots

    @property
    def reads_broker(self) -> bool:
        """True if more of the broker's answers should be read."""
        return self._order.held_bytes < self._bounds.held_bytes_max

    # ----------------------------------------------------------------------------------------------------- requests

    def _read_requests(self) -> None:
        while not self.closing:
            if not self._from_client.buffered or self._slice_left <= 0:
                return
            if self._from_client.mid_frame:
                self._pass_on_request()
            elif not self._begins_requests or not self._begin_request():
                return

    def _begin_request(self) -> bool:
        """Take the next request, or begin to pass it on; False if more of it is needed."""
        beginning = self._from_client.peek(BEGINNING_BYTES_MAX)
        if beginning is None:
            return False
        head = parse_request_head(beginning)
        if head is None:
            if self._from_client.is_complete:
                raise FrameError("a request without a whole header")
            return False
        size = self._from_client.size
        request_bounds.insist_on_size(head, size, self._bounds, reads_topics=self._filtered.reads_topics)
        if head.api_key == OtherApi.API_VERSIONS and head.api_version > API_VERSIONS_MAX:
            return self._refuse_api_versions(head)
        if not self._may_go_on(head):
            return False
        if head.api_key in self.answered_apis:
            listing = self.listing_cost() if head.api_key == ApiKey.LIST_GROUPS else 0
            return self._fits_in_slice(size, listing) and self._take_group_request(head)
        if self._filtered.takes(head.api_key):
            return self._fits_in_slice(size) and self._filtered.take(head, self._from_client)
        self._slice_left -= 1
        if head.api_key in request_bounds.SASL_APIS and self._sasl is not None:
            return self._take_sasl(head)
        if head.api_key == OtherApi.PRODUCE:
            opening = opening_of(head, beginning)
            return opening is not None and self._begin_produce(head, opening)
        self._forward(head, self._rewrite_of(head))
        self._pass_on_request()
        return True

    def _begin_produce(self, head: RequestHead, opening: Opening) -> bool:
        self._is_unconfirmed = opening.acks == NO_ACKS
        slot = None if self._is_unconfirmed else self._forward(head, self._rewrite_of(head))
        self._filtered.begin_produce(head, opening.topics_at, slot)
        self._pass_on_request()
        return True

    def _may_go_on(self, head: RequestHead) -> bool:
        """A request that is not offered closes the connection, as at a broker."""
        first, last = self._gateway_versions.get(head.api_key, (0, -1))
        if not first <= head.api_version <= last:
            self._close(f"not offered: API {head.api_key} version {head.api_version}")
        elif self._sasl is not None and head.api_key not in _BEFORE_AUTHENTICATION:
            self.closing = self._sasl.objection
        return not self.closing

    def _refuse_api_versions(self, head: RequestHead) -> bool:
        """ApiVersions alone can report an unknown version; the client asks again in another one."""
        if self._from_client.whole() is None:
            return False
        self._order.answer_at_once(head, refuse_api_versions(head.correlation_id, self._gateway_versions))
        return True

    def _fits_in_slice(self, size: int, further_cost: int = 0) -> bool:
        """True if a request of this size may be begun now. The first request of a slice always may."""
        if self._from_client.buffered < LENGTH.size + size:
            return False
        cost = request_bounds.cost_of_bytes(size) + further_cost
        if cost > self._slice_left < request_bounds.SLICE_COST:
            self._slice_left = 0
            return False
        self._slice_left -= cost
        return True

    def _take_group_request(self, head: RequestHead) -> bool:
        """Read a group request whole and hand it to the coordinator's side."""
        if (payload := self._from_client.whole()) is None:
            return False
        request = read_request(ANSWERED_APIS[head.api_key], head, payload, request_bounds.ITEMS_MAX)
        if isinstance(request, FindCoordinatorRequest) and request.key_type != _KEY_TYPE_GROUP:
            self._forward(head, self._rewrite_of(head))
            self.to_broker.append(frame(payload))
            return True
        self._filtered.name_topics(head, request, len(payload), partial(self._ask_coordinator, head, len(payload)))
        return True

    def _ask_coordinator(self, head: RequestHead, size: int, request: GroupRequest) -> None:
        events, cost = request_bounds.work_of(request)
        self._slice_left -= cost
        slot = self._order.place(head, events)
        self._pending_slots[slot.number] = slot
        if isinstance(request, MAY_BE_PARKED):
            self._last_parked = slot.number
        self._ask(slot.number, head, request, size)

    def _ask(self, number: int, head: RequestHead, request: AnyRequest, size: int) -> None:
        self.to_coordinator.append(pending_request(number, head, request, size, self.client_host, self.principal))

    def _take_sasl(self, head: RequestHead) -> bool:
        """Read what authenticates the client; it goes to the broker unchanged."""
        assert self._sasl is not None
        if (payload := self._from_client.whole()) is None:
            return False
        self._sasl.asked(head, payload)
        self._forward(head, partial(self._hear_sasl, head))
        self.to_broker.append(frame(payload))
        return True

    def _hear_sasl(self, head: RequestHead, payload: bytes) -> bytes:
        """The answer goes on unchanged."""
        assert self._sasl is not None
        self._sasl.answered(head, payload)
        if self._sasl.principal is not None:
            self._broker_was_lost = False  # the client has authenticated anew
        return payload

    def _forward(self, head: RequestHead, rewrite: Change | None) -> Slot:
        """Reserve the place of an answer that the broker will give."""
        self._is_unconfirmed = False
        return self._answers.forward(head, rewrite)

    @property
    def _has_broker(self) -> bool:
        if self._sasl is not None and self._broker_was_lost:
            self._close("the broker has closed the authenticated connection")  # only the client can authenticate again
        return not self.closing

    def _send(self, payload: bytes) -> None:
        """Send a whole request to the broker."""
        if self._has_broker:
            self.to_broker.append(frame(payload))

    def _pass_on_request(self) -> None:
        """Pass on a piece of the current request, as far as it has come."""
        if not self._has_broker:
            return
        before = self._filtered.items_passed
        piece = self._filtered.through(self._from_client.piece(_PIECE_BYTES_MAX), self._from_client)
        self._slice_left -= request_bounds.cost_of_items(self._filtered.items_passed - before)
        if piece:
            self.to_broker.append(piece)

    def _read_answers(self) -> None:
        while not self.closing and self._answers.splitter.buffered:
            if not self._answers.forwarded:
                self._close("the broker answers what was not asked")
            elif not self._answers.read():
                return

    @property
    def principal(self) -> str:
        """The client's principal."""
        return ANONYMOUS if self._sasl is None else self._sasl.principal or ANONYMOUS

    def _guarded(self, *steps: Callable[[], None]) -> None:
        """A step that meets bytes outside of Kafka's protocol ends this connection alone."""
        for step in steps:
            if self.closing:
                return
            try:
                step()
            except (FrameError, DecodeError, EncodeError) as error:
                self._close(f"not understood: {error}")

    def _close(self, reason: str) -> None:
        self.closing = reason
