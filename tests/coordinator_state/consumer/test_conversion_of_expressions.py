"""What becomes of a search for the topics of expressions when the group is converted while it goes on.

In Kafka it is a task of the background executor, which knows it by the group's id: it goes on, no other begins until it
is over, and its result counts for the group that is there then (`GroupMetadataManager.maybeUpdateRegularExpressions`,
`handleRegularExpressionsResult`). Tried with Kafka 4.3.1's classes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator_state import LogRecord
from schemas.consumer_group_messages import LEAVE_EPOCH
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import RegexesResolved
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type, subscription

PROTOCOLS = {"range": subscription("foo")}


def joins_with(group: ConsumerHarness, member_id: str, regex: str) -> None:
    answer = group.joins(member_id, subscribed_topic_regex=regex, subscribed_topic_names=None)
    assert answer.error_code is ErrorCode.NONE


def resolving_since_ms(group: ConsumerHarness) -> int | None:
    return group.body.regex_refresh_began_ms


def resolve(group: ConsumerHarness, regex: str) -> list[LogRecord]:
    result = RegexesResolved(version=1, resolved={regex: ("foo",)}, began_ms=group.now_ms)
    return of_type(group.tell(result), LogRecord)


def downgraded(group: ConsumerHarness) -> None:
    """The last native member leaves a classic one alone."""
    joins_with(group, "a", "f.*")
    group.add("m", protocols=PROTOCOLS)
    group.beat("a", LEAVE_EPOCH)
    group.join("m", protocols=PROTOCOLS)
    group.sync("m", group.classic.generation_id, {})


def taken_over(group: ConsumerHarness) -> None:
    """A classic member takes the place of the last native one."""
    answer = group.joins("a", subscribed_topic_regex="f.*", subscribed_topic_names=None, instance_id="i")
    assert answer.error_code is ErrorCode.NONE
    group.join(new_member_id="m", protocols=PROTOCOLS, group_instance_id="i")
    group.join("m", protocols=PROTOCOLS, group_instance_id="i")
    group.sync("m", group.classic.generation_id, {}, group_instance_id="i")


def begun_anew(group: ConsumerHarness) -> None:
    """The group was empty, and is a classic one now."""
    joins_with(group, "a", "f.*")
    group.beat("a", LEAVE_EPOCH)
    group.add("m", protocols=PROTOCOLS)
    group.sync("m", group.classic.generation_id, {})


def removed(group: ConsumerHarness) -> None:
    """The group was empty, and a JoinGroup that was refused has removed it."""
    group.commit(offsets={("foo", 0): 1})
    joins_with(group, "a", "f.*")
    group.beat("a", LEAVE_EPOCH)
    assert group.answer(group.join("m", protocols=PROTOCOLS)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def removed_and_begun_anew(group: ConsumerHarness) -> None:
    """The same, and a classic group began."""
    removed(group)
    group.add("m", protocols=PROTOCOLS)
    group.sync("m", group.classic.generation_id, {})


ENDS = pytest.mark.parametrize("ends", [downgraded, taken_over, begun_anew, removed, removed_and_begun_anew])
Ends = Callable[[ConsumerHarness], None]


@ENDS
def test_no_other_begins_until_it_is_over(ends: Ends) -> None:
    group = ConsumerHarness()
    began_ms = group.now_ms
    ends(group)
    group.sleep(500)
    joins_with(group, "b", "b.*")
    assert resolving_since_ms(group) == began_ms
    assert resolve(group, "f.*") == []  # nobody has that any more
    assert resolving_since_ms(group) is None
    group.sleep(500)
    group.beat("b", group.body.members["b"].member_epoch)
    assert resolving_since_ms(group) == group.now_ms


@ENDS
def test_its_result_counts_for_the_group_that_is_there_then(ends: Ends) -> None:
    group = ConsumerHarness()
    ends(group)
    joins_with(group, "b", "f.*")
    assert resolve(group, "f.*")
    assert group.body.resolved_regexes["f.*"].topics == ("foo",)


@ENDS
def test_a_classic_group_has_no_use_for_the_result(ends: Ends) -> None:
    group = ConsumerHarness()
    ends(group)
    assert resolve(group, "f.*") == []
    group.sleep(500)
    joins_with(group, "b", "f.*")
    assert resolving_since_ms(group) == group.now_ms


@ENDS
def test_time_that_nobody_could_be_heard_in_does_not_count(ends: Ends) -> None:
    group = ConsumerHarness()
    began_ms, skipped_ms = group.now_ms, 3_600_000
    ends(group)
    group.sleep(500)
    group.renew_sessions(group.now_ms + skipped_ms)
    joins_with(group, "b", "b.*")
    assert resolving_since_ms(group) == began_ms + skipped_ms


@ENDS
def test_one_that_never_ends_is_not_waited_for(ends: Ends) -> None:
    group = ConsumerHarness()
    ends(group)
    group.sleep(300_000)
    joins_with(group, "b", "b.*")
    assert resolving_since_ms(group) == group.now_ms
