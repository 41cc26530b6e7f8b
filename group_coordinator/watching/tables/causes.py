"""A rebalance's row has its cause in words, in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schemas.consumer_group_history import ConsumerMemberJoined, ConsumerMemberUpdated, GroupConverted
from schemas.history import (
    GroupCreated,
    HistoryRecord,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    PendingMemberRemoved,
)
from schemas.observed_history import CoordinatorStalled

LINKS_SHOWN_MAX = 10
ARROW = " -> "
_UUID = re.compile(r"[\w+/-]{22}")
"""As clients of both libraries write it."""


def chain_text(chain: Sequence[tuple[int, str]], end: str) -> str:
    """Return the chain in one line; of a very long one the beginning and how many more."""
    texts = [fact for _, fact in chain[:LINKS_SHOWN_MAX]]
    if len(chain) > LINKS_SHOWN_MAX:
        texts.append(f"... {len(chain) - LINKS_SHOWN_MAX} more")
    return ARROW.join([*texts, end])


def cause_text(record: HistoryRecord) -> str:
    """Return the cause that a record gives, in a few words."""
    match record:
        case GroupCreated():
            return "the group was created"
        case MemberJoined():
            return f"{_who(record.member)} joined{_reason_text(record)}"
        case ConsumerMemberJoined():
            return f"{_who(record.joined.member)} joined{_reason_text(record)}"
        case ConsumerMemberUpdated():
            return f"{_who(record.updated.member)} asks for another {_listed(record.changed)}{_reason_text(record)}"
        case MemberRejoined():
            changes = f" with another {_listed(record.changed)}" if record.changed else ""
            return f"{_who(record.member)} rejoined{changes}{_reason_text(record)}"
        case MemberLeft():
            return f"{_who(record.member)} left{_reason_text(record)}"
        case MemberExpired():
            timeout_ms = record.session_timeout_ms
            timeout = "its session timeout" if timeout_ms is None else f"{timeout_ms} ms"
            return f"{_who(record.member)} was not heard for {timeout}"
        case MemberDropped():
            return f"{_who(record.member)} was put out ({record.reason})"
        case MemberReplaced():
            return f"static member {record.member.group_instance_id} came back as {record.member.member_id}"
        case PendingMemberRemoved():
            return f"{record.member_id} never joined ({record.reason}){_reason_text(record)}"
        case _:
            return _cause_text_of_group(record)


def _cause_text_of_group(record: HistoryRecord) -> str:
    match record:
        case GroupConverted():
            return f"the group went over to the {record.to_protocol} protocol"
        case CoordinatorStalled():
            return f"broker {record.broker_id} seems to have stood still for {record.until_ms - record.since_ms} ms"
        case _:
            return str(type(record).__struct_config__.tag).replace("_", " ")


def _who(member: MemberIdentity) -> str:
    """Return a member's id, with the client's where the id is a number alone, as in consumer groups."""
    is_number = _UUID.fullmatch(member.member_id) is not None
    return f"{member.client_id} ({member.member_id})" if is_number and member.client_id else member.member_id


def _listed(fields: tuple[str, ...]) -> str:
    return ", ".join(fields)


def _reason_text(record: HistoryRecord) -> str:
    return f" ({record.cause.reason})" if record.cause.reason else ""
