"""A poll that brings no answer about a group says nothing of it: the group is not told as gone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.polled import PolledGroup, Polls
from group_coordinator.watching.watch import polling
from group_coordinator.watching.watch.polled_groups import GROUPS, GroupPoller, Poll
from schemas.history import GroupDead
from tests.waiting import wait_until

LOADING = KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
AWAY = KafkaError(KafkaError._TRANSPORT)


class Answered:
    """A future with its answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def result(self, timeout_s: float) -> Any:
        if isinstance(self._answer, KafkaError):
            raise KafkaException(self._answer)
        return self._answer


class Admin:
    """An admin client of a cluster with these groups."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.list_errors: list[KafkaError] = []
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []

    def list_consumer_groups(self, request_timeout: float) -> Answered:
        valid = [SimpleNamespace(group_id=group_id) for group_id in self.listed]
        return Answered(SimpleNamespace(valid=valid, errors=self.list_errors))

    def describe_consumer_groups(self, group_ids: Iterable[str], request_timeout: float) -> dict[str, Answered]:
        self.asked = list(group_ids)
        return {group_id: Answered(self.answers[group_id]) for group_id in self.asked}

    def list_consumer_group_offsets(self, asked: Any, request_timeout: float) -> dict[str, Answered]:
        return {each.group_id: Answered(SimpleNamespace(topic_partitions=())) for each in asked}


def described(group_id: str, state: str = "STABLE") -> Any:
    return SimpleNamespace(
        group_id=group_id, state=SimpleNamespace(name=state), type=None, partition_assignor="range", members=[]
    )


@pytest.fixture
def admin() -> Admin:
    admin = Admin()
    admin.listed = ["a", "b"]
    admin.answers = {"a": described("a"), "b": described("b")}
    return admin


def poller_of(admin: Any) -> GroupPoller:
    return GroupPoller(lambda: admin)


def names(poll: Poll) -> list[str]:
    return [group.group_id for group in poll.groups]


def test_a_broker_that_does_not_list_its_groups_is_a_problem(admin: Admin) -> None:
    poller = poller_of(admin)
    assert names(poller.groups()) == ["a", "b"]
    admin.listed, admin.list_errors = [], [AWAY]
    with pytest.raises(KafkaException):
        poller.groups()


@pytest.mark.parametrize("error", [LOADING, AWAY])
def test_a_group_that_is_not_described_is_not_answered(admin: Admin, error: KafkaError) -> None:
    poller = poller_of(admin)
    poller.groups()
    admin.answers["b"] = error
    poll = poller.groups()
    assert (names(poll), poll.unanswered) == (["a"], ("b",))


def test_a_group_that_is_not_listed_any_more_is_asked_for_once_more(admin: Admin) -> None:
    """A coordinator that loads its groups lists none of them."""
    poller = poller_of(admin)
    poller.groups()
    admin.listed = ["a"]
    admin.answers["b"] = LOADING
    assert poller.groups().unanswered == ("b",)
    admin.answers["b"] = described("b", "DEAD")
    poll = poller.groups()
    assert [(group.group_id, group.state) for group in poll.groups] == [("a", "Stable"), ("b", "Dead")]
    poller.groups()
    assert admin.asked == ["a"]


def test_a_group_that_there_is_not_is_gone(admin: Admin) -> None:
    poller = poller_of(admin)
    poller.groups()
    admin.listed, admin.answers["b"] = ["a"], KafkaError(KafkaError.GROUP_ID_NOT_FOUND)
    poll = poller.groups()
    assert (names(poll), poll.unanswered) == (["a"], ())


def test_a_client_that_got_no_answer_is_not_asked_again(admin: Admin) -> None:
    """librdkafka's client does not find a coordinator again that was away while it asked."""
    made: list[Any] = []

    def make() -> Any:
        made.append(admin)
        return admin

    poller = GroupPoller(make)
    poller.groups()
    poller.groups()
    assert len(made) == 1
    admin.answers["b"] = AWAY
    poller.groups()
    poller.groups()
    assert len(made) == 2
    admin.answers["b"], admin.list_errors, admin.listed = described("b"), [AWAY], []
    for _ in range(2):
        with pytest.raises(KafkaException):
            poller.groups()
    assert len(made) == 4


def polled(group_id: str) -> PolledGroup:
    return PolledGroup(
        group_id=group_id, state="Stable", protocol_type="consumer", assignor="range", members={}, offsets=None
    )


def test_what_was_not_answered_is_not_gone() -> None:
    polls = Polls()
    list(polls.take(1_000, [polled("a"), polled("b")]))
    assert list(polls.take(2_000, [polled("a")], unanswered=["b"])) == []
    (update,) = polls.take(3_000, [polled("a")])
    assert update.group_id == "b"
    assert any(isinstance(record, GroupDead) for record in update.history)




class Pauses:
    """In place of the event that ends a source: it ends after one pause."""

    def __init__(self) -> None:
        self.of_s: list[float] = []

    def is_set(self) -> bool:
        return bool(self.of_s)

    def set(self) -> None:
        """It ends by itself."""

    def wait(self, timeout_s: float) -> bool:
        self.of_s.append(timeout_s)
        return True


@pytest.mark.parametrize(
    ("poll", "pause_s"),
    [
        (Poll(problem="Kafka does not answer."), 5.0),
        (Poll(groups=(polled("a"),), unanswered=("b",)), 5.0),
        (Poll(groups=(polled("a"),), unanswered=("b",), refused=1), 24.0),
        (Poll(groups=(polled("a"),)), 24.0),
    ],
)
def test_a_poll_that_waited_in_vain_is_soon_followed_by_the_next(
    poll: Poll, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll that takes 24 s because there is so much to ask is not: it would take half of the brokers' time."""
    now_s = [0.0]

    def ask(question: str) -> Poll:
        now_s[0] += 24.0
        return poll

    source, pauses = polling.PollSource({"bootstrap.servers": "127.0.0.1:1"}, "it is refused"), Pauses()
    monkeypatch.setattr(polling, "time", SimpleNamespace(monotonic=lambda: now_s[0], time_ns=time.time_ns))
    monkeypatch.setattr(source, "_ask", lambda question: ask(question) if question == GROUPS else Poll())
    monkeypatch.setattr(source, "_stopping", pauses)
    source.start(Index())
    wait_until(lambda: pauses.of_s)
    source.stop()
    assert pauses.of_s == [pause_s]
