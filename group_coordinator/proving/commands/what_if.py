"""`what-if`: a group's log again under other settings, beside what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import CONNECTION, with_settings
from group_coordinator.command_line.output_options import JsonOption
from group_coordinator.command_line.tables import aligned, print_json, print_lines
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.ground.monitoring.printable import printable
from group_coordinator.proving.commands import what_if_player
from group_coordinator.watching.commands.served_page import new_index
from group_coordinator.watching.dashboard.change import Change, GroupProtocol
from group_coordinator.watching.dashboard.documents import Documents, NotFound
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import ReplaySource, SourceError
from group_coordinator.watching.dashboard.what_if import Comparison, ReplayFunction
from group_coordinator.watching.narrative import words
from streaming.config import StreamingConfig

Summary = Mapping[str, Any]


def _seconds(text: str) -> Any:
    return typer.Option(metavar="SECONDS", min=0, help=text)


Group = Annotated[str, typer.Option("--group", metavar="ID", help="The group.")]
Directory = Annotated[
    Path | None, typer.Option("--from", metavar="DIR", help="What a replay wrote. [default: the live topics]")
]
GroupProtocolOption = Annotated[
    GroupProtocol | None, typer.Option(help="Every client's group.protocol; `consumer` is that of KIP-848.")
]
SessionTimeout = Annotated[float | None, _seconds("Every member's session timeout.")]
HeartbeatInterval = Annotated[float | None, _seconds("Time between two heartbeats of a member.")]
AssignorOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Classic: what all members offer (range, roundrobin, sticky, cooperative-sticky, or one of yours). "
        "Consumer: what the coordinator assigns with (uniform, range, or one of yours).",
    ),
]
StaticMembers = Annotated[bool, typer.Option("--static-members", help="Every client has a static id.")]
InitialDelay = Annotated[
    float | None, _seconds("Classic: how long an empty group waits for more members after the first.")
]
AssignmentInterval = Annotated[float | None, _seconds("Consumer: least time between two target assignments.")]


@with_settings(*CONNECTION, of=StreamingConfig)
def what_if(
    settings: Settings,
    group: Group,
    directory: Directory = None,
    group_protocol: GroupProtocolOption = None,
    session_timeout: SessionTimeout = None,
    heartbeat_interval: HeartbeatInterval = None,
    assignor: AssignorOption = None,
    static_members: StaticMembers = False,
    initial_delay: InitialDelay = None,
    assignment_interval: AssignmentInterval = None,
    as_json: JsonOption = False,
) -> None:
    """What would this group have done under other settings, or with the other protocol?

    The clients of the group's log are played again, each by a member that does what Kafka's consumer does, against this
    coordinator with the changed settings. Shown beside each other: what happened, what the same players do without any
    change (how near that comes says how far the rest can be believed), and what would have happened.

    Time without owner is summed over partitions: two partitions for a second are 2 s. A partition that stops though it
    stays is one whose owner gives it up for a rebalance and gets it back. What a dead member owns until it expires has
    an owner, which is silent.

    Examples:

        group-coordinator what-if --group payments --group-protocol consumer
        group-coordinator what-if --group payments --group-protocol consumer --assignor range --heartbeat-interval 5
        group-coordinator what-if --group payments --from replayed/ --session-timeout 30 --static-members
        group-coordinator what-if --group carts --from replayed/ --group-protocol classic --assignor cooperative-sticky
    """
    change = Change(
        group_protocol=group_protocol,
        session_timeout_ms=_ms(session_timeout),
        heartbeat_interval_ms=_ms(heartbeat_interval),
        initial_delay_ms=_ms(initial_delay),
        assignment_interval_ms=_ms(assignment_interval),
        static_members=static_members,
        assignor=assignor,
    )
    answer, doubtful = _answer(settings.config, directory, group, change)
    if as_json:
        return print_json({name: answer[name] for name in ("before", "unchanged", "after", "ranges", "assumptions")})
    print_lines([*doubts.lines(doubtful), *comparison(answer)])


def _answer(
    config: StreamingConfig, directory: Path | None, group_id: str, change: Change
) -> tuple[Comparison, Sequence[str]]:
    """Return the answer, and the doubts about the log."""
    index = new_index(config)
    if directory is None:
        _read_topic(config, group_id, index)
        play = what_if_player.of_topics(config)
    else:
        play = _of_directory(directory, config, index)
    try:
        return Documents(index, what_if=play).what_if(group_id, change), index.doubts
    except (NotFound, ValueError) as problem:
        raise CommandError(str(problem)) from problem


def comparison(answer: Comparison) -> Iterator[str]:
    """Yield the answer as lines: a table, and how far it can be believed."""
    sides = [answer["before"], answer["unchanged"], answer["after"]]
    of_chance = [{}, answer["ranges"]["unchanged"], answer["ranges"]["after"]]
    yield from aligned(["", "as it was", "played again", "as it would have been"], _rows(sides, of_chance))
    yield ""
    yield from answer["assumptions"]


def _rows(sides: Sequence[Summary], of_chance: Sequence[Summary]) -> Iterator[list[str]]:
    yield ["group protocol", *[" and ".join(side["protocols"]) or "-" for side in sides]]
    yield ["rebalances", *[str(side["rebalances"]) for side in sides]]
    for trigger in sorted({trigger for side in sides for trigger in side["by_trigger"]}):
        yield [f"  {trigger}", *[str(side["by_trigger"].get(trigger, 0)) for side in sides]]
    for title, name, form in _MEASURES:
        cells = [
            form(side[name]) + (f" ({form(chance[name][0])} to {form(chance[name][1])})" if name in chance else "")
            for side, chance in zip(sides, of_chance, strict=True)
        ]
        yield [title, *cells]


def _duration(duration_ms: int | None) -> str:
    return "-" if duration_ms is None else words.duration(duration_ms)


def _spread(spread: list[int] | None) -> str:
    return "-" if spread is None else "-".join(map(str, sorted(set(spread))))


_MEASURES = (
    ("time in rebalances", "rebalancing_ms", _duration),
    ("longest rebalance", "longest_ms", _duration),
    ("until the first assignment", "start_ms", _duration),
    ("partition-time without owner", "unowned_ms", _duration),
    ("  the longest of one partition", "longest_unowned_ms", _duration),
    ("  of partitions that stopped though they stayed", "stopped_ms", _duration),
    ("  how often", "stops", str),
    ("partition-time with a silent owner", "silent_ms", _duration),
    ("partitions that moved", "moves", str),
    ("members put out", "put_out", str),
    ("refused requests", "refusals", str),
    ("partitions of a member at the end", "spread", _spread),
)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _read_topic(config: StreamingConfig, group_id: str, index: Index) -> None:
    for message in read_topic(config.client_properties, config.topics.history):
        value = message.value()
        if value is not None and message.key() == group_id.encode():
            index.add(value)
    if not len(index):
        raise CommandError(f"The history topic has nothing of a group '{printable(group_id)}'.")


def _of_directory(directory: Path, config: StreamingConfig, index: Index) -> ReplayFunction:
    try:
        ReplaySource(directory).start(index)
    except SourceError as problem:
        raise CommandError(str(problem), WRONG_USE) from problem
    play = what_if_player.of_directory(directory, config)
    if play is None:
        raise CommandError(
            f"{directory} does not say which log was replayed into it, so nothing can be played again.", WRONG_USE
        )
    return play
