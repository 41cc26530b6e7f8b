"""A topic that cannot be read gives a sentence for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from group_coordinator.ground.errors import ExpectedError
from group_coordinator.ground.kafka_topics.clients import login_problem

TIMEOUT_S = 15.0
"""A Kafka that is silent for longer does not answer."""
STOP_S = 2.0
"""So long the end of a program waits for a question that is under way."""
_NO_ANSWER = (
    KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
)  # fmt: skip


class TopicReadError(ExpectedError):
    """A topic cannot be read. The message is a sentence that names the remedy."""


class NoSuchTopicError(TopicReadError):
    """The topic is not there, or is hidden from this client."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"There is no topic {topic}. Is the coordinator running there, and with this --topic-prefix?")


@contextmanager
def explaining(client_properties: Mapping[str, str], timeout_s: float | None = None) -> Iterator[None]:
    """Turn a `KafkaException` raised in here into a `TopicReadError`, which names Kafka's address."""
    try:
        yield
    except KafkaException as problem:
        error = problem.args[0]
        where = f"Kafka at {client_properties['bootstrap.servers']}"
        text = error.str().rstrip(".") if isinstance(error, KafkaError) else str(error)
        if isinstance(error, KafkaError) and error.code() in _NO_ANSWER:
            refused = login_problem(client_properties)
            if refused is not None:
                raise TopicReadError(refused) from problem
            within = f"within {TIMEOUT_S if timeout_s is None else timeout_s:g} s"
            raise TopicReadError(f"{where} does not answer {within}: {text}. Check --bootstrap-servers.") from problem
        raise TopicReadError(f"{where}: {text}.") from problem
