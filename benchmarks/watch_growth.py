"""What a rebalance of a watched group costs the watcher, by the length of the group's history.

    python -m benchmarks.watch_growth [--groups 8] [--history 12 120 720 2880] [--without-lines]

Each group has a member that stays and one that comes and goes, with the lines of its broker, as `watch_live` has them
of a real broker. A history of 720 rebalances is an hour of a group that rebalances every five seconds. The watcher
reads it at once. Then it takes the next rebalances one by one, up to the index of the dashboard. The last column is the
cost relative to the first history.
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import time
from collections.abc import Iterator

from benchmarks.arguments import command_parser
from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import LogRecord, read_raw
from group_coordinator.watching.watch.index_updater import IndexUpdater
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription
from schemas.history import RebalanceTrigger
from schemas.kafka.record_batches import RawRecord
from schemas.records import GroupMetadataValue, MemberMetadata, encode_group_metadata_key
from tests.encoded_records import encode_group_metadata_value

START_MS = 1_795_371_000_000
PAUSE_MS = 5_000
"""Between the rebalances of a group."""
JITTER_MS = 613
"""Nobody rebalances at whole seconds."""
PARTITIONS = 10
"""Of the topic that a group consumes."""


class ChurningGroup:
    """Makes the evidence of one group, rebalance by rebalance."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.group_id = f"group-{number}"
        self._staying = f"staying-{number}"
        self._generation = 0
        self._lines = 0

    def rebalance(self) -> tuple[list[BrokerLine], LogRecord]:
        """Return the lines and the record of the next rebalance."""
        before, self._generation = self._generation, self._generation + 1
        at_ms = START_MS + self._generation * PAUSE_MS + self._generation * JITTER_MS % 997
        newcomer = f"newcomer-{self._number}-{(self._generation + 1) // 2}"
        members: tuple[str, ...]
        if before == 0:
            events, members = self._joins(self._staying, before), (self._staying,)
        elif before % 2:
            events, members = self._joins(newcomer, before), (self._staying, newcomer)
        else:
            newcomer = f"newcomer-{self._number}-{self._generation // 2}"
            events, members = self._leaves(newcomer, before), (self._staying,)
        end_events = self._ended(len(members))
        lines = [self._line(at_ms, event) for event in events] + [self._line(at_ms + 40, event) for event in end_events]
        return lines, self._record(at_ms + 40, members)

    def _joins(self, member_id: str, generation: int) -> Iterator[line_events.LineEvent]:
        yield line_events.MemberIdGiven(group_id=self.group_id, member_id=member_id)
        yield line_events.MemberAdded(group_id=self.group_id, member_id=member_id)
        yield self._prepared("member_joined", member_id, generation, f"Adding new member {member_id}")

    def _leaves(self, member_id: str, generation: int) -> Iterator[line_events.LineEvent]:
        yield line_events.MemberDeparted(group_id=self.group_id, member_id=member_id, client_reason="closed")
        yield self._prepared("member_left", member_id, generation, f"explicit `LeaveGroup` response for {member_id}")

    def _prepared(
        self, trigger: RebalanceTrigger, member_id: str, generation: int, reason: str
    ) -> line_events.RebalancePrepared:
        return line_events.RebalancePrepared(
            group_id=self.group_id,
            old_generation_id=generation,
            trigger=trigger,
            member_ids=(member_id,),
            group_instance_id=None,
            reason=reason,
            client_reason=None,
        )

    def _ended(self, members: int) -> Iterator[line_events.LineEvent]:
        yield line_events.JoinPhaseEnded(group_id=self.group_id, generation_id=self._generation, members=members)
        yield line_events.AssignmentTaken(
            group_id=self.group_id, generation_id=self._generation, leader_id=self._staying, members=members
        )

    def _line(self, at_ms: int, event: line_events.LineEvent) -> BrokerLine:
        self._lines += 1
        return BrokerLine(
            time_ms=at_ms,
            broker=1,
            partition=self._number,
            file="server.log",
            number=self._number * 1_000_000 + self._lines,
            event=event,
        )

    def _record(self, at_ms: int, members: tuple[str, ...]) -> LogRecord:
        share = PARTITIONS // len(members)
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=self._generation,
            protocol="range",
            leader=self._staying,
            current_state_timestamp_ms=at_ms,
            members=tuple(_member(member_id, place * share, share) for place, member_id in enumerate(members)),
        )
        key, encoded = encode_group_metadata_key(self.group_id), encode_group_metadata_value(value)
        record = read_raw(self._number, RawRecord(self._generation, at_ms, 0, key, encoded))
        assert isinstance(record, LogRecord)
        return record


def _member(member_id: str, begin: int, share: int) -> MemberMetadata:
    partitions = tuple(TopicPartition("orders", number) for number in range(begin, begin + share))
    return MemberMetadata(
        member_id=member_id,
        client_id="orders-client",
        client_host="/10.0.0.1",
        rebalance_timeout_ms=300_000,
        session_timeout_ms=45_000,
        subscription=encode_subscription(Subscription(topics=("orders",))),
        assignment=encode_assignment(Assignment(partitions=partitions)),
    )


class Watcher:
    """What is measured."""

    def __init__(self, groups: int, *, with_lines: bool) -> None:
        self._groups = [ChurningGroup(number) for number in range(groups)]
        self._with_lines = with_lines
        self._observer, self._updater = Observer(), IndexUpdater(Index())

    def read(self, rebalances: int) -> None:
        """Take so many rebalances of each group at once."""
        for group in self._groups:
            for _ in range(rebalances):
                self._take(group)
        self._updater.apply(self._observer.take())

    def costs_ms(self, rebalances: int) -> list[float]:
        """Take so many more of each group, one by one. Returns the CPU time of each."""
        taken_ms = []
        for _ in range(rebalances):
            for group in self._groups:
                begun_s = time.process_time()
                self._take(group)
                self._updater.apply(self._observer.take())
                taken_ms.append((time.process_time() - begun_s) * 1_000)
        return taken_ms

    def _take(self, group: ChurningGroup) -> None:
        lines, record = group.rebalance()
        if self._with_lines:
            self._observer.add_lines(lines)
        self._observer.add_records([record])


def main() -> None:
    arguments = command_parser("watch_growth", __doc__)
    arguments.add_argument("--groups", type=int, default=8)
    arguments.add_argument("--history", type=int, nargs="+", default=[12, 120, 720, 2_880], help="rebalances")
    arguments.add_argument("--rebalances", type=int, default=100, help="of each group, that are measured")
    arguments.add_argument("--without-lines", action="store_true")
    arguments.add_argument("--profile", action="store_true")
    options = arguments.parse_args()
    first_ms = None
    for history in options.history:
        watcher = Watcher(options.groups, with_lines=not options.without_lines)
        watcher.read(history)
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        costs_ms = watcher.costs_ms(options.rebalances)
        if options.profile:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        mean_ms = statistics.mean(costs_ms)
        first_ms = first_ms or mean_ms
        steps = statistics.quantiles(costs_ms, n=100)
        print(
            f"{history:>6,} rebalances: {mean_ms:6.2f} ms of CPU for the next ({steps[49]:.2f} median, "
            f"{steps[94]:.2f} p95, {max(costs_ms):.2f} most): {mean_ms / first_ms:.1f} times the first"
        )


if __name__ == "__main__":
    main()
