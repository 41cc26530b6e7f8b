"""A coordinator that runs in this process, and a client that speaks with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from schemas.events import decode_response_event, encode_request_event
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    Request,
    Response,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from streaming.application import Application, ShardProgress
from streaming.config import StreamingConfig
from streaming.topics import TopicReport
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SESSION_MS = 4_000
TIMEOUT_S = 180.0
GROUP = "steady"
HEARTBEAT = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")


class RunningApp:
    """The app in a thread."""

    def __init__(self, config: StreamingConfig, spark: SparkSession) -> None:
        self.progress: list[ShardProgress] = []
        self.failure: BaseException | None = None
        self._started = threading.Event()
        self._stop = threading.Event()
        self.listeners: list[Callable[[ShardProgress], None]] = [self.progress.append]
        """Called after each batch, in the app's thread."""
        self.application = Application(config, spark=spark, on_start=self._on_start, on_progress=self._on_progress)
        self._thread = threading.Thread(target=self._run)

    def _on_start(self, report: TopicReport) -> None:
        self._started.set()

    def _on_progress(self, progress: ShardProgress) -> None:
        for listener in self.listeners:
            listener(progress)

    def _run(self) -> None:
        try:
            self.application.run(self._stop)
        except BaseException as failure:
            self.failure = failure

    def __enter__(self) -> RunningApp:
        self._thread.start()
        wait_until(lambda: self._started.is_set() or not self._thread.is_alive(), TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, if it has not stopped yet."""
        self._stop.set()
        self.join()

    def join(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()


class Client:
    """Sends requests of a group and hears the answers."""

    def __init__(self, config: StreamingConfig) -> None:
        self._topics = config.topics
        settings = {"enable.idempotence": True, "message.max.bytes": 1_048_000}
        self._producer = Producer({**config.client_properties, **settings})
        self._consumer = Consumer({**config.client_properties, "group.id": "test"})
        self._consumer.assign([TopicPartition(self._topics.responses, 1, 0)])
        self._answers: dict[str, Response] = {}
        self._lock = threading.Lock()
        self.sent: list[str] = []

    def join(self, session_timeout_ms: int = SESSION_MS) -> None:
        """One member joins and syncs: a stable group in generation 1."""
        protocols = (JoinGroupProtocol(name="range", metadata=b""),)
        join = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=session_timeout_ms, protocol_type="consumer", protocols=protocols
        )
        self.answer(self.send("JoinGroup", 3, join, new_member_id="m"))
        assignments = (SyncGroupAssignment(member_id="m", assignment=b""),)
        sync = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m", assignments=assignments)
        self.answer(self.send("SyncGroup", 3, sync))

    def send(self, api: str, version: int, request: Request, **fields: Any) -> str:
        request_id = f"{api}-{len(self.sent)}"
        self.sent.append(request_id)
        fields = {"request_id": request_id, "reply_partition": 1, "client_id": "test", **fields}
        self.write(GROUP.encode(), encode_request_event(api, version, request, **fields))
        return request_id

    def write(self, key: bytes | None, value: bytes | None) -> None:
        self._producer.produce(self._topics.events, key=key, value=value, partition=0)
        self._producer.flush()

    def answer(self, request_id: str) -> Response:
        wait_until(lambda: request_id in self.answers(), TIMEOUT_S)
        return self.answers()[request_id]

    def answers(self) -> dict[str, Response]:
        with self._lock:
            for message in self._consumer.consume(1_000, timeout=0.1):
                envelope, response = decode_response_event(message.value() or b"")
                self._answers[envelope.request_id] = response
            return dict(self._answers)
