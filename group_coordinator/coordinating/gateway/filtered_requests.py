"""One connection's requests that name topics pass the filter on their way to the broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from group_coordinator.coordinating.gateway.answer_order import Change, Slot
from group_coordinator.coordinating.gateway.asked_configs import AskedConfigs
from group_coordinator.coordinating.gateway.frames import FrameSplitter, RequestHead
from group_coordinator.coordinating.gateway.group_configs import CONFIG_APIS, ConfigsRequest, ConfigsResponse
from group_coordinator.coordinating.gateway.offset_topics import ids_in, with_names
from group_coordinator.coordinating.gateway.produce import ProduceTopics
from group_coordinator.coordinating.gateway.rewriting import Rewrite
from group_coordinator.coordinating.gateway.topic_filter import Answer, NamesById, Question, TopicFilter
from group_coordinator.coordinating.gateway.versions import TOPIC_APIS, OtherApi
from schemas.message_versions import GroupRequest
from schemas.wire import encode_uuid

Forward = Callable[[RequestHead, Change | None], Slot]


class FilteredRequests:
    """Passes them on, after the broker has said which topics they name where that is not known."""

    def __init__(
        self,
        topic_filter: TopicFilter | None,
        principal: Callable[[], str],
        forward: Forward,
        send: Callable[[bytes], None],
        answer: Callable[[RequestHead, bytes], None],
        rewrite_of: Callable[[RequestHead], Rewrite | None],
        ask: Callable[[RequestHead, ConfigsRequest, int], None],
    ) -> None:
        """`topic_filter` None: all goes on as it comes.

        `forward` makes a place for an answer, `send` gives the broker a request, `answer` answers one at once;
        `rewrite_of`: what else is to be done with an answer. `ask` asks the coordinator's side about groups' settings;
        `take_configs` gets its answer.
        """
        self.undecided_bytes = 0
        """Of the client's last request, while it waits for the broker to say which topics it names."""
        self.items_passed = 0
        """Topics and partitions of all that came in pieces: the work that it was."""
        self._topic_filter = topic_filter
        self._principal = principal
        self._forward, self._send, self._answer, self._rewrite_of = forward, send, answer, rewrite_of
        self._ask = ask
        self._asked_configs: AskedConfigs | None = None
        self._produce: ProduceTopics | None = None
        self._produce_slot: Slot | None = None

    @property
    def reads_topics(self) -> bool:
        """True if requests that name topics are inspected."""
        return self._topic_filter is not None

    def takes(self, api_key: int) -> bool:
        """Return whether requests of an API are taken whole: all that name topics, except Produce."""
        return self._topic_filter is not None and api_key in TOPIC_APIS and api_key != OtherApi.PRODUCE

    def take(self, head: RequestHead, requests: FrameSplitter) -> bool:
        """Pass a request on as its client may; False: it is not whole yet. Raises DecodeError."""
        payload = requests.whole()
        if payload is None or self._topic_filter is None:
            return False
        if head.api_key in CONFIG_APIS:
            self._take_configs(self._topic_filter, AskedConfigs.read(head, payload))
        else:
            self._pass_on(self._topic_filter, head, payload, {})
        return True

    def _take_configs(self, topic_filter: TopicFilter, asked: AskedConfigs) -> None:
        """Let a request about settings go on without its groups, when those are settled."""
        if asked.of_groups is not None:
            self._asked_configs, self.undecided_bytes = asked, len(asked.payload)
            self._ask(asked.head, asked.of_groups, len(asked.payload))
        else:
            self._pass_on(topic_filter, asked.head, asked.payload, {})

    def take_configs(self, own: ConfigsResponse) -> None:
        """Take the results for the groups of the last request, and let the others of its resources go on."""
        asked, topic_filter = self._asked_configs, self._topic_filter
        assert asked is not None
        assert topic_filter is not None
        self._asked_configs, self.undecided_bytes = None, 0
        if asked.rest is None:
            self._answer(asked.head, asked.answer(own, None))
        else:
            self._pass_on(topic_filter, asked.head, asked.rest, {}, lambda payload: asked.answer(own, payload))

    def name_topics(
        self, head: RequestHead, request: GroupRequest, size: int, go_on: Callable[[GroupRequest], None]
    ) -> None:
        """Let a group request go on with the names of its topics, now or when the broker has told them. `size`: its
        bytes."""
        topic_filter = self._topic_filter
        ids = {topic_id: encode_uuid(topic_id) for topic_id in ids_in(request)}
        if topic_filter is None or not ids:
            go_on(request)
            return
        question = topic_filter.ask_names(head, ids.values())
        if question is None:
            go_on(with_names(request, {text: topic_filter.name_of(topic_id) for text, topic_id in ids.items()}))
            return

        def take_names(answer: bytes) -> None:
            self.undecided_bytes = 0
            told = topic_filter.read_answer(question, answer)
            names = {text: told.get(topic_id) or topic_filter.name_of(topic_id) for text, topic_id in ids.items()}
            go_on(with_names(request, names))

        self.undecided_bytes = size
        self._forward(question.head, take_names)
        self._send(question.payload)

    def begin_produce(self, head: RequestHead, topics_at: int, slot: Slot | None) -> None:
        """Begin a Produce that comes in pieces. `slot` is the place of its answer, if it has any."""
        if self._topic_filter is not None:
            self._produce, self._produce_slot = self._topic_filter.produce(head, topics_at, self._principal()), slot

    def through(self, piece: bytes, requests: FrameSplitter) -> bytes:
        """Return the bytes to send for a piece of the request that is passed on. Raises DecodeError."""
        produce, slot = self._produce, self._produce_slot
        if produce is None or self._topic_filter is None:
            return piece
        before = produce.items
        piece = produce.through(piece)
        self.items_passed += produce.items - before
        if not requests.mid_frame:
            produce.end()
            self._produce = self._produce_slot = None
            if produce.masked and slot is not None:
                revealed = self._topic_filter.reveal_produced(slot.head, self._principal(), produce.masked)
                slot.rewrite = _one_after_the_other(self._rewrite_of(slot.head), revealed)
        return piece

    def _pass_on(
        self,
        topic_filter: TopicFilter,
        head: RequestHead,
        payload: bytes,
        names_by_id: NamesById,
        last: Rewrite | None = None,
    ) -> None:
        """`last`: what is done with the answer in the end."""
        decision = topic_filter.pass_on(head, payload, self._principal(), names_by_id)
        if isinstance(decision, Question):
            self.undecided_bytes = len(payload)
            self._forward(decision.head, partial(self._take_names, topic_filter, decision, head, payload))
            self._send(decision.payload)
        elif isinstance(decision, Answer):
            self._answer(head, decision.payload)
        else:
            filtered = _one_after_the_other(self._rewrite_of(head), decision.rewrite)
            slot = self._forward(head, _one_after_the_other(filtered, last))
            slot.change_beginning = decision.change_beginning
            self._send(decision.payload)

    def _take_names(
        self, topic_filter: TopicFilter, question: Question, head: RequestHead, request: bytes, answer: bytes
    ) -> None:
        """Take the broker's answer about the names of topics, which does not go to the client."""
        self.undecided_bytes = 0
        self._pass_on(topic_filter, head, request, topic_filter.read_answer(question, answer))


def _one_after_the_other(first: Rewrite | None, second: Rewrite | None) -> Rewrite | None:
    if first is None or second is None:
        return first or second
    return lambda payload: second(first(payload))
