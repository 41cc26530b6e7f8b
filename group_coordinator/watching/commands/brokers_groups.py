"""Groups that a cluster's own brokers coordinate, read once: with lag and verdicts, in the words of Kafka's tool."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC

import msgspec
from msgspec import Struct

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.progress import count_progress
from group_coordinator.command_line.tables import aligned, print_line
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.errors import TIMEOUT_S
from group_coordinator.ground.kafka_topics.log_bounds import can_be, log_bounds, log_reaches
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.commands.group_tables import PARTITION_COLUMNS
from group_coordinator.watching.commands.one_look import read_brokers_groups
from group_coordinator.watching.commands.watch_sources import watch_index
from group_coordinator.watching.dashboard import api_types as api
from group_coordinator.watching.dashboard.documents import details
from group_coordinator.watching.dashboard.end_poller import take_share_offsets
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.dashboard.sources import SourceError
from group_coordinator.watching.narrative import words
from schemas.group_states import NO_GROUP, GroupState
from schemas.history import encode_history

_MEMORY_MIB = 2_048
_LOOK_S = 0.1
_NONE = "-"
_HINT = "What takes a while to be seen (stalled, will lose messages) `group-coordinator watch` sees better: it goes on."


class Asked(Struct, frozen=True, kw_only=True):
    """What is asked of them."""

    group_id: str | None
    """None: all are listed."""
    type: str | None
    members: bool
    state: bool
    verbose: bool
    as_json: bool


def brokers_lines(config: ReaderSettings, asked: Asked) -> Iterator[str]:
    """Yield the answer. Raises CommandError."""
    index, now_ms = _read(config, asked.group_id)
    if asked.group_id is None:
        wanted = [row for row in index.rows(now_ms) if _is_there(row) and asked.type in (None, row.type)]
        yield from map(_json, wanted) if asked.as_json else _list_lines(wanted)
    else:
        row = index.row(asked.group_id, now_ms)
        if row is None or not _is_there(row):
            raise CommandError(f"Consumer group '{asked.group_id}' does not exist.")
        told = details(index, asked.group_id, now_ms)
        yield from [_json(told)] if asked.as_json else _described_lines(told, asked)
    print_line(_HINT, error=True)


def _is_there(row: api.Group) -> bool:
    return row.state not in (NO_GROUP, GroupState.DEAD)


def _json(document: Struct) -> str:
    return msgspec.json.encode(document).decode()


def _read(config: ReaderSettings, group_id: str | None) -> tuple[Index, int]:
    """Read what the offsets topic has of one group, or of all, or poll, where that may not be read; then ask for the
    ends of the logs. Returns when that was, too. Raises CommandError."""
    from group_coordinator.watching.watch.offsets_topic import OffsetsTopicRefusedError  # it takes its time

    index = watch_index(_MEMORY_MIB, HealthSettings())
    try:
        brokers = read_brokers_groups(config.client_properties, (), UTC, group_id)
    except CommandError as problem:
        if not isinstance(problem.__cause__, OffsetsTopicRefusedError):
            raise
        _poll(config, str(problem), index)
    else:
        index.doubts = brokers.doubts
        for record in brokers.history(group_id):
            index.add_record(record, encode_history(record))
    _say_doubts(index.doubts)
    if left_out := index.on_disk().total():
        _say_doubts([f"{left_out:,} groups found no room in memory: they are left out."])
    return index, _poll_ends(index, config)


def _poll(config: ReaderSettings, refusal: str, index: Index) -> None:
    from group_coordinator.watching.watch.conditions import failures
    from group_coordinator.watching.watch.polling import PollSource

    _say_doubts([f"{refusal} Groups are polled instead."])
    source = PollSource(config.client_properties, refusal)
    try:
        source.start(index)
    except SourceError as problem:
        raise CommandError(str(problem)) from problem
    try:
        silent_s = time.monotonic()
        with count_progress("reading the groups"):
            while not source.is_whole:
                if any(each.state != "unreachable" for each in source.conditions().values()):
                    silent_s = time.monotonic()
                if failures(source.conditions()) or time.monotonic() - silent_s > TIMEOUT_S:
                    raise CommandError("; ".join(each.reason for each in source.conditions().values()))
                time.sleep(_LOOK_S)
    finally:
        source.stop()


def _poll_ends(index: Index, config: ReaderSettings) -> int:
    """Ask for the ends of the logs, and for what verdicts want to know besides. Returns when."""
    from group_coordinator.watching.watch.share_offsets import ShareOffsets  # it takes its time

    admin = new_admin_client(config.client_properties)
    with closing(ShareOffsets(config.client_properties)) as share_offsets:
        take_share_offsets(index, share_offsets)
    now_ms = time.time_ns() // 1_000_000
    bounds = log_bounds(admin, {place for place in index.places() if can_be(place)})
    index.poll_ends(now_ms, bounds)
    index.rows(now_ms)
    if wanted := index.wanted_reaches():
        index.poll_ends(now_ms, bounds, reaches=log_reaches(admin, wanted))
    return now_ms


def _say_doubts(doubts: Iterable[str]) -> None:
    for doubt in doubts:
        print_line(doubt, error=True)


def _list_lines(groups: list[api.Group]) -> Iterator[str]:
    header = ("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION/EPOCH", "LAG", "VERDICT", "WHY")
    rows = [
        (
            each.group_id, each.type.capitalize(), each.state, each.members, each.generation,
            lag_shown(each), each.verdict, f"{each.reason}{_uncommitted(each)}",
        )
        for each in groups
    ]  # fmt: skip
    return aligned(header, rows)


def lag_shown(row: api.Group) -> object:
    """Return the lag of all partitions with a commit; where there is none, nobody knows it."""
    has_commits = row.last_commit_ms is not None or not row.uncommitted_partitions
    return row.lag if has_commits and row.lag is not None else _NONE


def _uncommitted(row: api.Group) -> str:
    if not row.uncommitted_partitions:
        return ""
    of = words.count(row.partitions, "partition")
    return (
        f"; {row.uncommitted_partitions} of {of} without a commit, up to {row.uncommitted_messages:,} messages unread"
    )


def _described_lines(told: api.GroupDetails, asked: Asked) -> Iterator[str]:
    of_group, now = told.group, told.now_ms
    since = words.duration(now - of_group.state_since_ms)
    yield f"{of_group.group_id} ({of_group.type}) is {of_group.state} for {since}."
    yield f"Verdict: {of_group.verdict}. {of_group.reason}{_uncommitted(of_group)}."
    if of_group.lost:
        yield f"{words.count(of_group.lost, 'message')} were deleted before they were read; the lag leaves them out."
    yield ""
    if asked.members:
        yield from _member_lines(told, verbose=asked.verbose)
    elif asked.state:
        names = ("GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "GENERATION/EPOCH", "LEADER")
        values = (
            of_group.group_id, told.assignor or _NONE, of_group.state, of_group.members, of_group.generation,
            told.leader_id or _NONE,
        )  # fmt: skip
        yield from aligned(names, [values])
    else:
        yield from _partition_lines(told)


def _member_lines(told: api.GroupDetails, *, verbose: bool) -> Iterator[str]:
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    rows = [
        (
            told.group.group_id, each.member_id, each.group_instance_id or _NONE, each.host, each.client_id,
            sum(map(len, each.topics.values())),
            ", ".join(
                f"{topic}:{','.join(map(str, numbers))}" if verbose else f"{topic}({words.ranges(numbers)})"
                for topic, numbers in each.topics.items()
            ) or _NONE,
        )
        for each in told.members
    ]  # fmt: skip
    return aligned(header, rows)


def _partition_lines(told: api.GroupDetails) -> Iterator[str]:
    members = {each.member_id: each for each in told.members}
    rows = []
    for each in told.partitions:
        owner = members.get(each.member_id or "")
        numbers = (each.committed_offset, each.log_end_offset, each.lag)
        rows.append(
            (
                told.group.group_id, each.topic, each.partition,
                *(_NONE if number is None else number for number in numbers),
                *((_NONE,) * 3 if owner is None else (owner.member_id, owner.host, owner.client_id)),
            )
        )  # fmt: skip
    return aligned(PARTITION_COLUMNS, rows)
