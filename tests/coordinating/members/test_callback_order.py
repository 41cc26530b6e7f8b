"""A program has handled what its member said before the member hears that it polls, also while it closes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import cast

import pytest

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import Closed, Lost, Revoked
from group_coordinator.coordinating.members.host import HostedMember, MemberHost
from group_coordinator.coordinating.members.kafka_member import Member
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from tests.coordinating.members.bench import P0
from tests.coordinating.members.consumer_bench import HEARTBEAT, INTERVAL_MS, ConsumerBench


class BenchHost:
    """A host whose one member lies on the bench. What happens while its program waits for the lock is `meanwhile`."""

    def __init__(self, bench: ConsumerBench, meanwhile: Callable[[], object]) -> None:
        self.changed = threading.Condition()
        self._bench = bench
        self._meanwhile = meanwhile
        self._hosted = HostedMember(cast(MemberHost, self), bench.member)
        self._passed_on = len(bench.told)

    def add(self, config: MemberConfig, topics: Iterable[str]) -> HostedMember:
        return self._hosted

    def remove(self, hosted: HostedMember) -> None:
        pass

    def insist(self) -> None:
        self._meanwhile()
        self.act_for(self._hosted)

    def now_ms(self) -> int:
        return self._bench.now_ms

    def act_for(self, hosted: HostedMember) -> None:
        self._bench.wait(0)
        told = self._bench.told
        hosted.inbox.extend([each for each in told[self._passed_on :] if isinstance(each, Revoked | Lost | Closed)])
        self._passed_on = len(told)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float | None = None) -> None:
        pass


def member_of(bench: ConsumerBench, meanwhile: Callable[[], object], called: list[tuple[str, int]]) -> Member:
    """A program's member. Its callbacks note the epoch of the last heartbeat at that time."""

    def note(name: str) -> Callable[[Member, tuple[TopicPartition, ...]], None]:
        return lambda _, __: called.append((name, bench.heartbeats()[-1].member_epoch))

    host = cast(MemberHost, BenchHost(bench, meanwhile))
    return Member(host, "g", ["orders"], consume=False, on_revoke=note("revoked"), on_lost=note("lost"))


def test_a_member_that_closes_leaves_when_its_program_has_given_up_the_partitions() -> None:
    """The last commit may be answered at any moment, also between two looks of the program at what it was told."""
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    called: list[tuple[str, int]] = []

    def answer_all() -> None:
        if bench.open("OffsetCommit"):
            bench.commit_answer()
        elif bench.heartbeats()[-1].member_epoch == -1 and bench.open(HEARTBEAT):
            bench.beat(-1)

    member = member_of(bench, answer_all, called)
    bench.member.processed(P0, 9)
    member.close()
    assert called == [("revoked", 1)]
    assert bench.member.is_closed


@pytest.mark.parametrize("error_code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_was_put_out_joins_when_its_program_knows_of_the_loss(error_code: ErrorCode) -> None:
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    called: list[tuple[str, int]] = []
    refusals = [error_code]
    member = member_of(bench, lambda: refusals and bench.refuse(refusals.pop()), called)
    member.poll(0)
    assert called == [("lost", 1)]
    member.poll(0)
    assert bench.heartbeat().member_epoch == 0
