"""Which words of a broker's log entry are the broker's, and which may be a client's."""

from __future__ import annotations

import re
from itertools import islice

from group_coordinator.watching.broker_logs.broker_lines import LineEvent
from group_coordinator.watching.broker_logs.broker_patterns import PATTERNS
from group_coordinator.watching.broker_logs.line_times import LineError

_CLIENTS_ALONE = ("reason", "client_reason", "why")
"""What follows them does not depend on where they end."""
_CONTEXT = re.compile(r"\[Group(?:Coordinator|MetadataManager)\b[^\]]{0,200}\]:? ")
"""What stands before the words: a client's words never do."""
_ANOTHER = re.compile(r"\[(?!Group)(?:[A-Z][a-z]+(?:[A-Z]\w*)+ (?:\w+=|\d)|[A-Z][a-z]+ \w+=|KafkaApi-\d)")
"""The context of another part of the broker, whose lines may have clients' words."""
_BEGINNING = re.compile(
    r"Preparing to rebalance group |Stabilized group |Assignment received from leader |Group |Pending |Member[ \[]"
    r"|\[Group|Dynamic [Mm]ember |Static [Mm]ember |Request memberId=|given member\.id "
    r"|The following groups were deleted|Loaded c|Loading group metadata |Unloading group metadata "
    r"|Cannot upgrade classic group "
)
"""What the words of a pattern begin with."""

_SEPARATOR = re.compile(
    r" in state | in group | of group | for group | joins group | has left | left the | with instance id | fenced from "
    r"|\(reason: |Created a new member| re-joins the | through explicit |, member\.id |, groupInstanceId=|\]\[MemberId "
    r"| for generation | generation |haven't joined: | unknown member id |ember id | current memberId=|memberId="
    r"|group\.instance\.id | as a known | matching the | to replace the | has been removed|for this member| add"
)
_SEPARATORS_MAX = 24
"""Far more than an entry of a broker has; with thousands a pattern would need minutes to fail."""


def start_of_words(text: str) -> int | None:
    """Return where the broker's words begin in an entry that tells of groups; None if they are of another part of it.

    They begin behind the coordinator's context, or with the first words that are known. What a client wrote is behind.
    """
    context = _CONTEXT.search(text)
    beginning = None if context is not None else _BEGINNING.search(text)
    if context is None and beginning is None:
        return None
    before = text[: context.start()] if context is not None else text[: beginning.start() if beginning else 0]
    if _ANOTHER.search(before) is not None:
        return None
    return context.end() if context is not None else len(before)


def events_at(text: str, start: int) -> tuple[list[LineEvent], int | None]:
    """Return what the words that begin here tell of groups, and the partition of the offsets topic that they name.

    Raises LineError where they can be read in several ways: a client may write a broker's words into its ids.
    """
    if sum(1 for _ in islice(_SEPARATOR.finditer(text, start), _SEPARATORS_MAX)) == _SEPARATORS_MAX:
        raise LineError("its ids can be told apart in several ways")
    for longest, shortest, make in PATTERNS:
        match = shortest.match(text, start)
        other = None if match is None else longest.match(text, start)  # of ids of 30 KB each takes milliseconds
        if match is not None and other is not None:
            if _ids_of(match) != _ids_of(other):
                raise LineError("its ids can be told apart in several ways")
            partition = match.groupdict().get("partition")
            return make(match), None if partition is None else int(partition)
    return [], None


def _ids_of(match: re.Match[str]) -> dict[str, str | None]:
    return {name: value for name, value in match.groupdict().items() if name not in _CLIENTS_ALONE}
