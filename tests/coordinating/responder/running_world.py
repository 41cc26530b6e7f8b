"""The app, its auditor and its responders on a real broker, for the tests of all three."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from group_coordinator.coordinating.responder.auditor import Auditor, AuditorThread, undecided_since_ms
from group_coordinator.coordinating.responder.processes import ResponderProcesses
from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from schemas.messages import HeartbeatResponse
from schemas.query_progress import WRITER_HEADER
from streaming.config import StreamingConfig
from tests.streaming.running_app import HEARTBEAT, TIMEOUT_S, Client, RunningApp
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_LONG_MS = 120_000
"""Nobody expires while a test waits."""
Configure = Callable[..., StreamingConfig]


class World:
    """The app, its auditor and its responders."""

    def __init__(self, config: StreamingConfig, spark: SparkSession, stack: ExitStack) -> None:
        self.config = config
        self.app = stack.enter_context(RunningApp(config, spark))
        publisher = self.app.application.progress_publisher
        assert publisher is not None
        begins, properties = publisher.begins, config.client_properties
        self.auditor = Auditor(publisher.core_hashes, publisher.differs, begins=begins)
        self.app.listeners.append(self.auditor.batch_ended)
        topics = config.topics
        audit = AuditorThread(self.auditor, properties, topics.responses, config.responses_partitions)
        audit.start(undecided_since_ms(properties, topics.events, begins))
        stack.callback(audit.stop)
        self.responders = ResponderProcesses(config, {}, self.app.application.read_state)
        stack.callback(self.responders.stop)
        self.client = Client(config)
        self.topics = topics

    def start_responders(self) -> None:
        self.responders.start()
        self.wait_for_a_responder()

    def wait_for_a_responder(self) -> None:
        wait_until(lambda: self.responders.statuses[0] is not None, TIMEOUT_S)

    def answers(self) -> dict[tuple[bytes, str, str], list[tuple[str, int, bytes]]]:
        """Request id, epoch and seq -> writer, partition and value of each record, in the order of the topic."""
        answers: dict[tuple[bytes, str, str], list[tuple[str, int, bytes]]] = defaultdict(list)
        for message in read_topic(self.config.client_properties, self.topics.responses):
            headers = headers_of(message)
            place = bytes(message.key() or b""), headers["epoch"], headers["seq"]
            record = headers.get(WRITER_HEADER, "query"), message.partition() or 0, message.value() or b""
            answers[place].append(record)
        return answers

    def heartbeat(self) -> None:
        assert self.client.answer(self.client.send("Heartbeat", 4, HEARTBEAT)) == HeartbeatResponse()
