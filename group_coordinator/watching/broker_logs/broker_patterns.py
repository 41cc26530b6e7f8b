"""The words in which brokers of Kafka 2.x to 4.x tell of groups, and what they mean.

Source: `kafka.coordinator.group.GroupCoordinator` (to 3.9), `org.apache.kafka.coordinator.group.GroupMetadataManager`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

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


def _prepared(match: re.Match[str]) -> list[LineEvent]:
    reason, _, client_reason = match["reason"].partition("; client reason: ")
    trigger, member_ids, instance = _reason(reason)
    return [
        line_events.RebalancePrepared(
            group_id=match["group"],
            old_generation_id=int(match["generation"]),
            trigger=trigger,
            member_ids=member_ids,
            group_instance_id=instance,
            reason=reason,
            client_reason=_client_reason(client_reason),
        )
    ]


def _assigned(match: re.Match[str]) -> list[LineEvent]:
    return [
        line_events.AssignmentTaken(
            group_id=match["group"],
            generation_id=int(match["generation"]),
            leader_id=match.groupdict().get("who"),
            members=None if match["members"] is None else int(match["members"]),
        )
    ]


def _replaced(match: re.Match[str]) -> list[LineEvent]:
    return [
        line_events.StaticMemberReplaced(
            group_id=match["group"],
            group_instance_id=_instance(match["instance"]) or "",
            old_member_id=match["old"],
            member_id=match.groupdict().get("new"),
            in_consumer_group="kind" in match.groupdict(),
        )
    ]


def _added(match: re.Match[str]) -> list[LineEvent]:
    instance = _instance(match.groupdict().get("instance"))
    return [line_events.MemberAdded(group_id=match["group"], member_id=match["who"], group_instance_id=instance)]


def _departed(match: re.Match[str], *, is_told_late: bool = False) -> list[LineEvent]:
    return [
        line_events.MemberDeparted(
            group_id=match["group"],
            member_id=match["who"],
            client_reason=_client_reason(match.groupdict().get("reason")),
            is_told_late=is_told_late,
        )
    ]


def _partition_loaded(match: re.Match[str]) -> list[LineEvent]:
    partition, epoch = int(match["loaded"]), int(match["epoch"])
    return [line_events.PartitionLoaded(group_id=NO_GROUP, of_partition=partition, leader_epoch=epoch)]


def _fenced(match: re.Match[str]) -> list[LineEvent]:
    return [
        line_events.InstanceFenced(
            group_id=match.groupdict().get("group") or NO_GROUP,
            member_id=match["who"],
            group_instance_id=match["instance"],
            owner_member_id=match["owner"],
        )
    ]


def _of_group(kind: Callable[..., LineEvent], *numbers: str) -> Make:
    """A line that names a group, and numbers by these names."""
    return lambda match: [kind(group_id=match["group"], **{name: int(match[name]) for name in numbers})]


def _of_member(kind: Callable[..., LineEvent]) -> Make:
    return lambda match: [kind(group_id=match["group"], member_id=match["who"])]


def _ambiguous(match: re.Match[str]) -> list[LineEvent]:
    raise LineError("its member id and its group id can be told apart in several ways")


_UUID = r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def _member_and_group(before: str, between: str, behind: str, make: Make) -> tuple[tuple[str, Make], ...]:
    """Return the patterns of a line that has a member id before these words, and a group id behind them.

    Either id may have the same words in it. A member id that a broker has made ends in a UUID: where one place alone
    has that before it, that place counts, else the only one that there is. Other lines raise LineError.
    """
    once, once_with_uuid = rf"(?:(?!{between}).)*", rf"(?:(?!{_UUID}{between}).)*"
    ids = ((once_with_uuid + _UUID, once_with_uuid, make), (once, once, make), (".*", ".*", _ambiguous))
    return tuple(
        (rf"{before}(?P<who>{member}){between}(?P<group>{group}){behind}", made) for member, group, made in ids
    )


_ID = r"\[GroupId (?P<group>(?:(?!\]\[MemberId ).)*?)\](?:\[MemberId .*?\])? "
_NEW_ID = r"(?P<who>(?:(?! for this member and ).)*?)"
_LEFT_ID = r"(?P<who>(?:(?! with instance id ).)*)"
_GENERATION_ASSIGNED = r" for generation (?P<generation>-?\d+)(?:\. The group has (?P<members>\d+) members)?"
_CLASSIC: tuple[tuple[str, Make], ...] = (
    (
        r"Preparing to rebalance group (?P<group>.*) in state \w+ with old generation (?P<generation>-?\d+)"
        r"(?: \(__consumer_offsets-(?P<partition>\d+)\))? \(reason: (?P<reason>.*)\)\.?$",
        _prepared,
    ),
    (
        r"Stabilized group (?P<group>.*) generation (?P<generation_id>-?\d+)"
        r"(?: \(__consumer_offsets-(?P<partition>\d+)\))? "
        r"with (?P<members>\d+) members",
        _of_group(line_events.JoinPhaseEnded, "generation_id", "members"),
    ),
    (r"Assignment received from leader for group (?P<group>.*)" + _GENERATION_ASSIGNED, _assigned),
    *_member_and_group("Assignment received from leader ", " for group ", _GENERATION_ASSIGNED, _assigned),
    (
        r"Group (?P<group>.*) with generation (?P<generation_id>-?\d+) is now empty"
        r"(?: \(__consumer_offsets-(?P<partition>\d+)\))?",
        _of_group(line_events.GroupEmptied, "generation_id"),
    ),
    *_member_and_group(
        "Member ", " in group ", " has failed, removing it from the group", _of_member(line_events.MemberFailed)
    ),
    *_member_and_group(
        r"Member\[group\.instance\.id .*?, member\.id ", r"\] in group ", " has left, removing it", _departed
    ),
    *_member_and_group("Member ", " in group ", " has left, removing it from the group", _departed),
    (
        r"Member MemberMetadata\(memberId=(?P<who>.*?), groupInstanceId=.*\) has left group (?P<group>.*) through "
        r"explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<reason>.*))?$",
        partial(_departed, is_told_late=True),
    ),
    (
        r"\[Group(?:Id)? (?P<group>.*?)\] (?:(?:Static|Dynamic) m|M)ember " + _LEFT_ID + r" (?:with instance id .*? )?"
        r"has left group through explicit `LeaveGroup` request(?:; client reason: (?P<reason>.*))?$",
        _departed,
    ),
    (
        r"Group (?P<group>.*) removed (?:dynamic )?members who haven't joined: (?P<ids>.*)$",
        lambda match: [
            line_events.MembersNotRejoined(group_id=match["group"], member_ids=_ids(match["ids"].rstrip(".")))
        ],
    ),
    *_member_and_group(
        "Pending member ",
        " in group ",
        " has been removed after session timeout expiration",
        _of_member(line_events.PendingMemberExpired),
    ),
    (
        r"Dynamic [Mm]ember with unknown member id joins group (?P<group>.*) in \w+ state\. Created a new member id "
        r"(?P<who>.*) and request(?:ing)? the member to rejoin with this id",
        _of_member(line_events.MemberIdGiven),
    ),
    (
        r"Dynamic [Mm]ember with unknown member id joins group (?P<group>.*) in \w+ state\. Created a new member id "
        + _NEW_ID + r" (?:for this member and )?add(?:ing)? (?:it )?to the group",
        _added,
    ),
    *_member_and_group(
        "Pending dynamic member with id ", " joins group ", r" in \w+ state\. Adding to the group now", _added
    ),
    (
        r"Static [Mm]ember (?:with groupInstanceId=(?P<instance>.*?) and|with) unknown member id joins group "
        r"(?P<group>.*) in \w+ state\. Created a new member id " + _NEW_ID + r" (?:for this member and )?add",
        _added,
    ),
    (
        r"Static member with groupInstanceId=(?P<instance>.*) and unknown member id joins group (?P<group>.*) "
        r"in \w+ state\. Replacing previously mapped member (?P<old>.*) with this groupInstanceId",
        _replaced,
    ),
    (
        r"Static member (?P<instance>.*) of group (?P<group>.*) with unknown member id rejoins, assigning new member "
        r"id (?P<new>.*), while old member id (?P<old>.*) will be removed",
        _replaced,
    ),
    (
        r"Request memberId=(?P<who>.*) for static member with groupInstanceId=(?P<instance>.*) is fenced by current "
        r"memberId=(?P<owner>.*) during operation",
        _fenced,
    ),
    (
        r"given member\.id (?P<who>.*) is identified as a known static member (?P<instance>.*), but not matching the "
        r"expected member\.id (?P<owner>.*) during",
        _fenced,
    ),
    (
        r"The following groups were deleted: (?P<ids>.*)\. A total of \d+ offsets were removed",
        lambda match: [line_events.GroupDeleted(group_id=part) for part in match["ids"].split(", ")],
    ),
    (
        r"Group (?P<group>.*) transitioned to Dead in generation (?P<generation_id>-?\d+)",
        _of_group(line_events.GroupExpired, "generation_id"),
    ),
    (
        r"Loaded (?:classic|consumer) group (?P<group>.*) with (?P<members>\d+) members",
        _of_group(line_events.GroupLoaded, "members"),
    ),
    (
        r"Loading group metadata for (?P<group>.*) with generation (?P<generation_id>-?\d+)",
        _of_group(line_events.GroupLoaded, "generation_id"),
    ),
    (
        r"Finished loading (?:of metadata|offsets and group metadata) from __consumer_offsets-(?P<loaded>\d+) "
        r"(?:in \d+ milliseconds for|with) epoch (?P<epoch>\d+)",
        _partition_loaded,
    ),
    (r"\[GroupId=(?P<group>.*)\] Unload(?:ing|ed) group metadata for", _of_group(line_events.GroupUnloaded)),
    (r"Unloading group metadata for (?P<group>.*) with generation -?\d+", _of_group(line_events.GroupUnloaded)),
)
_MODERN: tuple[tuple[str, Make], ...] = (
    (_ID + r"Bumped (?:\w+ )?group epoch to (?P<epoch>\d+)", _of_group(line_events.EpochBumped, "epoch")),
    (
        _ID + r"Computed a new target assignment for epoch (?P<epoch>\d+) with '(?P<assignor>.*)' assignor",
        lambda match: [
            line_events.TargetComputed(
                group_id=match["group"], epoch=int(match["epoch"]), assignor=_assignor(match["assignor"])
            )
        ],
    ),
    (
        _ID + r"(?:\w+ m|M)ember (?P<who>.*?) fenced from the group because (?P<why>.*?)\.*$",
        lambda match: [line_events.MemberFencedOut(group_id=match["group"], member_id=match["who"], why=match["why"])],
    ),
    (
        _ID + r"Static member (?P<who>.*) with instance id (?P<instance>.*) temporarily left the",
        lambda match: [
            line_events.StaticMemberAway(
                group_id=match["group"], member_id=match["who"], group_instance_id=match["instance"]
            )
        ],
    ),
    (
        _ID
        + r"(?:Static m|M)ember "
        + _LEFT_ID
        + r" (?:with instance id .*? )?left the (?:consumer|share|streams) group",
        _departed,
    ),
    (
        _ID + r"Static member with instance id (?P<instance>.*) re-joins the (?P<kind>\w+) group using the "
        r"\w+ protocol\. Created a new member (?P<new>.*) to replace the existing member (?P<old>.*)\.$",
        _replaced,
    ),
    (
        _ID + r"Converted the (?:empty )?\w+ group (?:.* )?to a (?P<to>classic|consumer) group",
        lambda match: [
            line_events.GroupConverted(
                group_id=match["group"], to_protocol="classic" if match["to"] == "classic" else "consumer"
            )
        ],
    ),
    (
        r"Cannot upgrade classic group (?P<group>.*) to consumer group: (?P<why>.*?)\.*$",
        lambda match: [line_events.UpgradeRefused(group_id=match["group"], why=match["why"])],
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
