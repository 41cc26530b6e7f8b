"""A rebalance's row has its cause in words, in one line."""

from __future__ import annotations

from group_coordinator.history.causes import Chain
from schemas.history import (
    GroupCreated,
    HistoryRecord,
    MemberDropped,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    PendingMemberRemoved,
)

LINKS_SHOWN_MAX = 10
ARROW = " -> "


def chain_text(chain: Chain[str], end: str) -> str:
    """Return the chain in one line; of a very long one the beginning and how many more."""
    shown = [fact for _, fact in chain[:LINKS_SHOWN_MAX]]
    if len(chain) > LINKS_SHOWN_MAX:
        shown.append(f"... {len(chain) - LINKS_SHOWN_MAX} more")
    return ARROW.join([*shown, end])


def cause_text(record: HistoryRecord) -> str:
    """Return the cause that a record gives, in a few words."""
    match record:
        case GroupCreated():
            return "the group was created"
        case MemberJoined():
            return f"{record.member.member_id} joined{_said(record)}"
        case MemberRejoined():
            changed = f" with another {', '.join(record.changed)}" if record.changed else ""
            return f"{record.member.member_id} rejoined{changed}{_said(record)}"
        case MemberLeft():
            return f"{record.member.member_id} left{_said(record)}"
        case MemberExpired():
            return f"{record.member.member_id} was not heard for {record.session_timeout_ms} ms"
        case MemberDropped():
            return f"{record.member.member_id} was put out ({record.reason})"
        case MemberReplaced():
            return f"static member {record.member.group_instance_id} came back as {record.member.member_id}"
        case PendingMemberRemoved():
            return f"{record.member_id} never joined ({record.reason}){_said(record)}"
        case _:
            return str(type(record).__struct_config__.tag).replace("_", " ")


def _said(record: HistoryRecord) -> str:
    return f" ({record.cause.reason})" if record.cause.reason else ""
