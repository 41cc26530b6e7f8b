"""A tap is a gateway that takes nothing out: the cluster's own coordinator answers, and the tap records requests and
answers.

It writes events of our format, with a tick before each, so that groups of any cluster can be replayed and explained. It
sees only clients that bootstrap at the tap.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from confluent_kafka import KafkaError, KafkaException, Message

from group_coordinator.coordinating.gateway.config import Bounds, GatewayError, ProxySettings
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.frames import RequestHead, frame
from group_coordinator.coordinating.gateway.pending_request import PendingRequest, pending_request
from group_coordinator.coordinating.gateway.ports import Ports
from group_coordinator.coordinating.gateway.proxy_server import ProxyServer
from group_coordinator.coordinating.gateway.request_router import Reply
from group_coordinator.coordinating.gateway.rewriting import Locate
from group_coordinator.coordinating.gateway.tap_log import TapLog, Tapped, TappedAnswer, TappedEvent
from group_coordinator.coordinating.gateway.tap_topics import TapTopics
from group_coordinator.coordinating.gateway.tap_transactions import ENDING_APIS, Ending, has_succeeded, read_ending
from group_coordinator.coordinating.gateway.translation import read_request, read_response
from group_coordinator.coordinating.gateway.versions import GROUP_APIS, TRANSACTION_APIS, Versions, accepted_versions
from group_coordinator.ground.kafka_topics.clients import new_producer
from schemas.records_file import Record, encode_record
from schemas.wire import DecodeError

_FLUSH_INTERVAL_S = 0.5
_READ_APIS = GROUP_APIS | TRANSACTION_APIS
_log = logging.getLogger(__name__)


class TapOutput(Protocol):
    """The tap writes to this in the event loop's thread, so it must not block for long.

    Raises OSError, BufferError or KafkaException when something cannot be written.
    """

    def event(self, event: TappedEvent) -> None: ...

    def answer(self, answer: TappedAnswer) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class FilesOutput:
    """Two files of records (`schemas.records_file`): the events, and beside them, in `NAME.answers`, what brokers
    answered."""

    def __init__(self, path: Path) -> None:
        """Raises GatewayError for a file that is there already, or cannot be made."""
        try:
            self._events = path.open("xb")
            self._answers = path.with_name(path.name + ".answers").open("xb")
        except OSError as problem:
            raise GatewayError(f"{problem.filename} cannot be written: {problem.strerror}.") from problem
        self._events_offset = 0
        self._answers_offset = 0

    def event(self, event: TappedEvent) -> None:
        _append(self._events, self._events_offset, event)
        self._events_offset += 1

    def answer(self, answer: TappedAnswer) -> None:
        _append(self._answers, self._answers_offset, answer)
        self._answers_offset += 1

    def flush(self) -> None:
        self._events.flush()
        self._answers.flush()

    def close(self) -> None:
        self._events.close()
        self._answers.close()


class TopicsOutput:
    """The topics `PREFIX.events` and `PREFIX.responses`, partition 0 of each; they must be there."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        """`properties`: librdkafka's, `bootstrap.servers` among them."""
        self._events = f"{prefix}.events"
        self._responses = f"{prefix}.responses"
        self._producer = new_producer(
            properties,
            {
                "log_level": 3,
                "enable.idempotence": "true",
                "linger.ms": "20",
                "delivery.report.only.error": True,
                "on_delivery": _insist,
            },
        )

    def event(self, event: TappedEvent) -> None:
        self._producer.produce(self._events, event.value, event.key, partition=0, timestamp=event.time_ms)

    def answer(self, answer: TappedAnswer) -> None:
        self._producer.produce(self._responses, answer.value, answer.key, partition=0, timestamp=answer.time_ms)

    def flush(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(10.0)


def _insist(error: KafkaError, message: Message) -> None:
    """Raised where the producer is polled."""
    raise KafkaException(error)


def _append(file: BinaryIO, offset: int, tapped: TappedEvent | TappedAnswer) -> None:
    record = Record(partition=0, offset=offset, timestamp_ms=tapped.time_ms, key=tapped.key, value=tapped.value)
    file.write(encode_record(record) + b"\n")


class TapConnection(Connection):
    """The group requests of this connection go to the broker like all others, and are noted."""

    taps = True
    answered_apis = _READ_APIS | ENDING_APIS

    def __init__(
        self,
        gateway_versions: Versions,
        locate: Locate | None,
        bounds: Bounds,
        note: Callable[[PendingRequest], Tapped | None],
        note_ending: Callable[[Ending], Tapped],
        *,
        requires_sasl: bool,
        now_s: Callable[[], float],
    ) -> None:
        super().__init__(gateway_versions, locate, bounds, requires_sasl=requires_sasl, now_s=now_s)
        self._note, self._note_ending = note, note_ending
        self._unanswered: set[Tapped] = set()

    def end(self) -> None:
        """Note that requests without an answer will have none."""
        super().end()
        for tapped in self._unanswered:
            tapped.ended()
        self._unanswered.clear()

    def _take_group_request(self, head: RequestHead) -> bool:
        payload = self._from_client.whole()
        if payload is None:
            return False
        tapped = self._tapped(head, payload)
        if tapped is None:
            self._forward(head, self._rewrite_of(head))
        else:
            self._unanswered.add(tapped)
            self._forward(head, partial(self._listen, head, tapped))
        self.to_broker.append(frame(payload))
        return True

    def _tapped(self, head: RequestHead, payload: bytes) -> Tapped | None:
        try:
            if head.api_key in ENDING_APIS:
                ending = read_ending(head, payload)
                return None if ending is None else self._note_ending(ending)
            request = read_request(_READ_APIS[head.api_key], head, payload)
        except DecodeError:
            return None  # the broker will say what it thinks of it
        return self._note(pending_request(0, head, request, len(payload), self.client_host, self.principal))

    def _listen(self, head: RequestHead, tapped: Tapped, payload: bytes) -> bytes:
        """The answer goes on as it is."""
        self._unanswered.discard(tapped)
        try:
            if head.api_key in ENDING_APIS:
                tapped.decided(has_succeeded(head, payload))
            else:
                tapped.answered(read_response(_READ_APIS[head.api_key], head.api_version, payload), _now_ms())
        except DecodeError:
            tapped.ended()
        return payload


class Tap(ProxyServer):
    """The tap listens, passes on and records. `bootstrap_servers` of its configuration name the tapped cluster."""

    def __init__(self, config: ProxySettings, output: TapOutput) -> None:
        """The tap closes `output` when it ends."""
        super().__init__(config)
        self._gateway_versions = accepted_versions(rewrites_addresses=not config.routes, taps=True)
        self._output = output
        self._topics = TapTopics(config.broker_client_properties)
        self._log = TapLog(
            lambda event: self._write(partial(output.event, event)),
            lambda answer: self._write(partial(output.answer, answer)),
            self._topics.look_up,
        )
        self.recording_failure: str | None = None
        """Why nothing is recorded any more; clients are served all the same."""
        self._flusher: asyncio.TimerHandle | None = None

    @property
    def events(self) -> int:
        """The number of recorded requests."""
        return self._log.events

    async def _begin(self, ports: Ports) -> None:
        self._flush()

    async def _finish(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
        self._topics.close()
        self._log.end(_now_ms())
        self._write(self._output.flush)
        try:
            self._output.close()
        except (OSError, BufferError, KafkaException) as problem:
            self._fail(problem)

    def _flush(self) -> None:
        self._write(self._output.flush)
        self._flusher = asyncio.get_running_loop().call_later(_FLUSH_INTERVAL_S, self._flush)

    def _write(self, write: Callable[[], None]) -> None:
        if self.recording_failure is None:
            try:
                write()
            except (OSError, BufferError, KafkaException) as problem:
                self._fail(problem)

    def _fail(self, problem: Exception) -> None:
        if self.recording_failure is None:
            self.recording_failure = str(problem)
            _log.error("the recording ends here, clients go on: %s", problem)

    def _machine(self, locate: Locate | None) -> Connection:
        return TapConnection(
            self._gateway_versions,
            locate,
            self._config,
            self.note,
            lambda ending: self._log.ending(ending, _now_ms()),
            requires_sasl=self._config.speaks_sasl,
            now_s=time.monotonic,
        )

    def note(self, pending: PendingRequest) -> Tapped | None:
        """Record a request; return None for one that is not recorded."""
        self.metrics.requests[pending.api] += 1
        return self._log.request(pending, _now_ms())

    def _ask(self, pending: PendingRequest, node_id: int | None, reply: Reply) -> None:
        raise AssertionError("a tap answers nothing")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
