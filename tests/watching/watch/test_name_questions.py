"""The names of topics are asked for when an id comes that has none, and no more often than that is of use."""

from __future__ import annotations

import threading

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.watch import name_questions
from group_coordinator.watching.watch.name_questions import NameQuestions
from group_coordinator.watching.watch.source import WatchSource
from tests.waiting import wait_until
from tests.watching.watch.live import consumer, with_topic


class Waits:
    """Counts the times at which a question is due, in a thread that asks."""

    def __init__(self, questions: NameQuestions) -> None:
        self.asked = 0
        self.stopping = threading.Event()
        self._questions = questions
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        while not self.stopping.is_set():
            self._questions.begin()
            self.asked += 1
            self._questions.wait(0.0, self.stopping)

    def stop(self) -> None:
        self.stopping.set()
        self._questions.wake()
        self._thread.join()


def test_an_id_without_a_name_is_asked_for_a_few_times() -> None:
    questions = NameQuestions()
    asking = Waits(questions)
    wait_until(lambda: asking.asked == 1)
    for ids, at_most in ((["a"], 4), (["a", "b"], 7)):  # three times for each, whoever else is without a name
        before = asking.asked

        def ask(ids: list[str] = ids, at_most: int = at_most) -> bool:
            questions.want(ids)
            return asking.asked == at_most

        wait_until(ask)
        questions.want(ids)
        assert asking.asked == at_most > before
    asking.stop()
    assert asking.asked == 7


def test_a_topic_that_is_made_meanwhile_has_its_name(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    """Its group subscribes to two of them, so that no record tells which one has which id."""
    interval_s, name_questions.NAMES_INTERVAL_S = name_questions.NAMES_INTERVAL_S, 3_600.0
    topics, index = [f"{topic_prefix}-{number}" for number in (1, 2)], Index()
    with_topic(kafka, admin, topic_prefix)
    consumer(kafka, topic_prefix).committed([TopicPartition(topic_prefix, 0)])  # with it there is an offsets topic
    source = WatchSource({"bootstrap.servers": kafka.bootstrap_servers})
    source.start(index)
    try:
        wait_until(lambda: source.is_whole)
        for topic in topics:
            with_topic(kafka, admin, topic)
        member = consumer(kafka, topic_prefix, **{"group.protocol": "consumer"})
        member.subscribe(topics)
        wait_until(lambda: member.poll(0.2) is not None and len(member.assignment()) == 4)

        def shown() -> set[str]:
            facts = index.facts(topic_prefix)
            return set() if facts is None else set(facts.topics)

        wait_until(lambda: shown() == set(topics))
        member.close()
    finally:
        source.stop()
        name_questions.NAMES_INTERVAL_S = interval_s
