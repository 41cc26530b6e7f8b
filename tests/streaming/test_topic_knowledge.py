"""When a topic counts as gone, and with which ids groups are told of it."""

from __future__ import annotations

import pytest

from streaming.topic_knowledge import LISTINGS_TO_AGREE, TopicKnowledge, TopicListing

A1, A2, A3, B1, X = (f"00000000-0000-0000-0000-0000000000{name}" for name in ("a1", "a2", "a3", "b1", "ff"))


def listing(*absent: str, **topics: str) -> TopicListing:
    return TopicListing(topics=topics, absent=frozenset(absent))


def known(*listings: TopicListing, **topics: str) -> TopicKnowledge:
    knowledge = TopicKnowledge({topic_id: name for name, topic_id in topics.items()})
    for listing in listings:
        knowledge.learn(listing)
    return knowledge


def test_a_topic_that_two_looks_do_not_find_is_gone() -> None:
    knowledge = known(listing(a=A1))
    assert knowledge.learn(listing("a")) == ({}, {})
    assert knowledge.in_doubt
    assert knowledge.learn(listing("a")) == ({}, {A1: "a"})
    assert knowledge.learn(listing("a")) == ({}, {}), "it is told once"
    assert not knowledge.in_doubt


def test_one_that_is_made_again_between_two_looks_is_another() -> None:
    knowledge = known(listing(a=A1))
    assert knowledge.learn(listing(a=A2)) == ({A2: "a"}, {})
    assert knowledge.learn(listing(a=A2)) == ({}, {A1: "a"})
    assert knowledge.is_alive(A2)


def test_what_was_known_before_the_start_counts() -> None:
    knowledge = TopicKnowledge({A1: "a", B1: "b"})
    assert knowledge.names == {"a", "b"}
    knowledge.learn(listing("b", a=A2))
    assert knowledge.learn(listing("b", a=A2))[1] == {A1: "a", B1: "b"}


@pytest.mark.parametrize(
    "listings",
    [
        [listing()] * 5,  # nobody answers, or the right to see it is gone
        [listing("a"), listing(a=A1), listing("a"), listing(a=A1)],
        [listing("a"), listing(), listing("a"), listing()],
        [listing("b")] * 3,
    ],
    ids=["no answer", "found again", "one look each", "another"],
)
def test_what_does_not_make_it_gone(listings: list[TopicListing]) -> None:
    knowledge = known(listing(a=A1))
    for look in listings:
        assert knowledge.learn(look)[1] == {}
    assert knowledge.is_alive(A1)


def test_a_broker_that_is_behind_brings_nothing_back_and_takes_nothing_away() -> None:
    knowledge = known(listing(a=A1), listing(a=A2), listing(a=A2))
    for _ in range(3):
        assert knowledge.learn(listing(a=A1)) == ({}, {}), "it still shows the old one"
    knowledge.mark_removed(A1)
    for _ in range(3):
        assert knowledge.learn(listing(a=A1)) == ({}, {})
    assert knowledge.is_alive(A2)


def ids(*stored: str | None) -> frozenset[str | None]:
    return frozenset(stored)


def test_groups_are_told_the_id_with_which_their_offsets_are_stored() -> None:
    knowledge = known(listing(a=A1), listing("a"), listing("a"))
    assert knowledge.dead_ids("a", A1, ids(A1), is_first=True) == (A1,)
    assert knowledge.dead_ids("a", A1, ids(None), is_first=True) == (A1,)
    assert knowledge.dead_ids("a", A1, ids(A1, None), is_first=True) == (A1,)
    assert knowledge.dead_ids("a", A1, ids(), is_first=True) == ()


def test_offsets_of_the_topic_that_was_made_again_are_left_alone() -> None:
    knowledge = known(listing(a=A1), listing(a=A2), listing(a=A2))
    assert knowledge.dead_ids("a", A1, ids(A2), is_first=True) == ()
    assert knowledge.dead_ids("a", A1, ids(A1, A2), is_first=True) == (A1,)
    assert knowledge.dead_ids("a", A1, ids(None), is_first=False) == (), "it may be of the new one"


def test_without_a_topic_of_that_name_late_offsets_without_an_id_go_too() -> None:
    knowledge = known(listing(a=A1), listing("a"), listing("a"), listing("a"))
    assert knowledge.dead_ids("a", A1, ids(None), is_first=False) == (A1,)


def test_a_topic_that_came_and_went_between_two_looks_is_told_by_what_was_stored() -> None:
    knowledge = known(listing(a=A1), *[listing(a=A3)] * 6)
    assert knowledge.dead_ids("a", A1, ids(A1, A2, A3), is_first=True) == (A1,)
    for _ in range(LISTINGS_TO_AGREE):
        assert knowledge.has_undecided("a")
        knowledge.learn(listing(a=A3))
    assert not knowledge.has_undecided("a")
    assert knowledge.dead_ids("a", A1, ids(A1, A2, A3), is_first=True) == (A1, A2)
    assert knowledge.dead_ids("a", A1, ids(A2), is_first=True) == (A2,)


def test_a_topic_that_clients_see_before_brokers_that_are_behind_show_it_is_not_told_to_be_gone() -> None:
    """However long brokers agreed on what was there before it was made."""
    knowledge = known(listing(a=A1), *[listing("a")] * 9)
    assert knowledge.dead_ids("a", A1, ids(A1, A2), is_first=True) == (A1,)
    for _ in range(LISTINGS_TO_AGREE - 1):
        knowledge.learn(listing("a"))
        assert knowledge.dead_ids("a", A1, ids(A2), is_first=False) == ()
    knowledge.learn(listing(a=A2))
    assert knowledge.is_alive(A2)
    assert not knowledge.has_undecided("a")
    for _ in range(LISTINGS_TO_AGREE):
        knowledge.learn(listing(a=A2))
    assert knowledge.dead_ids("a", A1, ids(A2), is_first=False) == ()


def test_but_not_before_brokers_have_agreed_for_a_while() -> None:
    """One that is behind may not yet show the topic that clients already use."""
    knowledge = known(listing(a=A1), *[listing(a=A2)] * 4, listing(a=A3), *[listing(a=A2)] * 3)
    assert knowledge.dead_ids("a", A1, ids(A1, X), is_first=True) == (A1,)


def test_but_not_where_the_clients_topics_are_in_another_cluster() -> None:
    knowledge = known(listing(a=A1), *[listing("a")] * 9)
    assert knowledge.dead_ids("a", A1, ids(X), is_first=True) == (), "none of its ids was ever seen here"


def test_nor_on_one_look_alone() -> None:
    knowledge = known(listing(a=A1), listing(a=A2), listing(a=A2), listing(a=A3))
    assert knowledge.dead_ids("a", A1, ids(A1, X), is_first=True) == (A1,)


def test_a_look_at_some_topics_says_nothing_of_others() -> None:
    knowledge = TopicKnowledge({"1": "orders", "2": "clicks"})
    some = TopicListing(topics={"new": "3"}, absent=frozenset({"orders"}))
    assert knowledge.learn(some, frozenset({"orders", "new"})) == ({"3": "new"}, {})
    assert knowledge.is_in_doubt("orders")
    knowledge.learn(TopicListing(topics={}), frozenset({"clicks"}))
    assert knowledge.is_in_doubt("orders")
    assert knowledge.learn(TopicListing(topics={}, absent=frozenset({"orders"})), frozenset({"orders"})) == (
        {}, {"1": "orders"},
    )  # fmt: skip
    assert knowledge.live == {"2": "clicks", "3": "new"}


def test_a_topic_that_only_others_have_seen_is_missed_as_any_other() -> None:
    knowledge = TopicKnowledge({"1": "orders"})
    knowledge.meet({"2": "short", "3": "orders"})
    missing = TopicListing(topics={"orders": "3"}, absent=frozenset({"short"}))
    assert knowledge.learn(missing) == ({}, {})
    assert knowledge.learn(missing) == ({}, {"1": "orders", "2": "short"})
    knowledge.meet({"2": "short"})
    assert knowledge.live == {"3": "orders"}, "one that is known to be gone does not come back"
