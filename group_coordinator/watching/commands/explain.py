"""`explain`: why a group rebalanced, from its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct
from msgspec.structs import asdict

from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.log_options import BrokerLogs, TimeZone
from group_coordinator.command_line.log_options import zone as log_zone
from group_coordinator.command_line.options import CONNECTION, ReaderOptions, with_settings
from group_coordinator.command_line.output_options import JsonOption, WrittenDirectory
from group_coordinator.command_line.replay_output import read_history_files
from group_coordinator.command_line.tables import print_json, print_line, print_lines
from group_coordinator.command_line.times import parse_moment_ms, shown_zone
from group_coordinator.ground.monitoring.printable import printable
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.commands.explanation import deploys_told, explanation
from group_coordinator.watching.commands.one_look import read_brokers_groups
from group_coordinator.watching.commands.published_groups import read_history
from group_coordinator.watching.commands.whose_groups import Brokers, are_own
from group_coordinator.watching.dashboard.notes import note_of
from group_coordinator.watching.dashboard.rebalance_page import rebalance_details
from group_coordinator.watching.narrative import words
from group_coordinator.watching.narrative.rebalances import GroupStory, Rebalance, headline, rebalances
from group_coordinator.watching.narrative.transactions import waits
from schemas.history import History

if TYPE_CHECKING:
    from group_coordinator.watching.commands.owners_at import OwnerAt

PREVIOUS_SHOWN = 20
OTHERS_SHOWN = 10


_Generation = Annotated[
    int | None,
    typer.Option(metavar="N", help="The rebalance that led to this generation or epoch. [default: the last one]"),
]
_Life = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Of a group that died and came again: its Nth life. [default: the last one with that generation]",
    ),
]
_At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="The rebalance under way at this moment, or the last before it, and who owned what then. 14:02 is that of "
        "the last 24 hours.",
    ),
]
_Episode = Annotated[
    bool, typer.Option("--episode", help="The last deploys side by side: all rebalances of a roll are one episode.")
]
_Utc = Annotated[bool, typer.Option("--utc", help="Times in UTC. [default: the local time zone, or that of TZ]")]


class GroupTold(Struct, frozen=True, kw_only=True):
    """What a source has of one group."""

    history: Sequence[History]
    doubts: Sequence[str]
    """Why it may not be what happened, or not all of it."""
    other_groups: Sequence[str]
    """Further groups that it has."""
    source: str
    """What was read, in words."""
    remedy: str = ""
    """Where the group may be found otherwise."""


@with_settings(*CONNECTION, of=ReaderSettings)
def explain(
    settings: ReaderOptions,
    group: Annotated[str, typer.Option("--group", metavar="ID", help="The group.")],
    generation: _Generation = None,
    life: _Life = None,
    at: _At = None,
    episode: _Episode = False,
    directory: WrittenDirectory = None,
    broker_log: BrokerLogs = None,
    time_zone: TimeZone = "UTC",
    brokers: Brokers = False,
    utc: _Utc = False,
    as_json: JsonOption = False,
) -> None:
    """Why did this group rebalance? The chain of causes in plain words, step by step.

    It says who set it off and why, who was told when, whom the others waited for, who was slow, who was dropped, and
    which partitions changed owner. Without --generation: the last rebalance, and a line for each one before it.

    Of a group that the cluster's own brokers coordinate, the one partition of `__consumer_offsets` that holds it is
    read, and brokers' logs where they are given: they tell why each rebalance of a classic group began.

    Examples:

        group-coordinator explain --bootstrap-servers prod:9092 --group billing
        group-coordinator explain --bootstrap-servers prod:9092 --group billing --broker-log server.log
        group-coordinator explain --group billing --at 14:02
        group-coordinator explain --group billing --generation 7 --life 1
        group-coordinator explain --group billing --from replayed/
        group-coordinator explain --group billing --episode
    """
    zone = shown_zone(utc=utc)
    at_ms = None if at is None else parse_moment_ms("--at", at, is_of_today=directory is None)
    _require_one("--at", at is not None, "--generation", generation is not None)
    _require_one("--from", directory is not None, "--broker-log", bool(broker_log))
    if directory is not None:
        told = _told(read_history_files(directory), group, str(directory), note_of(directory).doubts)
    else:
        told = _live(settings.config, group, broker_log or (), log_zone(time_zone), brokers=brokers)
    group_rebalances = _rebalances(told, group, zone, as_json=as_json)
    if episode:
        return _print_deploys(told, group, zone, as_json=as_json)
    asked = _asked(group_rebalances, generation, life, at_ms, zone)
    if as_json:
        return print_json(_document(told, asked[-1], at_ms))
    if generation is None and len(asked) > 1:
        print_lines([*_before(asked[:-1], zone), ""])
    print_lines([*explanation(asked[-1], zone), *_other_lives(group_rebalances, asked[-1], zone)])
    if at_ms is not None:
        _print_owners(told, at_ms, zone)


def _document(told: GroupTold, asked: Rebalance, at_ms: int | None) -> object:
    details = rebalance_details(asked)
    return details if at_ms is None else asdict(details) | {"owners": _owners(told, at_ms)}


def _print_owners(told: GroupTold, at_ms: int, zone: tzinfo) -> None:
    from group_coordinator.watching.commands.owners_at import owner_lines

    print_lines(["", *owner_lines(_owners(told, at_ms), at_ms, zone)])


def _owners(told: GroupTold, at_ms: int) -> list[OwnerAt]:
    from group_coordinator.watching.commands.owners_at import owners_at  # few ask for them

    return owners_at(told.history, at_ms)


def _require_one(first: str, has_first: bool, second: str, has_second: bool) -> None:
    if has_first and has_second:
        raise CommandError(f"Choose one of {first} and {second}.", WRONG_USE)


def _rebalances(told: GroupTold, group_id: str, zone: tzinfo, *, as_json: bool) -> list[Rebalance]:
    """Return the rebalances. Says why they may not be what happened, and for which transactions offsets wait."""
    story = GroupStory()
    found = list(rebalances(told.history, story))
    for line in (*doubts.lines(doubts.of_group(told.doubts, group_id, told.other_groups)), *waits(story, zone)):
        print_line(line, error=as_json)
    if not found:
        known = words.listed(list(map(printable, told.other_groups)), OTHERS_SHOWN)
        others = f", only of {known}" if told.other_groups else ""
        raise CommandError(
            f"There is no rebalance of a group '{printable(group_id)}' in {told.source}{others}.{told.remedy}"
        )
    return found


def _print_deploys(told: GroupTold, group_id: str, zone: tzinfo, *, as_json: bool) -> None:
    from group_coordinator.watching.dashboard.deploys import deploys_in  # few ask for them

    deploys = deploys_in(told.history)
    if not deploys:
        raise CommandError(f"No rebalances of '{printable(group_id)}' in {told.source} are those of a deploy.")
    if as_json:
        print_json(deploys)
    else:
        print_lines(deploys_told(deploys, zone))


def _live(
    config: ReaderSettings, group_id: str, broker_logs: Sequence[str], log_times: tzinfo, *, brokers: bool
) -> GroupTold:
    """Read a group of our own coordinator, or one that the cluster's brokers coordinate."""
    told = None

    def knows() -> bool:
        nonlocal told
        told = _told(read_history(config), group_id, "the history topic")
        return bool(told.history)

    if are_own(config, brokers=brokers or bool(broker_logs), knows=knows) and told is not None:
        return told
    found = read_brokers_groups(config.client_properties, broker_logs, log_times, group_id)
    others = [each for each in found.observer.group_ids() if each != group_id]
    history = tuple(found.history(group_id))
    remedy = " `group-coordinator groups` lists all groups."
    return GroupTold(history=history, doubts=found.doubts, other_groups=others, source=found.source, remedy=remedy)


def _told(records: Iterable[History], group_id: str, source: str, noted: Sequence[str] = ()) -> GroupTold:
    other_groups: dict[str, None] = {}
    history = list(_of_group(records, group_id, other_groups))
    return GroupTold(history=history, doubts=noted, other_groups=list(other_groups), source=source)


def _asked(
    all_rebalances: list[Rebalance], generation: int | None, life: int | None, at_ms: int | None, zone: tzinfo
) -> list[Rebalance]:
    """Return the rebalance that is asked for, as the last of those that led to it."""
    of_life = all_rebalances if life is None else _of_life(all_rebalances, life)
    if at_ms is not None:
        of_life = _until(of_life, at_ms, zone)
    return of_life if generation is None else [_of_generation(of_life, generation)]


def _lives(group_rebalances: list[Rebalance]) -> list[int]:
    """Return the epochs of the group's lives, in order."""
    return list(dict.fromkeys(each.started.epoch for each in group_rebalances))


def _of_life(group_rebalances: list[Rebalance], life: int) -> list[Rebalance]:
    """Return the rebalances of one life of the group."""
    lives = _lives(group_rebalances)
    if life > len(lives):
        raise CommandError(
            f"History tells of {words.count(len(lives), 'life').replace('lifes', 'lives')} of "
            f"'{printable(group_rebalances[0].started.group_id)}', not of {life}."
        )
    return [each for each in group_rebalances if each.started.epoch == lives[life - 1]]


def _until(group_rebalances: list[Rebalance], at_ms: int, zone: tzinfo) -> list[Rebalance]:
    """Return the rebalances that had begun at a moment."""
    begun = [each for each in group_rebalances if each.started.timestamp_ms <= at_ms]
    if not begun:
        first_ms = group_rebalances[0].started.timestamp_ms
        raise CommandError(
            f"No rebalance of '{printable(group_rebalances[0].started.group_id)}' had begun then: the first that is "
            f"known began on {words.day(first_ms, zone)} at {words.clock(first_ms, zone)}."
        )
    return begun


def _other_lives(group_rebalances: list[Rebalance], shown: Rebalance, zone: tzinfo) -> Iterator[str]:
    """Yield where else a rebalance led to the same generation: a group that dies and comes again counts anew."""
    others = [
        each
        for each in group_rebalances
        if each.generation_id == shown.generation_id and each.started.epoch != shown.started.epoch
    ]
    if others:
        yield ""
        yield f"In other lives of the group {shown.counts} {shown.generation_id} came too:"
        lives = _lives(group_rebalances)
        for each in others:
            yield f"  --life {lives.index(each.started.epoch) + 1}: {headline(each, zone)}"


def _of_group(records: Iterable[History], group_id: str, other_groups: dict[str, None]) -> Iterator[History]:
    """The records of one group; the ids of the others are noted."""
    for record in records:
        if record.group_id == group_id:
            yield record
        else:
            other_groups[record.group_id] = None


def _of_generation(group_rebalances: list[Rebalance], generation: int) -> Rebalance:
    """Return the last one of this generation: a group that died and came again counts from 1 once more."""
    for rebalance in reversed(group_rebalances):
        if rebalance.generation_id == generation:
            return rebalance
    generations = sorted({rebalance.generation_id for rebalance in group_rebalances})
    counted = " or ".join(sorted({rebalance.counts for rebalance in group_rebalances}, reverse=True))
    raise CommandError(
        f"No rebalance of '{printable(group_rebalances[0].started.group_id)}' led to {counted} {generation}; there "
        f"are {generations[0]} to {generations[-1]}."
    )


def _before(earlier_rebalances: list[Rebalance], zone: tzinfo) -> Iterator[str]:
    shown = earlier_rebalances[-PREVIOUS_SHOWN:]
    left_out = len(earlier_rebalances) - len(shown)
    yield "Before:" + (f" (the last {len(shown)} of {len(earlier_rebalances)})" if left_out else "")
    yield from (f"  {headline(rebalance, zone)}" for rebalance in shown)
