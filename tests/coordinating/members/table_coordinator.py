"""The coordinator's core between the real topics, without Spark: what the members' shell is tried against."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self, TypeVar

from confluent_kafka import Consumer, Producer, TopicPartition

from coordinator_state import Answer, Coordinator, GroupConfig, RequestEvent
from coordinator_state import Output as CoordinatorOutput
from group_coordinator.ground.settings.topic_names import Topics
from schemas.events import decode_request_event, encode_json

N = TypeVar("N")


class TableCoordinator:
    """Reads the events, answers on the responses topic; its clock is the wall clock. A context manager."""

    def __init__(self, bootstrap_servers: str, topics: Topics, config: GroupConfig | None = None) -> None:
        self.coordinator = Coordinator(config or GroupConfig(group_initial_rebalance_delay_ms=0))
        self.outputs: list[CoordinatorOutput] = []
        self.paused = False
        self._topics = topics
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
        self._consumer.assign([TopicPartition(topics.events, 0, 0)])
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 0})
        self._running = True
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running = False
        self._thread.join()
        self._producer.flush(10)
        self._consumer.close()

    def history(self, kind: type[N]) -> list[N]:
        return [output for output in self.outputs if isinstance(output, kind)]

    def answers(self, api: str) -> list[Answer]:
        return [output for output in self.outputs if isinstance(output, Answer) and output.api == api]

    def _run(self) -> None:
        while self._running:
            if self.paused:
                time.sleep(0.01)
                continue
            message = self._consumer.poll(0.02)
            now_ms = time.time_ns() // 1_000_000
            outputs = self.coordinator.advance_to(now_ms)
            if message is not None and message.error() is None:
                group_id, offset = (message.key() or b"").decode(), message.offset()
                assert offset is not None
                envelope, request = decode_request_event(group_id, message.value())
                event = RequestEvent(
                    offset=offset,
                    clock_ms=now_ms,
                    timestamp_ms=message.timestamp()[1],
                    envelope=envelope,
                    request=request,
                )
                outputs = outputs + self.coordinator.handle(group_id, event)
            self.outputs += outputs
            for output in outputs:
                if isinstance(output, Answer):
                    self._answer(output)

    def _answer(self, answer: Answer) -> None:
        self._producer.produce(
            self._topics.responses,
            partition=answer.reply_partition,
            key=answer.request_id.encode(),
            value=encode_json(answer.document()),
        )
        self._producer.poll(0)
