"""The demo shows a table that changes on a terminal, and plain lines elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Self

from msgspec import UNSET
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from group_coordinator.command_line.tables import out, print_line
from group_coordinator.ground.monitoring.printable import printable
from group_coordinator.watching.narrative import words
from schemas.group_states import GroupState
from schemas.history import GroupSnapshot, SnapshotMember

LINE_INTERVAL_S = 10.0
_EVENTS_KEPT, _EVENTS_SHOWN_AT_LEAST = 40, 3
_OTHER_LINES = 5
_STYLES: dict[str, str] = {GroupState.STABLE: "green", GroupState.EMPTY: "dim", GroupState.DEAD: "red"}


class DemoView:
    """The demo's display: `report` adds a line about an event, `show` draws the state of the groups."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or out()
        self._events: deque[Text] = deque(maxlen=_EVENTS_KEPT)
        self._stack = ExitStack()
        self._live: Live | None = None
        self._next_line_s = LINE_INTERVAL_S

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = self._stack.enter_context(Live(console=self._console, screen=False, auto_refresh=False))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def report(self, text: str, *, is_announcement: bool) -> None:
        """Add a line: an announcement of what the demo does, or a decision of the coordinator."""
        if self._live is None:
            print_line(f"{'>>' if is_announcement else '  '} {text}")
        else:
            style = "yellow" if is_announcement else ""
            self._events.append(Text(printable(text), style=style, no_wrap=True, overflow="ellipsis"))

    def show(
        self, elapsed_s: float, status: str, snapshots: Mapping[str, GroupSnapshot], records: Mapping[str, int]
    ) -> None:
        """Show the status line, the groups, and the number of records that each client has consumed."""
        if self._live is not None:
            table = _table(snapshots.values(), records)
            room = max(self._console.height - table.row_count - _OTHER_LINES, _EVENTS_SHOWN_AT_LEAST)
            events: Sequence[RenderableType] = list(self._events)[-room:]
            footer = Text(
                "Yellow: what the demo does. The rest: what the coordinator made of it. Ctrl-C ends the demo.",
                style="dim",
            )
            self._live.update(Group(Text(status, style="bold"), table, "", *events, footer), refresh=True)
        elif elapsed_s >= self._next_line_s:
            self._next_line_s += LINE_INTERVAL_S
            print_line(f"-- {status}")
            for snapshot in sorted(snapshots.values(), key=lambda snapshot: snapshot.group_id):
                print_line(
                    f"--   {snapshot.group_id}: {snapshot.state}, {_kind(snapshot)}{_counter(snapshot)}; "
                    f"{_owners(snapshot)}"
                )


def _table(snapshots: Collection[GroupSnapshot], records: Mapping[str, int]) -> Table:
    table = Table(
        "GROUP", "STATE", "GENERATION", "MEMBER", "PARTITIONS", "RECORDS", box=None, pad_edge=False, header_style="bold"
    )  # of a consumer group: its epoch
    for group in sorted(snapshots, key=lambda snapshot: snapshot.group_id):
        first = [
            printable(group.group_id),
            Text(group.state, style=_STYLES.get(group.state, "yellow")),
            f"epoch {_counter(group)}" if group.is_consumer_group else _counter(group),
        ]
        rows = [
            [
                f"{printable(_name(group, member))}{' *' if member.member_id == group.leader_id else ''}",
                printable(_holds(member)),
                str(records.get(member.client_id, 0)),
            ]
            for member in sorted(group.members, key=lambda member: member.client_id)
        ]
        for number, row in enumerate(rows or [["-", "", ""]]):
            table.add_row(*(first if number == 0 else ["", "", ""]), *row)
    return table


def _kind(group: GroupSnapshot) -> str:
    return "consumer group in epoch " if group.is_consumer_group else "generation "


def _counter(group: GroupSnapshot) -> str:
    """The generation; the epoch of a consumer group, and that of its target where that is behind."""
    target = group.assignment_epoch
    behind = target is not UNSET and target != group.generation_id
    return f"{group.generation_id} (target {target})" if behind else str(group.generation_id)


def _name(group: GroupSnapshot, member: SnapshotMember) -> str:
    """The client's name; in a consumer group also whether it speaks the classic protocol, and an epoch that is
    behind."""
    if member.consumer is UNSET:
        return member.client_id
    notes = ["classic"] if member.consumer.uses_classic_protocol else []
    if member.consumer.member_epoch != group.generation_id:
        notes.append(f"at {member.consumer.member_epoch}")
    return f"{member.client_id} ({', '.join(notes)})" if notes else member.client_id


def _holds(member: SnapshotMember) -> str:
    """What a member has, and what of that it is about to give up."""
    leaving = () if member.consumer is UNSET else member.consumer.pending_revocation
    return words.owned(member.partitions) + (f", gives up {words.owned(leaving)}" if leaving else "")


def _owners(group: GroupSnapshot) -> str:
    members = sorted(group.members, key=lambda member: member.client_id)
    return ", ".join(f"{_name(group, member)} has {_holds(member)}" for member in members) or "no members"
