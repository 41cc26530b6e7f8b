"""Doubts say why a request log may not show what happened, in sentences with counts, the gravest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec import Struct

from group_coordinator.proving.recordings.cluster_topics import LoggedTopics
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.log_contents import LogContents

NAMES_SHOWN = 5
KINDS_SHOWN = 3
TEXT_MAX = 160
NUMBERS_SINCE_4 = 2
"""At the end of a connection's name: the processor's and its own. (Before, its own alone, which is not unique.)"""
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60


def doubts_of(log: RequestLog) -> tuple[str, ...]:
    """Return all doubts about a log that was read, and whose requests were taken."""
    return (
        *_of_the_clock(log),
        *_of_times(log),
        *_of_connections(log),
        *_of_other_brokers(log),
        *_of_other_protocols(log.contents),
        *_of_topics(log.cluster),
        *_of_damage(log),
    )


def _of_the_clock(log: RequestLog) -> Iterator[str]:
    steps = [
        (f"at line {line_number:,} of {name(log.paths[index].name)}", offset_us)
        for index, clock in enumerate(log.clocks)
        for line_number, offset_us in clock.steps()
    ]
    steps += [
        (f"before the first line of {name(log.paths[step.file_index].name)}", step.offset_us) for step in log.file_steps
    ]
    for place, offset_us in steps[:NAMES_SHOWN]:
        direction, shift = ("back", "later") if offset_us > 0 else ("forward", "earlier")
        length = duration(abs(offset_us))
        yield (
            f"The clock of the log was set {direction} {place}, as its connections go on there: all times from there "
            f"on are told as {length} {shift} than they are written."
        )
    if len(steps) > NAMES_SHOWN:
        yield f"The clock of the log was set {len(steps) - NAMES_SHOWN:,} more times."
    standstills = [
        (index, standstill) for index, clock in enumerate(log.clocks) for standstill in clock.standstills
    ]
    for index, standstill in standstills[:NAMES_SHOWN]:
        silence = duration(standstill.until_us - standstill.from_us)
        yield (
            f"{name(log.paths[index].name)} has no line for {silence} before "
            f"line {standstill.line_number:,} ({_moment(standstill.until_us)}), and members or connections go on that "
            f"were silent for too long ({standstill.witnesses:,}): most likely the broker, its machine or its virtual "
            "machine stood still; less likely its clock was set forward. No time is changed."
        )
    if len(standstills) > NAMES_SHOWN:
        yield f"It stood still {len(standstills) - NAMES_SHOWN:,} more times."


def _of_times(log: RequestLog) -> Iterator[str]:
    for path, clock in zip(log.paths, log.clocks, strict=True):
        if clock.falls > 0 and not clock.is_disordered:
            yield (
                f"The times of {name(path.name)} go back {count(clock.falls, 'time')}, by up to "
                f"{duration(clock.largest_fall_us)}, and nothing shows whether its clock was set, or other lines were "
                "put in: all is told in the order of the times."
            )
    contents = log.contents
    if silences_us := contents.silences_us():
        yield (
            f"{count(len(silences_us), 'time')} (first at {_moment(silences_us[0])}) a member still "
            "is one, though the log has nothing of it for longer than its session: lines are missing, or the clock "
            "was set. Who seems to expire may not have."
        )
    if contents.not_joined:
        yield (
            f"{count(contents.not_joined, 'time')} a member is one in a generation that the log does not show it to "
            "join: the log begins in the middle of the group's life, or lines are missing. What came before is not "
            "told."
        )
    if contents.not_assigned:
        yield (
            f"{count(contents.not_assigned, 'time')} a leader goes on in a generation without having sent its "
            "assignment: lines are missing. Who owned what in these generations is not told."
        )
    if zones := contents.unknown_zones:
        yield (
            f"{count(zones.total(), 'line')} with a time zone that is known by no such name ({names(zones)}): they are "
            f"read as if it were {log.time_zone}. Say by --time-zone which it is; all times may be wrong by hours."
        )
    if contents.coarse_lines:
        yield (
            f"{count(contents.coarse_lines, 'line')} with times to the second only: what happened within a second may "
            "be told in another order."
        )


def _of_connections(log: RequestLog) -> Iterator[str]:
    order = log.order
    if mixed := +order.mixed:
        yield (
            f"{count(mixed.total(), 'request')} of {count(len(mixed), 'connection')} came while another connection of "
            "the same name was open: the lines of several brokers or recordings are mixed, or their clock was set "
            "where nothing shows when. The two are told apart by their correlation ids, and ordered by their times "
            "alone."
        )
    if order.reopened:
        yield (
            f"{count(order.reopened.total(), 'connection')} began anew under an old name: a broker was started again, "
            "recordings were joined, or a clock was set between two files. Groups may not go on where they seem to."
        )
    if order.repeated:
        yield f"{count(order.repeated, 'group request')} came again, line by line the same: each is taken once."


def _of_other_brokers(log: RequestLog) -> Iterator[str]:
    contents = log.contents
    if contents.old_broker_lines:
        yield (
            f"{count(contents.old_broker_lines, 'line')} of a broker before Kafka 4: what its group coordinator "
            "decides otherwise than that of Kafka 4.3, in rare cases, is told as that of 4.3 would have decided."
        )
    for ended_log in logs_that_end_early(log):
        yield (
            f"{name(log.paths[ended_log.file_index].name)} ends at {_moment(ended_log.end_us)}, and other brokers' "
            f"lines go on: of {count(len(ended_log.groups), 'group')} ({names(ended_log.groups)}) nothing is known "
            "from there on."
        )
    loads = [load for of_group in contents.loads.values() for load in of_group]
    if not loads and (numbered := numbered_twice(log)):
        yield (
            f"The numbers of {count(len(numbered), 'connection')} are given out twice (from {_moment(numbered[0])} "
            "on): the broker was started again, or the logs of several are joined. That sessions then begin anew is "
            "not told: who seems to expire may not have."
        )
    if moved_groups := list(contents.moved_groups()):
        refusal_count = sum(contents.places[group].refused_after for group in moved_groups)
        yield (
            f"{count(len(moved_groups), 'group')} lost a coordinator ({names(moved_groups)}; "
            f"{count(refusal_count, 'request')} refused for it): it moved, or the broker was stopped. What "
            "another broker did is not told, nor that sessions begin anew: who seems to expire after it may not have."
        )


def _of_other_protocols(contents: LogContents) -> Iterator[str]:
    for kind, groups in contents.other_protocols.items():
        left_out = contents.set_aside[f"of a {kind}, which is not decided here"]
        yield (
            f"{count(groups.total(), 'heartbeat')} of {kind}s, which are not decided here: nothing is told of "
            f"{names(groups)} while they were such groups ({count(left_out, 'other request')} to them left out). "
            "`watch` reads their records in the offsets topic."
        )
    other_groups = {group for groups in contents.other_protocols.values() for group in groups}
    if refused_groups := [group for group in contents.refused_protocols if group not in other_groups]:
        heartbeats = sum(contents.refused_protocols[group] for group in refused_groups)
        yield (
            f"{count(heartbeats, 'heartbeat')} of other protocols, which were refused ({names(refused_groups)}), are "
            "left out."
        )
    if contents.transactional and not contents.has_transaction_ends:
        yield (
            f"{count(contents.transactional.total(), 'commit')} in transactions whose markers the log does not have "
            f"(WriteTxnMarkers, on the listener between brokers): the offsets of {names(contents.transactional)} are "
            "told as committed from when producers end their transactions (EndTxn, InitProducerId). What brokers ended "
            "by themselves is not told."
        )


def _of_topics(cluster: LoggedTopics) -> Iterator[str]:
    if cluster.guessed:
        yield (
            f"{count(len(cluster.guessed), 'topic')} of which the log has no answer to Metadata "
            f"({names(cluster.guessed)}): that they have as many partitions as were assigned is the least. Consumer "
            "groups may have been assigned otherwise than is told."
        )
    if cluster.without_id:
        yield (
            f"{count(len(cluster.without_id), 'topic')} whose id nothing tells ({names(cluster.without_id)}): they are "
            "told as if they did not exist."
        )
    if cluster.left_out:
        yield f"{count(cluster.left_out, 'line')} of topics left out: there are more topics than are kept."


def _of_damage(log: RequestLog) -> Iterator[str]:
    counts = log.counts
    if counts.damaged_lines:
        kinds = [f"{number:,} x {_short(kind)}" for kind, number in log.contents.damage.most_common(KINDS_SHOWN)]
        more_count = len(log.contents.damage) - len(kinds)
        yield (
            f"{counts.damaged_lines:,} of {count(counts.lines, 'line')} cannot be read or understood and are left out: "
            f"{'; '.join(kinds)}{f'; and {more_count:,} other kinds' if more_count else ''}."
        )


# --------------------------------------------------------------------------------------------------------- restarts


def numbered_twice(log: RequestLog) -> list[int]:
    """Return when connections began that have the number of an earlier one: a processor of a broker gives each number
    once."""
    began: dict[tuple[str, ...], dict[str, int]] = {}
    for clock in log.clocks:
        for connection_name, connection in clock.connections.items():
            local, remote, *number = connection_name.split(" ", 1)[0].split("-")
            if len(number) == NUMBERS_SINCE_4:
                at_us = connection.low.at_us + clock.offset_us(connection.low.line_number)
                of_number = began.setdefault((local, *number), {})
                of_number[remote] = min(at_us, of_number.get(remote, at_us))
    return sorted(at_us for of_number in began.values() for at_us in sorted(of_number.values())[1:])


# ------------------------------------------------------------------------------------------------------------ words


def count(number: int, noun: str) -> str:
    """Return `1 line`, `1,200 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(microseconds: int) -> str:
    """Return a length of time in words."""
    seconds, rest_us = divmod(microseconds, 1_000_000)
    if rest_us or seconds < _MINUTE_S:
        return f"{microseconds / 1_000_000:,.3f}".rstrip("0").rstrip(".") + " s"
    parts = (
        (seconds // _DAY_S, "d"),
        (seconds % _DAY_S // _HOUR_S, "h"),
        (seconds % _HOUR_S // _MINUTE_S, "min"),
        (seconds % _MINUTE_S, "s"),
    )
    return " ".join(f"{number:,} {unit}" for number, unit in parts if number)


def _moment(us: int) -> str:
    return f"{datetime.fromtimestamp(us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def names(all_names: Iterable[str]) -> str:
    """Return some of the names, and how many more there are."""
    name_list = list(all_names)
    more_count = len(name_list) - NAMES_SHOWN
    return ", ".join(map(name, name_list[:NAMES_SHOWN])) + (f" and {more_count:,} more" if more_count > 0 else "")


def name(text: str) -> str:
    """Return a foreign name in a printable form: nothing in it moves a terminal's cursor or ends the line."""
    return _short(text if text.isprintable() else text.encode("unicode_escape").decode())


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."


# -------------------------------------------------------------------------------------------------- logs that end early

SHORTEST_SESSION_US = 6 * 1_000_000
"""What goes on for less shows no expiry."""
LONGEST_SILENCE_US = 60 * 1_000_000
"""Who was heard no longer ago than this, when the log ends, may still be a member."""


class EndedLog(Struct, frozen=True):
    """A file that ends while others go on."""

    file_index: int
    end_us: int
    groups: tuple[str, ...]
    """Those that had members then, as far as is known."""


def logs_that_end_early(log: RequestLog) -> Iterator[EndedLog]:
    """Yield the files that end earlier than those of other brokers, with no file of the same broker after them."""
    spans = [clock.span() for clock in log.clocks]
    for file_index, span in enumerate(spans):
        if (
            span is None
            or log.end_us is None
            or span[1] + SHORTEST_SESSION_US >= log.end_us
            or _goes_on(log, file_index)
        ):
            continue
        last = log.contents.last_requests
        groups = [
            group
            for group, (us, last_index, leaves) in last.items()
            if last_index == file_index and not leaves and us >= span[1] - LONGEST_SILENCE_US
        ]
        if groups:
            yield EndedLog(file_index, span[1], tuple(groups))


def _goes_on(log: RequestLog, file_index: int) -> bool:
    """Return whether another file has more of the same broker: it begins where this one ends, or shares connections
    with it."""
    span, connections = log.clocks[file_index].span(), log.clocks[file_index].connections
    addresses = {name.split("-", 1)[0] for name in connections}
    for other_index, other_clock in enumerate(log.clocks):
        other_span = other_clock.span()
        if other_index == file_index or span is None or other_span is None or other_span[1] <= span[1]:
            continue
        if connections.keys() & other_clock.connections.keys():
            return True
        if other_span[0] >= span[1] - LONGEST_SILENCE_US and addresses & {
            name.split("-", 1)[0] for name in other_clock.connections
        }:
            return True
    return False
