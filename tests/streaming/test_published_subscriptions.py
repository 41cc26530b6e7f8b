"""What consumer groups have published, as it is read at the start: as much of it as a watcher keeps, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message

from schemas.events import encode_json
from schemas.history import SnapshotSubscription
from schemas.query_progress import GatewayAlive, SeenTopic, TopicsSeen, encode_progress, key_of
from streaming import published_subscriptions
from streaming.group_news import kept_bytes
from streaming.published_subscriptions import PublishedSubscriptions
from tests.coordinating.responder.messages import AnswerMessage

CLASSIC = b'{"group_id":"g","state":"Empty","members":[]}'
SUBSCRIPTION = SnapshotSubscription(
    topics=("t",), regexes={}, metadata_hash=1, topics_version=1, resolving_since_ms=None
)
CONSUMER = CLASSIC.removesuffix(b"}") + b',"subscription":' + encode_json(SUBSCRIPTION) + b"}"


class Follower:
    """Reads what the test gives it."""

    def __init__(
        self, _: object, __: str, take: Callable[[list[Message]], None], *, on_caught_up: Callable[[], None], **___: Any
    ) -> None:
        self.take, self.on_caught_up = take, on_caught_up

    def start(self, **_: object) -> None:
        pass


class Published:
    """The subscriptions of shard 0 of 1, and the topic that they are read from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        followers: list[Follower] = []

        def follower(*arguments: Any, **more: Any) -> Follower:
            followers.append(Follower(*arguments, **more))
            return followers[-1]

        monkeypatch.setattr(published_subscriptions, "TopicFollower", follower)
        self.subscriptions = PublishedSubscriptions("topic", 1, 1, [0], {}, "progress")
        assert self.subscriptions.take(0) is None
        (self.topic,) = followers

    def read(self, *records: tuple[str, bytes]) -> None:
        self.topic.take([AnswerMessage(0, 0, group_id.encode(), value, {}) for group_id, value in records])

    def groups(self) -> dict[str, bool]:
        """Group -> whether it is a consumer group; what is new."""
        news = self.subscriptions.take(0)
        assert news is not None
        return {group_id: subscription is not None for group_id, subscription in news.items()}


class ProgressMessage(AnswerMessage):
    """A record of the progress topic."""

    def topic(self) -> str:
        return "progress"


def test_what_gateways_have_seen_of_topics_is_handed_out_once_and_wakes_the_watcher(published: Published) -> None:
    woken: list[int] = []
    published.subscriptions.on_news(0, lambda: woken.append(0))
    seen = TopicsSeen(cluster_id="c", topics=(SeenTopic("orders"),))
    records = (seen, GatewayAlive(), seen)
    values = [(key_of(type(record)), encode_progress(record)) for record in records] + [(key_of(TopicsSeen), b"{")]
    published.topic.take([ProgressMessage(0, 0, key, value, {}) for key, value in values])
    assert woken == [0, 0]
    assert published.subscriptions.seen(0) == [seen, seen]
    assert published.subscriptions.seen(0) == []


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Published:
    return Published(monkeypatch)


def test_groups_of_the_other_protocol_are_not_kept_at_the_start_and_told_afterwards(published: Published) -> None:
    published.read(("classic", CLASSIC), ("consumer", CONSUMER), ("left", CONSUMER), ("left", CLASSIC))
    published.topic.on_caught_up()
    assert published.groups() == {"consumer": True}
    published.read(("consumer", CLASSIC), ("classic", CONSUMER))
    assert published.groups() == {"consumer": False, "classic": True}
    assert published.groups() == {}


def test_what_is_read_before_anybody_asks_has_a_bound(
    published: Published, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    size = kept_bytes("g0", SUBSCRIPTION)
    monkeypatch.setattr(published_subscriptions, "KEPT_BYTES_MAX", 3 * size)
    for _ in range(2):  # what a group says again takes the place of what it said
        published.read(*[(f"g{number}", CONSUMER) for number in range(3)])
    published.read(("g3", CONSUMER), ("g4", CONSUMER))
    published.topic.on_caught_up()
    assert published.groups() == {"g0": True, "g1": True, "g2": True}
    assert caplog.text.count("subscribe to more than can be taken in") == 1
    published.read(("g3", CONSUMER))
    assert published.groups() == {"g3": True}, "there is room again"
