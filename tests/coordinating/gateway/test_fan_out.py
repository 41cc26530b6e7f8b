"""Requests over several groups: each group is asked about once, and answers have room in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.fan_out import ASKED_AT_ONCE_MAX, FanOut
from group_coordinator.coordinating.gateway.translation import write_response
from schemas.error_codes import ErrorCode
from schemas.messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    Request,
    Response,
)
from tests.coordinating.gateway.router_bench import Bench, described

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class FannedOut:
    """Keeps the requests; answers when told."""

    def __init__(self, names: list[str], size: int, *, bytes_max: int = 10_000, groups_max: int = 1_000) -> None:
        self.open: dict[str, Callable[[Response], None]] = {}
        self.group_ids: list[str] = []
        self.size = size
        self.sizes = AnswerSizes()
        self.answers: list[DescribedGroup] = []
        requests: list[Request] = [DescribeGroupsRequest(groups=(name,)) for name in names]
        self.fan_out = FanOut("DescribeGroups", requests, self._ask, self.sizes, bytes_max, groups_max)
        self.fan_out.begin(self._end)

    def _ask(self, request: Request, on_answer: Callable[[Response], None]) -> None:
        assert isinstance(request, DescribeGroupsRequest)
        self.group_ids += request.groups
        self.open[request.groups[0]] = on_answer

    def _end(self, answers: list[Response]) -> None:
        assert not self.answers
        for answer in answers:
            assert isinstance(answer, DescribeGroupsResponse)
            self.answers += answer.groups

    def answer_all(self) -> list[ErrorCode]:
        while self.open:
            name, on_answer = self.open.popitem()
            self.sizes.learn("DescribeGroups", name, self.size)
            on_answer(described(name, self.size))
        return [answer.error_code for answer in self.answers]


def test_a_group_that_is_named_a_thousand_times_is_asked_about_once_and_answered_each_time() -> None:
    fanned = FannedOut(["g"] * 1_000, size=5)
    assert fanned.group_ids == ["g"]
    assert fanned.answer_all() == [ErrorCode.NONE] * 1_000
    assert len({id(answer) for answer in fanned.answers}) == 1, "one answer, not a thousand"


def test_only_so_many_questions_are_in_the_log_at_once() -> None:
    names = [f"g{number}" for number in range(2 * ASKED_AT_ONCE_MAX + 1)]
    fanned = FannedOut(names, size=5, bytes_max=10_000_000, groups_max=10_000)
    assert len(fanned.open) == ASKED_AT_ONCE_MAX
    name, on_answer = fanned.open.popitem()
    on_answer(described(name, 5))
    assert len(fanned.open) == ASKED_AT_ONCE_MAX
    assert fanned.answer_all() == [ErrorCode.NONE] * len(names)
    assert sorted(fanned.group_ids) == sorted(names)


def test_repetitions_keep_their_places() -> None:
    fanned = FannedOut(["a", "b", "a", "c", "b"], size=5, bytes_max=100_000)
    assert fanned.group_ids == ["a", "b", "c"]
    fanned.answer_all()
    assert [answer.group_id for answer in fanned.answers] == ["a", "b", "a", "c", "b"]


def test_repetitions_of_a_large_answer_find_only_so_much_room() -> None:
    codes = FannedOut(["g"] * 1_000, size=3_000).answer_all()
    assert codes[:3] == [ErrorCode.NONE] * 3
    assert set(codes[3:]) == {LOADING}
    assert len(codes) == 1_000


def test_a_single_answer_always_finds_room() -> None:
    assert FannedOut(["g"], size=50_000).answer_all() == [ErrorCode.NONE]
    assert FannedOut(["g", "g"], size=50_000).answer_all() == [ErrorCode.NONE, LOADING]


def test_of_many_large_groups_the_first_are_answered_and_no_more_are_kept_than_find_room() -> None:
    fanned = FannedOut([f"g{number}" for number in range(1_000)], size=1_000)
    codes = fanned.answer_all()
    assert 1 <= codes.count(ErrorCode.NONE) <= 10
    assert set(codes) == {ErrorCode.NONE, LOADING}
    assert len(fanned.group_ids) < 20, "nothing is asked whose answer would find no room"


def test_small_groups_are_all_answered() -> None:
    names = [f"g{number}" for number in range(300)]
    assert FannedOut(names, size=10, bytes_max=1_000_000).answer_all() == [ErrorCode.NONE] * 300


def test_more_groups_than_may_be_asked_are_counted_without_repetitions() -> None:
    names = [f"g{number % 15}" for number in range(60)]
    fanned = FannedOut(names, size=1, bytes_max=1_000_000, groups_max=10)
    assert len(fanned.group_ids) == 10
    codes = fanned.answer_all()
    assert [code is LOADING for code in codes] == [int(name[1:]) >= 10 for name in names]


def test_answers_that_come_at_once() -> None:
    answers: list[Response] = []
    fan_out = FanOut(
        "DescribeGroups",
        [DescribeGroupsRequest(groups=(f"g{number}",)) for number in range(5_000)],
        lambda request, on_answer: on_answer(described(str(cast(DescribeGroupsRequest, request).groups[0]), 1)),
        AnswerSizes(),
        10_000_000,
        10_000,
    )
    fan_out.begin(answers.extend)
    assert len(answers) == 5_000


@pytest.mark.parametrize("api", ["DescribeGroups", "OffsetFetch"])
def test_the_door_asks_once(api: str) -> None:
    bench = Bench()
    request: Request = (
        DescribeGroupsRequest(groups=("g",) * 1_000)
        if api == "DescribeGroups"
        else OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),) * 1_000)
    )
    bench.ask(api, request, version=8)
    assert [event.group_id for event in bench.events] == ["g"]


def test_the_wire_has_an_entry_for_each_mention() -> None:
    bench = Bench()
    bench.ask("DescribeGroups", DescribeGroupsRequest(groups=("g", "h", "g")))
    for event, on_answer in bench.coordinator.events:
        on_answer(described(event.group_id, 10))
    (answer,) = bench.answers
    expected = DescribeGroupsResponse(groups=tuple(described(name, 10).groups[0] for name in ("g", "h", "g")))
    assert write_response("DescribeGroups", 5, 1, answer) == write_response("DescribeGroups", 5, 1, expected)
