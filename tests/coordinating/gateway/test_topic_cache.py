"""What the gateway knows of topics: asked in batches, once more before it says no,
never more than a little at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from group_coordinator.coordinating.gateway.topic_cache import (
    ABSENT,
    ABSENT_S,
    BLIND_S,
    FRESH_S,
    NAMES_PER_QUESTION,
    NEW_NAMES_MAX,
    PACE_S,
    PARTITIONS_AT_ONCE,
    PRESENT_S,
    UNKNOWN,
    Answers,
    Topic,
    TopicCache,
    Verdict,
)

ID = "00000000-0000-0000-0000-000000000001"
TWO = Topic(ID, 2)


class Brokers:
    """Brokers that answer when told, and a clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.questions: list[list[str]] = []
        self.heard: list[Answers] = []
        self._on_answers: Callable[[Answers], None] | None = None
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.book = TopicCache(
            self.ask, lambda delay_s, do: self._later.append((self.now_s + delay_s, do)), lambda: self.now_s
        )

    def ask(self, names: list[str], on_answers: Callable[[Answers], None]) -> None:
        assert self._on_answers is None, "one question at a time"
        self.questions.append(names)
        self._on_answers = on_answers

    def look_up(self, **partitions: int) -> Answers | None:
        """What is known at once; None: it is asked for."""
        answers = self.book.known(partitions)
        if answers is None:
            assert self.book.look_up(partitions, self.heard.append)
        return answers

    def answer(self, **verdicts: Verdict) -> None:
        assert self._on_answers is not None
        on_answers, self._on_answers = self._on_answers, None
        on_answers(verdicts)
        self.sleep(PACE_S)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        due = [do for at_s, do in self._later if at_s <= self.now_s]
        self._later = [timer for timer in self._later if timer[0] > self.now_s]
        for do in due:
            do()


def test_a_topic_that_is_there_is_asked_for_once_and_then_known_for_a_while() -> None:
    brokers = Brokers()
    assert brokers.look_up(t=1) is None
    brokers.answer(t=TWO)
    assert brokers.heard == [{"t": TWO}]
    assert brokers.look_up(t=0) == {"t": TWO}
    brokers.sleep(FRESH_S + 0.1)
    assert brokers.look_up(t=0) is None, "it may have been made again since"
    assert brokers.questions == [["t"], ["t"]]


def test_before_no_is_said_it_is_asked_once_more() -> None:
    brokers = Brokers()
    brokers.look_up(t=0)
    brokers.answer(t=ABSENT)
    assert brokers.heard == []
    brokers.answer(t=ABSENT)
    assert brokers.heard == [{"t": ABSENT}]
    assert brokers.questions == [["t"], ["t"]]
    assert brokers.look_up(t=0) == {"t": ABSENT}, "for a moment"
    brokers.sleep(ABSENT_S)
    assert brokers.look_up(t=0) is None
    brokers.answer(t=TWO)
    assert brokers.heard[1:] == [{"t": TWO}], "it was made meanwhile"


def test_a_broker_that_has_not_heard_of_a_new_topic_is_forgiven() -> None:
    brokers = Brokers()
    brokers.look_up(t=0)
    brokers.answer(t=ABSENT)
    brokers.answer(t=TWO)
    assert brokers.heard == [{"t": TWO}]


def test_a_partition_that_is_not_there_is_asked_for_once_more_too() -> None:
    brokers = Brokers()
    brokers.look_up(t=0)
    brokers.answer(t=TWO)
    assert brokers.look_up(t=2) is None
    brokers.answer(t=TWO)
    assert len(brokers.heard) == 1
    brokers.answer(t=Topic(ID, 3))
    assert brokers.heard[1:] == [{"t": Topic(ID, 3)}], "it was added meanwhile"


def test_a_larger_partition_wanted_while_the_question_is_on_its_way_is_a_question_of_its_own() -> None:
    brokers = Brokers()
    brokers.look_up(t=0)
    brokers.look_up(t=5)
    brokers.answer(t=TWO)
    brokers.answer(t=TWO)
    brokers.answer(t=TWO)
    assert brokers.heard == [{"t": TWO}, {"t": TWO}]


def test_where_no_broker_answers_nobody_waits_and_what_was_known_holds() -> None:
    brokers = Brokers()
    brokers.look_up(t=1)
    brokers.answer(t=TWO)
    brokers.sleep(FRESH_S + 1)
    brokers.look_up(t=7, u=0)
    brokers.look_up(v=0)
    brokers.answer()
    answers = {"t": Topic(ID, 2**31), "u": UNKNOWN}
    assert brokers.heard[1:] == [answers, {"v": UNKNOWN}], "no partition is denied either"
    assert brokers.look_up(t=7, u=0) == answers
    assert len(brokers.questions) == 2
    brokers.sleep(BLIND_S)
    assert brokers.look_up(t=0) is None, "now and then they are asked"


def test_one_that_may_not_be_seen_is_not_asked_for_again_and_again() -> None:
    brokers = Brokers()
    brokers.look_up(t=0, u=0)
    brokers.answer(t=TWO)
    assert brokers.heard == [{"t": TWO, "u": UNKNOWN}]
    assert brokers.look_up(t=0, u=0) == {"t": TWO, "u": UNKNOWN}
    brokers.sleep(BLIND_S + 0.1)
    assert brokers.look_up(u=0) is None


@pytest.mark.parametrize("name", ["", "x" * 250, "a b", "ä", "t\n", "a/b"])
def test_what_cannot_be_a_name_is_never_asked_for(name: str) -> None:
    brokers = Brokers()
    assert brokers.book.known({name: 0}) == {name: ABSENT}
    assert brokers.questions == []


def test_many_names_are_asked_for_in_turn_and_those_that_were_there_first() -> None:
    brokers = Brokers()
    brokers.look_up(t=0)
    brokers.answer(t=TWO)
    brokers.sleep(FRESH_S + 1)
    for number in range(1_200):
        brokers.look_up(**{f"hostile{number}": 0})
    brokers.look_up(t=0)
    assert brokers.questions[1:] == [["hostile0"]]
    brokers.answer(hostile0=ABSENT)
    assert brokers.questions[2][0] == "t"
    assert len(brokers.questions[2]) == NAMES_PER_QUESTION
    brokers.answer(**dict.fromkeys(brokers.questions[2], ABSENT) | {"t": TWO})
    assert brokers.heard[1:] == [{"t": TWO}]


def test_beyond_a_bound_no_more_names_are_taken() -> None:
    brokers = Brokers()
    brokers.look_up(t=0)
    brokers.look_up(**{f"hostile{number}": 0 for number in range(NEW_NAMES_MAX)})
    assert not brokers.book.look_up({"one-more": 0}, brokers.heard.append)
    brokers.answer(t=TWO)
    assert brokers.look_up(t=0) == {"t": TWO}, "who is known is served"


def test_what_is_remembered_has_a_bound() -> None:
    brokers = Brokers()
    for batch in range(30):
        brokers.look_up(**{f"h{batch}-{number}": 0 for number in range(500)})
        for _ in range(2):
            brokers.answer(**dict.fromkeys(brokers.questions[-1], ABSENT))
    assert len(brokers.heard) == 30
    held = [value for name, value in vars(brokers.book).items() if isinstance(value, dict)]
    assert max(map(len, held)) <= 1_000


# ----------------------------------------------------------------------------------------- what is there at present


def present(brokers: Brokers, **partitions: int) -> Answers | None:
    answers = brokers.book.known(partitions, at_present=True)
    if answers is None:
        assert brokers.book.look_up(partitions, brokers.heard.append, at_present=True)
    return answers


def test_who_must_know_what_is_there_now_believes_no_answer_of_before() -> None:
    brokers = Brokers()
    assert present(brokers, t=-1) is None
    brokers.answer(t=TWO)
    assert present(brokers, t=-1) == {"t": TWO}
    brokers.sleep(PRESENT_S)
    assert brokers.look_up(t=1) == {"t": TWO}, "others do"
    assert present(brokers, t=-1) is None
    brokers.answer(t=ABSENT)
    brokers.answer(t=ABSENT)
    assert brokers.heard[-1] == {"t": ABSENT}
    brokers.sleep(PRESENT_S)
    assert present(brokers, t=-1) is None, "it may have been made since"
    assert brokers.look_up(t=-1) == {"t": ABSENT}


def test_who_asks_often_does_not_wait() -> None:
    brokers = Brokers()
    assert present(brokers, t=-1) is None
    brokers.answer(t=TWO)
    brokers.sleep(PRESENT_S * 0.6)
    assert present(brokers, t=-1) == {"t": TWO}
    assert brokers.questions == [["t"], ["t"]], "it is asked for again before it is too old"
    brokers.answer(t=TWO)
    brokers.sleep(PRESENT_S * 0.4)
    assert present(brokers, t=-1) == {"t": TWO}


def test_a_topic_that_was_made_again_is_asked_for_once_more() -> None:
    brokers = Brokers()
    assert brokers.look_up(t=-1) is None
    brokers.answer(t=TWO)
    brokers.sleep(FRESH_S + 0.1)
    again = Topic(ID[:-1] + "2", 2)
    assert brokers.look_up(t=-1) is None
    brokers.answer(t=again)
    assert brokers.heard == [{"t": TWO}], "a broker may be behind"
    brokers.answer(t=again)
    assert brokers.heard == [{"t": TWO}, {"t": again}]


def test_where_much_is_asked_for_answers_are_believed_for_longer_and_others_do_without() -> None:
    brokers = Brokers()
    large = Topic(ID, 2 * PARTITIONS_AT_ONCE)
    busy = [brokers.book.is_busy]
    assert present(brokers, t=-1) is None
    brokers.answer(t=large)
    busy.append(brokers.book.is_busy)
    brokers.sleep(FRESH_S * 0.4)
    assert present(brokers, t=-1) == {"t": large}
    brokers.sleep(FRESH_S)
    assert present(brokers, t=-1) is None, "but never for longer than at other times"
    brokers.sleep(60.0)
    assert [*busy, brokers.book.is_busy] == [False, True, False]
