"""The words in which brokers of Kafka 2.x to 4.x tell of groups, and what they mean.

Source: `kafka.coordinator.group.GroupCoordinator` (to 3.9), `org.apache.kafka.coordinator.group.GroupMetadataManager`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_lines import LineEvent
from group_coordinator.watching.broker_logs.line_times import LineError
from schemas.history import RebalanceTrigger

Make = Callable[[re.Match[str]], list[LineEvent]]

NO_GROUP = ""
"""In place of a group id where the line names a member alone."""
_NO_REASON = ("", "not provided")
_NONE = ("null", "None")

_REASONS: tuple[tuple[str, RebalanceTrigger], ...] = (
    (r"Adding new member (?P<who>.*?) with group instance ?id (?P<instance>.*)$", "member_joined"),
    (r"[Ll]eader (?P<who>.*?) re-joining group during", "leader_rejoined"),
    (
        r"Updating metadata for static member (?P<who>.*?) with instance id (?P<instance>.*)$",
        "static_member_replaced",
    ),
    (r"Updating metadata for member (?P<who>.*?) during", "member_changed"),
    (
        r"Group's selectedProtocol will change because static member (?P<who>.*?) with instance id "
        r"(?P<instance>.*?) joined",
        "static_member_replaced",
    ),
    (r"explicit `LeaveGroup` request for \((?P<several>.*)\) members", "member_left"),
    (r"[Rr]emoving member (?P<who>.*?) on LeaveGroup", "member_left"),
    (r"[Rr]emoving member (?P<who>.*?) on heartbeat expiration", "member_expired"),
    (r"Removing (?P<several>.*) on pending sync request expiration", "members_did_not_sync"),
    (r"Downgrade group .* from consumer to classic", "group_converted"),
    (r"[Ee]rror|[Ff]ailed to (?:write|persist)", "assignment_too_large"),
)


def _reason(text: str) -> tuple[RebalanceTrigger, tuple[str, ...], str | None]:
    """Trigger, members and instance id of a broker's reason."""
    for pattern, trigger in _REASONS:
        match = re.search(pattern, text, re.DOTALL)
        if match is not None:
            groups = match.groupdict()
            several = _ids(groups["several"]) if groups.get("several") else ()
            return trigger, (groups["who"],) if groups.get("who") else several, _instance(groups.get("instance"))
    return "not_known", (), None


def _ids(text: str) -> tuple[str, ...]:
    """The ids in what Java or Scala print of a collection: `[a, b]`, `Set(a, b)`, `a,b`."""
    inner = re.sub(r"^\w*[\[(](.*)[\])]$", r"\1", text.strip())
    return tuple(part.strip() for part in inner.split(",") if part.strip())


def _instance(text: str | None) -> str | None:
    """An instance id as Java (`null`) or Scala (`None`, `Some(x)`) print it."""
    if text is None or text in _NONE:
        return None
    return text[len("Some(") : -1] if text.startswith("Some(") and text.endswith(")") else text


def _client_reason(text: str | None) -> str | None:
    """What a client said; None for the words that stand for nothing."""
    return None if text is None or text.strip() in _NO_REASON else text.strip()


def _assignor(text: str) -> str:
    """An assignor's name; of one that has none, its class, which Java prints as `org.example.Name@1a2b3c`."""
    return re.sub(r"^(?:[\w$]+\.)*([\w$]+)@[0-9a-f]+$", r"\1", text)


_CONVERT: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("generation_id", "members", "epoch", "of_partition", "leader_epoch"), int),
    "client_reason": _client_reason,
    "assignor": _assignor,
}
"""What the words of a line become, by the field; others stay as they are."""


def _event(kind: Callable[..., LineEvent], **convert: Callable[[str], Any]) -> Make:
    """Return what makes an event of the named parts of a line, which are called as its fields. `convert`: as above."""
    converters = _CONVERT | convert

    def make(match: re.Match[str]) -> list[LineEvent]:
        parts = {name: text for name, text in match.groupdict().items() if name != "partition"}
        return [
            kind(**{name: None if text is None else converters.get(name, str)(text) for name, text in parts.items()})
        ]

    return make


_added = _event(line_events.MemberAdded, group_instance_id=_instance)
_departed = _event(line_events.MemberDeparted)
_fenced = _event(partial(line_events.InstanceFenced, group_id=NO_GROUP))


def _replaced(**told: Any) -> Make:
    """A static member comes back. `told`: what a line says by its form."""
    kind = partial(line_events.StaticMemberReplaced, **told)
    return _event(kind, group_instance_id=lambda text: _instance(text) or "")


def _prepared(match: re.Match[str]) -> list[LineEvent]:
    reason, _, client_reason = match["reason"].partition("; client reason: ")
    trigger, member_ids, instance = _reason(reason)
    return [
        line_events.RebalancePrepared(
            group_id=match["group_id"],
            old_generation_id=int(match["generation_id"]),
            trigger=trigger,
            member_ids=member_ids,
            group_instance_id=instance,
            reason=reason,
            client_reason=_client_reason(client_reason),
        )
    ]


def _ambiguous(match: re.Match[str]) -> list[LineEvent]:
    raise LineError("its member id and its group id can be told apart in several ways")


_UUID = r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def _member_and_group(
    before: str, between: str, behind: str, make: Make, name: str = "member_id"
) -> tuple[tuple[str, Make], ...]:
    """Return the patterns of a line that has a member id before these words, and a group id behind them.

    Either id may have the same words in it. A member id that a broker has made ends in a UUID: where one place alone
    has that before it, that place counts, else the only one that there is. Other lines raise LineError.
    """
    once, once_with_uuid = rf"(?:(?!{between}).)*", rf"(?:(?!{_UUID}{between}).)*"
    ids = ((once_with_uuid + _UUID, once_with_uuid, make), (once, once, make), (".*", ".*", _ambiguous))
    return tuple(
        (rf"{before}(?P<{name}>{member}){between}(?P<group_id>{group}){behind}", made) for member, group, made in ids
    )


_ID = r"\[GroupId (?P<group_id>(?:(?!\]\[MemberId ).)*?)\](?:\[MemberId .*?\])? "
_NEW_ID = r"(?P<member_id>(?:(?! for this member and ).)*?)"
_LEFT_ID = r"(?P<member_id>(?:(?! with instance id ).)*)"
_GENERATION_ASSIGNED = r" for generation (?P<generation_id>-?\d+)(?:\. The group has (?P<members>\d+) members)?"
_CLASSIC: tuple[tuple[str, Make], ...] = (
    (
        r"Preparing to rebalance group (?P<group_id>.*) in state \w+ with old generation (?P<generation_id>-?\d+)"
        r"(?: \(__consumer_offsets-(?P<partition>\d+)\))? \(reason: (?P<reason>.*)\)\.?$",
        _prepared,
    ),
    (
        r"Stabilized group (?P<group_id>.*) generation (?P<generation_id>-?\d+)"
        r"(?: \(__consumer_offsets-(?P<partition>\d+)\))? "
        r"with (?P<members>\d+) members",
        _event(line_events.JoinPhaseEnded),
    ),
    (
        r"Assignment received from leader for group (?P<group_id>.*)" + _GENERATION_ASSIGNED,
        _event(line_events.AssignmentTaken),
    ),
    *_member_and_group(
        "Assignment received from leader ",
        " for group ",
        _GENERATION_ASSIGNED,
        _event(line_events.AssignmentTaken),
        "leader_id",
    ),
    (
        r"Group (?P<group_id>.*) with generation (?P<generation_id>-?\d+) is now empty"
        r"(?: \(__consumer_offsets-(?P<partition>\d+)\))?",
        _event(line_events.GroupEmptied),
    ),
    *_member_and_group(
        "Member ", " in group ", " has failed, removing it from the group", _event(line_events.MemberFailed)
    ),
    *_member_and_group(
        r"Member\[group\.instance\.id .*?, member\.id ", r"\] in group ", " has left, removing it", _departed
    ),
    *_member_and_group("Member ", " in group ", " has left, removing it from the group", _departed),
    (
        r"Member MemberMetadata\(memberId=(?P<member_id>.*?), groupInstanceId=.*\) has left group (?P<group_id>.*) "
        r"through explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<client_reason>.*))?$",
        _event(partial(line_events.MemberDeparted, is_told_late=True)),
    ),
    (
        r"\[Group(?:Id)? (?P<group_id>.*?)\] (?:(?:Static|Dynamic) m|M)ember "
        + _LEFT_ID
        + r" (?:with instance id .*? )?"
        r"has left group through explicit `LeaveGroup` request(?:; client reason: (?P<client_reason>.*))?$",
        _departed,
    ),
    (
        r"Group (?P<group_id>.*) removed (?:dynamic )?members who haven't joined: (?P<member_ids>.*)$",
        _event(line_events.MembersNotRejoined, member_ids=lambda text: _ids(text.rstrip("."))),
    ),
    *_member_and_group(
        "Pending member ",
        " in group ",
        " has been removed after session timeout expiration",
        _event(line_events.PendingMemberExpired),
    ),
    (
        r"Dynamic [Mm]ember with unknown member id joins group (?P<group_id>.*) in \w+ state\. Created a new member id "
        r"(?P<member_id>.*) and request(?:ing)? the member to rejoin with this id",
        _event(line_events.MemberIdGiven),
    ),
    (
        r"Dynamic [Mm]ember with unknown member id joins group (?P<group_id>.*) in \w+ state\. Created a new member id "
        + _NEW_ID
        + r" (?:for this member and )?add(?:ing)? (?:it )?to the group",
        _added,
    ),
    *_member_and_group(
        "Pending dynamic member with id ", " joins group ", r" in \w+ state\. Adding to the group now", _added
    ),
    (
        r"Static [Mm]ember (?:with groupInstanceId=(?P<group_instance_id>.*?) and|with) unknown member id joins group "
        r"(?P<group_id>.*) in \w+ state\. Created a new member id " + _NEW_ID + r" (?:for this member and )?add",
        _added,
    ),
    (
        r"Static member with groupInstanceId=(?P<group_instance_id>.*) and unknown member id joins group "
        r"(?P<group_id>.*) in \w+ state\. Replacing previously mapped member (?P<old_member_id>.*) with this "
        r"groupInstanceId",
        _replaced(member_id=None),
    ),
    (
        r"Static member (?P<group_instance_id>.*) of group (?P<group_id>.*) with unknown member id rejoins, "
        r"assigning new member id (?P<member_id>.*), while old member id (?P<old_member_id>.*) will be removed",
        _replaced(),
    ),
    (
        r"Request memberId=(?P<member_id>.*) for static member with groupInstanceId=(?P<group_instance_id>.*) is "
        r"fenced by current memberId=(?P<owner_member_id>.*) during operation",
        _fenced,
    ),
    (
        r"given member\.id (?P<member_id>.*) is identified as a known static member (?P<group_instance_id>.*), but not "
        r"matching the expected member\.id (?P<owner_member_id>.*) during",
        _fenced,
    ),
    (
        r"The following groups were deleted: (?P<ids>.*)\. A total of \d+ offsets were removed",
        lambda match: [line_events.GroupDeleted(group_id=part) for part in match["ids"].split(", ")],
    ),
    (
        r"Group (?P<group_id>.*) transitioned to Dead in generation (?P<generation_id>-?\d+)",
        _event(line_events.GroupExpired),
    ),
    (
        r"Loaded (?:classic|consumer) group (?P<group_id>.*) with (?P<members>\d+) members",
        _event(line_events.GroupLoaded),
    ),
    (
        r"Loading group metadata for (?P<group_id>.*) with generation (?P<generation_id>-?\d+)",
        _event(line_events.GroupLoaded),
    ),
    (
        r"Finished loading (?:of metadata|offsets and group metadata) from __consumer_offsets-(?P<of_partition>\d+) "
        r"(?:in \d+ milliseconds for|with) epoch (?P<leader_epoch>\d+)",
        _event(partial(line_events.PartitionLoaded, group_id=NO_GROUP)),
    ),
    (r"\[GroupId=(?P<group_id>.*)\] Unload(?:ing|ed) group metadata for", _event(line_events.GroupUnloaded)),
    (r"Unloading group metadata for (?P<group_id>.*) with generation -?\d+", _event(line_events.GroupUnloaded)),
)
_MODERN: tuple[tuple[str, Make], ...] = (
    (_ID + r"Bumped (?:\w+ )?group epoch to (?P<epoch>\d+)", _event(line_events.EpochBumped)),
    (
        _ID + r"Computed a new target assignment for epoch (?P<epoch>\d+) with '(?P<assignor>.*)' assignor",
        _event(line_events.TargetComputed),
    ),
    (
        _ID + r"(?:\w+ m|M)ember (?P<member_id>.*?) fenced from the group because (?P<why>.*?)\.*$",
        _event(line_events.MemberFencedOut),
    ),
    (
        _ID + r"Static member (?P<member_id>.*) with instance id (?P<group_instance_id>.*) temporarily left the",
        _event(line_events.StaticMemberAway),
    ),
    (
        _ID
        + r"(?:Static m|M)ember "
        + _LEFT_ID
        + r" (?:with instance id .*? )?left the (?:consumer|share|streams) group",
        _departed,
    ),
    (
        _ID + r"Static member with instance id (?P<group_instance_id>.*) re-joins the \w+ group using "
        r"the \w+ protocol\. Created a new member (?P<member_id>.*) to replace the existing member "
        r"(?P<old_member_id>.*)\.$",
        _replaced(in_consumer_group=True),
    ),
    (
        _ID + r"Converted the (?:empty )?\w+ group (?:.* )?to a (?P<to_protocol>classic|consumer) group",
        _event(line_events.GroupConverted),
    ),
    (
        r"Cannot upgrade classic group (?P<group_id>.*) to consumer group: (?P<why>.*?)\.*$",
        _event(line_events.UpgradeRefused),
    ),
)
Pattern = tuple[re.Pattern[str], re.Pattern[str], Make]
PATTERNS: tuple[Pattern, ...] = tuple(
    (
        re.compile(pattern.replace("*?", "*"), re.DOTALL),
        re.compile(re.sub(r"\*(?!\?)", "*?", pattern), re.DOTALL),
        make,
    )
    for pattern, make in (*_CLASSIC, *_MODERN)
)
"""Each once with the longest of what a client can have written, once with the shortest: where the two differ nobody can
say which words are the broker's."""
HINT = re.compile(
    rb"rebalance group|Stabilized group|Assignment received|is now empty|removing it from|has left|who haven't joined"
    rb"|unknown member id|Adding to the group|is fenced by|is identified as a known|groups were deleted"
    rb"|transitioned to Dead|Loaded c|group metadata for|Finished loading o|session timeout expiration|Bumped "
    rb"|new target assignment|fenced from the group| left the |re-joins the|Converted the|Cannot upgrade"
)
"""What one of the patterns needs: most lines of a broker have none of it."""
