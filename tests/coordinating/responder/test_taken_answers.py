"""Answers that Kafka has not taken yet are not given."""

from __future__ import annotations

from group_coordinator.coordinating.responder.answering import LogPlace, TakenAnswers


def test_all_is_answered_up_to_the_first_answer_that_is_on_its_way() -> None:
    answers, here = TakenAnswers(), LogPlace(9, 3_000)
    assert answers.up_to(here) == here
    answers.sent(0, LogPlace(5, 1_000))
    answers.sent(1, LogPlace(5, 1_000))
    answers.sent(2, LogPlace(7, 2_000))
    answers.taken(0)
    assert answers.up_to(here) == LogPlace(5, 1_000)
    answers.taken(1)
    assert answers.up_to(here) == LogPlace(7, 2_000)
    answers.taken(2)
    assert answers.up_to(here) == here


def test_they_may_be_taken_in_any_order() -> None:
    """Those to other partitions of the topic pass one that waits."""
    answers = TakenAnswers()
    answers.sent(0, LogPlace(5, 1_000))
    answers.sent(1, LogPlace(7, 2_000))
    answers.taken(1)
    assert answers.up_to(LogPlace(9, 3_000)) == LogPlace(5, 1_000)
